#include "proto/initiator/records.h"

#include <utility>

namespace kbtp::initiator {

Result<> Records::open(rdma::Stream& stream, std::uint32_t slots) {
  memory_.resize(std::size_t{slots} * kStride);
  const auto region = stream.register_region({.memory = memory_, .access = rdma::Access::remote_write});
  if (!region) return unexpected(region.error());
  region_ = *region;
  for (Slot slot = slots; slot > 0; --slot) free_.push_back(slot - 1);
  return {};
}

Records::Slot Records::take(std::uint64_t request_id) {
  const Slot slot = free_.back();
  free_.pop_back();
  // What an earlier request, or nobody, has left there must not look like this one's record.
  ByteWriter writer(MutableOctets(memory_).subspan(offset_of(slot), sizeof request_id));
  writer.u64(~request_id);
  return slot;
}

wire::CompletionDescriptor Records::descriptor(Slot slot) const {
  return {region_->stag, region_->tagged_offset + offset_of(slot)};
}

std::optional<wire::CompletionRecord> Records::read(Slot slot, std::uint64_t request_id,
                                                    const wire::Assignment& assignment) const {
  const auto record = wire::decode_completion_record(
      Octets(memory_).subspan(offset_of(slot), wire::kCompletionRecordSize), assignment);
  if (!record || record->request_id != request_id) return std::nullopt;
  return record;
}

}  // namespace kbtp::initiator
