#include "proto/target/ranges.h"

#include <algorithm>

namespace kbtp::target {

std::shared_ptr<Range> RangeBook::place(std::optional<std::uint64_t> at, std::uint64_t wanted) const {
  std::uint64_t best = 0;
  std::uint64_t best_count = 0;
  // The gaps between ranges, by offset from base_ so that nothing wraps at the top of the handle space.
  std::uint64_t gap = 0;
  const auto consider = [&](std::uint64_t end) {
    const std::uint64_t length = end - gap;
    if (at && *at >= base_ && *at - base_ >= gap && *at - base_ < end && end - (*at - base_) >= wanted) {
      best = *at - base_;
      best_count = wanted;
      return true;
    }
    if (best_count < wanted && length > best_count) {
      best = gap;
      best_count = std::min(length, wanted);
    }
    return !at && best_count == wanted;
  };
  bool found = false;
  for (const auto& [base, range] : ranges_) {
    found = consider(base - base_);
    if (found) break;
    gap = base - base_ + range->count;
  }
  if (!found) consider(count_);
  if (best_count == 0) return nullptr;
  auto range = std::make_shared<Range>();
  range->base = base_ + best;
  range->count = best_count;
  return range;
}

void RangeBook::close(const Range& range) {
  const std::unique_lock lock(mutex_);
  ranges_.erase(range.base);
}

std::shared_ptr<const Range> RangeBook::find(std::uint64_t handle) const {
  const std::shared_lock lock(mutex_);
  auto after = ranges_.upper_bound(handle);
  if (after == ranges_.begin()) return nullptr;
  --after;
  return after->second->contains(handle) ? after->second : nullptr;
}

std::shared_ptr<Session> RangeBook::claim(Range& range, const std::shared_ptr<Session>& session) {
  const std::unique_lock lock(mutex_);
  if (auto live = range.live.lock(); live != nullptr && live != session) return live;
  range.live = session;
  return nullptr;
}

void RangeBook::release(Range& range) {
  const std::unique_lock lock(mutex_);
  range.live.reset();
}

}  // namespace kbtp::target
