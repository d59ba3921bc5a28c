// KBTP 6.4: Block Free.

#include "base/fault.h"
#include "proto/target/check.h"
#include "proto/target/handlers.h"
#include "proto/target/session.h"

namespace kbtp::target {

wire::TableEntry unbind(Core& core, std::uint64_t handle, const wire::TableEntry& entry, bool scrub) {
  // KBTP 6.4 step 2: VALID and SEALED are cleared and the Generation is incremented.
  wire::TableEntry now = core.table.unbind(handle);
  if (fault(Fault::free_keeps_generation)) {
    core.table.preset_generation(handle, entry.generation);
    now.generation = entry.generation;
  }
  core.bound_handles.fetch_sub(1);
  // KBTP 6.4 step 3: the block returns to its ring, cleared if another trust domain may get it, once no LOAD
  // is being sent from it. The FREE does not wait for that (E-5, E-6).
  core.retire(entry.block_offset, scrub);
  return now;
}

void FreeOperation::run() {
  // KBTP 6.4 step 1: the handle is in the initiator's range and VALID.
  const wire::TableEntry entry = this->entry();
  if (const auto status = check(session(), request_, entry)) return refuse(*status);
  if (!entry.valid()) {
    // Only a mutant that accepts a second FREE gets here.
    return finish({.generation = core().table.unbind(head().handle).generation});
  }
  const wire::TableEntry now = unbind(core(), head().handle, entry, core().several_domains);
  if (fault(Fault::free_waits_for_its_slot)) return wait_for_slot(now.generation);
  // KBTP 3.4: the unit of usage comes back when the FREE completes.
  if (!fault(Fault::free_keeps_usage)) core().return_unit(session().owner());

  // KBTP 6.4 step 4
  finish({.generation = now.generation});
}

/// E-6 un-repaired: completes once no free of the ring is deferred.
void FreeOperation::wait_for_slot(std::uint16_t generation) {
  if (session().ring().deferred() > 0 && !session().closed()) {
    const auto self = std::static_pointer_cast<FreeOperation>(shared_from_this());
    loop().call_at(loop().now() + std::chrono::milliseconds(1),
                   [self, generation] { self->wait_for_slot(generation); });
    return;
  }
  core().return_unit(session().owner());
  if (session().closed()) return drop();
  finish({.generation = generation});
}

}  // namespace kbtp::target
