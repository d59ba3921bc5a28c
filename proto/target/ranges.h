// Handle ranges: which part of the block table belongs to whom, and who is connected for it now (G-24, G-25).
//
// Threads: any. A Range's members do not change while it is open, `live` excepted, which the book guards.

#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <shared_mutex>

#include "proto/memory/partition.h"
#include "proto/memory/quota.h"

namespace kbtp::target {

class Session;

struct Range {
  std::uint64_t base = 0;
  std::uint64_t count = 0;
  memory::OwnerId owner{};
  std::uint32_t quota = 0;
  std::uint32_t domain = 0;                ///< index of the trust domain
  bool persistent = false;                 ///< of a configured identity: outlives its sessions
  memory::Partition* partition = nullptr;  ///< of a DIRECT_ALLOC initiator, which has its own ring; else none
  std::weak_ptr<Session> live;

  [[nodiscard]] bool contains(std::uint64_t handle) const { return handle >= base && handle - base < count; }
};

class RangeBook {
 public:
  RangeBook(std::uint64_t base, std::uint64_t count) : base_(base), count_(count) {}

  /// Opens a range of `wanted` handles at `at`, or where it fits first; a shorter one when there is no room
  /// (P-09), nothing when there is none at all. `fill` completes it before others can see it.
  template <class Fill>
  [[nodiscard]] std::shared_ptr<Range> open(std::optional<std::uint64_t> at, std::uint64_t wanted,
                                            Fill&& fill) {
    const std::unique_lock lock(mutex_);
    auto range = place(at, wanted);
    if (range == nullptr) return nullptr;
    fill(*range);
    ranges_.emplace(range->base, range);
    return range;
  }
  void close(const Range& range);
  /// The range that holds `handle`, if any.
  [[nodiscard]] std::shared_ptr<const Range> find(std::uint64_t handle) const;

  /// Makes `session` the live one of `range`; if another one still lives, returns that and changes nothing.
  [[nodiscard]] std::shared_ptr<Session> claim(Range& range, const std::shared_ptr<Session>& session);
  void release(Range& range);

 private:
  [[nodiscard]] std::shared_ptr<Range> place(std::optional<std::uint64_t> at, std::uint64_t wanted) const;

  std::uint64_t base_;
  std::uint64_t count_;
  mutable std::shared_mutex mutex_;
  std::map<std::uint64_t, std::shared_ptr<Range>> ranges_;  // by base
};

}  // namespace kbtp::target
