// For tests and the fuzzer: engines without sockets. A TestLoop in virtual time, an End (one engine with a
// handler that writes down what it is told), a Pair of two ends joined by byte streams that are cut as the
// test likes, and hand-made FPDUs.

#pragma once

#include <deque>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "rdmap_binding/mpa/fpdu.h"
#include "rdmap_binding/rnic/engine.h"

namespace kbtp::rnic {

/// The Message Sequence Numbers due next, by queue.
struct SequenceNumbers {
  static void preset(Engine& engine, std::uint32_t in, std::uint32_t out) {
    engine.in_msn_.fill(in);
    engine.out_msn_.fill(out);
  }
};

}  // namespace kbtp::rnic

namespace kbtp::rnic::test {

class TestLoop final : public rdma::Loop {
 public:
  [[nodiscard]] TimePoint now() const override { return now_; }
  void post(rdma::Task task) override { tasks_.push_back(std::move(task)); }
  rdma::TimerId call_at(TimePoint, rdma::Task) override { return rdma::TimerId::none; }
  void cancel(rdma::TimerId) override {}
  [[nodiscard]] bool is_current() const override { return true; }
  void advance(Duration d) { now_ += d; }

 private:
  TimePoint now_{std::chrono::hours(1)};
  std::deque<rdma::Task> tasks_;
};

struct Message {
  std::vector<std::byte> payload;
  bool solicited = false;
  std::optional<rdma::STag> invalidated;
  std::optional<std::uint64_t> immediate;
};

class Recorder : public rdma::StreamHandler {
 public:
  void on_open(rdma::Stream& s, Octets data) override {
    stream = &s;
    private_data = to_vector(data);
    if (when_open) when_open(s);
  }
  void on_received(const rdma::Received& r) override {
    received.push_back({to_vector(r.payload), r.solicited, r.invalidated, r.immediate});
    if (when_received) when_received(r);
  }
  void on_completion(const rdma::Completion& c) override {
    completions.push_back(c);
    if (when_completed) when_completed(c);
  }
  void on_peer_finished() override { ++peer_finished; }
  void on_closed(const rdma::CloseReason& reason) override {
    closed = reason;
    ++closed_count;
  }

  rdma::Stream* stream = nullptr;
  std::vector<std::byte> private_data;
  std::vector<Message> received;
  std::vector<rdma::Completion> completions;
  int peer_finished = 0;
  int closed_count = 0;
  std::optional<rdma::CloseReason> closed;
  std::function<void(rdma::Stream&)> when_open;
  std::function<void(const rdma::Received&)> when_received;
  std::function<void(const rdma::Completion&)> when_completed;
};

/// What an RNIC of one loop is made of.
struct Host {
  TestLoop loop;
  StagTable stags;
  Staging staging;
  RnicOptions options;
  std::uint64_t next_stream = 1;
};

inline constexpr std::size_t kEmss = 1460;

class End final : public EngineHost {
 public:
  /// Initiator.
  End(Host& host, rdma::StreamOptions stream_options)
      : host_(host), engine(setup(host), std::move(stream_options), recorder) {}
  /// Responder.
  explicit End(Host& host) : host_(host), engine(setup(host)) {}

  void wake() override {}
  rdma::AcceptDecision decide(Octets private_data,
                              const std::optional<rdma::PeerDepths>& peer_depths) override {
    request_private_data = to_vector(private_data);
    request_depths = peer_depths;
    if (rejection) return *rejection;
    return rdma::Accept{&recorder, accept_options};
  }

  /// Feeds octets in runs of at most `cut`; as a socket, the engine is given what it has room for.
  void feed(Octets octets, std::size_t cut = ~std::size_t{0}) {
    while (!octets.empty() && !engine.finished()) {
      std::size_t taken = 0;
      for (const iovec& piece : engine.receive_plan()) {
        const std::size_t n = std::min({piece.iov_len, octets.size() - taken, cut - taken});
        if (n != 0) std::memcpy(piece.iov_base, octets.data() + taken, n);
        taken += n;
      }
      engine.received(taken);
      octets = octets.subspan(taken);
      settle();
    }
  }

