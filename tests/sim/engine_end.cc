#include "tests/sim/engine_end.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <utility>

namespace kbtp::sim {

using rdma::CloseReason;

namespace {

/// What two sockets' buffers hold of one direction: little, so that a stalled reader is felt soon.
constexpr std::size_t kInFlight = 6000;
/// Segments of all kinds of networks, and some that cut FPDUs small.
constexpr std::array<std::size_t, 4> kEmss{1460, 536, 8948, 256};

}  // namespace

End::~End() { host_.ends.remove(this); }

rnic::EngineSetup End::setup() {
  return {host_.stags, place_.staging, place_.loop, *this, host_.options, host_.new_stream(), local_, peer_};
}

void End::connect(rdma::StreamOptions options, rdma::StreamHandler& handler) {
  host_.ends.push_back(this);
  engine_ = std::make_unique<rnic::Engine>(setup(), std::move(options), handler);
  arm_timer();
}

void End::accepted(std::shared_ptr<ListenerState> listener) {
  host_.ends.push_back(this);
  listener_ = std::move(listener);
  engine_ = std::make_unique<rnic::Engine>(setup());
}

void End::established() {
  if (dead_) return;
  engine_->start(kEmss[host_.scheduler.below(kEmss.size())]);
  wake();
  arm_timer();
}

void End::lose(CloseReason::Kind kind, const char* why) {
  if (dead_) return;
  engine_->transport_lost(kind, why);
  turn();
}

void End::wake() {
  if (std::exchange(turn_due_, true)) return;
  place_.loop.post([self = shared_from_this()] {
    self->turn_due_ = false;
    self->turn();
  });
}

rdma::AcceptDecision End::decide(Octets private_data, const std::optional<rdma::PeerDepths>& peer_depths) {
  if (!listener_->open) return rdma::Reject{};
  return listener_->accept({peer_, local_, private_data, peer_depths}, place_.loop);
}

/// Runs of octets are cut anywhere: mostly large, now and then a few.
std::size_t End::some(std::size_t most) {
  const std::uint64_t usual = host_.scheduler.below(8) == 0 ? 24 : 3000;
  return std::min<std::size_t>(most, 1 + host_.scheduler.below(usual));
}

void End::send_some() {
  constexpr int kRuns = 4;
  full_ = false;
  for (int i = 0; i < kRuns; ++i) {
    const auto plan = engine_->send_plan();
    if (plan.empty()) return;
    if (sent_.size() >= kInFlight) {
      full_ = true;
      return;
    }
    std::size_t left = some(kInFlight - sent_.size());
    std::size_t taken = 0;
    for (const iovec& piece : plan) {
      const std::size_t n = std::min(piece.iov_len, left);
      const auto* from = static_cast<const std::byte*>(piece.iov_base);
      sent_.insert(sent_.end(), from, from + n);
      left -= n;
      taken += n;
      if (left == 0) break;
    }
    engine_->sent(taken);
  }
  wake();  // perhaps there is more
}

void End::turn() {
  if (dead_) return;
  send_some();
  engine_->pump();
  if (engine_->fin_due()) {
    engine_->fin_sent();
    fin_ = true;
    engine_->pump();
  }
  if (engine_->finished()) return die();
  if (joined()) other().expect_octets();
  arm_timer();
}

void End::arm_timer() {
  const TimePoint when = engine_->deadline();
  if (when >= timer_at_) return;  // it will look again when it fires
  if (timer_ != rdma::TimerId::none) place_.loop.cancel(timer_);
  timer_at_ = when;
  timer_ = place_.loop.call_at(when, [self = shared_from_this()] {
    self->timer_ = rdma::TimerId::none;
    self->timer_at_ = kNever;
    if (self->dead_) return;
    self->engine_->tick();
    self->turn();
  });
}

/// The socket is closed: by RST when the stream was ended so or octets are left unread, else by FIN.
void End::die() {
  dead_ = true;
  host_.ends.remove(this);
  if (timer_ != rdma::TimerId::none) place_.loop.cancel(timer_);
  const bool reset = engine_->abortive() || (joined() && !other().sent_.empty());
  // The engine is being called no longer, but the handler may have been by way of it.
  place_.loop.post([engine = std::shared_ptr<rnic::Engine>(std::move(engine_))] {});
  if (!joined()) return;
  fin_ = true;
  if (!reset) return other().expect_octets();
  sent_.clear();
  if (connection_.severed) return;
  host_.scheduler.soon([peer = connection_.ends[1 - side_]] {
    peer->place_.loop.post([peer] { peer->lose(CloseReason::Kind::transport_lost, "connection reset"); });
  });
}

void End::expect_octets() {
  if (!joined() || (dead_ && other().sent_.empty())) return;
  if (connection_.severed || stalled_ || arriving_) return;
  if (other().sent_.empty() && (!other().fin_ || fin_told_)) return;
  arriving_ = true;
  host_.scheduler.soon([self = shared_from_this()] { self->place_.loop.post([self] { self->arrive(); }); });
}

void End::arrive() {
  arriving_ = false;
  if (connection_.severed || stalled_) return;
  std::vector<std::byte>& in = other().sent_;
  if (dead_) {  // RFC 9293 3.10.7.1: a segment to a closed socket is answered by a RST
    in.clear();
    return other().lose(CloseReason::Kind::transport_lost, "connection reset");
  }
  if (!in.empty()) {
    const std::size_t n = some(in.size());
    const std::vector<std::byte> run(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(n));
    in.erase(in.begin(), in.begin() + static_cast<std::ptrdiff_t>(n));
    feed(run);
    if (other().full_) other().wake();
  } else if (other().fin_ && !fin_told_) {
    fin_told_ = true;
    engine_->peer_finished();
  }
  turn();
  if (!dead_) expect_octets();
}

void End::feed(Octets octets) {
  while (!octets.empty() && !engine_->finished()) {
    std::size_t taken = 0;
    for (const iovec& piece : engine_->receive_plan()) {
      const std::size_t n = std::min(piece.iov_len, octets.size() - taken);
      if (n != 0) std::memcpy(piece.iov_base, octets.data() + taken, n);
      taken += n;
    }
    engine_->received(taken);
    octets = octets.subspan(taken);
    engine_->pump();
  }
}

void End::set_stalled(bool stalled) {
  stalled_ = stalled;
  if (!stalled) expect_octets();
}

/// A cut is noticed soon, or late: by then the other side may have come back over a new connection.
void EngineConnection::cut() {
  if (severed) return;
  severed = true;
  for (const auto& end : ends) {
    if (!end) continue;
    fake::Scheduler& scheduler = end->host_.scheduler;
    const auto late = std::chrono::milliseconds(scheduler.below(4) == 0 ? scheduler.below(2000) : 0);
    scheduler.after(late, [end] {
      end->place_.loop.post([end] { end->lose(CloseReason::Kind::transport_lost, "connection reset"); });
    });
  }
}

}  // namespace kbtp::sim
