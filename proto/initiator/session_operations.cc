// Operations of an open session: from the caller's wish to the target's completion.

#include <algorithm>
#include <utility>

#include "proto/initiator/session_impl.h"

namespace kbtp::initiator {

namespace {

wire::DataDescriptor descriptor(const Slice& slice) {
  return {slice.remote.stag, slice.remote.tagged_offset, static_cast<std::uint32_t>(slice.memory.size())};
}

wire::StoreBody store_body(const Slice& source, const StoreOptions& options) {
  wire::StoreBody body;
  body.source = descriptor(source);
  body.seal = options.seal;
  body.invalidate = options.invalidate;
  return body;
}

wire::StoreBody inline_body(Octets data, const StoreOptions& options) {
  wire::StoreBody body;
  body.inline_data = data;
  body.seal = options.seal;
  return body;
}

wire::RequestHead head(std::uint64_t handle, std::uint16_t generation) {
  wire::RequestHead head;
  head.handle = handle;
  head.generation = generation;
  return head;
}

}  // namespace

Result<Buffer> SessionImpl::register_buffer(std::span<std::byte> memory, BufferUse use,
                                            bool remote_invalidate) {
  if (stream_ == nullptr) return failure("the session has ended");
  rdma::RegionSpec spec;
  spec.memory = memory;
  switch (use) {
    case BufferUse::load:
      spec.access = rdma::Access::remote_write;
      break;
    case BufferUse::store:
      spec.access = rdma::Access::remote_read;
      // The caller leaves a source alone until its operation has ended, when it serves for nothing else.
      spec.content = rdma::Content::stable;
      break;
    case BufferUse::load_and_store:
      spec.access = rdma::Access::remote_write | rdma::Access::remote_read;
      break;
  }
  spec.remote_invalidate = remote_invalidate;
  const auto region = stream_->register_region(spec);
  if (!region) return unexpected(region.error());
  return Buffer{*region, memory};
}

void SessionImpl::unregister_buffer(const Buffer& buffer) {
  if (stream_ != nullptr) stream_->revoke(buffer.region.stag);
}

void SessionImpl::load(std::uint64_t handle, const Slice& sink, const LoadOptions& options, Done done) {
  wire::Load load;
  load.head = head(handle, options.generation);
  load.destination = descriptor(sink);
  load.invalidate = options.invalidate;
  load.allow_unsealed = options.allow_unsealed;
  submit(load, std::move(done));
}

void SessionImpl::probe(std::uint64_t handle, Done done) {
  load(handle, {}, {.allow_unsealed = true}, std::move(done));
}

void SessionImpl::store(std::uint64_t handle, const Slice& source, const StoreOptions& options, Done done) {
  submit(wire::Store{head(handle, options.generation), store_body(source, options)}, std::move(done));
}

void SessionImpl::alloc_store(std::uint64_t handle, const Slice& source, const StoreOptions& options,
                              Done done) {
  submit(wire::AllocStore{head(handle, options.generation), store_body(source, options)}, std::move(done));
}

void SessionImpl::store_inline(std::uint64_t handle, Octets data, const StoreOptions& options, Done done) {
  submit(wire::Store{head(handle, options.generation), inline_body(data, options)}, std::move(done));
}

void SessionImpl::alloc_store_inline(std::uint64_t handle, Octets data, const StoreOptions& options,
                                     Done done) {
  submit(wire::AllocStore{head(handle, options.generation), inline_body(data, options)}, std::move(done));
}

void SessionImpl::free(std::uint64_t handle, std::uint16_t generation, Done done) {
  submit(wire::Free{head(handle, generation), {}}, std::move(done));
}

Outcome SessionImpl::ended() const {
  Outcome outcome;
  outcome.error = failure_.empty() ? "the session has ended" : failure_;
  return outcome;
}

void SessionImpl::answer_later(const Outcome& outcome, Done done) {
  later_.emplace_back(outcome, std::move(done));
  loop_.post([self = shared_from_this()] {
    if (!self->later_.empty()) self->tell_oldest();  // else the session's end has told it
  });
}

void SessionImpl::tell_oldest() {
  const auto [outcome, done] = std::move(later_.front());
  later_.pop_front();
  done(outcome);
}

void SessionImpl::submit(const wire::Request& request, Done done) {
  if (state_ != State::open) return answer_later(ended(), std::move(done));
  const std::uint64_t request_id = next_request_id_++;
  wire::Request numbered = request;
  std::visit([&](auto& r) { r.head.request_id = request_id; }, numbered);
  Pending pending = pending_for(numbered, std::move(done));
  if (pending.opcode == wire::Opcode::alloc_store) allocator_.charge();
  enqueue(request_id, std::move(pending));
}

SessionImpl::Pending SessionImpl::pending_for(const wire::Request& request, Done done) const {
  Pending pending;
  pending.opcode = wire::opcode(request);
  if (const auto* load = std::get_if<wire::Load>(&request)) pending.sink_length = load->destination.length;
  pending.may_invalidate = wire::stag_to_invalidate(request);
  pending.done = std::move(done);
  wire::Request sent = request;
  // E-11: a record cannot invalidate. Its slot is chosen when the request is sent.
  pending.wants_record = records_.is_open() && !pending.may_invalidate;
  if (pending.wants_record) wire::ask_for_record(sent, {});
  pending.message = wire::encode(sent, options_.assignment);
  return pending;
}

void SessionImpl::enqueue(std::uint64_t id, Pending pending) {
  queue_.emplace_back(id, std::move(pending));
  watch(id);
  send_queued();
}

// G-06: at most Max Requests without a completion.
bool SessionImpl::has_credit_for(const Pending& pending) const {
  std::size_t used = outstanding_.size() + held_credits_;
  // docs/ring-model.md: an ALLOC_STORE may wait for the slot of an unbound ticket, so that the credit for its
  // BIND is not lent out.
  if (!pending.begin && allocator_.holds_spare_ticket() && info_.max_requests > 1) ++used;
  return used < info_.max_requests;
}

void SessionImpl::send_queued() {
  while (!queue_.empty() && stream_ != nullptr && has_credit_for(queue_.front().second)) {
    auto [id, pending] = std::move(queue_.front());
    queue_.pop_front();
    if (pending.begin) {
      ++held_credits_;
      pending.begin();
    } else {
      send(id, std::move(pending), {});
    }
  }
}

void SessionImpl::send(std::uint64_t request_id, Pending pending, std::optional<rdma::Write> write) {
  if (pending.wants_record) {
    pending.record = records_.take(request_id);
    wire::set_record(pending.message, pending.opcode, records_.descriptor(*pending.record),
                     options_.assignment);
  }
  std::vector<rdma::WorkRequest> requests;
  if (write) requests.emplace_back(std::move(*write));
  requests.emplace_back(rdma::Send{0, std::move(pending.message), false, {}});
  outstanding_.emplace(request_id, std::move(pending));
  stream_->post_receives(1);  // for its completion, before it can come (G-06)
  stream_->post(std::move(requests));
}

void SessionImpl::watch(std::uint64_t id) {
  deadlines_.emplace_back(loop_.now() + options_.operation_deadline, id);
  if (deadline_timer_ == rdma::TimerId::none) watch_deadlines();
}

void SessionImpl::watch_deadlines() {
  deadline_timer_ = rdma::TimerId::none;
  const auto unanswered = [this](std::uint64_t id) {
    return outstanding_.contains(id) || direct_.contains(id) ||
           std::any_of(queue_.begin(), queue_.end(), [id](const auto& queued) { return queued.first == id; });
  };
  while (!deadlines_.empty()) {
    const auto [deadline, request_id] = deadlines_.front();
    if (deadline > loop_.now()) {
      deadline_timer_ = loop_.call_at(deadline, [self = shared_from_this()] { self->watch_deadlines(); });
      return;
    }
    deadlines_.pop_front();
    if (unanswered(request_id)) return fail("the target did not answer an operation in time");
  }
}

void SessionImpl::on_received(const rdma::Received& received) {
  switch (state_) {
    case State::hello_sent:
      if (received.immediate || received.invalidated)
        return fail("the target's first message is no HELLO_ACK");
      return handle_hello_ack(received.payload);
    case State::open:
    case State::closing:
      return handle_completion(received);
    case State::connecting:
    case State::failed:
    case State::closed:
      return;
  }
}

void SessionImpl::handle_completion(const rdma::Received& received) {
  if (received.immediate) return handle_record(static_cast<std::uint32_t>(*received.immediate));
  const auto completion =
      wire::decode_completion(received.payload, options_.assignment, wire::Lengths::lenient);
  if (!completion) return fail("the target sent no proper COMPLETION: " + completion.error().to_string());
  const auto found = outstanding_.find(completion->request_id);
  if (found == outstanding_.end()) return fail("the target completed a Request ID that is not outstanding");
  // RFC 5042 6.2.2: only the STag of this very request may have been invalidated (G-12).
  if (received.invalidated && received.invalidated != found->second.may_invalidate) {
    return fail("the target invalidated an STag that the request did not name");
  }
  end_operation({completion->request_id, completion->status, completion->generation, completion->data_length,
                 completion->block_offset, received.invalidated});
}

// KBTP 9.2: an RDMA Write with Immediate has used up a receive, so that a record is in its slot.
void SessionImpl::handle_record(std::uint32_t immediate) {
  if (!records_.is_open()) return fail("the target sent Immediate Data, which this session has no use for");
  std::optional<wire::CompletionRecord> record;
  const auto look = [&](const auto& request) {
    if (record || !request.second.record) return;
    record = records_.read(*request.second.record, request.first, options_.assignment);
  };
  // G-42: the low half of the Request ID, where the target does as we propose; else all slots are looked at.
  for (const auto& request : outstanding_) {
    if (static_cast<std::uint32_t>(request.first) == immediate) look(request);
  }
  if (!record) std::ranges::for_each(outstanding_, look);
  if (!record) return fail("the target wrote with an immediate, and no completion record is there");
  end_operation({record->request_id,
                 record->status,
                 record->generation,
                 record->data_length,
                 record->block_offset,
                 {}});
}

void SessionImpl::end_operation(const Ending& ending) {
  const auto found = outstanding_.find(ending.request_id);
  const bool succeeded = ending.status == wire::Status::success;
  if (succeeded && found->second.sink_length && ending.data_length > *found->second.sink_length)
    return fail("the target says that it wrote more octets than the LOAD's buffer has");
  const Pending pending = std::move(found->second);
  outstanding_.erase(found);
  if (pending.record) records_.give_back(*pending.record);
  if (pending.opcode == wire::Opcode::free ? succeeded
                                           : pending.opcode == wire::Opcode::alloc_store && !succeeded)
    allocator_.discharge();

  Outcome outcome;
  outcome.answered = true;
  outcome.status = ending.status;
  outcome.generation = ending.generation;
  outcome.data_length = ending.data_length;
  outcome.block_offset = ending.block_offset;
  if (pending.may_invalidate) {
    // G-12: a plain Send leaves it to us.
    if (!ending.invalidated && *pending.may_invalidate != 0) stream_->revoke(*pending.may_invalidate);
    outcome.invalidated = true;
  }
  send_queued();
  pending.done(outcome);
  close_when_idle();
}

void SessionImpl::on_completion(const rdma::Completion& completion) {
  // What was flushed ends with the stream; on_closed() tells its operations.
  if (completion.status == rdma::WorkStatus::bad_request) fail("the provider refused to send a request");
  if (completion.id != 0) one_sided_.on_completion(completion);
}

}  // namespace kbtp::initiator
