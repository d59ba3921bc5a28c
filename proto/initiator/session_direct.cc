// The direct modes of a session (6.6): what lies between Session and the operations.

#include <utility>

#include "proto/initiator/direct_load.h"
#include "proto/initiator/session_impl.h"

namespace kbtp::initiator {

void SessionImpl::direct_load(std::uint64_t handle, std::span<std::byte> sink,
                              const DirectLoadOptions& options, Done done) {
  if (state_ != State::open) return answer_later(ended(), std::move(done));
  if (!info_.direct.load) {
    Outcome outcome;
    outcome.direct = DirectFailure::unavailable;
    outcome.error = "the target does not grant DIRECT_LOAD";
    return answer_later(outcome, std::move(done));
  }
  const std::uint64_t id = begin_direct(std::move(done));
  watch(id);
  std::make_shared<DirectLoad>(
      one_sided_, loop_, info_, handle, sink, options,
      [self = shared_from_this(), id](const Outcome& outcome) { self->finish_direct(id, outcome); })
      ->start();
}

void SessionImpl::direct_alloc_store(std::uint64_t handle, Octets source, const DirectStoreOptions& options,
                                     Done done) {
  if (state_ != State::open) return answer_later(ended(), std::move(done));
  DirectAllocator::Order order{handle, source, options, {}};
  if (const auto objection = allocator_.objection(order)) return answer_later(*objection, std::move(done));
  const std::uint64_t id = begin_direct(std::move(done));
  order.finish = [self = shared_from_this(), id](const Outcome& outcome) {
    self->finish_direct(id, outcome);
  };
  // It waits for a credit like every request, and keeps it until BIND is answered.
  Pending pending;
  pending.opcode = wire::Opcode::bind;
  pending.begin = [this, order = std::move(order)] { allocator_.allocate(order); };
  enqueue(id, std::move(pending));
}

std::uint64_t SessionImpl::begin_direct(Done done) {
  const std::uint64_t id = next_request_id_++;  // of a Request ID's kind, never on the wire
  direct_.emplace(id, std::move(done));
  return id;
}

void SessionImpl::finish_direct(std::uint64_t id, const Outcome& outcome) {
  const auto found = direct_.find(id);
  if (found == direct_.end()) return;  // the session's end has answered it
  const Done done = std::move(found->second);
  direct_.erase(found);
  done(outcome);
  close_when_idle();
}

void SessionImpl::bind(std::optional<rdma::Write> write, const wire::Bind& bind, Done done) {
  if (state_ != State::open && state_ != State::closing) return;  // the session's end answers
  --held_credits_;
  const std::uint64_t request_id = next_request_id_++;
  wire::Bind numbered = bind;
  numbered.head.request_id = request_id;
  watch(request_id);
  send(request_id, pending_for(numbered, std::move(done)), std::move(write));
}

void SessionImpl::give_credit_back() {
  --held_credits_;
  loop_.post([self = shared_from_this()] { self->send_queued(); });
}

}  // namespace kbtp::initiator
