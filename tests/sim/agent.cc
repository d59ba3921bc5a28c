// What the agent does in a session.

#include "tests/sim/agent.h"

#include <fmt/format.h>
#include <utility>

namespace kbtp::sim {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using wire::Status;

namespace {

/// A ticket is held for so long at most: well within the Ticket Timeout.
constexpr Duration kHold = milliseconds(60);
/// A FREE takes no longer while nothing is in its way.
constexpr Duration kPromptFree = milliseconds(20);

}  // namespace

/// A session begins with a clean range.
void Agent::free_all(std::uint64_t handle) {
  if (handle == ack_.base_handle + ack_.handle_count) return cycle();
  wire::Free request;
  request.head.handle = handle;
  ask(request, [this, handle](const wire::Completion& c) {
    if (c.status == Status::success) {
      world_.content.freed(key(handle), c.generation);
    } else if (c.status != Status::not_bound) {
      world_.fail(fmt::format("a FREE ends with {}", wire::to_string(c.status)));
    }
    bound_[handle] = false;
    free_all(handle + 1);
  });
}

std::optional<std::uint64_t> Agent::unbound_handle() const {
  for (const auto& [handle, bound] : bound_) {
    if (!bound) return handle;
  }
  return std::nullopt;
}

bool Agent::in_time(const Ticket& ticket) const {
  return world_.fabric->now() - ticket.taken < world_.shape.config.direct.ticket_timeout;
}

void Agent::cycle() {
  if (budget_-- <= 0 || world_.stopping()) return leave();
  std::vector<std::uint64_t> mine;
  for (const auto& [handle, bound] : bound_) {
    if (bound) mine.push_back(handle);
  }
  // Mostly few blocks stay bound, so that they come round often.
  if (mine.size() == ack_.quota || mine.size() == bound_.size() || (!mine.empty() && world_.below(3) != 0)) {
    return free(mine[world_.below(mine.size())], [this] { cycle(); });
  }
  take(*unbound_handle());
}

void Agent::take(std::uint64_t handle) {
  const auto ticket = std::make_shared<Ticket>();
  ticket->handle = handle;
  ticket->taken = world_.fabric->now();
  const auto f = format();
  work(rdma::FetchAdd{0, {ack_.head_stag, ack_.head_offset}, f.add_data(), f.add_mask()},
       [this, ticket, f](const rdma::Completion& done) {
         ticket->number = f.unpack(done.original).ticket;
         world_.note("ticket", {named_.host, ticket->number});
         await_slot(ticket, {});
       });
}

/// 6.6: until the slot matches, and once more.
void Agent::await_slot(const std::shared_ptr<Ticket>& ticket, std::optional<wire::Slot> seen) {
  const auto sink = std::make_shared<std::array<std::byte, wire::kSlotSize>>();
  const std::uint64_t slot = format().slot_of(ticket->number) * wire::kSlotSize;
  work(rdma::Read{.id = 0, .sink = *sink, .source = {ack_.ring_stag, ack_.ring_offset + slot}},
       [this, ticket, sink, seen](const rdma::Completion&) {
         const wire::Slot now = wire::decode_slot(*sink);
         if (now.ready_for(ticket->number) && seen == now) {
           ticket->block_offset = now.block_offset;
           return write(ticket);
         }
         if (world_.shape.calm && world_.fabric->now() - ticket->taken > milliseconds(100)) {
           return world_.fail(
               fmt::format("ticket {} of {} starves within the quota (3.4)", ticket->number, named_.name));
         }
         const bool ready = now.ready_for(ticket->number);
         after(microseconds(ready ? 0 : 50),
               [this, ticket, now, ready] { await_slot(ticket, ready ? std::optional(now) : std::nullopt); });
       });
}

void Agent::write(const std::shared_ptr<Ticket>& ticket) {
  const auto data = std::make_shared<std::vector<std::byte>>(1 + world_.below(ack_.block_size));
  ticket->length = static_cast<std::uint32_t>(data->size());
  ticket->store = world_.content.begin(key(ticket->handle), *data);
  work(rdma::Write{0, *data, {ack_.partition_stag, ticket->block_offset}, data},
       [](const rdma::Completion&) {});
  bound_[ticket->handle] = true;
  choose(*ticket);
}

void Agent::choose(const Ticket& ticket) {
  switch (world_.below(world_.shape.calm ? 6 : 7)) {
    case 0:
      return bind(ticket, [this] { cycle(); });
    case 1:
    case 2:
    case 3:
      return hold(ticket);
    case 4:
    case 5:
      return send_wrong_binds(ticket);
    default:
      return run_out(ticket);
  }
}

wire::Bind Agent::bind_of(const Ticket& ticket) const {
  wire::Bind bind;
  bind.head.handle = ticket.handle;
  bind.ticket = ticket.number;
  bind.data_length = ticket.length;
  bind.block_offset = ticket.block_offset;
  bind.seal = true;
  return bind;
}

void Agent::bind(const Ticket& ticket, const Then& then) {
  world_.note("bind", {named_.host, ticket.number, ticket.block_offset});
  ask(bind_of(ticket), [this, ticket, then](const wire::Completion& c) {
    if (c.status == Status::success) {
      ++binds_;
      world_.content.stored(ticket.store, c.generation);
      world_.touched(ticket.handle);
      history_.push_front(ticket);
      return then();
    }
    world_.content.refused(ticket.store);
    bound_[ticket.handle] = false;
    if (c.status == Status::ticket_abandoned && !in_time(ticket)) return leave();
    world_.fail(
        fmt::format("the BIND of ticket {} in time ends with {}", ticket.number, wire::to_string(c.status)));
  });
}

// --- Allocating and freeing while a ticket is held (E-3, E-6) --------------------------------------------

void Agent::hold(const Ticket& ticket) {
  std::size_t used = 0;
  for (const auto& [handle, bound] : bound_) used += bound ? 1 : 0;
  frees_left_ = 1 + world_.below(3 * format().slots());
  hold_until_ = world_.fabric->now() + kHold;
  // One credit is kept for BIND: an ALLOC_STORE may wait for the held ticket's slot.
  while (used < ack_.quota && churners_ + 1 < ack_.max_requests) {
    const auto handle = unbound_handle();
    if (!handle) break;
    bound_[*handle] = true;
    ++used;
    ++churners_;
    churn(*handle);
  }
  if (churners_ == 0) return bind(ticket, [this] { cycle(); });
  when_still_ = [this, ticket] { release(ticket); };
  after(kHold, [this, held = ++holds_] {
    if (held == holds_ && when_still_) std::exchange(when_still_, nullptr)();
  });
}

void Agent::churn(std::uint64_t handle) {
  const auto stop = [this, handle] {
    bound_[handle] = false;
    if (--churners_ == 0 && when_still_) std::exchange(when_still_, nullptr)();
  };
  if (frees_left_ == 0 || world_.fabric->now() >= hold_until_) return stop();
  --frees_left_;
  alloc(handle, [this, handle, stop](const wire::Completion& c) {
    if (c.status != Status::success) return stop();
    free(handle, [this, handle] { churn(handle); });
  });
}

void Agent::release(const Ticket& ticket) {
  ++holds_;
  for (const auto& [handle, since] : frees_since_) {
    if (world_.shape.calm && world_.fabric->now() - since > kPromptFree) {
      return world_.fail(
          fmt::format("the FREE of handle {} waits for a BIND of its own initiator (E-6)", handle));
    }
  }
  bind(ticket, [this] {
    if (churners_ == 0) return cycle();
    // What waited for the ticket goes on now.
    when_still_ = [this] { cycle(); };
  });
}

void Agent::alloc(std::uint64_t handle, Answered answered) {
  const auto data =
      std::make_shared<std::vector<std::byte>>(1 + world_.below(std::min(64U, ack_.block_size)));
  const StoreId store = world_.content.begin(key(handle), *data);
  wire::AllocStore request;
  request.head.handle = handle;
  request.body.inline_data = Octets(*data);
  request.body.seal = true;
  const TimePoint since = world_.fabric->now();
  world_.touched(handle);
  bound_[handle] = true;
  ask(request, [this, handle, data, store, since, then = std::move(answered)](const wire::Completion& c) {
    if (c.status == Status::success) {
      world_.content.stored(store, c.generation);
      world_.touched(handle);
    } else {
      world_.content.refused(store);
      bound_[handle] = false;
      if (world_.shape.calm) {
        world_.fail(
            fmt::format("ALLOC_STORE of handle {} within the quota ends with {} after {} ms", handle,
                        wire::to_string(c.status),
                        std::chrono::duration_cast<milliseconds>(world_.fabric->now() - since).count()));
      }
    }
    then(c);
  });
}

void Agent::free(std::uint64_t handle, const Then& then) {
  wire::Free request;
  request.head.handle = handle;
  frees_since_[handle] = world_.fabric->now();
  ask(request, [this, handle, then](const wire::Completion& c) {
    frees_since_.erase(handle);
    if (c.status == Status::success) {
      world_.content.freed(key(handle), c.generation);
    } else {
      world_.fail(fmt::format("the FREE of handle {} ends with {}", handle, wire::to_string(c.status)));
    }
    bound_[handle] = false;
    then();
  });
}

// --- BINDs that must be refused (E-9) --------------------------------------------------------------------

void Agent::wrong_bind(const char* what, const wire::Bind& bind, Status expected, const Then& then) {
  ask(bind, [this, what, expected, then](const wire::Completion& c) {
    // After a Ticket Timeout all are refused alike (P-03).
    const bool abandoned = c.status == Status::ticket_abandoned && !world_.shape.calm;
    if (c.status != expected && !abandoned) {
      return world_.fail(fmt::format("a BIND {} ends with {} (E-9)", what, wire::to_string(c.status)));
    }
    then();
  });
}

void Agent::send_wrong_binds(const Ticket& ticket) {
  const wire::Bind good = bind_of(ticket);
  const Then next = [this, ticket] {
    if (world_.below(2) == 0) return send_wrong_binds(ticket);
    bound_[ticket.handle] = true;
    bind(ticket, [this] { cycle(); });
  };
  if (!in_time(ticket)) return next();
  wire::Bind bad = good;
  switch (world_.below(7)) {
    case 0:
      ++bad.ticket;
      return wrong_bind("of a ticket that was not issued", bad, Status::invalid_ticket, next);
    case 1:
      bad.head.handle = ack_.base_handle == 0 ? ack_.handle_count : ack_.base_handle - 1;
      return ask(bad, [this, next](const wire::Completion& c) {
        if (c.status == Status::success || c.status == Status::already_bound) {
          return world_.fail(
              fmt::format("a BIND of another's handle ends with {} (E-9)", wire::to_string(c.status)));
        }
        next();
      });
    case 2:
      bad.data_length = ack_.block_size + 1;
      return wrong_bind("of more octets than a block has", bad, Status::length_error, next);
    case 3:
      bad.block_offset += ack_.block_size;
      return wrong_bind("of another block", bad, Status::invalid_ticket, next);
    case 4: {
      // A ticket of an earlier lap whose slot holds the same block again.
      for (const Ticket& old : history_) {
        if (old.number == ticket.number || old.block_offset != ticket.block_offset) continue;
        if (format().slot_of(old.number) != format().slot_of(ticket.number)) continue;
        bad.ticket = old.number;
        return wrong_bind("of a ticket bound a lap ago", bad, Status::invalid_ticket, next);
      }
      return next();
    }
    default: {
      for (const auto& [handle, bound] : bound_) {
        if (!bound || handle == ticket.handle) continue;
        bad.head.handle = handle;
        return wrong_bind("of a handle that is bound", bad, Status::already_bound, next);
      }
      return next();
    }
  }
}

// --- Tickets that run out (3.4) --------------------------------------------------------------------------

void Agent::run_out(const Ticket& ticket) {
  const auto f = format();
  for (std::uint64_t more = world_.below(2 * ack_.quota); more > 0; --more) {
    work(rdma::FetchAdd{0, {ack_.head_stag, ack_.head_offset}, f.add_data(), f.add_mask()},
         [](const rdma::Completion&) {});
  }
  // Looks at Head are a quarter of the Ticket Timeout apart.
  after(2 * world_.shape.config.direct.ticket_timeout, [this, ticket] {
    ask(bind_of(ticket), [this, ticket](const wire::Completion& c) {
      if (c.status == Status::success) {
        world_.fail(fmt::format("the BIND of ticket {} succeeds long after its timeout (KBTP-3.4-13)",
                                ticket.number));
      }
    });
    // What it writes now must not land anywhere (KBTP-3.4-10): the block may be somebody's already.
    const auto alloc_one = [this] {
      const auto handle = unbound_handle();
      if (!handle) return;
      bound_[*handle] = true;
      alloc(*handle, [](const wire::Completion&) {});
    };
    world_.content.refused(ticket.store);
    bound_[ticket.handle] = false;
    alloc_one();
    const auto rogue = std::make_shared<std::vector<std::byte>>(ack_.block_size, std::byte{0xAA});
    work(rdma::Write{0, *rogue, {ack_.partition_stag, ticket.block_offset}, rogue},
         [](const rdma::Completion&) {});
    alloc_one();
    after(milliseconds(20), [this] { leave(); });
  });
}

}  // namespace kbtp::sim
