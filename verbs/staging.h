// Registered memory that octets pass through on their way to and from the device: a ring that is given back
// in the order in which it was taken, because work requests of a connection end in order.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <optional>

#include "base/bytes.h"

namespace kbtp::verbs {

class StagingRing {
 public:
  /// `memory` is not owned.
  explicit StagingRing(MutableOctets memory) : memory_(memory) {}

  /// The next `size` octets in one piece; nothing when they are not free now. More than capacity() is never
  /// free; 0 octets always are.
  [[nodiscard]] std::optional<MutableOctets> take(std::size_t size);
  /// The oldest piece is free again.
  void give_back();

  [[nodiscard]] std::size_t capacity() const { return memory_.size(); }
  [[nodiscard]] bool empty() const { return ends_.empty(); }

 private:
  MutableOctets memory_;
  // Octets ever taken and given back, those skipped at the ring's end included.
  std::uint64_t taken_ = 0;
  std::uint64_t given_back_ = 0;
  std::deque<std::uint64_t> ends_;  // of the pieces in use, oldest first
};

}  // namespace kbtp::verbs
