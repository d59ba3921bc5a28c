#include "pcap/filter.h"

#include <algorithm>
#include <fmt/format.h>
#include <limits>
#include <optional>
#include <utility>

#include "base/spelling.h"

namespace kbtp::trace {

namespace {

constexpr int kMaxDepth = 64;

/// Letters without case, and one sign for what joins words.
constexpr char folded(char c) {
  if (c >= 'A' && c <= 'Z') return static_cast<char>(c - 'A' + 'a');
  return c == '_' || c == '-' ? ' ' : c;
}
bool same(std::string_view one, std::string_view other) {
  return std::ranges::equal(one, other, [](char a, char b) { return folded(a) == folded(b); });
}
bool has_part(std::string_view whole, std::string_view part) {
  return std::search(whole.begin(), whole.end(), part.begin(), part.end(),
                     [](char a, char b) { return folded(a) == folded(b); }) != whole.end();
}

constexpr bool is_space(char c) { return c == ' ' || c == '\t' || c == '\n'; }
constexpr bool ends_word(char c) {
  return is_space(c) || std::string_view("()&|!=<>~\"").find(c) != std::string_view::npos;
}
constexpr int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  c = folded(c);
  return c >= 'a' && c <= 'f' ? c - 'a' + 10 : 16;
}

std::optional<std::uint64_t> parse_unsigned(std::string_view word) {
  std::uint64_t base = 10;
  if (word.size() > 2 && word[0] == '0' && folded(word[1]) == 'x') {
    base = 16;
    word.remove_prefix(2);
  }
  if (word.empty()) return std::nullopt;
  std::uint64_t value = 0;
  for (const char c : word) {
    const auto d = static_cast<std::uint64_t>(digit(c));
    if (d >= base || value > (std::numeric_limits<std::uint64_t>::max() - d) / base) return std::nullopt;
    value = value * base + d;
  }
  return value;
}

/// "-1.25" in units of the last of `decimals` places. Further places must be zero.
std::optional<std::int64_t> parse_fixed(std::string_view word, unsigned decimals) {
  const bool negative = word.starts_with('-');
  if (negative) word.remove_prefix(1);
  const std::size_t point = std::min(word.find('.'), word.size());
  std::string digits(word.substr(0, point));
  std::string_view places = word.substr(std::min(point + 1, word.size()));
  while (places.size() > decimals && places.ends_with('0')) places.remove_suffix(1);
  if (places.size() > decimals || digits.empty()) return std::nullopt;
  digits += places;
  digits.append(decimals - places.size(), '0');
  if (!std::ranges::all_of(digits, [](char c) { return c >= '0' && c <= '9'; })) return std::nullopt;
  const auto value = parse_unsigned(digits);
  if (!value || *value > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    return std::nullopt;
  return negative ? -static_cast<std::int64_t>(*value) : static_cast<std::int64_t>(*value);
}

/// "4b:42:54"
std::optional<std::string> parse_octets(std::string_view word) {
  std::string octets;
  for (std::size_t at = 0;; at += 3) {
    if (at + 2 > word.size() || digit(word[at]) > 15 || digit(word[at + 1]) > 15) return std::nullopt;
    octets += static_cast<char>(digit(word[at]) * 16 + digit(word[at + 1]));
    if (at + 2 == word.size()) return octets;
    if (word[at + 2] != ':') return std::nullopt;
  }
}

std::string list(std::span<const std::string_view> names) {
  return fmt::format("{}", fmt::join(names, ", "));
}

/// The fields whose names, or last parts of names, are spelled most like `name`, if any is near.
std::vector<std::string_view> near_fields(std::string_view name,
                                          std::span<const std::span<const FieldInfo>> groups) {
  std::vector<std::string_view> near;
  std::size_t least = std::max<std::size_t>(1, name.size() / 3);
  for (const auto group : groups) {
    for (const FieldInfo& info : group) {
      std::size_t distance = edit_distance(name, info.name);
      for (std::size_t dot = info.name.find('.'); dot != std::string_view::npos;
           dot = info.name.find('.', dot + 1))
        distance = std::min(distance, edit_distance(name, info.name.substr(dot + 1)));
      if (distance > least) continue;
      if (distance < least) near.clear();
      least = distance;
      near.push_back(info.name);
    }
  }
  return near;
}

}  // namespace

Result<const FieldInfo*> find_field(std::string_view name,
                                    std::span<const std::span<const FieldInfo>> groups) {
  std::vector<const FieldInfo*> found;
  std::ptrdiff_t fewest = std::numeric_limits<std::ptrdiff_t>::max();
  for (const auto group : groups) {
    for (const FieldInfo& info : group) {
      if (info.name == name) return &info;
      if (!info.name.ends_with(name) || info.name[info.name.size() - name.size() - 1] != '.') continue;
      const std::ptrdiff_t parts = std::ranges::count(info.name, '.');
      if (parts < fewest) found.clear();
      fewest = std::min(fewest, parts);
      if (parts == fewest) found.push_back(&info);
    }
  }
  if (found.size() == 1) return found.front();
  if (found.empty()) {
    const auto near = near_fields(name, groups);
    return failure(
        fmt::format("there is no field \"{}\"{} (--fields lists all)", name,
                    near.empty() ? "" : fmt::format("; did you mean {}?", fmt::join(near, " or "))));
  }
  std::vector<std::string_view> names;
  for (const FieldInfo* info : found) names.push_back(info->name);
  return failure(fmt::format("\"{}\" may be {}: write one in full", name, list(names)));
}

// --- Parsing ---------------------------------------------------------------------------------------------

class FilterParser {
 public:
  FilterParser(std::string_view text, std::span<const std::span<const FieldInfo>> groups)
      : text_(text), groups_(groups) {}

