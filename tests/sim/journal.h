// What happened in a run: a hash of every event, so that two runs can be told to be the same, and, when asked
// for, a line for each.

#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>
#include <vector>

#include "base/time.h"

namespace kbtp::sim {

class Journal {
 public:
  explicit Journal(bool print) : print_(print) {}

  /// Numbers mean what `what` says.
  void note(TimePoint now, std::string_view what, std::initializer_list<std::uint64_t> numbers);
  /// An invariant does not hold. Only the first few are kept.
  void fail(TimePoint now, std::string text);

  [[nodiscard]] std::uint64_t hash() const { return hash_; }
  [[nodiscard]] const std::vector<std::string>& failures() const { return failures_; }
  [[nodiscard]] bool failed() const { return !failures_.empty(); }

 private:
  void fold(std::uint64_t number);

  bool print_;
  std::uint64_t hash_ = 0xCBF2'9CE4'8422'2325u;
  std::vector<std::string> failures_;
};

}  // namespace kbtp::sim
