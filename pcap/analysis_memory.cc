#include "pcap/analysis_memory.h"

#include <algorithm>
#include <fmt/format.h>

namespace kbtp::trace {

void KnownMemory::add_buffer(std::uint32_t stag, const Buffer& buffer) {
  invalidated_.erase(stag);
  buffers_[stag].push_back(buffer);
  order_.push_back({stag, buffer.request_id});
  if (order_.size() <= kMost) return;
  forget(order_.front());
  order_.pop_front();
}

void KnownMemory::forget(const Place& place) {
  const auto at = buffers_.find(place.stag);
  if (at == buffers_.end()) return;
  std::erase_if(at->second, [&](const Buffer& b) { return b.request_id == place.request_id; });
  if (at->second.empty()) buffers_.erase(at);
}

void KnownMemory::remove_buffers(std::uint64_t request_id) {
  const auto place = std::ranges::find_if(order_, [&](const Place& p) { return p.request_id == request_id; });
  if (place == order_.end()) return;
  forget(*place);
  order_.erase(place);
}

const Buffer* KnownMemory::find_buffer(std::uint32_t stag, std::uint64_t to) {
  const auto at = buffers_.find(stag);
  if (at == buffers_.end()) return nullptr;
  for (const Buffer& buffer : at->second) {
    if (buffer.holds(to)) return &buffer;
  }
  return nullptr;
}

void KnownMemory::invalidated(std::uint32_t stag, std::uint64_t frame) {
  invalidated_[stag] = frame;
  invalidated_order_.push_back(stag);
  if (invalidated_order_.size() <= kMost) return;
  invalidated_.erase(invalidated_order_.front());
  invalidated_order_.pop_front();
}

std::optional<std::uint64_t> KnownMemory::invalidated_in(std::uint32_t stag) const {
  const auto at = invalidated_.find(stag);
  return at == invalidated_.end() ? std::nullopt : std::optional(at->second);
}

std::string KnownMemory::direct_name(std::uint32_t stag, std::uint64_t to) const {
  if (!ack_ || stag == 0) return {};
  const wire::HelloAck& ack = *ack_;
  if (stag == ack.table_stag)
    return fmt::format("entry of handle {}",
                       ack.table_base_handle + (to - ack.table_offset) / wire::kTableEntrySize);
  if (stag == ack.ring_stag) return fmt::format("ring slot {}", (to - ack.ring_offset) / wire::kSlotSize);
  if (stag == ack.head_stag) return "Head";
  if (stag == ack.pool_stag || stag == ack.partition_stag) {
    const std::uint64_t base = stag == ack.pool_stag ? ack.pool_offset : ack.partition_offset;
    const std::uint64_t within = ack.block_size == 0 ? 0 : (to - base) % ack.block_size;
    return within == 0 ? fmt::format("block {:#x}", to)
                       : fmt::format("block {:#x} at octet {}", to - within, within);
  }
  return {};
}

}  // namespace kbtp::trace
