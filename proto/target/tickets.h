// The tickets that an initiator has taken from its own ring and not bound yet (3.4, 6.6): which they are, and
// since when the target has known of each (G-28). Internal to proto/target.
//
// Threads: the session's loop.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include "base/time.h"

namespace kbtp::target {

class Tickets {
 public:
  /// `first` is the ticket that Head stands at when the initiator is told of it.
  explicit Tickets(std::uint32_t first) : next_(std::uint64_t{first} + kLap) {}

  /// How many tickets Head has passed that see() does not know yet, Head standing at `head`.
  [[nodiscard]] std::uint32_t unseen(std::uint32_t head) const {
    return head - static_cast<std::uint32_t>(next_);
  }
  /// Takes up all tickets before `head`.
  void see(std::uint32_t head, TimePoint now) {
    for (std::uint32_t left = unseen(head); left > 0; --left) open_.emplace_hint(open_.end(), next_++, now);
  }
  /// The ticket has been bound, or was the target's own.
  void resolve(std::uint32_t ticket) { open_.erase(next_ - age_of(ticket)); }
  /// Forgets all that are open, and returns them, oldest first.
  [[nodiscard]] std::vector<std::uint32_t> give_up() {
    std::vector<std::uint32_t> tickets;
    tickets.reserve(open_.size());
    for (const auto& [number, since] : open_) tickets.push_back(static_cast<std::uint32_t>(number));
    open_.clear();
    return tickets;
  }

  [[nodiscard]] std::uint64_t count() const { return open_.size(); }
  /// Since when the oldest one has been known.
  [[nodiscard]] std::optional<TimePoint> oldest() const {
    return open_.empty() ? std::nullopt : std::optional(open_.begin()->second);
  }

 private:
  static constexpr std::uint64_t kLap = std::uint64_t{1} << 32;
  /// How far back from next_ the ticket is: at least 1, at most 2^32.
  [[nodiscard]] std::uint64_t age_of(std::uint32_t ticket) const {
    return std::uint64_t{static_cast<std::uint32_t>(next_ - 1) - ticket} + 1;
  }

  // Tickets counted in 64 bits, so that their order survives the wrap; the low half is the ticket. Starting a
  // lap late keeps a difference from going below zero.
  std::uint64_t next_;
  std::map<std::uint64_t, TimePoint> open_;
};

}  // namespace kbtp::target