  Expected<Filter, FilterError> parse() {
    const auto root = expression(0);
    if (!root) return unexpected(*error_);
    skip_space();
    if (at_ < text_.size()) {
      return unexpected(FilterError{
          at_ + 1, text_[at_] == ')' ? "this ) closes nothing" : "here && or || or the end was expected"});
    }
    filter_.root_ = *root;
    return std::move(filter_);
  }

 private:
  using Node = Filter::Node;
  using Test = Filter::Test;
  using Index = std::optional<std::size_t>;  // nothing: error_ is set

  std::nullopt_t fail(std::size_t at, std::string text) {
    error_ = FilterError{at + 1, std::move(text)};
    return std::nullopt;
  }
  std::size_t add(Node node) {
    filter_.nodes_.push_back(std::move(node));
    return filter_.nodes_.size() - 1;
  }
  void skip_space() {
    while (at_ < text_.size() && is_space(text_[at_])) ++at_;
  }
  bool take(std::string_view sign) {
    skip_space();
    if (!text_.substr(at_).starts_with(sign)) return false;
    at_ += sign.size();
    return true;
  }
  std::string_view peek_word() {
    skip_space();
    std::size_t end = at_;
    while (end < text_.size() && !ends_word(text_[end])) ++end;
    return text_.substr(at_, end - at_);
  }
  bool take_keyword(std::string_view keyword) {
    if (peek_word() != keyword) return false;
    at_ += keyword.size();
    return true;
  }

  Index expression(int depth) {
    Index left = all(depth);
    while (left && (take("||") || take_keyword("or"))) {
      const Index right = all(depth);
      if (!right) return right;
      left = add({.test = Test::any, .left = *left, .right = *right});
    }
    return left;
  }

  Index all(int depth) {
    Index left = negation(depth);
    while (left && (take("&&") || take_keyword("and"))) {
      const Index right = negation(depth);
      if (!right) return right;
      left = add({.test = Test::all, .left = *left, .right = *right});
    }
    return left;
  }

  Index negation(int depth) {
    if (depth > kMaxDepth) return fail(at_, "this is nested too deeply");
    if (take("!") || take_keyword("not")) {
      const Index inner = negation(depth + 1);
      if (!inner) return inner;
      return add({.test = Test::not_, .left = *inner});
    }
    skip_space();
    const std::size_t open = at_;
    if (take("(")) {
      const Index inner = expression(depth + 1);
      if (inner && !take(")"))
        return fail(at_, fmt::format("here a ) was expected that closes the ( at column {}", open + 1));
      return inner;
    }
    return comparison();
  }

  Index comparison() {
    const std::string_view word = peek_word();
    if (word.empty()) return fail(at_, "here the name of a field was expected");
    const auto info = find_field(word, groups_);
    if (!info) return fail(at_, info.error().text);
    at_ += word.size();
    filter_.fields_.push_back(*info);

    Node node{.info = *info};
    skip_space();
    const std::size_t sign = at_;
    constexpr std::pair<std::string_view, Test> kSigns[] = {
        {"==", Test::equal}, {"!=", Test::unequal}, {"<=", Test::less_equal}, {">=", Test::greater_equal},
        {"<", Test::less},   {">", Test::greater},  {"~", Test::contains}};
    const auto* found = std::ranges::find_if(kSigns, [&](const auto& s) { return take(s.first); });
    if (found == std::end(kSigns)) {
      if (take("=")) return fail(sign, "equality is written ==");
      node.test = Test::present;
      return add(std::move(node));
    }
    node.test = found->second;
    const bool order = node.test != Test::equal && node.test != Test::unequal && node.test != Test::contains;
    const Kind kind = (*info)->kind;
    if (order && kind != Kind::number && kind != Kind::fixed)
      return fail(sign, fmt::format("{} has no order: == != or ~", (*info)->name));
    if (node.test == Test::contains && (kind == Kind::fixed || kind == Kind::boolean))
      return fail(sign, fmt::format("~ looks into texts, names and octets; {} is none", (*info)->name));
    if (!value(node, order)) return std::nullopt;
    return add(std::move(node));
  }

