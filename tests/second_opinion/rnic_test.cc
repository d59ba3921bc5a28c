// Three witnesses of one conversation: the RNICs that sent and received each FPDU, our decoder over the live
// capture on loopback, and tshark over the file that was written from it.

#include "rdmap_binding/rnic/rnic.h"

#include <arpa/inet.h>
#include <condition_variable>
#include <cstring>
#include <filesystem>
#include <future>
#include <gtest/gtest.h>
#include <mutex>
#include <netinet/in.h>
#include <unistd.h>

#include "pcap/capture_file.h"
#include "pcap/live_capture.h"
#include "second_opinion/tshark.h"

namespace kbtp::second_opinion {
namespace {

using namespace std::chrono_literals;
using rdma::Access;

SocketAddress loopback(bool v6) {
  if (v6) {
    sockaddr_in6 in6{};
    in6.sin6_family = AF_INET6;
    in6.sin6_addr = in6addr_loopback;
    return {reinterpret_cast<sockaddr*>(&in6), sizeof in6};
  }
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return {reinterpret_cast<sockaddr*>(&in), sizeof in};
}

/// What an RNIC saw, by direction and by whether it sent or received.
class Witness {
 public:
  rnic::FpduObserver observer() {
    return [this](const rnic::FpduEvent& event) {
      const std::lock_guard lock(mutex_);
      (event.direction == rnic::Direction::sent ? sent_ : received_)[direction_of(event)].push_back(
          row_of(event));
    };
  }
  [[nodiscard]] Rows sent() const { return sent_; }
  [[nodiscard]] Rows received() const { return received_; }

 private:
  std::mutex mutex_;
  Rows sent_, received_;
};

/// One end: counts what it is told and lets the test wait for it.
class End : public rdma::StreamHandler {
 public:
  void on_open(rdma::Stream& stream, Octets) override {
    const std::lock_guard lock(mutex_);
    stream_ = &stream;
    changed_.notify_all();
  }
  void on_received(const rdma::Received&) override { count(received_); }
  void on_completion(const rdma::Completion&) override { count(completed_); }
  void on_closed(const rdma::CloseReason&) override {
    const std::lock_guard lock(mutex_);
    stream_ = nullptr;
    closed_ = true;
    changed_.notify_all();
  }

  [[nodiscard]] bool wait(const std::function<bool(const End&)>& until) {
    std::unique_lock lock(mutex_);
    return changed_.wait_for(lock, 20s, [&] { return until(*this); });
  }
  [[nodiscard]] bool wait_open() {
    return wait([](const End& end) { return end.stream_ != nullptr; });
  }
  [[nodiscard]] bool wait_counts(std::size_t received, std::size_t completed) {
    return wait([=](const End& end) { return end.received_ >= received && end.completed_ >= completed; });
  }
  [[nodiscard]] bool wait_closed() {
    return wait([](const End& end) { return end.closed_; });
  }
  void post(std::vector<rdma::WorkRequest> requests) {
    stream_->loop().post([this, requests = std::move(requests)] {
      if (stream_ != nullptr) stream_->post(requests);
    });
  }
  /// The STag of a region of this stream that the peer may invalidate.
  [[nodiscard]] rdma::STag invalidatable(std::span<std::byte> memory) {
    std::promise<rdma::STag> stag;
    stream_->loop().post([&] {
      const rdma::RegionSpec spec{memory, Access::remote_write, rdma::Content::octets, 0, true};
      stag.set_value(stream_->register_region(spec)->stag);
    });
    return stag.get_future().get();
  }
  void close() {
    stream_->loop().post([this] {
      if (stream_ != nullptr) stream_->close();
    });
  }

 private:
  void count(std::size_t& counter) {
    const std::lock_guard lock(mutex_);
    ++counter;
    changed_.notify_all();
  }
  std::mutex mutex_;
  std::condition_variable changed_;
  rdma::Stream* stream_ = nullptr;
  std::size_t received_ = 0, completed_ = 0;
  bool closed_ = false;
};

struct Setting {
  bool v6 = false;
  bool crc = true;
  unsigned revision = 2;
};

class Witnesses : public ::testing::TestWithParam<Setting> {
 protected:
  void SetUp() override {
    if (const std::string why = tshark_missing(); !why.empty()) GTEST_SKIP() << why;
    rnic::RnicOptions options;
    options.crc = GetParam().crc;
    options.mpa_revision = GetParam().revision;
    options.fpdu_observer = initiator_saw_.observer();
    initiator_ = std::move(*rnic::Rnic::create(options));
    options.fpdu_observer = responder_saw_.observer();
    responder_ = std::move(*rnic::Rnic::create(options));

    rdma::StreamOptions stream;
    stream.receive_size = 200000;
    stream.initial_receives = 32;
    stream.domain = responder_->create_domain();
    octets_ = *responder_->register_region(
        stream.domain, {memory_, Access::remote_read | Access::remote_write, rdma::Content::octets, 0x10000});
    words_ = *responder_->register_region(stream.domain, {std::as_writable_bytes(std::span(counters_)),
                                                          Access::remote_atomic, rdma::Content::words, 0});
    auto listener = responder_->listen(
        loopback(GetParam().v6),
        [this, stream](const rdma::ConnectionRequest&, rdma::Loop&) -> rdma::AcceptDecision {
          return rdma::Accept{&far_, stream};
        });
    ASSERT_TRUE(listener) << listener.error().text;
    listener_ = std::move(*listener);

    trace::LiveCapture::Options capturing;
    capturing.ports = {listener_->local().port()};  // whatever else goes over loopback is none of ours
    auto capture = trace::LiveCapture::open(capturing);
    if (!capture) GTEST_SKIP() << capture.error().text;
    capture_ = std::move(*capture);
    case_ = capture_->begin_case();
    case_->add_local(listener_->local());
    stream.domain = initiator_->create_domain();
    initiator_->connect(listener_->local(), 0, stream, near_);
    ASSERT_TRUE(near_.wait_open() && far_.wait_open());
  }
  void TearDown() override {
    case_.reset();
    listener_.reset();
    initiator_.reset();
    responder_.reset();
  }

