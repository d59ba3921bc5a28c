// KBTP 6.6: BIND, which ends a direct allocation.

#include "proto/target/check.h"
#include "proto/target/direct.h"
#include "proto/target/handlers.h"
#include "proto/target/session.h"

namespace kbtp::target {

void BindOperation::run() {
  const auto& request = std::get<wire::Bind>(request_);
  Core& target = core();

  // E-9: the handle is in the initiator's range and its entry is not VALID, Data Length fits a block, and the
  // initiator is within its quota, of which one unit is taken here (G-15 steps 8 to 14, P-15).
  const wire::TableEntry before = entry();
  if (const auto status = check(session(), request_, before)) return refuse(*status);
  const auto give_up = [&](wire::Status status) {
    target.return_unit(session().owner());
    refuse(status);
  };

  // KBTP 6.6: the ticket has not been abandoned; after the first one that was, none is good (P-03).
  DirectAccess& direct = *session().direct();
  direct.look_at_head();
  if (direct.abandoned()) return give_up(wire::Status::ticket_abandoned);

  // KBTP 6.6: the ticket has been issued, and its slot holds that Block Offset with the ticket's own Sequence
  // (E-9). In one step with it the slot is marked consumed, so that no ticket binds twice; when it does not
  // match, slot and ticket stay as they are (G-30).
  if (session().ring().consume(request.ticket, request.block_offset) != memory::Ring::Consumed::yes)
    return give_up(wire::Status::invalid_ticket);
  direct.bound(request.ticket);
  target.took(request.block_offset);

  // KBTP 6.6: the table entry. The data is in place, for a Send is delivered after the Writes before it (RFC
  // 5040 5.5 rule 5); without SEAL the handle stays open to STORE (G-31).
  const wire::TableEntry entry =
      target.table.bind(head().handle, request.block_offset, request.data_length, request.seal);
  target.bound_handles.fetch_add(1);

  // KBTP 6.6: it completes (G-17).
  finish({.generation = entry.generation,
          .data_length = entry.data_length,
          .block_offset = entry.block_offset,
          .octets = entry.data_length});
}

}  // namespace kbtp::target
