#include "pcap/live_capture.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>

#include "pcap/test_frames.h"
#include "pcap/trace.h"

namespace kbtp::trace {
namespace {

using namespace std::chrono_literals;

SocketAddress loopback(int family, std::uint16_t port = 0) {
  if (family == AF_INET6) {
    sockaddr_in6 in6{};
    in6.sin6_family = AF_INET6;
    in6.sin6_addr = in6addr_loopback;
    in6.sin6_port = htons(port);
    return {reinterpret_cast<sockaddr*>(&in6), sizeof in6};
  }
  sockaddr_in in{};
  in.sin_family = AF_INET;
  in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  in.sin_port = htons(port);
  return {reinterpret_cast<sockaddr*>(&in), sizeof in};
}

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  explicit Socket(int family, bool bound) : fd_(::socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    if (bound) {
      const SocketAddress any = loopback(family);
      EXPECT_EQ(::bind(fd_, any.get(), any.length()), 0);
    }
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  ~Socket() { ::close(fd_); }
  [[nodiscard]] int fd() const { return fd_; }
  [[nodiscard]] SocketAddress address() const {
    SocketAddress local;
    socklen_t length = SocketAddress::capacity();
    EXPECT_EQ(::getsockname(fd_, local.get(), &length), 0);
    local.set_length(length);
    return local;
  }

 private:
  int fd_;
};

class LiveCaptureTest : public ::testing::TestWithParam<int> {
 protected:
  void SetUp() override {
    LiveCapture::Options options;
    options.ports = {listener_.address().port()};  // whatever else goes over loopback is none of ours
    auto capture = LiveCapture::open(options);
    if (!capture) GTEST_SKIP() << capture.error().text;
    capture_ = std::move(*capture);
    EXPECT_EQ(::listen(listener_.fd(), 100), 0);
  }
  /// Connects from `client`, says `octets` and closes both ends; all of it is over when this returns.
  void talk(const Socket& client, Octets octets) {
    const SocketAddress to = listener_.address();
    ASSERT_EQ(::connect(client.fd(), to.get(), to.length()), 0);
    const Socket server(::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
    ASSERT_EQ(::send(client.fd(), octets.data(), octets.size(), 0), static_cast<ssize_t>(octets.size()));
    ::shutdown(client.fd(), SHUT_WR);
    std::byte buffer[256];
    while (::recv(server.fd(), buffer, sizeof buffer, 0) > 0) {
    }
    ::shutdown(server.fd(), SHUT_WR);
    EXPECT_EQ(::recv(client.fd(), buffer, sizeof buffer, 0), 0);
  }
  [[nodiscard]] int family() const { return GetParam(); }

  std::unique_ptr<LiveCapture> capture_;
  Socket listener_{GetParam(), true};
};
INSTANTIATE_TEST_SUITE_P(Families, LiveCaptureTest, ::testing::Values(AF_INET, AF_INET6),
                         [](const auto& instance) { return instance.param == AF_INET ? "Ipv4" : "Ipv6"; });

TEST_P(LiveCaptureTest, ACaseHasItsConnectionWholeAndEachFrameOnce) {
  const auto share = capture_->begin_case();
  const Socket client(family(), true);
  share->add_local(client.address());
  const test::Bytes said = test::request();
  talk(client, said);
  const CaseTrace trace = share->finish(Clock::now() + 10s);
  ASSERT_TRUE(trace.whole());
  std::size_t opening = 0;
  for (std::size_t i = 0; i < trace.frames.size(); ++i) {
    EXPECT_EQ(trace.frames[i].number, i + 1);
    const auto packet = decode_frame(trace.frames[i]);
    ASSERT_TRUE(packet);
    const auto& segment = std::get<TcpSegment>(*packet);
    opening += segment.syn && !segment.ack ? 1 : 0;
  }
  EXPECT_EQ(opening, 1U);  // loopback hands each frame out twice; libpcap keeps one

  const Trace decoded = decode_trace(trace.frames);
  ASSERT_EQ(decoded.connections.size(), 1U);
  const Connection& connection = decoded.connections[0];
  EXPECT_EQ(connection.client, TransportAddress::from(client.address()));
  EXPECT_EQ(connection.server, TransportAddress::from(listener_.address()));
  ASSERT_EQ(connection.events.size(), 3U);
  EXPECT_NE(connection.events[0].as<Startup>(), nullptr);
  EXPECT_EQ(connection.events[1].from, Side::client);
  EXPECT_NE(connection.events[1].as<TcpEnd>(), nullptr);
  EXPECT_NE(connection.events[2].as<TcpEnd>(), nullptr);
}

TEST_P(LiveCaptureTest, CasesAtTheSameTimeKeepTheirFramesApart) {
  const auto one = capture_->begin_case();
  const auto other = capture_->begin_case();
  const Socket first(family(), true);
  const Socket second(family(), true);
  const Socket third(family(), true);
  one->add_local(first.address());
  other->add_flow(second.address(), listener_.address());
  talk(first, test::pattern(10));
  talk(second, test::pattern(20));
  talk(third, test::pattern(30));  // nobody's
  const CaseTrace first_trace = one->finish(Clock::now() + 10s);
  const CaseTrace second_trace = other->finish(Clock::now() + 10s);
  ASSERT_TRUE(first_trace.whole() && second_trace.whole());
  const auto client_of = [](const CaseTrace& trace) {
    const Trace decoded = decode_trace(trace.frames);
    EXPECT_EQ(decoded.connections.size(), 1U);
    return decoded.connections.at(0).client;
  };
  EXPECT_EQ(client_of(first_trace), TransportAddress::from(first.address()));
  EXPECT_EQ(client_of(second_trace), TransportAddress::from(second.address()));
}

TEST_P(LiveCaptureTest, AnUnspecifiedLocalAddressTakesThePort) {
  const auto share = capture_->begin_case();
  SocketAddress any = family() == AF_INET ? SocketAddress() : loopback(AF_INET6);
  sockaddr_storage zero{};
  zero.ss_family = static_cast<sa_family_t>(family());
  any = SocketAddress(reinterpret_cast<sockaddr*>(&zero),
                      family() == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
  any.set_port(listener_.address().port());
  share->add_local(any);
  const Socket first(family(), true);
  const Socket second(family(), true);
  talk(first, test::pattern(10));
  talk(second, test::pattern(10));
  EXPECT_EQ(decode_trace(share->finish(Clock::now() + 10s).frames).connections.size(), 2U);
}

TEST_P(LiveCaptureTest, FramesBeyondTheBoundAreCounted) {
  LiveCapture::Options options;
  options.max_case_octets = 200;
  options.ports = {listener_.address().port()};
  capture_ = std::move(*LiveCapture::open(options));
  const auto share = capture_->begin_case();
  const Socket client(family(), true);
  share->add_local(client.address());
  talk(client, test::pattern(10));
  const CaseTrace trace = share->finish(Clock::now() + 10s);
  EXPECT_TRUE(trace.complete);
  EXPECT_GT(trace.not_kept, 0U);
  EXPECT_FALSE(trace.whole());
}

TEST_P(LiveCaptureTest, WhatIsMissingIsToldOf) {
  LiveCapture::Options options;
  options.ports = {listener_.address().port()};
  options.buffer_octets = 1 << 20;  // a few frames: a burst overruns it, or not, as threads run
  capture_ = std::move(*LiveCapture::open(options));
  const auto share = capture_->begin_case();
  const Socket client(family(), true);
  share->add_local(client.address());
  const SocketAddress to = listener_.address();
  ASSERT_EQ(::connect(client.fd(), to.get(), to.length()), 0);
  const Socket server(::accept4(listener_.fd(), nullptr, nullptr, SOCK_CLOEXEC));
  constexpr std::size_t kBurst = 32 << 20;
  std::thread reader([&] {
    std::vector<std::byte> buffer(1 << 20);
    while (::recv(server.fd(), buffer.data(), buffer.size(), 0) > 0) {
    }
  });
  const std::vector<std::byte> chunk(1 << 20);
  for (std::size_t sent = 0; sent < kBurst; sent += chunk.size())
    EXPECT_EQ(::send(client.fd(), chunk.data(), chunk.size(), 0), static_cast<ssize_t>(chunk.size()));
  ::shutdown(client.fd(), SHUT_WR);
  reader.join();
  const CaseTrace trace = share->finish(Clock::now() + 20s);
  ASSERT_TRUE(trace.complete);
  Reassembler stream;
  std::uint64_t octets = 0;
  const auto count = [&](const auto& run) { octets += run.missing() ? 0 : run.length; };
  for (const Frame& frame : trace.frames) {
    const auto packet = decode_frame(frame);
    ASSERT_TRUE(packet);
    const auto& segment = std::get<TcpSegment>(*packet);
    if (segment.source == TransportAddress::from(client.address()))
      stream.segment(segment, {frame.number, frame.time_ns}, count);
  }
  stream.finish({}, count);
  EXPECT_TRUE(octets == kBurst || !trace.whole()) << octets << " octets, " << trace.dropped << " dropped";
  RecordProperty("dropped", std::to_string(trace.dropped));
}

TEST_P(LiveCaptureTest, RoceIsEveryCasesWhereItIsAskedFor) {
  const Socket client(::socket(family(), SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const SocketAddress to = loopback(family(), 4791);
  for (const bool roce : {false, true}) {
    LiveCapture::Options options;
    options.ports = {listener_.address().port()};
    options.roce = roce;
    auto capture = LiveCapture::open(options);
    ASSERT_TRUE(capture) << capture.error().text;
    const auto one = (*capture)->begin_case();
    const auto other = (*capture)->begin_case();
    ::sendto(client.fd(), "packet", 6, 0, to.get(), to.length());
    talk(Socket(family(), true), test::pattern(10));  // a connection that no case has named
    const CaseTrace trace = one->finish(Clock::now() + 10s);
    EXPECT_TRUE(trace.whole());
    EXPECT_EQ(trace.frames.size(), roce ? 1U : 0U);
    EXPECT_EQ(other->finish(Clock::now() + 10s).frames.size(), trace.frames.size());
  }
}

TEST_P(LiveCaptureTest, ACaseMayOutliveTheCapture) {
  const auto share = capture_->begin_case();
  capture_.reset();
  const CaseTrace trace = share->finish(Clock::now() + 50ms);
  EXPECT_FALSE(trace.complete);
}

TEST(LiveCapture, ErrorsSayWhatToDo) {
  LiveCapture::Options options;
  options.interface = "kbtp-none";
  const auto capture = LiveCapture::open(options);
  ASSERT_FALSE(capture);
  if (capture.error().kind == CaptureError::Kind::not_permitted) GTEST_SKIP() << capture.error().text;
  EXPECT_EQ(capture.error().kind, CaptureError::Kind::no_such_interface);
  EXPECT_NE(capture.error().text.find("kbtp-none"), std::string::npos);
}

TEST(LiveCapture, WithoutCapabilityItSaysSo) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {  // as nobody; in a child, for there is no way back
    if (::geteuid() == 0 && (::setgid(65534) != 0 || ::setuid(65534) != 0)) ::_exit(2);
    const auto capture = LiveCapture::open({});
    if (capture) ::_exit(3);
    ::_exit(capture.error().kind == CaptureError::Kind::not_permitted &&
                    capture.error().text.find("CAP_NET_RAW") != std::string::npos
                ? 0
                : 4);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status));
  if (WEXITSTATUS(status) == 3) GTEST_SKIP() << "nobody may capture here";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

}  // namespace
}  // namespace kbtp::trace
