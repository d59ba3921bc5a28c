// KBTP 6.6 and 3.4 on the target's side: what is exposed, and what becomes of tickets that are never bound.

#include "proto/target/direct.h"

#include <algorithm>
#include <utility>

#include "base/log.h"
#include "proto/target/session.h"

namespace kbtp::target {

namespace {

using rdma::Access;
using rdma::Content;

// Tagged Offsets of what is exposed beside the pool. A Ring Offset whose low 32 bits are zero lets an
// initiator add a Slot Offset of any ring size without a carry (E-8).
constexpr std::uint64_t kTableOffset = std::uint64_t{1} << 45;
constexpr std::uint64_t kRingOffset = std::uint64_t{1} << 46;
constexpr std::uint64_t kHeadOffset = std::uint64_t{1} << 47;

constexpr Duration kLongestLook = std::chrono::seconds(1);

/// Tickets past the quota only wait (G-49), but each costs memory here: an initiator that takes so many is
/// broken (3.4).
constexpr std::uint64_t most_tickets(std::uint64_t quota) { return 2 * quota + 64; }

}  // namespace

wire::Features direct_modes(const NamedRange& named, const wire::Features& wanted,
                            const rdma::Capabilities& capabilities, wire::CounterFormat::Kind counters) {
  wire::Features granted;
  if (capabilities.ird == 0) return granted;  // the initiator could neither read nor count (G-35)
  granted.direct_load = named.direct_load && wanted.direct_load;
  // That the target's own FetchAdd is atomic with the initiator's, whatever the scope of the device, is
  // fetch_add_local()'s promise (G-27).
  const bool unmasked = counters == wire::CounterFormat::Kind::unmasked;
  const bool counts = unmasked ? wanted.atomic_unmasked && capabilities.atomics != rdma::Atomics::none
                               : capabilities.atomics == rdma::Atomics::masked;
  granted.direct_alloc = named.direct_alloc && wanted.direct_alloc && counts;
  granted.atomic_unmasked = granted.direct_alloc && unmasked;
  return granted;
}

DirectAccess::DirectAccess(Session& session, rdma::Stream& stream, memory::Partition* partition)
    : session_(session), stream_(stream), partition_(partition) {
  session_.core().direct_sessions.fetch_add(1);
}

Result<std::unique_ptr<DirectAccess>> DirectAccess::open(Session& session, rdma::Stream& stream,
                                                         const Range& range, const wire::Features& granted,
                                                         wire::HelloAck& ack) {
  std::unique_ptr<DirectAccess> access(
      new DirectAccess(session, stream, granted.direct_alloc ? range.partition : nullptr));
  if (granted.direct_load) {
    if (auto exposed = access->expose_pool(ack); !exposed) return unexpected(std::move(exposed.error()));
  }
  if (granted.direct_alloc) {
    if (auto exposed = access->expose_ring(ack); !exposed) return unexpected(std::move(exposed.error()));
    access->watch();
  }
  ack.granted.direct_load = granted.direct_load;
  ack.granted.direct_alloc = granted.direct_alloc;
  ack.granted.atomic_unmasked = granted.atomic_unmasked;
  return access;
}

// DIRECT_LOAD: all of table and pool, read-only. There is one trust domain (Core::create()), and what one
// domain has left behind in a block is no secret to itself; a block that was never used is zero (G-43).
Result<> DirectAccess::expose_pool(wire::HelloAck& ack) {
  const Core& core = session_.core();
  const auto table = stream_.register_region({.memory = core.table.memory(),
                                              .access = Access::remote_read,
                                              .content = Content::words,
                                              .tagged_offset = kTableOffset});
  if (!table) return unexpected(table.error());
  const auto pool = stream_.register_region({.memory = core.pool.memory(),
                                             .access = Access::remote_read,
                                             .content = Content::shared,
                                             .tagged_offset = core.pool.base()});
  if (!pool) return unexpected(pool.error());
  ack.table_stag = table->stag;
  ack.table_offset = table->tagged_offset;
  ack.table_base_handle = core.table.base_handle();
  ack.table_handle_count = core.table.count();
  ack.pool_stag = pool->stag;
  ack.pool_offset = pool->tagged_offset;
  ack.pool_length = pool->length;
  return {};
}

// DIRECT_ALLOC: the least rights that it needs (G-47). Block Offsets are the same in Pool and Partition
// (G-02).
Result<> DirectAccess::expose_ring(wire::HelloAck& ack) {
  const Core& core = session_.core();
  const memory::Ring& ring = partition_->ring();
  const auto slots = stream_.register_region({.memory = ring.slot_memory(),
                                              .access = Access::remote_read,
                                              .content = Content::words,
                                              .tagged_offset = kRingOffset});
  if (!slots) return unexpected(slots.error());
  const auto head = stream_.register_region({.memory = ring.head_memory(),
                                             .access = Access::remote_atomic,
                                             .content = Content::words,
                                             .tagged_offset = kHeadOffset});
  if (!head) return unexpected(head.error());
  const auto blocks = stream_.register_region(
      {.memory = core.pool.memory().subspan(partition_->offset() - core.pool.base(), partition_->length()),
       .access = Access::remote_write,
       .content = Content::shared,
       .tagged_offset = partition_->offset()});
  if (!blocks) return unexpected(blocks.error());
  ring_stag_ = slots->stag;
  head_stag_ = head->stag;
  partition_stag_ = blocks->stag;
  partition_->hand_out();
  tickets_.emplace(ring.head_ticket());

  ack.ring_log2 = static_cast<std::uint8_t>(ring.format().log2());
  ack.ring_stag = ring_stag_;
  ack.ring_offset = slots->tagged_offset;
  ack.head_stag = head_stag_;
  ack.head_offset = head->tagged_offset;
  ack.partition_stag = partition_stag_;
  ack.partition_offset = blocks->tagged_offset;
  ack.partition_length = blocks->length;
  ack.ticket_timeout_ms = static_cast<std::uint32_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(core.config.direct.ticket_timeout).count());
  return {};
}

