#include "proto/target/session.h"

#include <algorithm>
#include <cstdlib>
#include <string>
#include <utility>

#include "base/fault.h"
#include "base/log.h"
#include "proto/target/handlers.h"

namespace kbtp::target {

namespace {

/// Handles looked at, and octets cleared, in one turn of the loop while a range is given back.
constexpr std::uint64_t kReclaimHandles = 4096;
constexpr std::uint64_t kReclaimOctets = std::uint64_t{4} << 20;

/// One bound handle of a range that ends with its session.
class Reclaim final : public Work {
 public:
  Reclaim(std::shared_ptr<Session> session, std::uint64_t handle)
      : session_(std::move(session)), handle_(handle) {}
  [[nodiscard]] rdma::Loop& loop() override { return session_->loop(); }
  void turn() override { session_->reclaim_handle(handle_); }

 private:
  std::shared_ptr<Session> session_;
  std::uint64_t handle_;
};

}  // namespace

std::uint32_t Session::receive_size() const {
  // G-07: 256 octets before HELLO_ACK, then the longest request.
  const std::size_t longest = wire::kHeaderSize + wire::kDataDescriptorSize +
                              wire::kCompletionDescriptorSize + core_->config.max_inline;
  return static_cast<std::uint32_t>(std::max(wire::kInitialReceiveSize, longest));
}

bool Session::sees(std::uint64_t handle) const {
  if (owns(handle)) return true;
  const auto range = core_->ranges.find(handle);
  return range != nullptr && (range->domain == domain_ || fault(Fault::foreign_domain_visible));
}

void Session::on_open(rdma::Stream& stream, Octets) {
  stream_ = &stream;
  if (state_ != State::connecting) return close_when_idle();  // drained meanwhile
  state_ = State::wait_hello;
  hello_timer_ = loop_.call_at(loop_.now() + core_->config.deadlines.hello, [self = shared_from_this()] {
    self->hello_timer_ = rdma::TimerId::none;
    if (self->state_ == State::wait_hello) self->disconnect();
  });
}

void Session::on_received(const rdma::Received& received) {
  switch (state_) {
    case State::wait_hello:
      if (received.immediate) return disconnect();
      return handle_hello(received.payload);
    case State::open:
      // P-21: neither Immediate Data nor an empty Send is a request.
      if (received.immediate || received.payload.empty()) return disconnect();
      return handle_request(received.payload);
    case State::hello_waits:  // a request before HELLO_ACK (G-05)
      return disconnect();
    case State::connecting:
    case State::drain:
    case State::closed:
      return;
  }
}

void Session::handle_request(Octets payload) {
  // G-15 steps 1 to 6
  const auto request = wire::decode_request(payload, granted_, core_->config.assignment);
  if (!request) {
    const wire::WireError& error = request.error();
    if (fault(Fault::stray_message_ignored) && error.disconnects()) return;
    if (fault(Fault::hello_order_ignored) && error.disconnects()) return;
    if (fault(Fault::unknown_opcode_ignored) && error.status == wire::Status::unsupported_opcode) return;
    if (error.disconnects() || !error.header) {
      peer_log(spdlog::level::warn, stream_->peer().to_string() + " sent no request: " + error.to_string());
      return disconnect();
    }
    return answer_at_once(*error.header, *error.status, nullptr);
  }
  const wire::RequestHead& head = wire::head(*request);
  wire::Header header;
  header.opcode = core_->config.assignment.code(wire::opcode(*request));
  header.request_id = head.request_id;
  header.handle = head.handle;
  // G-15 step 7: the second of two requests with one Request ID is answered at once (P-22).
  if (operations_.contains(head.request_id)) {
    return answer_at_once(header, wire::Status::invalid_request, &*request);
  }
  // Step 8 belongs to check(), but nobody stands in line for a handle that he cannot see.
  if (!sees(head.handle)) {
    return answer_at_once(header, wire::Status::no_such_handle, &*request);
  }
  const auto operation = Operation::make(shared_from_this(), *request);
  operations_.emplace(head.request_id, operation);
  if (core_->queue.enter(head.handle, operation)) {
    operation->turn();
  } else {
    operation->keep_inline_data();
  }
}

void Session::read(const std::shared_ptr<Operation>& operation, std::uint64_t block_offset,
                   const wire::DataDescriptor& source) {
  posted_.push_back({Posted::Kind::read, {}, operation, loop_.now()});
  std::vector<rdma::WorkRequest> requests;
  rdma::RemoteBuffer from{source.stag, source.tagged_offset};
  if (fault(Fault::store_reads_beside_descriptor)) from.tagged_offset += 4;
  requests.emplace_back(rdma::Read{.id = next_work_++,
                                   .sink = core_->pool.block(block_offset).first(source.length),
                                   .source = from,
                                   .shared_sink = core_->shared(block_offset)});
  stream_->post(std::move(requests));
  if (read_timer_ == rdma::TimerId::none) watch_reads();
}

void Session::watch_reads() {
  read_timer_ = rdma::TimerId::none;
  if (stream_ == nullptr) return;
  const auto oldest = std::find_if(posted_.begin(), posted_.end(),
                                   [](const Posted& posted) { return posted.kind == Posted::Kind::read; });
  if (oldest == posted_.end()) return;
  const TimePoint deadline = oldest->since + core_->config.deadlines.read;
  if (deadline <= loop_.now()) return stream_->abort("an RDMA Read was not answered in time");
  read_timer_ = loop_.call_at(deadline, [self = shared_from_this()] { self->watch_reads(); });
}

bool Session::try_pin(std::uint64_t block_offset) {
  if (!core_->try_pin(pins_)) return false;
  ++pins_;
  core_->pins.pin(*core_->pool.number_of(block_offset));
  return true;
}

void Session::on_completion(const rdma::Completion& completion) {
  if (posted_.empty() || completion.id != oldest_work_) {
    // The provider has broken the seam's promise; going on would unpin the wrong block.
    spdlog::critical("a provider completed work out of order");
    std::abort();
  }
  ++oldest_work_;
  const Posted posted = std::move(posted_.front());
  posted_.pop_front();
  if (posted.pinned_block) {
    --pins_;
    core_->unpin();
    core_->pins.unpin(*core_->pool.number_of(*posted.pinned_block));
  }
  if (posted.operation != nullptr) posted.operation->on_read(completion.status);
}

std::uint64_t Session::tickets_outstanding() {
  if (direct_ == nullptr) return 0;
  direct_->look_at_head();
  return direct_->outstanding();
}

void Session::disconnect() {
  if (state_ == State::drain || state_ == State::closed) return;
  state_ = State::drain;
  if (!counted_open_ && !claimed_) only_ending_ = true;
  drain_timer_ = loop_.call_at(loop_.now() + core_->config.deadlines.drain, [self = shared_from_this()] {
    self->drain_timer_ = rdma::TimerId::none;
    if (self->stream_ != nullptr) self->stream_->abort("the session did not end in time");
  });
  close_when_idle();
}

void Session::shed() {
  disconnect();
  if (stream_ != nullptr) stream_->abort("its place was needed");
}

void Session::supersede(std::function<void()> gone) {
  if (finished_) return gone();
  when_gone_.push_back(std::move(gone));
  disconnect();
  // The newer session is not kept waiting for an old peer that may be dead: what it still owes is flushed.
  if (stream_ != nullptr && !std::exchange(close_called_, true))
    stream_->close(core_->config.deadlines.linger);
}

void Session::close_when_idle() {
  if (state_ != State::drain || stream_ == nullptr || !operations_.empty()) return;
  if (!std::exchange(close_called_, true)) stream_->close(core_->config.deadlines.linger);
}

void Session::on_closed(const rdma::CloseReason& reason) {
  if (reason.kind == rdma::CloseReason::Kind::local_error && stream_ != nullptr) {
    peer_log(spdlog::level::warn, stream_->peer().to_string() + ": " + reason.text);
  }
  // The provider may still stand in its call when this session has forgotten itself.
  loop_.post([self = shared_from_this()] {});
  state_ = State::closed;
  stream_ = nullptr;
  direct_.reset();
  for (rdma::TimerId* timer : {&hello_timer_, &read_timer_, &drain_timer_}) {
    if (*timer != rdma::TimerId::none) loop_.cancel(*timer);
    *timer = rdma::TimerId::none;
  }
  std::vector<std::shared_ptr<Operation>> left;
  for (const auto& [id, operation] : operations_) left.push_back(operation);
  for (const auto& operation : left) operation->on_session_closed();
  finish_when_idle();
}

void Session::drop(Operation& operation) {
  operations_.erase(operation.head().request_id);
  if (state_ == State::closed) return finish_when_idle();
  close_when_idle();
}

void Session::finish_when_idle() {
  if (finished_ || state_ != State::closed || !operations_.empty()) return;
  finished_ = true;
  if (range_ != nullptr && !range_->persistent) {
    reclaim();
  } else {
    gone();
  }
}

// G-24: the blocks of a range that is private to the session are freed, and cleared, when it ends.
void Session::reclaim() {
  std::uint64_t octets = 0;
  for (std::uint64_t looked_at = 0; reclaimed_to_ < range_->count; ++looked_at) {
    if (core_->quotas.usage(range_->owner) == 0) reclaimed_to_ = range_->count;
    if (looked_at == kReclaimHandles || octets >= kReclaimOctets) {
      loop_.post([self = shared_from_this()] { self->reclaim(); });
      return;
    }
    if (reclaimed_to_ == range_->count) break;
    const std::uint64_t handle = range_->base + reclaimed_to_++;
    if (!core_->table.read(handle).valid()) continue;
    octets += core_->config.block_size;
    ++reclaiming_;
    if (core_->queue.enter(handle, std::make_shared<Reclaim>(shared_from_this(), handle)))
      reclaim_handle(handle);
  }
  if (reclaiming_ == 0) gone();
}

void Session::reclaim_handle(std::uint64_t handle) {
  const wire::TableEntry entry = core_->table.read(handle);
  unbind(*core_, handle, entry, true);
  core_->return_unit(range_->owner);
  core_->queue.leave(handle);
  if (--reclaiming_ == 0 && reclaimed_to_ == range_->count) gone();
}

void Session::gone() {
  if (std::exchange(gone_called_, true)) return;
  if (range_ != nullptr) {
    if (claimed_) core_->ranges.release(*range_);
    if (!range_->persistent) {
      core_->ranges.close(*range_);
      core_->quotas.close(range_->owner);
    }
  }
  core_->session_gone(shared_from_this(), counted_open_);
  for (auto& call : std::exchange(when_gone_, {})) call();
}

}  // namespace kbtp::target
