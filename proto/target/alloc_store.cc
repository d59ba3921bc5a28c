// KBTP 6.3: Block Unmapped Store.

#include <algorithm>
#include <memory>

#include "base/fault.h"
#include "proto/target/check.h"
#include "proto/target/handlers.h"
#include "proto/target/session.h"

namespace kbtp::target {

void AllocStoreOperation::run() {
  // KBTP 6.3 step 1: the handle is in the initiator's range and its entry is not VALID. One unit of usage is
  // taken with it, so that nothing below can exceed the quota (G-21).
  const wire::TableEntry entry = this->entry();
  if (const auto status = check(session(), request_, entry)) {
    if (*status == wire::Status::no_space && fault(Fault::no_space_ignored))
      return refuse(wire::Status::success);
    return refuse(*status);
  }
  allocate();
}

void AllocStoreOperation::allocate() {
  // KBTP 6.3 step 2: a block from the ring, which is the initiator's own when it has one (G-26), its slot
  // marked consumed. Within the quotas this waits for a free
  // in progress at most (3.4); whoever finishes that calls back, on a loop of its own.
  const auto self = std::static_pointer_cast<AllocStoreOperation>(shared_from_this());
  const auto taken = session().ring().allocate([self](std::uint64_t block_offset) {
    self->loop().post([self, block_offset] { self->allocated(block_offset); });
  });
  if (session().direct() != nullptr) session().direct()->own_ticket(taken.ticket);
  if (taken.block_offset) return allocated(*taken.block_offset);
  waiting_ticket_ = taken.ticket;
  keep_inline_data();
  timer_ = loop().call_at(loop().now() + core().config.deadlines.allocation, [self] { self->starved(); });
}

void AllocStoreOperation::starved() {
  timer_ = rdma::TimerId::none;
  if (!waiting_ticket_) return;
  if (!session().ring().abandon(*waiting_ticket_)) return;  // the block is on its way to allocated()
  waiting_ticket_.reset();
  core().return_unit(session().owner());
  refuse(wire::Status::no_space);
}

void AllocStoreOperation::allocated(std::uint64_t block_offset) {
  if (timer_ != rdma::TimerId::none) loop().cancel(timer_);
  timer_ = rdma::TimerId::none;
  waiting_ticket_.reset();
  core().took(block_offset);
  block_offset_ = block_offset;
  if (session().closed()) {
    roll_back();
    return drop();
  }

  // KBTP 6.3 step 3: the data goes into the block, before anything points to it.
  const wire::DataDescriptor& source = body().source;
  if (!body().inline_data && source.length > 0) {
    return session().read(shared_from_this(), block_offset, source);
  }
  if (body().inline_data) core().write_block(block_offset, *body().inline_data);
  data_is_in_place();
}

void AllocStoreOperation::on_read(rdma::WorkStatus status) {
  switch (status) {
    case rdma::WorkStatus::success:
      return data_is_in_place();
    case rdma::WorkStatus::flushed:
      roll_back();
      return drop();
    case rdma::WorkStatus::bad_request:
      roll_back();
      return refuse(wire::Status::target_error);
  }
}

void AllocStoreOperation::data_is_in_place() {
  // KBTP 6.3 step 4: Block Offset first, then VALID, SEALED, the next Generation and Data Length in one
  // store.
  const std::uint64_t handle = head().handle;
  memory::BlockTable& table = core().table;
  const wire::TableEntry before = entry();
  if (before.valid()) {
    // Only a mutant that rebinds gets here; the old block leaks.
    table.unbind(handle);
  }
  const bool seal = body().seal && !fault(Fault::seal_ignored);
  if (fault(Fault::alloc_store_keeps_generation)) {
    table.preset_generation(handle, before.generation == 1
                                        ? std::uint16_t{0xFFFF}
                                        : static_cast<std::uint16_t>(before.generation - 1));
  }
  const wire::TableEntry entry = table.bind(handle, *block_offset_, body().source.length, seal);
  block_offset_.reset();
  core().bound_handles.fetch_add(1);

  // KBTP 6.3 step 5
  finish({.generation = entry.generation,
          .data_length = entry.data_length,
          .block_offset = entry.block_offset,
          .octets = entry.data_length});
}

void AllocStoreOperation::roll_back() {
  // G-20: the block returns with a new ticket, the entry and its Generation stay, the unit is released.
  if (block_offset_) core().put_back(*block_offset_);
  block_offset_.reset();
  core().return_unit(session().owner());
}

void AllocStoreOperation::on_session_closed() {
  if (!waiting_ticket_) return;
  if (timer_ != rdma::TimerId::none) loop().cancel(timer_);
  timer_ = rdma::TimerId::none;
  if (!session().ring().abandon(*waiting_ticket_)) return;  // allocated() will roll back
  waiting_ticket_.reset();
  roll_back();
  drop();
}

}  // namespace kbtp::target
