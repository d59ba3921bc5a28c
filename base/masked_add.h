// The masked FetchAdd of RFC 7306 5.1.1, as arithmetic and as an atomic operation on a word in host order.
// The wire's Atomic Requests and the target's own use of Head and Tail both come through here
// (docs/design.md).

#pragma once

#include <atomic>
#include <cstdint>

namespace kbtp {

/// Each Add Mask bit is the top bit of a field; fields add on their own and a carry out of a field's top bit
/// is dropped. Mask 0 is one 64-bit addition.
[[nodiscard]] constexpr std::uint64_t masked_add(std::uint64_t original, std::uint64_t add,
                                                 std::uint64_t mask) {
  return ((original & ~mask) + (add & ~mask)) ^ ((original ^ add) & mask);
}

/// Atomically replaces `word` by the masked sum and returns what it held before.
inline std::uint64_t fetch_masked_add(std::uint64_t& word, std::uint64_t add, std::uint64_t mask) {
  std::atomic_ref<std::uint64_t> atomic(word);
  std::uint64_t original = atomic.load(std::memory_order_relaxed);
  while (!atomic.compare_exchange_weak(original, masked_add(original, add, mask), std::memory_order_acq_rel,
                                       std::memory_order_relaxed)) {
  }
  return original;
}

/// The masked CmpSwap of RFC 7306 5.1.2 on a word in host order; returns what it held before.
inline std::uint64_t masked_compare_swap(std::uint64_t& word, std::uint64_t compare,
                                         std::uint64_t compare_mask, std::uint64_t swap,
                                         std::uint64_t swap_mask) {
  std::atomic_ref<std::uint64_t> atomic(word);
  std::uint64_t original = atomic.load(std::memory_order_relaxed);
  while (((original ^ compare) & compare_mask) == 0) {
    const std::uint64_t next = (original & ~swap_mask) | (swap & swap_mask);
    if (atomic.compare_exchange_weak(original, next, std::memory_order_acq_rel, std::memory_order_relaxed))
      break;
  }
  return original;
}

}  // namespace kbtp
