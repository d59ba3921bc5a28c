#include "proto/target/check.h"

#include <variant>

#include "base/fault.h"

namespace kbtp::target {

namespace {

using wire::Opcode;
using wire::Status;

const wire::StoreBody* store_body(const wire::Request& request) {
  if (const auto* store = std::get_if<wire::Store>(&request)) return &store->body;
  if (const auto* store = std::get_if<wire::AllocStore>(&request)) return &store->body;
  return nullptr;
}

bool must_be_bound(Opcode opcode) {
  if (opcode == Opcode::load && fault(Fault::load_ignores_valid)) return false;
  if (opcode == Opcode::free && fault(Fault::free_ignores_valid)) return false;
  return opcode != Opcode::alloc_store && opcode != Opcode::bind;
}

}  // namespace

std::optional<Status> check(Session& session, const wire::Request& request, const wire::TableEntry& entry) {
  const Opcode opcode = wire::opcode(request);
  const wire::RequestHead& head = wire::head(request);
  const wire::Load* load = std::get_if<wire::Load>(&request);
  const wire::StoreBody* store = store_body(request);
  const wire::Bind* bind = std::get_if<wire::Bind>(&request);

  // (1) to (7) were passed on arrival.
  // (8) the handle is visible to the session (G-25, P-11)
  if (!session.sees(head.handle)) return Status::no_such_handle;
  // (9) own range, for all but LOAD
  const bool owned = session.owns(head.handle) ||
                     (opcode == Opcode::store && fault(Fault::store_ignores_owner)) ||
                     (opcode == Opcode::alloc_store && fault(Fault::alloc_store_ignores_owner)) ||
                     (opcode == Opcode::bind && fault(Fault::bind_ignores_owner));
  if (opcode != Opcode::load && !owned) return Status::not_owner;
  // (10) bound state
  if (opcode == Opcode::alloc_store || opcode == Opcode::bind) {
    const bool rebinds =
        fault(opcode == Opcode::bind ? Fault::bind_ignores_valid : Fault::alloc_store_rebinds);
    if (entry.valid() && !rebinds) return Status::already_bound;
  } else if (must_be_bound(opcode) && !entry.valid()) {
    return Status::not_bound;
  }
  // (11) Generation (G-14)
  if (head.generation != 0 && head.generation != entry.generation && !fault(Fault::generation_ignored)) {
    return Status::generation_mismatch;
  }
  // (12) SEALED state
  const bool sealed_only = load != nullptr && (!load->allow_unsealed || fault(Fault::allow_unsealed_refused));
  if (sealed_only && !entry.sealed() && !fault(Fault::load_ignores_seal) &&
      !fault(Fault::load_ignores_valid)) {
    return Status::not_sealed;
  }
  if (opcode == Opcode::store && entry.sealed() && !fault(Fault::store_ignores_seal)) return Status::sealed;
  // (13) Data Length against Block Size, descriptor and inline limit (P-12)
  if (load != nullptr && entry.data_length > load->destination.length && !fault(Fault::load_truncates)) {
    return Status::length_error;
  }
  if (store != nullptr) {
    const Core& core = session.core();
    if (store->source.length > core.config.block_size) return Status::length_error;
    if (store->inline_data && store->inline_data->size() > core.config.max_inline)
      return Status::length_error;
  }
  if (bind != nullptr && bind->data_length > session.core().config.block_size &&
      !fault(Fault::bind_ignores_length)) {
    return Status::length_error;
  }
  // (14) quota, before a ticket is taken (G-21). Tickets that the initiator has taken by itself count in
  // (3.4); a BIND ends one of them, and is not kept back by others that were taken in excess (P-15).
  const bool allocates = opcode == Opcode::alloc_store;
  if (allocates && !session.core().take_unit(session.owner(), session.tickets_outstanding()))
    return Status::no_space;
  if (bind != nullptr && !session.core().take_unit(session.owner())) return Status::no_space;
  // (15) the ticket is looked at by BIND itself, in one step with taking its slot.
  // Last of all: data can only be fetched when the initiator answers Reads (G-35, P-12).
  if (store != nullptr && !store->inline_data && store->source.length > 0 && !session.can_read()) {
    if (allocates) session.core().return_unit(session.owner());
    return Status::no_resources;
  }
  return std::nullopt;
}

}  // namespace kbtp::target
