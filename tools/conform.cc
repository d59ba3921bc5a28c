// `kbtp conform list|run|explain`.

#include <algorithm>
#include <fmt/format.h>
#include <memory>

#include "conformance/case.h"
#include "conformance/catalogue.h"
#include "tools/cli.h"
#include "tools/conform_run.h"
#include "tools/subcommand.h"

namespace kbtp::tools {

namespace {

using conformance::Case;
using conformance::Rule;

int list_cases(bool coverage) {
  for (const Case& one : conformance::cases()) {
    const Rule* rule = conformance::find_rule(one.rules.front());
    fmt::print("{:<38} {:<9} {:<10} {:<20} {}\n", one.name, rule == nullptr ? "" : to_string(rule->level),
               rule == nullptr ? "" : rule->role, needs_text(one), fmt::join(one.rules, " "));
  }
  if (!coverage) return kExitOk;
  std::size_t checked = 0;
  fmt::print("\n");
  for (const Rule& rule : conformance::catalogue()) {
    std::vector<std::string_view> by;
    for (const Case& one : conformance::cases()) {
      if (std::ranges::find(one.rules, rule.id) != one.rules.end()) by.push_back(one.name);
    }
    checked += by.empty() ? 0 : 1;
    fmt::print("{:<18} {:<9} {}\n", rule.id, to_string(rule.level),
               by.empty() ? "uncovered" : fmt::format("{}", fmt::join(by, " ")));
  }
  const std::size_t rules = conformance::catalogue().size();
  fmt::print("coverage: {} rules, {} checked, 0 excused, {} uncovered\n", rules, checked, rules - checked);
  return kExitOk;
}

int explain(const std::string& command, const std::string& id) {
  const Rule* rule = conformance::find_rule(id);
  if (rule == nullptr) {
    const auto near = conformance::near_rules(id);
    const std::string hint = near.empty() ? "'kbtp conform list' shows those that are checked"
                                          : fmt::format("did you mean {}?", fmt::join(near, ", "));
    return fail_usage(command, fmt::format("the catalogue has no rule '{}'; {}", id, hint));
  }
  fmt::print("{}  {}  binds: {}\nSection: {}\n\n{}\n\nHow it is tested: {}\n\nA violation on the wire: {}\n",
             rule->id, to_string(rule->level), rule->role, rule->section, rule->text, rule->tested,
             rule->violation);
  bool any = false;
  for (const Case& one : conformance::cases()) {
    if (std::ranges::find(one.rules, rule->id) == one.rules.end()) continue;
    fmt::print("{}{}", any ? ", " : "\nCases: ", one.name);
    any = true;
  }
  fmt::print("{}", any ? "\n" : "\nNo case checks it yet.\n");
  return kExitOk;
}

}  // namespace

void set_up_conform(CLI::App& app, Run& run) {
  app.require_subcommand(1);

  CLI::App& list = *app.add_subcommand("list", "every case: name, level, role, needed capability, rules");
  const auto coverage = std::make_shared<bool>(false);
  list.add_flag("--coverage", *coverage, "then every rule of the catalogue with the cases that check it");
  list.footer("\nExamples:\n  kbtp conform list\n  kbtp conform list --coverage");
  list.callback([&run, coverage] { run = [coverage] { return list_cases(*coverage); }; });

  CLI::App& explained =
      *app.add_subcommand("explain", "one rule: what it asks, how it is tested, how it is broken");
  const auto id = std::make_shared<std::string>();
  explained.add_option("ID", *id, "such as KBTP-6.1-03 or RFC5041-7.1-06")->required();
  explained.footer("\nExamples:\n  kbtp conform explain KBTP-6.1-03\n  kbtp conform explain RFC5040-7.1-04");
  explained.callback([&explained, &run, id] {
    run = [command = full_name(explained), id] { return explain(command, *id); };
  });

  set_up_conform_run(*app.add_subcommand("run", "play the cases against a target and judge them by capture"),
                     run);
}

}  // namespace kbtp::tools
