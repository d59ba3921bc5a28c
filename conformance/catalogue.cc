#include "conformance/catalogue.h"

#include <algorithm>
#include <cctype>

#include "base/spelling.h"

namespace kbtp::conformance {

std::string_view to_string(Level level) {
  switch (level) {
    case Level::must:
      return "MUST";
    case Level::must_not:
      return "MUST NOT";
    case Level::should:
      return "SHOULD";
    case Level::may:
      return "MAY";
    case Level::implied:
      return "implied";
  }
  return "";
}

std::span<const Rule> catalogue() {
  static const std::vector<Rule> all = [] {
    std::vector<Rule> rules;
    const auto add = [&rules](std::span<const Rule> table) {
      rules.insert(rules.end(), table.begin(), table.end());
    };
    for (const auto table : {tables::kbtp(), tables::kbtp_memory(), tables::kbtp_rest()}) add(table);
    std::ranges::sort(rules, [](const Rule& a, const Rule& b) {
      return std::pair(a.id.starts_with("G-"), a.id) < std::pair(b.id.starts_with("G-"), b.id);
    });
    for (const auto table : {tables::mpa(), tables::ddp(), tables::rdmap()}) add(table);
    return rules;
  }();
  return all;
}

namespace {

std::string upper(std::string_view text) {
  std::string out(text);
  for (char& c : out) c = static_cast<char>(std::toupper(static_cast<unsigned char>(c)));
  return out;
}

}  // namespace

const Rule* find_rule(std::string_view id) {
  const std::string wanted = upper(id);
  const auto rules = catalogue();
  const auto found = std::ranges::find_if(rules, [&](const Rule& rule) { return upper(rule.id) == wanted; });
  return found == rules.end() ? nullptr : &*found;
}

std::vector<std::string_view> near_rules(std::string_view id, std::size_t limit) {
  const std::string wanted = upper(id);
  std::vector<std::pair<std::size_t, std::string_view>> ranked;
  for (const Rule& rule : catalogue()) ranked.emplace_back(edit_distance(wanted, upper(rule.id)), rule.id);
  std::ranges::sort(ranked);  // by distance, then by name
  std::vector<std::string_view> out;
  for (const auto& [distance, name] : ranked) {
    if (out.size() == limit || distance > std::max<std::size_t>(3, wanted.size() / 2)) break;
    out.push_back(name);
  }
  return out;
}

}  // namespace kbtp::conformance
