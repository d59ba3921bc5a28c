// One TOML table of a file of ours, read key by key.

#pragma once

#include <cmath>
#include <cstdint>
#include <fmt/format.h>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <toml++/toml.h>

#include "base/address.h"
#include "base/result.h"
#include "base/time.h"

namespace kbtp::tools {

/// One TOML table whose keys are asked for by name. The first mistake is kept; what nobody asked for is one
/// too.
class TableReader {
 public:
  TableReader(const toml::table& table, std::string where, const std::string& file)
      : table_(table), where_(std::move(where)), file_(file) {}

  template <class Integer>
  void number(std::string_view key, Integer& value, std::uint64_t low, std::uint64_t high) {
    const toml::node* node = take(key);
    if (node == nullptr) return;
    const auto given = node->value_exact<std::int64_t>();
    if (!given || *given < 0 || static_cast<std::uint64_t>(*given) < low ||
        static_cast<std::uint64_t>(*given) > high) {
      return wrong(*node, key, fmt::format("must be a whole number from {} to {}", low, high));
    }
    value = static_cast<Integer>(*given);
  }

  void seconds(std::string_view key, Duration& value) {
    const toml::node* node = take(key);
    if (node == nullptr) return;
    const auto given = node->value<double>();
    if (!given || !std::isfinite(*given) || *given <= 0 || *given > 86400)
      return wrong(*node, key, "must be a number of seconds above 0, at most 86400");
    value = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(*given));
  }

  bool boolean(std::string_view key, bool& value) {
    const toml::node* node = take(key);
    if (node == nullptr) return false;
    const auto given = node->value_exact<bool>();
    if (!given) {
      wrong(*node, key, "must be true or false");
      return false;
    }
    value = *given;
    return true;
  }

  bool text(std::string_view key, std::string& value) {
    const toml::node* node = take(key);
    if (node == nullptr) return false;
    const auto given = node->value_exact<std::string>();
    if (!given) {
      wrong(*node, key, "must be a string");
      return false;
    }
    value = *given;
    return true;
  }

  void milliseconds(std::string_view key, Duration& value, std::uint64_t low, std::uint64_t high) {
    auto count =
        static_cast<std::uint64_t>(std::chrono::duration_cast<std::chrono::milliseconds>(value).count());
    number(key, count, low, high);
    value = std::chrono::milliseconds(count);
  }

  void endpoint(std::string_view key, std::optional<Endpoint>& value) {
    std::string given;
    if (!text(key, given)) return;
    auto parsed = Endpoint::parse(given);
    if (!parsed) return wrong(*table_.get(key), key, parsed.error().text);
    value = *parsed;
  }

  const toml::table* table(std::string_view key) {
    const toml::node* node = take(key);
    if (node == nullptr) return nullptr;
    if (node->as_table() == nullptr) wrong(*node, key, "must be a table");
    return node->as_table();
  }
  const toml::array* tables(std::string_view key) {
    const toml::node* node = take(key);
    if (node == nullptr) return nullptr;
    const toml::array* array = node->as_array();
    if (array == nullptr || !array->is_homogeneous<toml::table>()) {
      wrong(*node, key, "must be given as [[" + std::string(key) + "]]");
      return nullptr;
    }
    return array;
  }

  void wrong(const toml::node& node, std::string_view key, std::string_view why) {
    if (error_.empty())
      error_ = fmt::format("{}:{}: '{}{}' {}", file_, node.source().begin.line, where_, key, why);
  }
  void wrong_at_key(std::string_view key, std::string_view why) { wrong(*table_.get(key), key, why); }
  void missing(std::string_view key) {
    if (error_.empty())
      error_ = fmt::format("{}:{}: '{}{}' is missing", file_, table_.source().begin.line, where_, key);
  }
  [[nodiscard]] bool has(std::string_view key) const { return table_.contains(key); }

  /// The first mistake, or a key that nobody asked for.
  [[nodiscard]] Result<> finish() const {
    if (!error_.empty()) return failure(error_);
    for (const auto& [key, node] : table_) {
      if (!asked_.contains(key.str())) {
        return failure(fmt::format("{}:{}: '{}{}' is no key of this table", file_, key.source().begin.line,
                                   where_, key.str()));
      }
    }
    return {};
  }

 private:
  const toml::node* take(std::string_view key) {
    asked_.emplace(key);
    return table_.get(key);
  }

  const toml::table& table_;
  std::string where_;  // "", "deadlines."
  const std::string& file_;
  std::set<std::string, std::less<>> asked_;
  std::string error_;
};

}  // namespace kbtp::tools