  /// Octets that TCP takes now, at most `most`; FIN is noted when it is due.
  std::vector<std::byte> drain(std::size_t most = ~std::size_t{0}) {
    std::vector<std::byte> out;
    while (out.size() < most) {
      const auto plan = engine.send_plan();
      if (plan.empty()) break;
      const std::size_t n = std::min(plan[0].iov_len, most - out.size());
      const auto* from = static_cast<const std::byte*>(plan[0].iov_base);
      out.insert(out.end(), from, from + n);
      engine.sent(n);
      settle();
    }
    settle();
    return out;
  }

  void settle() {
    engine.pump();
    if (engine.fin_due()) {
      engine.fin_sent();
      fin = true;
      engine.pump();
    }
  }

  void advance(Duration d) {
    host_.loop.advance(d);
    engine.tick();
    settle();
  }

  static EngineSetup setup_of(Host& host, EngineHost& self) {
    return {host.stags,   host.staging,
            host.loop,    self,
            host.options, static_cast<StreamId>(host.next_stream++),
            {},           {}};
  }
  EngineSetup setup(Host& host) { return setup_of(host, *this); }

  Host& host_;
  Recorder recorder;
  std::optional<rdma::Reject> rejection;
  rdma::StreamOptions accept_options;
  std::vector<std::byte> request_private_data;
  std::optional<rdma::PeerDepths> request_depths;
  bool fin = false;  ///< we have sent ours
  Engine engine;
};

/// How many octets the next run has.
using Cut = std::function<std::size_t()>;
inline Cut whole() {
  return [] { return ~std::size_t{0}; };
}

/// Two engines in two RNICs; `a` is the initiator.
class Pair {
 public:
  explicit Pair(rdma::StreamOptions options_a = {}, rdma::StreamOptions options_b = {},
                RnicOptions rnic_a = {}, RnicOptions rnic_b = {}) {
    host_a.options = std::move(rnic_a);
    host_b.options = std::move(rnic_b);
    a.emplace(host_a, std::move(options_a));
    b.emplace(host_b);
    b->accept_options = std::move(options_b);
  }

  /// Runs until nothing moves any more; `cut` is for what goes to b, `cut_back` for what goes to a.
  void run(const Cut& cut, const Cut& cut_back) {
    if (!started_) {
      started_ = true;
      a->engine.start(emss);
      b->engine.start(emss);
    }
    for (bool moved = true; moved;) {
      moved = move(*a, *b, a_fin_told_, a_octets, cut);
      moved = move(*b, *a, b_fin_told_, b_octets, cut_back) || moved;
    }
  }
  void run(const Cut& cut = whole()) { run(cut, cut); }

  Host host_a;
  Host host_b;
  std::optional<End> a;
  std::optional<End> b;
  std::size_t emss = kEmss;
  std::size_t a_octets = 0;  ///< that a has sent
  std::size_t b_octets = 0;

 private:
  static bool move(End& from, End& to, bool& fin_told, std::size_t& count, const Cut& cut) {
    const std::vector<std::byte> octets = from.drain();
    count += octets.size();
    Octets rest = octets;
    while (!rest.empty()) {
      const std::size_t n = std::min(cut(), rest.size());
      to.feed(rest.first(n));
      rest = rest.subspan(n);
    }
    bool moved = !octets.empty();
    if (from.fin && !fin_told) {
      fin_told = moved = true;
      to.engine.peer_finished();
      to.settle();
    }
    return moved;
  }
  bool started_ = false;
  bool a_fin_told_ = false;
  bool b_fin_told_ = false;
};

/// Octets 0, 1, 2, ... from `seed` on.
inline std::vector<std::byte> pattern(std::size_t size, unsigned seed = 0) {
  std::vector<std::byte> octets(size);
  for (std::size_t i = 0; i < size; ++i) octets[i] = static_cast<std::byte>(i * 7 + i / 251 + seed);
  return octets;
}

inline std::vector<std::byte> joined(std::initializer_list<Octets> parts) {
  std::vector<std::byte> all;
  for (const Octets part : parts) all.insert(all.end(), part.begin(), part.end());
  return all;
}

// --- Hand-made FPDUs -------------------------------------------------------------------------------------

/// An untagged FPDU with legal fields but for those that the caller changes.
struct Untagged {
  std::uint8_t ddp_control = 0x41;
  std::uint8_t rdmap_control = 0x43;
  std::uint32_t invalidate = 0;
  std::uint32_t qn = 0;
  std::uint32_t msn = 1;
  std::uint32_t mo = 0;
  std::vector<std::byte> body{};

