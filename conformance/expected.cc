#include "conformance/expected.h"

#include <algorithm>
#include <fmt/format.h>
#include <optional>
#include <set>
#include <sstream>

#include "conformance/catalogue.h"

namespace kbtp::conformance {

namespace {

constexpr State kExpectable[] = {State::pass,        State::pass_weak,    State::fail,       State::skip,
                                 State::unsupported, State::inconclusive, State::setup_error};
constexpr std::string_view kUnnamed = "unnamed";

std::vector<std::string> split(const std::string& text, char at) {
  std::vector<std::string> out;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, at);) out.push_back(part);
  return out;
}

std::string trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\r");
  if (first == std::string_view::npos) return "";
  return std::string(text.substr(first, text.find_last_not_of(" \t\r") - first + 1));
}

std::optional<State> state_named(std::string_view name) {
  const auto found = std::ranges::find(kExpectable, name, [](State s) { return to_string(s); });
  return found == std::end(kExpectable) ? std::nullopt : std::optional(*found);
}

bool has_rules(const ExpectedOutcome& entry) {
  return std::ranges::any_of(entry.states, [](State s) { return s == State::fail || s == State::pass_weak; });
}

/// The entry of a line without its comment, or what is wrong with it.
Result<ExpectedOutcome> parse_entry(const std::string& line) {
  std::istringstream words(line);
  ExpectedOutcome entry;
  std::string states, rules, more;
  words >> entry.name >> states >> entry.deviation >> rules >> more;
  if (find_case(entry.name) == nullptr)
    return failure(fmt::format("there is no case '{}'; 'kbtp conform list' shows them all", entry.name));
  if (entry.deviation.empty()) return failure("an entry is CASE STATE DEVIATION RULES");
  for (const std::string& name : split(states, '|')) {
    const auto state = state_named(name);
    if (!state) return failure(fmt::format("'{}' is no state that can be expected", name));
    entry.states.push_back(*state);
  }
  entry.rules = split(rules, ',');
  for (const std::string& id : entry.rules) {
    if (find_rule(id) == nullptr) return failure(fmt::format("the catalogue has no rule '{}'", id));
  }
  if (has_rules(entry) && entry.rules.empty())
    return failure("a fail or pass-weak needs the rules that may be broken, divided by commas");
  if (!more.empty())
    return failure(fmt::format("'{}' stands behind the rules; a reason begins with #", more));
  return entry;
}

bool is_bad(const Check& check) { return check.finding.grade == Grade::wrong; }
bool is_weak(const Check& check) { return check.finding.grade == Grade::weak; }

bool is_expected(const ExpectedOutcome& entry, State state) {
  return std::ranges::find(entry.states, state) != entry.states.end();
}

}  // namespace

Result<ExpectedOutcomes> ExpectedOutcomes::parse(std::string_view text, const std::string& file) {
  ExpectedOutcomes out;
  std::istringstream lines{std::string(text)};
  std::size_t number = 0;
  for (std::string line; std::getline(lines, line);) {
    ++number;
    const auto hash = line.find('#');
    const std::string words = trimmed(std::string_view(line).substr(0, hash));
    if (words.empty()) continue;
    auto entry = parse_entry(words);
    if (!entry) return failure(fmt::format("{}:{}: {}", file, number, entry.error().text));
    if (out.find(entry->name) != nullptr)
      return failure(fmt::format("{}:{}: '{}' has an entry already", file, number, entry->name));
    if (hash != std::string::npos) entry->reason = trimmed(std::string_view(line).substr(hash + 1));
    out.put(std::move(*entry));
  }
  return out;
}

const ExpectedOutcome* ExpectedOutcomes::find(std::string_view name) const {
  const auto found = std::ranges::find(entries_, name, &ExpectedOutcome::name);
  return found == entries_.end() ? nullptr : &*found;
}

void ExpectedOutcomes::put(ExpectedOutcome entry) {
  remove(entry.name);
  const auto at = std::ranges::lower_bound(entries_, entry.name, {}, &ExpectedOutcome::name);
  entries_.insert(at, std::move(entry));
}

void ExpectedOutcomes::remove(std::string_view name) {
  std::erase_if(entries_, [&](const ExpectedOutcome& entry) { return entry.name == name; });
}

std::string ExpectedOutcomes::to_text(std::string_view about) const {
  std::string out;
  for (const std::string& line : split(std::string(about), '\n')) out += trimmed("# " + line) + "\n";
  out += "# CASE  STATE  DEVIATION  RULES  # REASON\n";
  for (const ExpectedOutcome& entry : entries_) {
    std::vector<std::string_view> states;
    for (const State state : entry.states) states.push_back(to_string(state));
    const std::string any = fmt::format("{}", fmt::join(states, "|"));
    std::string line =
        fmt::format("{:<38} {:<11} {:<28} {}", entry.name, any, entry.deviation, fmt::join(entry.rules, ","));
    if (!entry.reason.empty()) line += "  # " + entry.reason;
    out += trimmed(line) + "\n";
  }
  return out;
}

void compare(CaseResult& result, const ExpectedOutcome* entry) {
  if (entry == nullptr) return;
  result.deviation = entry->deviation;
  result.reason = entry->reason;
  const State state = result.state;
  const bool passed = state == State::pass || state == State::pass_weak;
  if (is_expected(*entry, state)) {
    const auto other = std::ranges::find_if(result.checks, [&](const Check& check) {
      const bool counts = is_bad(check) || (state == State::pass_weak && is_weak(check));
      return counts && std::ranges::find(entry->rules, check.rule) == entry->rules.end();
    });
    if (has_rules(*entry) && other != result.checks.end()) {
      result.why = fmt::format("{} is not among the rules that may be broken here: expected {}; observed {}",
                               other->rule, other->expected, other->finding.observed);
      return;
    }
    result.as_expected = true;
    if (state == State::fail) result.state = State::expected_fail;
  } else if (passed && (is_expected(*entry, State::fail) || state == State::pass)) {
    result.state = State::unexpected_pass;
    result.why = fmt::format("{}: the deviation that was expected is not there any more", entry->deviation);
  }
}

ExpectedOutcomes expectations_from(const RunReport& run, ExpectedOutcomes before) {
  ExpectedOutcomes out = std::move(before);
  std::set<std::string_view> seen;
  for (const CaseResult& result : run.results) {
    if (result.state == State::skip) continue;
    const std::string name(result.about->name);
    const ExpectedOutcome* known = out.find(name);
    const bool again = !seen.insert(result.about->name).second;  // --repeat: all rounds into one entry
    if (result.as_expected) continue;
    const bool passed = result.state == State::pass || result.state == State::unexpected_pass;
    if (known == nullptr && passed) continue;
    if (!again && passed) {
      out.remove(name);
      continue;
    }
    ExpectedOutcome entry;
    entry.name = name;
    if (known != nullptr) entry = *known;
    if (!again) {
      entry.states.clear();
      entry.rules.clear();
    }
    if (entry.deviation.empty()) entry.deviation = kUnnamed;
    if (const State state = passed ? State::pass : result.state; !is_expected(entry, state))
      entry.states.push_back(state);
    for (const Check& check : result.checks) {
      if ((is_bad(check) || is_weak(check)) &&
          std::ranges::find(entry.rules, check.rule) == entry.rules.end())
        entry.rules.push_back(check.rule);
    }
    if (entry.reason.empty()) entry.reason = result.why;
    out.put(std::move(entry));
  }
  return out;
}

}  // namespace kbtp::conformance
