// Expressions over the fields of a Record: `op==LOAD && status!=0`, `ddp.stag==0x1234 || !fpdu.crc==good`.
//
//   expression = all { ("||" | "or") all }
//   all        = not { ("&&" | "and") not }
//   not        = ("!" | "not") not | "(" expression ")" | field [ operator value ]
//   operator   = "==" | "!=" | "<" | "<=" | ">" | ">=" | "~"
//   value      = a number (decimal, 0x, or with decimals for a time), a name, "text", octets (4b:42:54)
//
// A field is named in full or by its last parts, as long as that says which. Alone it asks whether the field
// is there; a boolean, whether it is true. A comparison of a field that is not there is false, also `!=`; of
// one that is there more than once it holds when it holds for one of them, and `!=` when none is equal. `~`
// finds a part of a text, of a number's name, or of octets. Names and texts are compared without regard to
// case, and `_`, `-` and space are one. Compiled once; matches() allocates nothing. Any thread.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "pcap/record.h"

namespace kbtp::trace {

struct FilterError {
  std::size_t column = 1;  ///< 1 for the first character
  std::string text;        ///< one sentence
};

class Filter {
 public:
  /// Fields are those of field_groups(), or of `groups`.
  [[nodiscard]] static Expected<Filter, FilterError> compile(
      std::string_view expression, std::span<const std::span<const FieldInfo>> groups = field_groups());

  [[nodiscard]] bool matches(const Record& record) const { return holds(record, root_); }
  /// The fields that it names.
  [[nodiscard]] const std::vector<const FieldInfo*>& fields() const { return fields_; }

 private:
  friend class FilterParser;
  enum class Test : std::uint8_t {
    any,  ///< left or right
    all,  ///< left and right
    not_,
    present,
    equal,
    unequal,
    less,
    less_equal,
    greater,
    greater_equal,
    contains,
  };
  struct Node {
    Test test = Test::present;
    std::size_t left = 0, right = 0;
    const FieldInfo* info = nullptr;
    bool by_text = false;      ///< compares names, texts, octets; else numbers
    std::uint64_t number = 0;  ///< or a fixed number's units
    std::string text{};
  };

  Filter() = default;
  [[nodiscard]] bool holds(const Record& record, std::size_t at) const;
  [[nodiscard]] static bool compare(const Node& node, Test test, const Field& field);

  std::vector<Node> nodes_;
  std::size_t root_ = 0;
  std::vector<const FieldInfo*> fields_;
};

/// The field that `name` says, in full or by its last parts; among several the one with the fewest parts, if
/// that is one alone. The error names the choices.
[[nodiscard]] Result<const FieldInfo*> find_field(
    std::string_view name, std::span<const std::span<const FieldInfo>> groups = field_groups());

}  // namespace kbtp::trace
