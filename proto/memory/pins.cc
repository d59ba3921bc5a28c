#include "proto/memory/pins.h"

#include <utility>

#include "base/fault.h"

namespace kbtp::memory {

namespace {
constexpr std::uint32_t kRetired = std::uint32_t{1} << 31;
}

// Every change of a state is an atomic read-modify-write with acquire and release. So whoever pins after a
// retire() sees the entry update before it, and whoever gives a block back comes after all its readers.

Pins::Pins(std::uint64_t blocks, GiveBack give_back)
    : states_(std::make_unique<std::atomic<std::uint32_t>[]>(blocks)), give_back_(std::move(give_back)) {}

void Pins::pin(std::uint64_t number) {
  if (fault(Fault::load_does_not_pin)) return;
  states_[number].fetch_add(1, std::memory_order_acq_rel);
}

void Pins::unpin(std::uint64_t number) {
  if (fault(Fault::load_does_not_pin)) return;
  if (states_[number].fetch_sub(1, std::memory_order_acq_rel) == (kRetired | 1)) claim(number);
}

void Pins::retire(std::uint64_t number) {
  held_back_.fetch_add(1, std::memory_order_relaxed);
  states_[number].fetch_or(kRetired, std::memory_order_acq_rel);
  claim(number);
}

/// Gives the block back if it is retired and nobody pins it. Of several that try, one succeeds.
void Pins::claim(std::uint64_t number) {
  std::uint32_t expected = kRetired;
  if (!states_[number].compare_exchange_strong(expected, 0, std::memory_order_acq_rel)) return;
  held_back_.fetch_sub(1, std::memory_order_relaxed);
  give_back_(number);
}

std::uint32_t Pins::count(std::uint64_t number) const {
  return states_[number].load(std::memory_order_acquire) & ~kRetired;
}

bool Pins::retired(std::uint64_t number) const {
  return (states_[number].load(std::memory_order_acquire) & kRetired) != 0;
}

}  // namespace kbtp::memory
