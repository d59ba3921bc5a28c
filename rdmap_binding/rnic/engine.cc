// Life of a stream: creation, the upper layer's calls, completions, deadlines and the ways it ends.

#include "rdmap_binding/rnic/engine.h"

#include <algorithm>

#include "base/fault.h"
#include "rdmap_binding/binding.h"
#include "rdmap_binding/mpa/fpdu.h"

namespace kbtp::rnic {

using rdma::CloseReason;
using rdma::WorkRequest;
using rdma::WorkStatus;

namespace {

template <class... F>
struct Overloaded : F... {
  using F::operator()...;
};
template <class... F>
Overloaded(F...) -> Overloaded<F...>;

constexpr std::uint64_t kMessageLimit = std::uint64_t{1} << 32;  // RFC 5041 5.2: a message is shorter

constexpr std::uint64_t kAtomicWord = 8;  // RFC 7306 5

rdma::WorkId id_of(const WorkRequest& request) {
  return std::visit(Overloaded{[](const rdma::WriteImmediate& r) { return r.write.id; },
                               [](const auto& r) { return r.id; }},
                    request);
}

bool range_is_legal(const rdma::RemoteBuffer& buffer, std::uint64_t length) {
  return length < kMessageLimit && (length == 0 || length - 1 <= ~std::uint64_t{0} - buffer.tagged_offset);
}

bool is_legal(const WorkRequest& request, std::uint32_t ord) {
  return std::visit(
      Overloaded{
          [](const rdma::Send& r) { return r.payload.size() < kMessageLimit; },
          [](const rdma::Write& r) { return range_is_legal(r.destination, r.source.size()); },
          [](const rdma::WriteImmediate& r) {
            return range_is_legal(r.write.destination, r.write.source.size());
          },
          [ord](const rdma::Read& r) { return ord != 0 && range_is_legal(r.source, r.sink.size()); },
          [](const rdma::Immediate&) { return true; },
          [ord](const rdma::FetchAdd& r) { return ord != 0 && range_is_legal(r.word, kAtomicWord); },
          [ord](const rdma::CompareSwap& r) { return ord != 0 && range_is_legal(r.word, kAtomicWord); },
          [](const rdma::LocalInvalidate&) { return true; }},
      request);
}

/// `d` after `t`; a duration as good as for ever stays in range.
TimePoint later(TimePoint t, Duration d) { return d > kNever - t ? kNever : t + d; }

}  // namespace

rdma::Capabilities capabilities_of(std::uint32_t ird, std::uint32_t ord) {
  rdma::Capabilities c;
  c.invalidate_tx = true;
  c.invalidate_rx = true;
  c.atomics = rdma::Atomics::masked;
  c.atomic_scope = rdma::AtomicScope::cpu;
  c.write_immediate = true;
  c.read_sink_needs_remote_write = false;
  c.max_private_data = mpa::kMaxEnhancedPrivateData;
  c.ird = ird;
  c.ord = ord;
  return rdmap_binding::permitted(c);
}

Engine::Engine(const EngineSetup& setup, rdma::StreamOptions options, rdma::StreamHandler& handler)
    : setup_(setup),
      initiator_(true),
      options_(std::move(options)),
      handler_(&handler),
      scope_{setup.id, options_.domain},
      setup_deadline_(later(setup.loop.now(), options_.setup_deadline)),
      input_(setup.staging),
      window_(true) {}

Engine::Engine(const EngineSetup& setup)
    : setup_(setup),
      initiator_(false),
      scope_{setup.id, rdma::DomainId{}},
      input_(setup.staging),
      window_(true) {}

Engine::~Engine() {
  for (const rdma::STag stag : own_) setup_.stags.remove_of_stream(setup_.id, stag);
}

void Engine::set_emss(std::size_t emss) {
  emss_ = emss;
  mulpdu_ = mpa::mulpdu(emss, window_.markers());
}

void Engine::start(std::size_t emss) {
  set_emss(emss);
  started_ = true;
  last_progress_ = setup_.loop.now();
  setup_deadline_ =
      later(last_progress_, initiator_ ? options_.setup_deadline : setup_.options.handshake_deadline);
  if (initiator_) send_request();
}

// --- The upper layer's calls -----------------------------------------------------------------------------

void Engine::post(std::vector<WorkRequest> requests) {
  const bool over = closing_ || state_ != State::open;
  for (WorkRequest& request : requests) {
    Posted entry;
    entry.completion.id = id_of(request);
    if (over || (peer_finished_ && is_answered(request))) {
      entry.done = true;
      entry.completion.status = WorkStatus::flushed;
    } else if (!is_legal(request, ord_)) {
      entry.done = true;
      entry.completion.status = WorkStatus::bad_request;
    }
    entry.request = std::move(request);
    posted_.push_back(std::move(entry));
  }
  setup_.host.wake();
}

void Engine::post_receives(std::uint32_t count) {
  receives_ = count > ~std::uint32_t{0} - receives_ ? ~std::uint32_t{0} : receives_ + count;
}

Result<rdma::Region> Engine::register_region(const rdma::RegionSpec& spec) {
  if (state_ != State::open) return failure("the stream is ending");
  auto region = setup_.stags.add(setup_.id, spec);
  if (region) own_.insert(region->stag);
  return region;
}

void Engine::revoke(rdma::STag stag) {
  if (own_.erase(stag) == 0) return;
  setup_.stags.remove_of_stream(setup_.id, stag);
  window_.make_private(stag);
}

void Engine::close(Duration linger) {
  if (closing_ || state_ == State::ended) return;
  closing_ = true;
  end_deadline_ = std::min(end_deadline_, later(setup_.loop.now(), linger));
  setup_.host.wake();
}

void Engine::abort(std::string why) {
  if (state_ == State::ended) return;
  abortive_ = true;
  end(make_reason(CloseReason::Kind::local_error, std::move(why)));
  setup_.host.wake();
}

// --- Completions -----------------------------------------------------------------------------------------

void Engine::complete(std::uint64_t number, WorkStatus status, std::uint64_t original) {
  if (number < first_number_ || number >= end_number()) return;
  Posted& entry = posted(number);
  if (entry.done) return;
  entry.done = true;
  entry.completion.status = status;
  entry.completion.original = original;
  // Told in the order of posting, perhaps much later; what was sent is of no use until then.
  entry.request = rdma::LocalInvalidate{};
}

void Engine::tell_completions() {
  // A handler may post more, which only appends.
  while (!posted_.empty() && posted_.front().done) {
    const Posted entry = std::move(posted_.front());
    posted_.pop_front();
    ++first_number_;
    next_number_ = std::max(next_number_, first_number_);
    if (handler_ != nullptr && !told_closed_) handler_->on_completion(entry.completion);
  }
}

/// A peer that has finished answers nothing any more: who waits for its answer would wait for ever.
void Engine::flush_unanswered() {
  for (const Outstanding& entry : outstanding_) complete(entry.number, WorkStatus::flushed, 0);
  outstanding_.clear();
  for (std::uint64_t number = next_number_; number < end_number(); ++number) {
    if (is_answered(posted(number).request)) complete(number, WorkStatus::flushed, 0);
  }
}

void Engine::flush_posted() {
  window_.make_all_private();  // once told, a source is the poster's again
  for (Posted& entry : posted_) {
    if (entry.done) continue;
    entry.done = true;
    entry.completion.status = WorkStatus::flushed;
  }
  outstanding_.clear();
  mid_posted_ = false;
  next_number_ = end_number();
  next_done_ = 0;
}

void Engine::pump() {
  // What on_completion() posts may complete at once (refused, flushed): go on until nothing is left.
  tell_completions();
  if (state_ != State::ended || told_closed_) return;
  told_closed_ = true;
  if (handler_ != nullptr) handler_->on_closed(reason_);
}

// --- Ends ------------------------------------------------------------------------------------------------

CloseReason Engine::make_reason(CloseReason::Kind kind, std::string text) const {
  CloseReason reason;
  reason.kind = kind;
  reason.phase = opened_ ? rdma::Phase::open : started_ ? rdma::Phase::mpa : rdma::Phase::tcp;
  reason.text = std::move(text);
  return reason;
}

void Engine::fail(const WireError& error, const rdmap::Offender& offender) {
  if (state_ != State::open && state_ != State::startup) return;  // RFC 5040 7.1: the first error counts
  if (kbtp::fault(kbtp::Fault::erroneous_stream_goes_on) && error.code == terminate::kDdpTaggedInvalidStag)
    return;
  if (kbtp::fault(kbtp::Fault::first_error_passed_over) && error.code == terminate::kDdpUntaggedInvalidQn)
    return;
  if (kbtp::fault(kbtp::Fault::terminate_before_first_fpdu)) may_send_ = true;
  CloseReason reason = make_reason(CloseReason::Kind::local_error, std::string(error.reason));
  if (!may_send_ || fin_sent_) {
    end(std::move(reason));  // RFC 5044 7.1.2: no FPDU from a Responder before the first valid one
    return;
  }
  reason.terminate = error.code.packed();
  reason.text = to_string(error.code) + ": " + std::string(error.reason);
  terminate_ = rdmap::make_terminate(error.code, offender);
  terminate_due_ = true;
  reason_ = std::move(reason);
  state_ = State::terminating;
  end_deadline_ = setup_.loop.now() + kTeardownDeadline;
  setup_deadline_ = kNever;
  flush_posted();
  message_ = {};
  message_opcode_.reset();
  input_.clear();
  direct_ = {};
}

void Engine::leave(CloseReason reason) {
  if (state_ == State::ended || state_ == State::leaving) return;
  reason_ = std::move(reason);
  state_ = State::leaving;
  end_deadline_ = setup_.loop.now() + kTeardownDeadline;
  setup_deadline_ = kNever;
  flush_posted();
  inbound_.clear();
  message_ = {};
  message_opcode_.reset();
  input_.clear();
  direct_ = {};
}

void Engine::end(CloseReason reason) {
  if (state_ == State::ended) return;
  if (state_ == State::open || state_ == State::startup) reason_ = std::move(reason);
  state_ = State::ended;
  for (const rdma::STag stag : own_) setup_.stags.remove_of_stream(setup_.id, stag);
  own_.clear();
  window_.reset();
  flush_posted();
  inbound_.clear();
  message_ = {};
  message_opcode_.reset();
  input_.clear();
  direct_ = {};
  setup_deadline_ = end_deadline_ = kNever;
}

/// RFC 6581 10: a peer that knows revision 1 alone closes on an enhanced Request; then another connection is
/// made with a Request that it may understand. True when that is under way.
bool Engine::start_over() {
  if (!initiator_ || !started_ || state_ != State::startup || !setup_.options.legacy_peers) return false;
  if (!offered_ || options_.peer_to_peer || !input_.unread().empty()) return false;
  revision_ = mpa::kRevision1;
  offered_.reset();
  started_ = false;
  window_.reset();
  input_.clear();
  sent_octets_ = 0;
  setup_deadline_ = later(setup_.loop.now(), options_.setup_deadline);
  restart_due_ = true;
  return true;
}

void Engine::transport_lost(CloseReason::Kind kind, std::string text) {
  if (kind == CloseReason::Kind::transport_lost && start_over()) return;
  end(make_reason(kind, std::move(text)));
}

void Engine::peer_finished() {
  if (peer_finished_ || state_ == State::ended) return;
  if (kbtp::fault(kbtp::Fault::truncated_request_kept) && state_ == State::startup) return;
  if (start_over()) return;
  peer_finished_ = true;
  switch (state_) {
    case State::startup:
      end(make_reason(initiator_ ? CloseReason::Kind::refused : CloseReason::Kind::transport_lost,
                      initiator_ ? "the peer closed the connection instead of accepting it"
                                 : "the peer closed the connection during MPA start-up"));
      return;
    case State::open:
      if (!input_.unread().empty() || direct_.active || message_opcode_) {
        end(make_reason(CloseReason::Kind::transport_lost,
                        "the peer closed the connection inside a message"));
        return;
      }
      if (fin_sent_) {
        end(make_reason(CloseReason::Kind::graceful, "both sides finished"));
        return;
      }
      flush_unanswered();
      handler_->on_peer_finished();
      return;
    case State::terminating:
      return;
    case State::leaving:
      if (fin_sent_) end({});
      return;
    case State::ended:
      return;
  }
}

bool Engine::fin_due() const {
  if (fin_sent_ || !started_ || !window_.empty()) return false;
  switch (state_) {
    case State::startup:
    case State::ended:
      return false;
    case State::leaving:
      return true;
    case State::terminating:
      return !terminate_due_;
    case State::open:
      break;
  }
  if (!closing_) return false;
  if (rtr_due_) return false;
  if (!may_send_) return true;  // a Responder that has heard nothing yet: what is posted can never go
  return inbound_.empty() && next_number_ == end_number() && outstanding_.empty();
}

void Engine::fin_sent() {
  fin_sent_ = true;
  if (state_ == State::terminating) state_ = State::leaving;
  if (peer_finished_) end(make_reason(CloseReason::Kind::graceful, "both sides finished"));
}

TimePoint Engine::deadline() const {
  if (state_ == State::ended) return kNever;
  TimePoint when = std::min(setup_deadline_, end_deadline_);
  if (!window_.empty() && started_) when = std::min(when, later(last_progress_, options_.send_deadline));
  if (pause_until_) when = std::min(when, *pause_until_);
  return when;
}

void Engine::tick() {
  const TimePoint now = setup_.loop.now();
  if (pause_until_ && *pause_until_ <= now) pause_until_.reset();
  if (state_ == State::ended || now < deadline()) return;
  if (setup_deadline_ <= now) {
    end(make_reason(CloseReason::Kind::deadline, started_
                                                     ? "MPA start-up took longer than its deadline"
                                                     : "the TCP connection took longer than its deadline"));
    return;
  }
  if (end_deadline_ <= now) {
    abortive_ = !window_.empty();
    end(make_reason(CloseReason::Kind::graceful, "the peer did not finish within the linger time"));
    return;
  }
  abortive_ = true;
  end(make_reason(CloseReason::Kind::deadline, "the peer took no octet within the send deadline"));
}

}  // namespace kbtp::rnic
