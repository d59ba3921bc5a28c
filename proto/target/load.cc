// KBTP 6.1: Block Load.

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "base/fault.h"
#include "proto/target/check.h"
#include "proto/target/handlers.h"
#include "proto/target/session.h"

namespace kbtp::target {

namespace {

/// How much is written: Data Length octets (6.1 step 2), except by mutants.
std::uint32_t octets_to_write(const wire::TableEntry& entry, const wire::DataDescriptor& destination,
                              std::uint32_t block_size) {
  if (fault(Fault::load_writes_whole_block)) return std::min(block_size, destination.length);
  if (fault(Fault::load_truncates)) return std::min(entry.data_length, destination.length);
  return entry.data_length;
}

}  // namespace

void LoadOperation::run() {
  const auto& request = std::get<wire::Load>(request_);
  Core& target = core();

  // KBTP 6.1 step 1: the entry is VALID, and SEALED unless ALLOW_UNSEALED.
  const wire::TableEntry entry = this->entry();
  if (const auto status = check(session(), request_, entry)) return refuse(*status);
  const auto number = target.pool.number_of(entry.block_offset);
  if (!number) {
    // Only a mutant that ignores VALID gets here.
    return finish({.generation = entry.generation, .data_length = entry.data_length});
  }

  // KBTP 6.1 step 2: Data Length octets go to the Data Descriptor. A sealed block stays as it is until it is
  // freed, so it is sent from where it lies, and pinned against that (E-5). An unsealed one may be stored to
  // at any time, one that its initiator can RDMA-write is sealed by contract only (E-12), and a session past
  // its pin share may not hold more: those are sent from a copy made now.
  std::optional<rdma::Write> write;
  std::optional<std::uint64_t> pinned;
  const std::uint32_t length = octets_to_write(entry, request.destination, target.config.block_size);
  if (length > 0) {  // nothing to write for Data Length 0 (G-46)
    write.emplace();
    write->destination = {request.destination.stag, request.destination.tagged_offset};
    if (entry.sealed() && !target.peer_writes(entry.block_offset) && session().try_pin(entry.block_offset)) {
      write->source = target.pool.block(entry.block_offset).first(length);
      pinned = entry.block_offset;
    } else {
      auto copy = std::make_shared<std::vector<std::byte>>(target.copy_block(entry.block_offset, length));
      write->source = *copy;
      write->keep_alive = std::move(copy);
      target.copied_loads.fetch_add(1, std::memory_order_relaxed);
    }
  }

  if (fault(Fault::record_written) && write && request.record)
    write->destination = {request.record->stag, request.record->tagged_offset};
  if (fault(Fault::load_completion_without_entry))
    return finish({.octets = length}, std::move(write), pinned);
  // KBTP 6.1 step 3: Block Offset, Data Length and Generation of the entry.
  finish({.generation = entry.generation,
          .data_length = entry.data_length,
          .block_offset = entry.block_offset,
          .octets = length},
         std::move(write), pinned);
}

}  // namespace kbtp::target
