// From the connection to HELLO_ACK, and the end of a session.

#include <algorithm>
#include <utility>

#include "base/random.h"
#include "proto/initiator/direct_info.h"
#include "proto/initiator/session_impl.h"
#include "proto/wire/hello.h"

namespace kbtp::initiator {

namespace {

constexpr std::uint32_t kMostRecords = 4096;

ConnectPhase phase_of(const rdma::CloseReason& reason) {
  switch (reason.phase) {
    case rdma::Phase::tcp:
      return ConnectPhase::tcp;
    case rdma::Phase::mpa:
      return ConnectPhase::mpa;
    case rdma::Phase::open:
      return ConnectPhase::hello;
  }
  return ConnectPhase::hello;
}

}  // namespace

SessionImpl::SessionImpl(rdma::Provider& provider, ConnectOptions options, Connected connected)
    : provider_(provider),
      options_(std::move(options)),
      connected_(std::move(connected)),
      loop_(provider.loop(options_.loop_index)),
      next_request_id_(random_u64()),
      one_sided_(loop_),
      allocator_(*this, one_sided_, loop_, info_) {}

void SessionImpl::start() {
  self_ = shared_from_this();
  rdma::StreamOptions stream;
  stream.domain = provider_.create_domain();        // streams of one process share no STags
  stream.receive_size = wire::kInitialReceiveSize;  // G-07
  stream.initial_receives = 1;                      // for HELLO_ACK; each request adds its own (G-06)
  stream.ird = options_.ird;
  stream.ord = options_.ord;
  stream.setup_deadline = options_.setup_deadline;
  stream.send_deadline = options_.send_deadline;
  provider_.connect(options_.address, options_.loop_index, stream, *this);
}

void SessionImpl::on_open(rdma::Stream& stream, Octets) {
  stream_ = &stream;
  state_ = State::hello_sent;
  hello_timer_ = loop_.call_at(loop_.now() + options_.hello_deadline, [self = shared_from_this()] {
    self->hello_timer_ = rdma::TimerId::none;
    if (self->state_ == State::hello_sent) self->fail("the target did not answer HELLO in time");
  });
  // A mode that our own RNIC has no operations for is not asked for (G-35, 9.1).
  const rdma::Capabilities& own = stream.capabilities();
  wanted_ = options_.wanted;
  wanted_.direct_load = wanted_.direct_load && own.ord > 0;
  wanted_.direct_alloc = wanted_.direct_alloc && own.ord > 0 && own.atomics != rdma::Atomics::none;
  wanted_.atomic_unmasked =
      wanted_.direct_alloc && (wanted_.atomic_unmasked || own.atomics == rdma::Atomics::plain);
  // 6.5: it is here that records become visible.
  wanted_.record_completion =
      wanted_.record_completion && own.write_immediate && own.ordered_write_visibility;
  wire::Hello hello;
  hello.wanted = wanted_;
  hello.request_id = next_request_id_++;
  hello.base_handle = options_.base_handle.value_or(wire::kNoBaseHandle);
  hello.max_requests = options_.max_requests;
  hello.receive_size = wire::kInitialReceiveSize;
  hello.quota = options_.quota;
  hello.handle_count = options_.handles;
  hello.identity = options_.identity;
  std::vector<rdma::WorkRequest> requests;
  requests.emplace_back(rdma::Send{0, wire::encode(hello, options_.assignment), false, {}});
  stream.post(std::move(requests));
  if (options_.nudge_after > Duration{}) nudge_later(options_.nudge_after);
}

void SessionImpl::nudge_later(Duration wait) {
  nudge_timer_ = loop_.call_at(loop_.now() + wait, [self = shared_from_this(), wait] {
    self->nudge_timer_ = rdma::TimerId::none;
    if (self->state_ != State::hello_sent) return;
    std::vector<rdma::WorkRequest> nothing;
    nothing.emplace_back(rdma::Write{});  // no octets: nobody looks at its STag (RFC 5041 5.2)
    self->stream_->post(std::move(nothing));
    self->nudge_later(wait * 2);
  });
}

void SessionImpl::handle_hello_ack(Octets payload) {
  const auto ack = wire::decode_hello_ack(payload, options_.assignment);
  if (!ack) return fail("the target's answer to HELLO is malformed: " + ack.error().to_string());
  if (ack->request_id != next_request_id_ - 1)
    return fail("HELLO_ACK answers another Request ID than HELLO's");
  if (ack->status != wire::Status::success) {
    std::string text = "the target refused HELLO with " + std::string(wire::to_string(ack->status));
    if (ack->status == wire::Status::unsupported_version) {
      text += "; it speaks versions " + std::to_string(ack->min_version) + " to " +
              std::to_string(ack->max_version);
    }
    fail_connect({ConnectPhase::hello, ack->status, text});
    return fail(text);
  }
  if (ack->version != wire::kVersion) return fail("the target chose a version that was not offered");
  if (ack->max_requests == 0 || ack->block_size == 0)
    return fail("HELLO_ACK grants no credit or no Block Size");
  info_.base_handle = ack->base_handle;
  info_.handles = ack->handle_count;
  info_.quota = ack->quota;
  info_.usage = ack->usage;
  info_.block_size = ack->block_size;
  info_.blocks = ack->pool_blocks;
  info_.max_requests = ack->max_requests;
  info_.max_inline = ack->max_inline;
  info_.features = ack->granted;
  if (ack->granted.record_completion) {
    if (!wanted_.record_completion)
      return fail("HELLO_ACK grants RECORD_COMPLETION, which was not asked for");
    // Each credit that is used needs a slot, and how many there are is not the target's to say.
    info_.max_requests = std::min(info_.max_requests, kMostRecords);
    if (const auto opened = records_.open(*stream_, info_.max_requests); !opened)
      return fail(opened.error().text);
  }
  auto direct = direct_info(*ack, wanted_, stream_->capabilities().atomics);
  if (!direct) return fail(direct.error().text);
  info_.direct = *direct;
  one_sided_.open(*stream_);
  allocator_.open(options_.operation_deadline);
  cancel_timers({&hello_timer_, &nudge_timer_});
  state_ = State::open;
  if (auto connected = std::exchange(connected_, {})) connected(std::static_pointer_cast<Session>(self_));
}

void SessionImpl::cancel_timers(std::initializer_list<rdma::TimerId*> timers) {
  for (rdma::TimerId* timer : timers) {
    if (*timer != rdma::TimerId::none) loop_.cancel(*timer);
    *timer = rdma::TimerId::none;
  }
}

void SessionImpl::fail_connect(ConnectError error) {
  if (auto connected = std::exchange(connected_, {})) connected(unexpected(std::move(error)));
}

void SessionImpl::fail(const std::string& why) {
  if (state_ == State::failed || state_ == State::closed) return;
  state_ = State::failed;
  failure_ = why;
  one_sided_.stop();
  if (stream_ != nullptr) stream_->abort(why);
}

void SessionImpl::abort(std::string why) { fail(why); }

void SessionImpl::close() {
  if (state_ != State::open) return;
  state_ = State::closing;
  close_when_idle();
}

void SessionImpl::close_when_idle() {
  if (state_ != State::closing || !is_idle() || stream_ == nullptr) return;
  if (!std::exchange(close_called_, true)) stream_->close(std::chrono::seconds(1));
}

bool SessionImpl::is_idle() const { return outstanding_.empty() && queue_.empty() && direct_.empty(); }

void SessionImpl::on_peer_finished() {
  // A target that finishes first has ended the session; nothing that is outstanding will be answered.
  if (state_ == State::open || state_ == State::closing) {
    if (is_idle()) {
      state_ = State::closing;
      return close_when_idle();
    }
    fail("the target ended the session");
  } else if (state_ == State::hello_sent) {
    fail("the target ended the session before HELLO_ACK");
  }
}

std::string SessionImpl::why_closed(const rdma::CloseReason& reason) const {
  if (!failure_.empty()) return failure_;
  return reason.text.empty() ? "the session has ended" : reason.text;
}

void SessionImpl::on_closed(std::function<void(const rdma::CloseReason& reason)> callback) {
  closed_ = std::move(callback);
}

void SessionImpl::on_closed(const rdma::CloseReason& reason) {
  const auto self = std::exchange(self_, nullptr);
  loop_.post([self] {});  // the provider may still stand in its call
  state_ = State::closed;
  stream_ = nullptr;
  one_sided_.close();
  allocator_.close();
  cancel_timers({&hello_timer_, &nudge_timer_, &deadline_timer_});
  fail_connect({phase_of(reason), {}, why_closed(reason)});

  while (!later_.empty()) tell_oldest();
  Outcome outcome;
  outcome.error = why_closed(reason);
  const auto outstanding = std::exchange(outstanding_, {});
  const auto queue = std::exchange(queue_, {});
  const auto direct = std::exchange(direct_, {});
  for (const auto& [id, done] : direct) done(outcome);
  for (const auto& [id, pending] : outstanding) pending.done(outcome);
  for (const auto& [id, pending] : queue) {
    if (pending.done) pending.done(outcome);
  }
  if (const auto closed = std::exchange(closed_, {})) closed(reason);
}

}  // namespace kbtp::initiator
