// The RNIC over real sockets on loopback, IPv4 and IPv6.

#include "rdmap_binding/rnic/rnic.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/hex.h"
#include "rdmap_binding/rnic/engine_rig.h"
#include "rdmap_binding/rnic/socket_rig.h"

namespace kbtp::rnic::test {
namespace {

using rdma::Access;
using rdma::CloseReason;
using rdma::Content;

struct Case {
  const char* host;
  bool crc;
  bool spin;
  unsigned loops;
};

class RnicOverSockets : public testing::TestWithParam<Case> {};

TEST_P(RnicOverSockets, MovesDataBothWays) {
  if (std::string(GetParam().host) == "::1") {
    const int probe = ::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const SocketAddress any = loopback("::1");
    const bool usable = probe >= 0 && ::bind(probe, any.get(), any.length()) == 0;
    if (probe >= 0) ::close(probe);
    if (!usable) GTEST_SKIP() << "this host has no IPv6 loopback";
  }
  RnicOptions options;
  options.crc = GetParam().crc;
  options.spin = GetParam().spin;
  options.loops = GetParam().loops;
  // What streams use outlives the RNICs, here and below.
  constexpr std::size_t kStreams = 3;
  std::array<Waiter, kStreams> served;
  std::array<Waiter, kStreams> used;
  std::atomic<std::size_t> next{0};
  std::vector<std::byte> remote = pattern(1'000'000, 5);
  std::array<std::vector<std::byte>, kStreams> sinks;
  auto target = make_rnic(options);
  auto initiator = make_rnic(options);
  auto listener =
      target->listen(loopback(GetParam().host), [&](const rdma::ConnectionRequest& request, rdma::Loop&) {
        rdma::Accept accept;
        accept.options.private_data = to_vector(request.private_data);
        Waiter& waiter = served.at(next++);
        waiter.echo = true;
        accept.handler = &waiter;
        return rdma::AcceptDecision(std::move(accept));
      });
  ASSERT_TRUE(listener.has_value());
  const auto domain_stag =
      target->register_region(rdma::DomainId{}, {remote, Access::remote_read, Content::stable, 0, false})
          ->stag;
  for (std::size_t i = 0; i < kStreams; ++i) {
    rdma::StreamOptions stream_options;
    stream_options.private_data = pattern(20, static_cast<unsigned>(i));
    initiator->connect((*listener)->local(), i % options.loops, stream_options, used[i]);
  }
  for (std::size_t i = 0; i < kStreams; ++i) {
    Waiter& a = used[i];
    ASSERT_TRUE(a.wait_open()) << (a.closed ? a.closed->text : "no answer");
    EXPECT_EQ(a.private_data, pattern(20, static_cast<unsigned>(i)));
    std::vector<std::byte>& into = sinks[i];
    into.resize(remote.size());
    on_loop(a.stream->loop(), [&] {
      a.stream->post_receives(10);
      a.stream->post(
          {rdma::Read{1, into, {domain_stag, 0}}, rdma::Send{2, pattern(100), true, std::nullopt}});
    });
    ASSERT_TRUE(a.wait([&] { return a.completions.size() == 2 && a.received.size() == 1; }));
    EXPECT_EQ(into, remote);
    EXPECT_EQ(a.received[0], pattern(100));
    on_loop(a.stream->loop(), [&] { a.stream->close(); });
    ASSERT_TRUE(a.wait_closed());
    EXPECT_EQ(a.closed->kind, CloseReason::Kind::graceful);
  }
  for (Waiter& waiter : served) {
    ASSERT_TRUE(waiter.wait_closed());
    EXPECT_EQ(waiter.closed->kind, CloseReason::Kind::graceful);
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, RnicOverSockets,
                         testing::Values(Case{"127.0.0.1", true, false, 1},
                                         Case{"127.0.0.1", false, false, 1}, Case{"127.0.0.1", true, true, 1},
                                         Case{"::1", true, false, 1}, Case{"127.0.0.1", true, false, 3},
                                         Case{"::1", false, false, 2}),
                         [](const auto& param) {
                           const Case& c = param.param;
                           return std::string(c.host[0] == ':' ? "Ipv6" : "Ipv4") +
                                  (c.crc ? "Crc" : "NoCrc") + (c.spin ? "Spin" : "") +
                                  std::to_string(c.loops);
                         });

TEST(Rnic, WritesArePlacedAndCompleted) {
  for (const bool crc : {true, false}) {
    RnicOptions options;
    options.crc = crc;
    Waiter b, a;
    b.echo = true;
    std::vector<std::byte> memory(3'000'000);
    const auto source = pattern(3'000'000, 1);
    auto target = make_rnic(options);
    auto initiator = make_rnic(options);
    auto listener = target->listen(loopback("127.0.0.1"), [&](const rdma::ConnectionRequest&, rdma::Loop&) {
      return rdma::AcceptDecision(rdma::Accept{&b, {}});
    });
    const auto stag =
        target->register_region(rdma::DomainId{}, {memory, Access::remote_write, Content::octets, 7, false})
            ->stag;
    initiator->connect((*listener)->local(), 0, {}, a);
    ASSERT_TRUE(a.wait_open());
    on_loop(a.stream->loop(), [&] {
      a.stream->post_receives(1);
      a.stream->post({rdma::Write{1, source, {stag, 7}, nullptr}, rdma::Send{2, pattern(8), false, {}}});
    });
    // RFC 5040 5.5: the Send's arrival says that the Write is in place.
    ASSERT_TRUE(a.wait([&] { return a.received.size() == 1 && a.completions.size() == 2; }));
    EXPECT_EQ(memory, source);
  }
}

TEST(Rnic, RefusedConnectionTellsThePhase) {
  Waiter a;
  auto rnic = make_rnic();
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  SocketAddress address = loopback("127.0.0.1");
  ASSERT_EQ(::bind(fd, address.get(), address.length()),
            0);  // bound, not listening: nobody else gets the port
  socklen_t length = SocketAddress::capacity();
  ::getsockname(fd, address.get(), &length);
  rnic->connect(address, 0, {}, a);
  ASSERT_TRUE(a.wait_closed());
  EXPECT_EQ(a.closed->kind, CloseReason::Kind::refused);
  EXPECT_EQ(a.closed->phase, rdma::Phase::tcp);
  ::close(fd);
}

TEST(Rnic, RejectionTellsThePhase) {
  Waiter a;
  auto rnic = make_rnic();
  auto listener = rnic->listen(loopback("127.0.0.1"), [](const rdma::ConnectionRequest&, rdma::Loop&) {
    return rdma::AcceptDecision(rdma::Reject{});
  });
  rnic->connect((*listener)->local(), 0, {}, a);
  ASSERT_TRUE(a.wait_closed());
  EXPECT_EQ(a.closed->kind, CloseReason::Kind::refused);
  EXPECT_EQ(a.closed->phase, rdma::Phase::mpa);
}

TEST(Rnic, UnknownCongestionControlIsRefused) {
  RnicOptions options;
  options.congestion_control = "no-such-thing";
  EXPECT_FALSE(Rnic::create(options).has_value());
}

TEST(Rnic, DestructionEndsStreams) {
  Waiter a, b;
  auto target = make_rnic();
  auto initiator = make_rnic();
  auto listener = target->listen(loopback("127.0.0.1"), [&](const rdma::ConnectionRequest&, rdma::Loop&) {
    return rdma::AcceptDecision(rdma::Accept{&b, {}});
  });
  initiator->connect((*listener)->local(), 0, {}, a);
  ASSERT_TRUE(a.wait_open());
  initiator.reset();
  EXPECT_TRUE(a.closed.has_value());
  ASSERT_TRUE(b.wait_closed());  // the other side sees it, and closes in turn
}

TEST(Rnic, RevocationOfADomainsStagIsAcknowledgedByEveryLoop) {
  RnicOptions options;
  options.loops = 3;
  std::vector<std::byte> memory(64);
  auto rnic = make_rnic(options);
  const auto stag =
      rnic->register_region(rdma::DomainId{}, {memory, Access::remote_read, Content::octets, 0, false})->stag;
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  rnic->revoke(stag, [&] {
    const std::scoped_lock lock(mutex);
    done = true;
    changed.notify_all();
  });
  std::unique_lock lock(mutex);
  EXPECT_TRUE(changed.wait_for(lock, kPatience, [&] { return done; }));
}

/// Reads under way while the region is revoked end in order or with a Terminate, never with memory touched
/// later.
TEST(Rnic, RevocationUnderLoad) {
  Waiter b, a;
  auto memory = std::make_unique<std::vector<std::byte>>(pattern(4'000'000));
  std::vector<std::byte> into(4'000'000);
  auto target = make_rnic();
  auto initiator = make_rnic();
  auto listener = target->listen(loopback("127.0.0.1"), [&](const rdma::ConnectionRequest&, rdma::Loop&) {
    return rdma::AcceptDecision(rdma::Accept{&b, {}});
  });
  const auto stag =
      target->register_region(rdma::DomainId{}, {*memory, Access::remote_read, Content::stable, 0, false})
          ->stag;
  initiator->connect((*listener)->local(), 0, {}, a);
  ASSERT_TRUE(a.wait_open());
  on_loop(a.stream->loop(), [&] {
    for (std::uint64_t i = 0; i < 20; ++i) a.stream->post({rdma::Read{i, into, {stag, 0}}});
  });
  ASSERT_TRUE(a.wait([&] { return a.completions.size() >= 2; }));
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  target->revoke(stag, [&] {
    const std::scoped_lock lock(mutex);
    done = true;
    changed.notify_all();
  });
  {
    std::unique_lock lock(mutex);
    ASSERT_TRUE(changed.wait_for(lock, kPatience, [&] { return done; }));
  }
  memory.reset();  // ASan tells if anything still reads it
  ASSERT_TRUE(a.wait([&] { return a.completions.size() == 20; }));
  if (a.completions.back().status != rdma::WorkStatus::success) {
    ASSERT_TRUE(a.wait_closed());
    EXPECT_EQ(a.closed->kind, CloseReason::Kind::remote_error);
    EXPECT_EQ(a.closed->terminate, terminate::kRdmapInvalidStag.packed());
  }
}

/// Lets the loop turn until no more than `before` descriptors are open: a connection is gone once the loop
/// has seen its end. False when that takes too long.
bool comes_back_to(rdma::Provider& rnic, std::size_t before) {
  const auto deadline = Clock::now() + kPatience;
  while (open_descriptors() > before && Clock::now() < deadline) on_loop(rnic.loop(0), [] {});
  return open_descriptors() <= before;
}

TEST(Rnic, BadStartsLeaveNoDescriptorAndServiceGoesOn) {
  RnicOptions options;
  options.max_handshakes = 16;
  Waiter good;
  good.echo = true;
  auto rnic = make_rnic(options);
  auto listener = rnic->listen(loopback("127.0.0.1"), [&](const rdma::ConnectionRequest&, rdma::Loop&) {
    return rdma::AcceptDecision(rdma::Accept{&good, {}});
  });
  const auto request = *from_hex("4d504120494420526571204672616d65");
  const auto with = [&](const char* rest, std::size_t extra = 0) {
    auto octets = joined({request, *from_hex(rest)});
    octets.resize(octets.size() + extra);
    return octets;
  };
  const std::vector<std::vector<std::byte>> starts = {
      *from_hex("4d504120494420526570204672616d6540010000"),  // a Reply
      with("40010201", 513),
      with("4001ffff"),
      with("50020003", 3),
      with("400900", 1),
      with("40010000", 40),
      to_vector(Octets(request).first(10)),
      to_vector(Octets(with("40010000")).first(19)),
      {},
      to_vector(as_octets("GET / HTTP/1.1\r\n\r\n"))};
  const std::size_t before = open_descriptors();
  constexpr std::size_t kStarts = 2000;
  std::vector<int> silent;
  for (std::size_t i = 0; i < kStarts; ++i) {
    const int fd = plain_connect((*listener)->local());
    ASSERT_GE(fd, 0);
    const auto& octets = starts[i % starts.size()];
    if (!octets.empty()) std::ignore = ::send(fd, octets.data(), octets.size(), MSG_NOSIGNAL);
    if (i % 100 == 8) {
      silent.push_back(fd);  // says nothing and stays: more of them than there is room for
    } else {
      ::close(fd);
    }
  }
  const int fd = plain_connect((*listener)->local());
  ASSERT_GE(fd, 0);
  const auto hello = with("40010000");
  ASSERT_EQ(::send(fd, hello.data(), hello.size(), MSG_NOSIGNAL), static_cast<ssize_t>(hello.size()));
  std::array<std::byte, 20> reply{};
  ASSERT_EQ(::recv(fd, reply.data(), reply.size(), MSG_WAITALL), 20);
  EXPECT_EQ(to_hex(reply), "4d504120494420526570204672616d6540010000");
  ::close(fd);
  ASSERT_TRUE(good.wait_closed());
  for (const int s : silent) ::close(s);
  EXPECT_TRUE(comes_back_to(*rnic, before));
}

/// Whoever is rejected may keep his end open; he costs us no more than an unfinished start-up.
TEST(Rnic, RejectedConnectionsAreBounded) {
  RnicOptions options;
  options.max_handshakes = 8;
  auto rnic = make_rnic(options);
  auto listener = rnic->listen(loopback("127.0.0.1"), [](const rdma::ConnectionRequest&, rdma::Loop&) {
    return rdma::AcceptDecision(rdma::Reject{});
  });
  const auto request = *from_hex("4d504120494420526571204672616d6540010000");
  constexpr std::size_t kPeers = 40;
  const std::size_t before = open_descriptors();
  std::vector<int> peers;
  for (std::size_t i = 0; i < kPeers; ++i) {
    peers.push_back(plain_connect((*listener)->local()));
    ASSERT_GE(peers.back(), 0);
    ASSERT_EQ(::send(peers.back(), request.data(), request.size(), MSG_NOSIGNAL), 20);
    std::array<std::byte, 20> reply{};
    ASSERT_EQ(::recv(peers.back(), reply.data(), reply.size(), MSG_WAITALL), 20);
    EXPECT_EQ(reply[16], std::byte{0x60});
  }
  EXPECT_LE(open_descriptors(), before + kPeers + options.max_handshakes);
  for (const int fd : peers) ::close(fd);
}

TEST(Rnic, RunningOutOfDescriptorsIsSurvived) {
  auto rnic = make_rnic();
  auto listener = rnic->listen(loopback("127.0.0.1"), [](const rdma::ConnectionRequest&, rdma::Loop&) {
    return rdma::AcceptDecision(rdma::Reject{});
  });
  const SocketAddress address = (*listener)->local();
  const auto request = *from_hex("4d504120494420526571204672616d6540010000");
  std::array<std::byte, 20> reply{};
  // A peer that is answered before descriptors run out. (It also lets UBSan look at every type on this path
  // while it still has a descriptor to do so with.)
  const std::size_t before = open_descriptors();
  const int first = plain_connect(address);
  ASSERT_EQ(::send(first, request.data(), request.size(), MSG_NOSIGNAL), 20);
  ASSERT_EQ(::recv(first, reply.data(), reply.size(), MSG_WAITALL), 20);
  ::close(first);
  ASSERT_TRUE(comes_back_to(*rnic, before));

  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval patience{30, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  rlimit whole_limit{};
  ASSERT_EQ(::getrlimit(RLIMIT_NOFILE, &whole_limit), 0);
  // No number below the limit is free any more.
  std::vector<int> fillers;
  const rlimit small{static_cast<rlim_t>(fd) + 20, whole_limit.rlim_max};
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &small), 0);
  for (int filler = ::dup(fd); filler >= 0; filler = ::dup(fd)) fillers.push_back(filler);
  ASSERT_EQ(::connect(fd, address.get(), address.length()), 0);
  ASSERT_EQ(::send(fd, request.data(), request.size(), MSG_NOSIGNAL), 20);
  for (int i = 0; i < 100; ++i) on_loop(rnic->loop(0), [] {});  // it goes on turning
  for (const int filler : fillers) ::close(filler);
  ASSERT_EQ(::setrlimit(RLIMIT_NOFILE, &whole_limit), 0);
  EXPECT_EQ(::recv(fd, reply.data(), reply.size(), MSG_WAITALL), 20);
  ::close(fd);
}

TEST(Rnic, ListenerThatIsGoneAcceptsNobody) {
  std::atomic<bool> gone{false};
  std::atomic<bool> called_late{false};
  auto rnic = make_rnic();
  auto listener = rnic->listen(loopback("127.0.0.1"), [&](const rdma::ConnectionRequest&, rdma::Loop&) {
    if (gone) called_late = true;
    return rdma::AcceptDecision(rdma::Reject{});
  });
  const int fd = plain_connect((*listener)->local());
  ASSERT_GE(fd, 0);
  listener->reset();
  gone = true;
  const auto request = *from_hex("4d504120494420526571204672616d6540010000");
  std::ignore = ::send(fd, request.data(), request.size(), MSG_NOSIGNAL);
  std::byte octet{};
  EXPECT_LE(::recv(fd, &octet, 1, 0), 0);
  EXPECT_FALSE(called_late);
  ::close(fd);
}

}  // namespace
}  // namespace kbtp::rnic::test