  /// Reads what `node.info` is compared with.
  bool value(Node& node, bool order) {
    skip_space();
    const std::size_t start = at_;
    std::string_view word;
    const bool quoted = at_ < text_.size() && text_[at_] == '"';
    if (quoted) {
      const std::size_t end = text_.find('"', at_ + 1);
      if (end == std::string_view::npos) {
        fail(at_, "this \" is not closed");
        return false;
      }
      word = text_.substr(at_ + 1, end - at_ - 1);
      at_ = end + 1;
    } else {
      word = peek_word();
      at_ += word.size();
      if (word.empty()) {
        fail(start, "here a value was expected");
        return false;
      }
    }
    const std::string problem = interpret(node, word, quoted, order);
    if (!problem.empty()) fail(start, problem);
    return problem.empty();
  }

  /// What is wrong with the value; empty: nothing.
  static std::string interpret(Node& node, std::string_view word, bool quoted, bool order) {
    const FieldInfo& info = *node.info;
    switch (info.kind) {
      case Kind::number:
        if (node.test == Test::contains) break;
        if (const auto number = quoted ? std::nullopt : parse_unsigned(word)) {
          node.number = *number;
          return {};
        }
        if (info.names.empty() || order)
          return fmt::format("{} is compared with a number, such as 7 or 0x1f", info.name);
        return name(node, word);
      case Kind::fixed:
        if (const auto number = parse_fixed(word, info.decimals)) {
          node.number = static_cast<std::uint64_t>(*number);
          return {};
        }
        return fmt::format("{} is compared with a number that has at most {} decimals", info.name,
                           info.decimals);
      case Kind::boolean:
        for (const auto& [text, truth] :
             {std::pair("true", 1U), std::pair("false", 0U), std::pair("1", 1U), std::pair("0", 0U)}) {
          if (!same(word, text)) continue;
          node.number = truth;
          return {};
        }
        return fmt::format("{} is true or false", info.name);
      case Kind::text:
        if (!info.names.empty() && node.test != Test::contains) return name(node, word);
        break;
      case Kind::octets:
        if (quoted) break;
        if (const auto octets = parse_octets(word)) {
          node.by_text = true;
          node.text = *octets;
          return {};
        }
        return fmt::format("{} is compared with octets, such as 4b:42, or with \"text\"", info.name);
    }
    node.by_text = true;
    node.text = word;
    return {};
  }

  static std::string name(Node& node, std::string_view word) {
    const auto known =
        std::ranges::find_if(node.info->names, [&](std::string_view n) { return same(n, word); });
    if (known == node.info->names.end()) {
      return fmt::format("{} is never \"{}\"; it is one of {}{}", node.info->name, word,
                         list(node.info->names), node.info->kind == Kind::number ? ", or a number" : "");
    }
    node.by_text = true;
    node.text = *known;
    return {};
  }

  std::string_view text_;
  std::span<const std::span<const FieldInfo>> groups_;
  std::size_t at_ = 0;
  Filter filter_;
  std::optional<FilterError> error_;
};

Expected<Filter, FilterError> Filter::compile(std::string_view expression,
                                              std::span<const std::span<const FieldInfo>> groups) {
  return FilterParser(expression, groups).parse();
}

// --- Matching --------------------------------------------------------------------------------------------

bool Filter::compare(const Node& node, Test test, const Field& field) {
  if (node.by_text) {
    if (test == Test::contains)
      return field.info->kind == Kind::octets ? field.text().find(node.text) != std::string_view::npos
                                              : has_part(field.text(), node.text);
    return field.info->kind == Kind::octets ? field.text() == node.text : same(field.text(), node.text);
  }
  const bool is_signed = field.info->kind == Kind::fixed;
  const auto order =
      is_signed ? field.fixed() <=> static_cast<std::int64_t>(node.number) : field.number <=> node.number;
  switch (test) {
    case Test::equal:
      return order == 0;
    case Test::less:
      return order < 0;
    case Test::less_equal:
      return order <= 0;
    case Test::greater:
      return order > 0;
    case Test::greater_equal:
      return order >= 0;
    case Test::any:
    case Test::all:
    case Test::not_:
    case Test::present:
    case Test::unequal:
    case Test::contains:
      break;
  }
  return false;
}

bool Filter::holds(const Record& record, std::size_t at) const {
  const Node& node = nodes_[at];
  switch (node.test) {
    case Test::any:
      return holds(record, node.left) || holds(record, node.right);
    case Test::all:
      return holds(record, node.left) && holds(record, node.right);
    case Test::not_:
      return !holds(record, node.left);
    case Test::present:
    case Test::equal:
    case Test::unequal:
    case Test::less:
    case Test::less_equal:
    case Test::greater:
    case Test::greater_equal:
    case Test::contains:
      break;
  }
  bool there = false;
  for (const Field& field : record.fields) {
    if (field.info != node.info) continue;
    there = true;
    if (node.test == Test::present) {
      if (field.info->kind != Kind::boolean || field.number != 0) return true;
    } else if (node.test == Test::unequal) {
      if (compare(node, Test::equal, field)) return false;
    } else if (compare(node, node.test, field)) {
      return true;
    }
  }
  return there && node.test == Test::unequal;
}

}  // namespace kbtp::trace
