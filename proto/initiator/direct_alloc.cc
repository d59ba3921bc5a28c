#include "proto/initiator/direct_alloc.h"

#include <algorithm>
#include <utility>

namespace kbtp::initiator {

namespace {

constexpr Duration kFirstPause = std::chrono::microseconds(20);
constexpr Duration kLongestPause = std::chrono::milliseconds(1);

Outcome with_status(wire::Status status, std::string why) {
  Outcome outcome;
  outcome.answered = true;
  outcome.status = status;
  outcome.error = std::move(why);
  return outcome;
}

}  // namespace

void DirectAllocator::open(Duration operation_deadline) {
  usage_ = info_.usage;
  if (!info_.direct.alloc) {
    off_ = info_.features.direct_alloc
               ? "the target's counters need masked Atomics, which this side lacks (9.2)"
               : "the target does not grant DIRECT_ALLOC";
    return;
  }
  format_ = wire::CounterFormat(info_.direct.ring_log2, info_.direct.counters);
  // The last eighth is left for BIND's way to the target, whose own clock began later (G-28).
  ticket_time_ = std::min(info_.direct.ticket_timeout, operation_deadline) / 8 * 7;
}

void DirectAllocator::close() {
  turn_off("the session has ended");
  const auto waiting = std::exchange(waiting_, {});
}

std::optional<Outcome> DirectAllocator::objection(const Order& order) const {
  if (!off_.empty()) {
    Outcome outcome;
    outcome.direct = DirectFailure::unavailable;
    outcome.error = off_;
    return outcome;
  }
  // A BIND that must be refused would leave a ticket unbound.
  if (order.handle < info_.base_handle || order.handle - info_.base_handle >= info_.handles)
    return with_status(wire::Status::not_owner, "the handle lies outside of the own range");
  if (order.source.size() > info_.block_size)
    return with_status(wire::Status::length_error, "the data is longer than a block");
  return std::nullopt;
}

void DirectAllocator::allocate(Order order) {
  const auto allocation = std::make_shared<Allocation>();
  allocation->order = std::move(order);
  // Not from here: an allocation that ends at once ends after this call.
  loop_.post([this, allocation] {
    // Whoever waited for the probe after close() would keep the session alive for ever.
    if (!off_.empty()) return take_ticket(allocation);
    switch (probe_) {
      case Probe::passed:
        return take_ticket(allocation);
      case Probe::due:
        probe();
        [[fallthrough]];
      case Probe::sent:
        waiting_.push_back(allocation);
    }
  });
}

// G-36: an addition of 0 shows, before a ticket depends on it, that the target's RNIC knows atomics and that
// Head is what HELLO_ACK says.
void DirectAllocator::probe() {
  probe_ = Probe::sent;
  one_sided_.fetch_add(info_.direct.head, 0, format_.add_mask(), OneSided::Turn::begins,
                       [this](const OneSided::Ended& ended) {
                         probe_ = Probe::passed;
                         if (!counter(ended.original))
                           turn_off("Head does not hold a Ticket and its Slot Offset");
                         const auto waiting = std::exchange(waiting_, {});
                         for (const AllocationPtr& allocation : waiting) take_ticket(allocation);
                       });
}

std::optional<wire::Counter> DirectAllocator::counter(std::uint64_t word) const {
  const wire::Counter counter = format_.unpack(word);
  if (format_.pack(counter.ticket) != word) return std::nullopt;
  return counter;
}

void DirectAllocator::take_ticket(const AllocationPtr& allocation) {
  if (!off_.empty()) return end(allocation, DirectFailure::unavailable, off_);
  if (!spares_.empty()) {
    allocation->ticket = spares_.front();
    spares_.pop_front();
    return write_and_bind(allocation);
  }
  // G-49: FetchAdd cannot be refused, so that the quota is ours to keep (KBTP-3.4-04).
  if (usage_ >= info_.quota) {
    const Done finish = std::move(allocation->order.finish);
    host_.give_credit_back();
    return finish(with_status(wire::Status::no_space, "the quota is used up"));
  }
  charge();
  one_sided_.fetch_add(info_.direct.head, format_.add_data(), format_.add_mask(), OneSided::Turn::begins,
                       [this, allocation](const OneSided::Ended& ended) {
                         const auto taken = counter(ended.original);
                         if (!taken) {
                           turn_off("Head does not hold a Ticket and its Slot Offset");
                           return end(allocation, DirectFailure::target_lies, off_);
                         }
                         allocation->ticket.number = taken->ticket;
                         // G-28: the initiator's clock starts before the FetchAdd goes out.
                         allocation->ticket.leave_by = ended.posted + ticket_time_;
                         allocation->slot_offset = taken->slot_offset;
                         read_slot(allocation);
                       });
}

bool DirectAllocator::late(const AllocationPtr& allocation) {
  if (!off_.empty()) {
    end(allocation, DirectFailure::unavailable, off_);
    return true;
  }
  if (loop_.now() < allocation->ticket.leave_by) return false;
  // The target will abandon the ticket, and with it DIRECT_ALLOC (KBTP-3.4-11, G-29): a Write of another
  // ticket that meets the revoked Partition STag would cost the connection (E-10).
  turn_off("ticket " + std::to_string(allocation->ticket.number) +
           " was not bound within the Ticket Timeout");
  end(allocation, DirectFailure::ticket_timeout, off_);
  return true;
}

void DirectAllocator::read_slot(const AllocationPtr& allocation) {
  if (late(allocation)) return;
  const rdma::RemoteBuffer slot{info_.direct.ring.stag,
                                info_.direct.ring.tagged_offset + allocation->slot_offset};  // E-8
  one_sided_.read(allocation->buffer, slot, OneSided::Turn::goes_on,
                  [this, allocation](const OneSided::Ended&) { judge_slot(allocation); });
}

// 6.6, G-33: a Read of 16 octets is not atomic, so that a slot counts once two Reads, the second posted after
// the first was answered (RFC 5040 5.5 rule 20), have shown the same Sequence and Block Offset.
void DirectAllocator::judge_slot(const AllocationPtr& allocation) {
  const wire::Slot slot = wire::decode_slot(allocation->buffer);
  if (!slot.ready_for(allocation->ticket.number)) {
    allocation->seen.reset();
    allocation->pause = std::clamp(allocation->pause * 2, kFirstPause, kLongestPause);
    loop_.call_at(loop_.now() + allocation->pause, [this, allocation] { read_slot(allocation); });
    return;
  }
  if (allocation->seen != slot) {
    allocation->seen = slot;
    return read_slot(allocation);
  }
  const DirectInfo& direct = info_.direct;
  if (slot.block_offset < direct.partition.tagged_offset ||
      slot.block_offset - direct.partition.tagged_offset > direct.partition_length - info_.block_size) {
    turn_off("a ring slot's Block Offset lies outside of the partition");
    return end(allocation, DirectFailure::target_lies, off_);
  }
  allocation->ticket.block_offset = slot.block_offset;
  write_and_bind(allocation);
}

// The order on the stream is what makes it safe (KBTP-6.6-09): when BIND is delivered, the octets of a Write
// posted before it are in place (RFC 5040 5.5 rules 5 and 10). The Write's own completion says nothing of the
// kind (rule 9); it only gives the source back.
void DirectAllocator::write_and_bind(const AllocationPtr& allocation) {
  if (late(allocation)) return;
  const Order& order = allocation->order;
  wire::Bind bind;
  bind.head.handle = order.handle;
  bind.head.generation = order.options.generation;
  bind.ticket = allocation->ticket.number;
  bind.data_length = static_cast<std::uint32_t>(order.source.size());
  bind.block_offset = allocation->ticket.block_offset;
  bind.seal = order.options.seal;
  std::optional<rdma::Write> write;
  allocation->written = order.source.empty();
  if (!order.source.empty()) {
    const rdma::RemoteBuffer block{info_.direct.partition.stag, allocation->ticket.block_offset};
    write = one_sided_.write(order.source, block, [this, allocation](const OneSided::Ended&) {
      allocation->written = true;
      bound(allocation);
    });
  }
  host_.bind(std::move(write), bind, [this, allocation](const Outcome& outcome) {
    if (!outcome.answered) return;  // the session has ended, which answers the order
    allocation->bound = outcome;
    bound(allocation);
  });
}

void DirectAllocator::bound(const AllocationPtr& allocation) {
  if (!allocation->written || !allocation->bound) return;
  const Outcome outcome = std::move(*allocation->bound);
  const Done finish = std::move(allocation->order.finish);
  switch (outcome.status) {
    case wire::Status::success:
      break;
    case wire::Status::ticket_abandoned:
      discharge();  // 3.4: reclaimed
      turn_off("the target has abandoned a ticket");
      break;
    case wire::Status::invalid_ticket:
    case wire::Status::access_denied:
      turn_off("the target refused the BIND of a ticket that it had given, with " +
               std::string(wire::to_string(outcome.status)));
      break;
    case wire::Status::invalid_request:
    case wire::Status::unsupported_version:
    case wire::Status::unsupported_opcode:
    case wire::Status::no_such_handle:
    case wire::Status::not_owner:
    case wire::Status::not_bound:
    case wire::Status::already_bound:
    case wire::Status::not_sealed:
    case wire::Status::sealed:
    case wire::Status::generation_mismatch:
    case wire::Status::length_error:
    case wire::Status::no_space:
    case wire::Status::no_resources:
    case wire::Status::target_error:
    case wire::Status::unassigned:
      spares_.push_back(allocation->ticket);  // G-30: the ticket keeps its state
      break;
  }
  finish(outcome);
}

// Before BIND: the ticket, if there is one, stays charged.
void DirectAllocator::end(const AllocationPtr& allocation, DirectFailure failure, const std::string& why) {
  Outcome outcome;
  outcome.direct = failure;
  outcome.error = why;
  const Done finish = std::move(allocation->order.finish);
  host_.give_credit_back();
  finish(outcome);
}

void DirectAllocator::turn_off(const std::string& why) {
  if (off_.empty()) off_ = why;
  spares_.clear();
}

}  // namespace kbtp::initiator
