#include "proto/initiator/direct_load.h"

#include <algorithm>
#include <utility>

#include "base/fault.h"

namespace kbtp::initiator {

DirectLoad::DirectLoad(OneSided& reads, rdma::Loop& loop, const SessionInfo& info, std::uint64_t handle,
                       std::span<std::byte> sink, const DirectLoadOptions& options, Done finish)
    : reads_(reads),
      loop_(loop),
      info_(info),
      handle_(handle),
      sink_(sink),
      options_(options),
      finish_(std::move(finish)) {}

void DirectLoad::start() {
  const DirectInfo& direct = info_.direct;
  if (handle_ < direct.table_base_handle || handle_ - direct.table_base_handle >= direct.table_handles) {
    loop_.post(
        [self = shared_from_this()] { self->finish_(self->with_status(wire::Status::no_such_handle)); });
    return;
  }
  give_up_ = loop_.now() + options_.give_up_after;
  read_entry(OneSided::Turn::begins);
}

void DirectLoad::read_entry(OneSided::Turn turn) {
  const std::uint64_t offset = (handle_ - info_.direct.table_base_handle) * wire::kTableEntrySize;  // 3.2
  const rdma::RemoteBuffer entry{info_.direct.table.stag, info_.direct.table.tagged_offset + offset};
  reads_.read(buffer_, entry, turn,
              [self = shared_from_this()](const OneSided::Ended& ended) { self->judge_entry(ended.posted); });
}

void DirectLoad::judge_entry(TimePoint posted) {
  if (equal_ == 0) return begin_attempt(posted);
  constexpr std::size_t kFlagsAndGeneration = 4;
  const bool same = fault(Fault::direct_load_compares_generation_only)
                        ? std::equal(buffer_.begin(), buffer_.begin() + kFlagsAndGeneration, first_.begin())
                        : buffer_ == first_;  // E-2
  // G-34: in an attempt that takes long the Generation may have come round to the same value.
  const bool in_time = loop_.now() - began_ <= options_.attempt_bound;
  if (!same || !in_time) {
    if (loop_.now() < give_up_) return begin_attempt(posted);
    Outcome outcome;
    outcome.direct = DirectFailure::changed;
    outcome.error = same ? "each Direct Load took longer than its bound" : "the block kept changing";
    return finish_(outcome);
  }
  if (++equal_ == 3) return finish_(ends_ ? *ends_ : with_status(wire::Status::success));
  if (ends_ || entry_.data_length == 0) return read_entry(OneSided::Turn::goes_on);
  reads_.read(
      sink_.first(entry_.data_length), {info_.direct.pool.stag, entry_.block_offset}, OneSided::Turn::goes_on,
      [self = shared_from_this()](const OneSided::Ended&) { self->read_entry(OneSided::Turn::goes_on); });
}

// `buffer_` holds an entry: the first that was read, or one that put an end to another attempt.
void DirectLoad::begin_attempt(TimePoint posted) {
  began_ = posted;
  first_ = buffer_;
  equal_ = 1;
  entry_ = wire::decode_entry(first_);
  // Each of these is one bit in memory, so that a single Read is enough to know it.
  if (!entry_.valid()) return finish_(with_status(wire::Status::not_bound));
  if (!entry_.sealed()) return finish_(with_status(wire::Status::not_sealed));
  ends_ = objection();
  read_entry(OneSided::Turn::goes_on);
}

// Judged before a Read rests on it, and believed only when the entry was no torn one.
std::optional<Outcome> DirectLoad::objection() const {
  if (options_.generation != 0 && entry_.generation != options_.generation)
    return with_status(wire::Status::generation_mismatch);
  const DirectInfo& direct = info_.direct;
  const bool inside =
      entry_.block_offset >= direct.pool.tagged_offset &&
      entry_.block_offset - direct.pool.tagged_offset <= direct.pool_length - info_.block_size;
  const auto lie = [](const char* what) {
    Outcome outcome;
    outcome.direct = DirectFailure::target_lies;
    outcome.error = what;
    return outcome;
  };
  if (entry_.generation == 0) return lie("a table entry's Generation is 0");
  if (!inside) return lie("a table entry's Block Offset lies outside of the pool");
  if (entry_.data_length > info_.block_size)
    return lie("a table entry's Data Length is larger than Block Size");
  if (entry_.data_length > sink_.size()) return with_status(wire::Status::length_error);
  return std::nullopt;
}

Outcome DirectLoad::with_status(wire::Status status) const {
  Outcome outcome;
  outcome.answered = true;
  outcome.status = status;
  outcome.generation = entry_.generation;
  outcome.data_length = entry_.data_length;
  if (status == wire::Status::success) outcome.block_offset = entry_.block_offset;
  if (status == wire::Status::no_such_handle) outcome.generation = 0;  // G-16
  return outcome;
}

}  // namespace kbtp::initiator
