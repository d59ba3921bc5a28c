#include "proto/initiator/direct_info.h"

#include <string>

#include "proto/wire/structures.h"

namespace kbtp::initiator {

namespace {

// The octets from `offset` on can all be named: the range ends below 2^64 (G-02: all ones is never legal).
bool wraps(std::uint64_t offset, std::uint64_t length) { return length > ~offset; }

Result<> check_load(const wire::HelloAck& ack) {
  if (ack.table_handle_count == 0) return failure("its block table has no handle");
  if (ack.table_handle_count - 1 > ~ack.table_base_handle)
    return failure("the handles of its block table wrap");
  if (ack.table_offset % 8 != 0) return failure("Table Offset is not aligned to 8");
  if (ack.table_handle_count > ~std::uint64_t{0} / wire::kTableEntrySize ||
      wraps(ack.table_offset, ack.table_handle_count * wire::kTableEntrySize))
    return failure("its block table wraps");
  if (ack.pool_length < ack.block_size) return failure("its pool is smaller than a block");
  if (wraps(ack.pool_offset, ack.pool_length)) return failure("its pool wraps");
  return {};
}

Result<> check_alloc(const wire::HelloAck& ack) {
  if (ack.ring_log2 < wire::CounterFormat::kMinLog2 || ack.ring_log2 > wire::CounterFormat::kMaxLog2)
    return failure("n is " + std::to_string(ack.ring_log2) + " and has to be from 1 to 28");
  const std::uint64_t slots = std::uint64_t{1} << ack.ring_log2;
  if (ack.quota == 0) return failure("the quota is 0");
  if (ack.quota > slots) return failure("its ring has fewer slots than the quota has blocks");
  if (ack.ticket_timeout_ms == 0) return failure("the Ticket Timeout is 0");
  if (ack.ring_offset % 8 != 0) return failure("Ring Offset is not aligned to 8");
  if (wraps(ack.ring_offset, slots * wire::kSlotSize)) return failure("its ring wraps");
  if (ack.head_offset % 8 != 0) return failure("Head Offset is not aligned to 8");  // KBTP-3.3-02
  if (wraps(ack.head_offset, 8)) return failure("Head wraps");
  if (ack.partition_length < std::uint64_t{ack.quota} * ack.block_size)
    return failure("its partition is smaller than the quota");
  if (wraps(ack.partition_offset, ack.partition_length)) return failure("its partition wraps");
  return {};
}

auto lie(const std::string& mode, const std::string& what) {
  return failure("HELLO_ACK grants " + mode + " and cannot be right: " + what);
}

}  // namespace

Result<DirectInfo> direct_info(const wire::HelloAck& ack, const wire::Features& wanted, rdma::Atomics own) {
  DirectInfo info;
  if (ack.granted.atomic_unmasked && !wanted.atomic_unmasked)
    return lie("ATOMIC_UNMASKED", "it was not asked for");
  if (ack.granted.direct_load) {
    if (!wanted.direct_load) return lie("DIRECT_LOAD", "it was not asked for");
    if (const auto right = check_load(ack); !right) return lie("DIRECT_LOAD", right.error().text);
    info.load = true;
    info.table = {ack.table_stag, ack.table_offset};
    info.table_base_handle = ack.table_base_handle;
    info.table_handles = ack.table_handle_count;
    info.pool = {ack.pool_stag, ack.pool_offset};
    info.pool_length = ack.pool_length;
  }
  if (ack.granted.direct_alloc) {
    if (!wanted.direct_alloc) return lie("DIRECT_ALLOC", "it was not asked for");
    if (const auto right = check_alloc(ack); !right) return lie("DIRECT_ALLOC", right.error().text);
    // 9.2: an unmasked FetchAdd would carry from Slot Offset into Ticket.
    info.alloc = ack.granted.atomic_unmasked || own == rdma::Atomics::masked;
    info.counters =
        ack.granted.atomic_unmasked ? wire::CounterFormat::Kind::unmasked : wire::CounterFormat::Kind::masked;
    info.ring_log2 = ack.ring_log2;
    info.ring = {ack.ring_stag, ack.ring_offset};
    info.head = {ack.head_stag, ack.head_offset};
    info.partition = {ack.partition_stag, ack.partition_offset};
    info.partition_length = ack.partition_length;
    info.ticket_timeout = std::chrono::milliseconds(ack.ticket_timeout_ms);
  }
  return info;
}

}  // namespace kbtp::initiator
