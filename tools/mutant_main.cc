// `kbtp-mutant`: `kbtp target` with one deliberate fault (base/fault.h), for the conformance suite to find.

#include <csignal>
#include <fmt/format.h>

#include "base/fault.h"
#include "base/log.h"
#include "tools/cli.h"
#include "tools/exit_status.h"
#include "tools/subcommand.h"

int main(int argc, char** argv) {
  using namespace kbtp::tools;
  std::signal(SIGPIPE, SIG_IGN);
  kbtp::set_up_log(spdlog::level::err);
  CLI::App app{"A KBTP target that is wrong in one chosen way.", "kbtp-mutant"};
  Run run;
  std::string name;
  bool list = false;
  bool list_records = false;
  bool list_unrepaired = false;
  set_up_target(app, run);
  app.add_option("--fault", name, "the fault to switch on; none: a right target")->type_name("NAME");
  app.add_flag("--list-faults", list, "print each fault with the rule that it breaks");
  app.add_flag("--list-record-faults", list_records,
               "print each fault of completion records, which shows over RoCE, with the rule that it breaks");
  app.add_flag("--list-unrepaired", list_unrepaired,
               "print each fault that leaves an error of the draft un-repaired, with that error");
  app.footer("");
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    app.exit(success);
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    return fail_usage("kbtp-mutant", usage_sentence(app, error));
  }
  const auto print = [](std::string_view fault, std::string_view rule) {
    fmt::print("{} {}\n", fault, rule);
  };
  if (list) kbtp::for_each_fault(print);
  if (list_records) kbtp::for_each_record_fault(print);
  if (list_unrepaired) kbtp::for_each_unrepaired(print);
  if (list || list_records || list_unrepaired) return kExitOk;
  if (!name.empty() && !kbtp::switch_fault_on(name))
    return fail_usage("kbtp-mutant", "there is no fault '" + name + "'; --list-faults shows them");
  return run();
}