// The end of the session, whose STags are revoked by now or will be with its stream: what is open is
// reclaimed by the next session's new ring (G-24).
DirectAccess::~DirectAccess() {
  if (timer_ != rdma::TimerId::none) session_.loop().cancel(timer_);
  if (tickets_) {
    const std::uint32_t head = partition_->ring().head_ticket();
    session_.core().tickets_abandoned.fetch_add(tickets_->count() + tickets_->unseen(head));
    session_.core().tickets_outstanding.fetch_sub(told_);
  }
  session_.core().direct_sessions.fetch_sub(1);
}

void DirectAccess::tell_count() {
  if (outstanding() == told_) return;
  // Modulo 2^64, so that a smaller count goes down.
  session_.core().tickets_outstanding.fetch_add(outstanding() - told_);
  told_ = outstanding();
}

void DirectAccess::look_at_head() {
  if (!tickets_) return;
  const std::uint32_t head = partition_->ring().head_ticket();
  if (tickets_->count() + tickets_->unseen(head) > most_tickets(session_.range().quota)) {
    peer_log(spdlog::level::warn, stream_.peer().to_string() + " takes tickets far past its quota");
    return session_.disconnect();
  }
  tickets_->see(head, session_.loop().now());
  tell_count();
}

void DirectAccess::own_ticket(std::uint32_t ticket) {
  look_at_head();
  if (tickets_) bound(ticket);
}

void DirectAccess::bound(std::uint32_t ticket) {
  tickets_->resolve(ticket);
  tell_count();
}

// G-28: the target's clock of a ticket starts when it first sees Head past it, so it never runs out before
// the initiator's; looks are a quarter of the timeout apart at most.
void DirectAccess::watch() {
  const Duration timeout = session_.core().config.direct.ticket_timeout;
  timer_ = session_.loop().call_at(session_.loop().now() + std::min(timeout / 4, kLongestLook),
                                   [this, held = session_.shared_from_this()] {
                                     timer_ = rdma::TimerId::none;
                                     look_at_head();
                                     expire();
                                   });
}

// KBTP 3.4: a ticket that is not bound within the Ticket Timeout is abandoned.
void DirectAccess::expire() {
  const Core& core = session_.core();
  const auto oldest = tickets_->oldest();
  if (!oldest || session_.loop().now() - *oldest < core.config.direct.ticket_timeout) return watch();
  peer_log(spdlog::level::info, stream_.peer().to_string() + " has not bound a ticket in time");
  // BINDs are refused before Writes are revoked: in between the slot would still match (docs/ring-model.md).
  abandoned_ = true;
  switch (core.config.direct.abandonment) {
    case Abandonment::end_connection:
      // No Write arrives once the stream is closed; only then is anything reclaimed.
      return session_.disconnect();
    case Abandonment::invalidate_partition:
      return give_up_tickets();
  }
}

// KBTP 3.4: no Write of the initiator may reach a block that is reclaimed. DIRECT_ALLOC is over for this
// session, so all its tickets are given up at once, over-taken ones too (G-29).
void DirectAccess::give_up_tickets() {
  for (const rdma::STag stag : {partition_stag_, ring_stag_, head_stag_}) stream_.revoke(stag);  // E-10
  memory::Ring& ring = partition_->ring();
  const std::uint32_t head = ring.head_ticket();  // moved for the last time by the initiator
  if (tickets_->count() + tickets_->unseen(head) > most_tickets(session_.range().quota))
    return session_.disconnect();
  tickets_->see(head, session_.loop().now());
  const auto given_up = tickets_->give_up();
  tickets_.reset();
  for (const std::uint32_t ticket : given_up) (void)ring.abandon(ticket);
  session_.core().tickets_abandoned.fetch_add(given_up.size());
  tell_count();
}

}  // namespace kbtp::target