  [[nodiscard]] std::vector<std::byte> ulpdu() const {
    std::vector<std::byte> octets(18 + body.size());
    ByteWriter w(octets);
    w.u8(ddp_control);
    w.u8(rdmap_control);
    w.u32(invalidate);
    w.u32(qn);
    w.u32(msn);
    w.u32(mo);
    w.bytes(body);
    return octets;
  }
  [[nodiscard]] std::vector<std::byte> fpdu() const { return mpa::encode_fpdu(ulpdu()); }
};

struct Tagged {
  std::uint8_t ddp_control = 0xC1;
  std::uint8_t rdmap_control = 0x40;
  std::uint32_t stag = 0;
  std::uint64_t to = 0;
  std::vector<std::byte> body{};

  [[nodiscard]] std::vector<std::byte> ulpdu() const {
    std::vector<std::byte> octets(14 + body.size());
    ByteWriter w(octets);
    w.u8(ddp_control);
    w.u8(rdmap_control);
    w.u32(stag);
    w.u64(to);
    w.bytes(body);
    return octets;
  }
  [[nodiscard]] std::vector<std::byte> fpdu() const { return mpa::encode_fpdu(ulpdu()); }
};

inline Untagged read_request(std::uint32_t msn, const rdmap::ReadRequest& request) {
  const auto body = rdmap::encode(request);
  return {.rdmap_control = 0x41, .qn = 1, .msn = msn, .body = to_vector(body)};
}
inline Untagged atomic_request(std::uint32_t msn, const rdmap::AtomicRequest& request) {
  const auto body = rdmap::encode(request);
  return {.rdmap_control = 0x4A, .qn = 1, .msn = msn, .body = to_vector(body)};
}

/// The FPDUs in a run of octets, as ULPDUs; stops at what is not a good one.
inline std::vector<std::vector<std::byte>> ulpdus(Octets octets, mpa::CrcUse crc = mpa::CrcUse::check) {
  std::vector<std::vector<std::byte>> all;
  while (!octets.empty()) {
    const auto result = mpa::decode_fpdu(octets, crc);
    const auto* fpdu = std::get_if<mpa::Fpdu>(&result);
    if (fpdu == nullptr) break;
    all.push_back(to_vector(fpdu->ulpdu));
    octets = octets.subspan(fpdu->size);
  }
  return all;
}

/// A responder in full operation, facing a peer that is nothing but octets.
class Responder {
 public:
  explicit Responder(rdma::StreamOptions options = {}, RnicOptions rnic = {}, std::uint8_t revision = 2,
                     bool peer_wants_markers = false) {
    host.options = std::move(rnic);
    end.emplace(host);
    end->accept_options = std::move(options);
    end->engine.start(kEmss);
    mpa::StartupFrame frame;
    frame.markers = peer_wants_markers;
    frame.crc = host.options.crc;
    frame.revision = revision;
    if (revision == 2) {
      frame.enhanced = mpa::Enhanced{};
      frame.enhanced->ird = end->accept_options.ord & 0x3FFF;
      frame.enhanced->ord = end->accept_options.ird & 0x3FFF;
    }
    end->feed(mpa::encode_startup(frame));
    reply = end->drain();
  }

  /// Feeds one FPDU and returns the ULPDUs that come back.
  std::vector<std::vector<std::byte>> answer(Octets fpdu) {
    end->feed(fpdu);
    return drained();
  }
  /// The ULPDUs that it sends by itself.
  std::vector<std::vector<std::byte>> drained() {
    return ulpdus(end->drain(), host.options.crc ? mpa::CrcUse::check : mpa::CrcUse::ignore);
  }
  Recorder& recorder() { return end->recorder; }
  rdma::Stream& stream() { return *end->recorder.stream; }

  Host host;
  std::optional<End> end;
  std::vector<std::byte> reply;
};

}  // namespace kbtp::rnic::test
