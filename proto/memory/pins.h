// Pins (E-5): a block that a LOAD is sending from where it lies must not be given to anybody else before the
// provider is done with it. FREE completes at once; the block returns to its ring when the last pin drops.
//
// A LOAD that runs beside a FREE on another loop reads the entry, pins the block, and reads the entry again:
// if it has not changed, the FREE will see the pin; if it has, unpin and start over.
//
// Threads: any, without locks. How many pins a session may hold is the target's business.

#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>

namespace kbtp::memory {

class Pins {
 public:
  /// Called, exactly once per retire(), with the number of a block that nobody holds any more: to scrub it
  /// and put it back on its ring. Runs on the thread that retires or drops the last pin.
  using GiveBack = std::function<void(std::uint64_t number)>;

  /// For blocks 0 .. `blocks` - 1 (Pool::number_of).
  Pins(std::uint64_t blocks, GiveBack give_back);

  void pin(std::uint64_t number);
  void unpin(std::uint64_t number);
  /// The block's binding has ended (the entry update is done): gives it back now or with its last pin.
  void retire(std::uint64_t number);

  [[nodiscard]] std::uint32_t count(std::uint64_t number) const;
  /// Whether the block is retired and waits for its last pin.
  [[nodiscard]] bool retired(std::uint64_t number) const;
  /// Blocks that are retired but still pinned: what the reserve R must cover.
  [[nodiscard]] std::uint64_t held_back() const { return held_back_.load(std::memory_order_relaxed); }

 private:
  void claim(std::uint64_t number);

  std::unique_ptr<std::atomic<std::uint32_t>[]> states_;  ///< kRetired | number of pins
  std::atomic<std::uint64_t> held_back_{0};
  GiveBack give_back_;
};

}  // namespace kbtp::memory