  /// Ends the case and compares the three; returns the number of FPDUs.
  std::size_t compare() {
    EXPECT_TRUE(near_.wait_closed() && far_.wait_closed());
    const trace::CaseTrace captured = case_->finish(Clock::now() + 20s);
    EXPECT_TRUE(captured.whole()) << captured.dropped << " frames dropped";
    listener_.reset();
    initiator_.reset();  // no observer runs any more
    responder_.reset();

    const trace::Trace trace = trace::decode_trace(captured.frames);
    const Rows ours = rows_of(trace);
    Rows sent = initiator_saw_.sent();
    sent.merge(responder_saw_.sent());
    Rows received = initiator_saw_.received();
    received.merge(responder_saw_.received());
    EXPECT_EQ(difference(sent, ours), "") << "sent against captured";
    EXPECT_EQ(difference(received, ours), "") << "received against captured";

    const auto path =
        std::filesystem::temp_directory_path() / ("kbtp-witnesses-" + std::to_string(::getpid()) + ".pcap");
    EXPECT_TRUE(trace::write_capture(path.string(), captured.frames));
    const auto theirs = ask_tshark(path.string());
    std::filesystem::remove(path);
    EXPECT_TRUE(theirs);
    if (theirs) {
      EXPECT_EQ(difference(ours, *theirs), "") << "captured against tshark";
    }
    return count(ours);
  }
  [[nodiscard]] rdma::RemoteBuffer at(std::uint64_t offset) const {
    return {octets_.stag, octets_.tagged_offset + offset};
  }
  [[nodiscard]] rdma::RemoteBuffer word(std::uint64_t index) const {
    return {words_.stag, words_.tagged_offset + 8 * index};
  }
  static rdma::Send send(std::size_t n, bool solicited = false, std::optional<rdma::STag> invalidate = {}) {
    return {1, std::vector<std::byte>(n, std::byte{0x5A}), solicited, invalidate};
  }

  std::vector<std::byte> memory_ = std::vector<std::byte>(1 << 20);
  std::vector<std::byte> source_ = std::vector<std::byte>(1 << 20, std::byte{7});
  std::vector<std::byte> sink_ = std::vector<std::byte>(1 << 20);
  alignas(8) std::array<std::uint64_t, 8> counters_{};
  Witness initiator_saw_, responder_saw_;
  End near_, far_;
  std::unique_ptr<trace::LiveCapture> capture_;
  std::unique_ptr<rnic::Rnic> initiator_, responder_;
  std::unique_ptr<rdma::Listener> listener_;
  std::unique_ptr<trace::CaseCapture> case_;
  rdma::Region octets_, words_;
};

INSTANTIATE_TEST_SUITE_P(Settings, Witnesses,
                         ::testing::Values(Setting{}, Setting{true, true, 2}, Setting{false, false, 2},
                                           Setting{false, true, 1}),
                         [](const auto& instance) {
                           return std::string(instance.param.v6 ? "Ipv6" : "Ipv4") +
                                  (instance.param.crc ? "Crc" : "NoCrc") + "Rev" +
                                  std::to_string(instance.param.revision);
                         });

TEST_P(Witnesses, AgreeOnEveryKindOfMessage) {
  const Octets source = source_;
  const rdma::STag first = far_.invalidatable(memory_);
  const rdma::STag second = far_.invalidatable(memory_);
  near_.post({send(0), send(1), send(150000), send(33, true), send(9, false, first), send(8, true, second),
              rdma::Write{5, source.first(0), at(0), {}}, rdma::Write{6, source.first(3), at(1), {}},
              rdma::Write{7, source.first(300000), at(100), {}},
              rdma::WriteImmediate{rdma::Write{8, source.first(5000), at(9), {}}, 0x1122334455667788},
              rdma::Read{9, std::span(sink_).first(0), at(0)},
              rdma::Read{10, std::span(sink_).first(250000), at(64)}, rdma::FetchAdd{11, word(1), 5, 0},
              rdma::CompareSwap{12, word(2), 0, ~std::uint64_t{0}, 9}});
  far_.post({send(70), send(71)});
  ASSERT_TRUE(near_.wait_counts(2, 14) && far_.wait_counts(7, 2));
  near_.close();
  far_.close();
  EXPECT_GT(compare(), 20U);
}

TEST_P(Witnesses, AgreeOnATerminate) {
  near_.post({rdma::Write{1, Octets(source_).first(64), {octets_.stag ^ 0xFFFF0000U, 0}, {}}});
  EXPECT_EQ(compare(), 2U);
}

}  // namespace
}  // namespace kbtp::second_opinion
