// KBTP 6.2: Block Mapped Store.

#include <algorithm>

#include "base/fault.h"
#include "proto/target/check.h"
#include "proto/target/handlers.h"
#include "proto/target/session.h"

namespace kbtp::target {

void StoreOperation::run() {
  // KBTP 6.2 step 1: the entry is VALID, not SEALED, and in the initiator's own range.
  const wire::TableEntry entry = this->entry();
  if (const auto status = check(session(), request_, entry)) return refuse(*status);

  // KBTP 6.2 step 2: the data, from the inline payload or by RDMA Read, goes into the block.
  const wire::DataDescriptor& source = body().source;
  if (!body().inline_data && source.length > 0) {
    // The Read's sink is open to its Read Response alone (G-52). Until SUCCESS the content is indeterminate,
    // while the entry stays as it is (G-18).
    if (fault(Fault::store_completes_before_read)) {
      const auto self = shared_from_this();
      finish(
          {.generation = entry.generation, .data_length = source.length, .block_offset = entry.block_offset});
      return session().read(self, entry.block_offset, source);
    }
    return session().read(shared_from_this(), entry.block_offset, source);
  }
  if (body().inline_data) core().write_block(entry.block_offset, *body().inline_data);
  if (fault(Fault::store_inline_corrupts) && source.length > 0)
    core().pool.block(entry.block_offset).front() ^= std::byte{1};
  data_is_in_place();
}

void StoreOperation::on_read(rdma::WorkStatus status) {
  if (fault(Fault::store_completes_before_read)) return;
  switch (status) {
    case rdma::WorkStatus::success:
      return data_is_in_place();
    case rdma::WorkStatus::flushed:
      return drop();  // the stream has ended
    case rdma::WorkStatus::bad_request:
      return refuse(wire::Status::target_error);
  }
}

void StoreOperation::data_is_in_place() {
  // KBTP 6.2 step 3: Data Length is replaced, and SEALED set with SEAL, in one store (G-18).
  std::uint32_t length = body().source.length;
  if (fault(Fault::store_keeps_longer_length)) length = std::max(length, entry().data_length);
  const bool seal = body().seal && !fault(Fault::seal_ignored);
  const wire::TableEntry entry = core().table.update(head().handle, length, seal);

  // KBTP 6.2 step 4
  finish({.generation = entry.generation,
          .data_length = entry.data_length,
          .block_offset = entry.block_offset,
          .octets = body().source.length});
}

}  // namespace kbtp::target
