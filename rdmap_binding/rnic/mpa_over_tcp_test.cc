// MPA over real TCP: markers and CRCs in all combinations, the sequence number's wrap, peers of revision 1.

#include <cerrno>
#include <cstring>
#include <gtest/gtest.h>
#include <netinet/tcp.h>
#include <thread>

#include "base/hex.h"
#include "rdmap_binding/mpa/marker.h"
#include "rdmap_binding/rnic/engine_rig.h"
#include "rdmap_binding/rnic/socket_rig.h"

namespace kbtp::rnic::test {
namespace {

using rdma::Access;
using rdma::Content;

RnicOptions with(bool markers, bool crc) {
  RnicOptions options;
  options.markers = markers;
  options.crc = crc;
  return options;
}

/// Sends, a Write and a Read of many segments between two RNICs.
void move_data(const RnicOptions& of_a, const RnicOptions& of_b) {
  Waiter a;
  Waiter b;
  b.echo = true;
  auto rnic_a = make_rnic(of_a);
  auto rnic_b = make_rnic(of_b);
  auto listener = rnic_b->listen(loopback("127.0.0.1"), [&](const rdma::ConnectionRequest&, rdma::Loop&) {
    return rdma::AcceptDecision(rdma::Accept{&b, {}});
  });
  rnic_a->connect((*listener)->local(), 0, {}, a);
  ASSERT_TRUE(a.wait_open());
  ASSERT_TRUE(b.wait_open());
  std::vector<std::byte> memory(400'000);
  rdma::STag stag = 0;
  on_loop(b.stream->loop(), [&] {
    stag =
        b.stream
            ->register_region({memory, Access::remote_write | Access::remote_read, Content::octets, 0, false})
            ->stag;
  });
  const auto source = pattern(memory.size(), 5);
  std::vector<std::byte> sink(memory.size());
  on_loop(a.stream->loop(), [&] {
    a.stream->post({rdma::Send{1, pattern(100), false, std::nullopt},
                    rdma::Write{2, source, {stag, 0}, nullptr}, rdma::Read{3, sink, {stag, 0}},
                    rdma::Send{4, pattern(200), false, std::nullopt}});
  });
  ASSERT_TRUE(a.wait([&] { return a.completions.size() == 4 && a.received.size() == 2; }));
  EXPECT_EQ(sink, source);
  EXPECT_EQ(a.received[0], pattern(100));
  EXPECT_EQ(a.received[1], pattern(200));
  on_loop(a.stream->loop(), [&] { a.stream->close(); });
  EXPECT_TRUE(a.wait_closed());
  EXPECT_TRUE(b.wait_closed());
}

// Rules: RFC5044-4.3-01, RFC5044-4.4-01, RFC5044-4.4-06, RFC5044-4.4-07, RFC5044-7.1.1-08
TEST(MpaOverTcp, MarkersAndCrcsInAllCombinations) {
  for (unsigned bits = 0; bits < 16; ++bits) {
    SCOPED_TRACE(bits);
    move_data(with((bits & 1) != 0, (bits & 2) != 0), with((bits & 4) != 0, (bits & 8) != 0));
  }
}

// --- The sequence number's wrap --------------------------------------------------------------------------

/// A socket whose first octet will have this sequence number plus one; -1 when that may not be set here.
int socket_that_starts_at(std::uint32_t sequence) {
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  const int off = 0;
  const int queue = TCP_SEND_QUEUE;
  const timeval patience{30, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  if (::setsockopt(fd, IPPROTO_TCP, TCP_REPAIR, &on, sizeof on) == 0 &&
      ::setsockopt(fd, IPPROTO_TCP, TCP_REPAIR_QUEUE, &queue, sizeof queue) == 0 &&
      ::setsockopt(fd, IPPROTO_TCP, TCP_QUEUE_SEQ, &sequence, sizeof sequence) == 0 &&
      ::setsockopt(fd, IPPROTO_TCP, TCP_REPAIR, &off, sizeof off) == 0) {
    return fd;
  }
  const int error = errno;
  ::close(fd);
  errno = error;
  return -1;
}

/// The sequence number of the next octet that `fd` sends.
std::uint32_t next_sequence(int fd) {
  const int on = 1;
  const int off = 0;
  const int queue = TCP_SEND_QUEUE;
  std::uint32_t sequence = 0;
  socklen_t size = sizeof sequence;
  ::setsockopt(fd, IPPROTO_TCP, TCP_REPAIR, &on, sizeof on);
  ::setsockopt(fd, IPPROTO_TCP, TCP_REPAIR_QUEUE, &queue, sizeof queue);
  ::getsockopt(fd, IPPROTO_TCP, TCP_QUEUE_SEQ, &sequence, &size);
  ::setsockopt(fd, IPPROTO_TCP, TCP_REPAIR, &off, sizeof off);
  return sequence;
}

// Rules: RFC5044-4.3-04
TEST(MpaOverTcp, MarkersAreFollowedAcrossTheSequenceWrap) {
  auto rnic = make_rnic(with(true, true));
  rdma::StreamOptions stream_options;
  stream_options.receive_size = 4000;
  stream_options.initial_receives = 100;
  std::vector<std::byte> stream;
  mpa::MarkerInserter inserter;
  std::vector<std::vector<std::byte>> sent;
  for (std::uint32_t msn = 1; msn <= 8; ++msn) {
    sent.push_back(pattern(msn * 291, msn));
    const auto fpdu = mpa::encode_marked_fpdu(Untagged{.msn = msn, .body = sent.back()}.ulpdu(), inserter);
    stream.insert(stream.end(), fpdu.begin(), fpdu.end());
  }
  const auto request = *from_hex("4d504120494420526571204672616d6540010000");
  // Number 0 falls into the Request, on the first marker, into it, between ULPDU_Length and a marker, on a
  // marker inside an FPDU, at places of no meaning.
  for (const std::uint32_t before : {10U, 20U, 22U, 26U, 20U + 512, 20U + 514, 20U + 1024 + 300, 5000U}) {
    SCOPED_TRACE(before);
    const std::uint32_t start = std::uint32_t{0} - before - 1;
    const int fd = socket_that_starts_at(start);
    if (fd < 0) {
      GTEST_SKIP() << "TCP_REPAIR cannot be used here (it needs CAP_NET_ADMIN): " << std::strerror(errno);
    }
    Waiter waiter;
    auto listener = rnic->listen(loopback("127.0.0.1"), [&](const rdma::ConnectionRequest&, rdma::Loop&) {
      return rdma::AcceptDecision(rdma::Accept{&waiter, stream_options});
    });
    const SocketAddress& address = (*listener)->local();
    ASSERT_EQ(::connect(fd, address.get(), address.length()), 0);
    ASSERT_EQ(next_sequence(fd), start + 1);
    ASSERT_EQ(::send(fd, request.data(), request.size(), MSG_NOSIGNAL), static_cast<ssize_t>(request.size()));
    std::array<std::byte, 20> reply{};
    ASSERT_EQ(::recv(fd, reply.data(), reply.size(), MSG_WAITALL), 20);
    EXPECT_EQ(to_hex(reply), "4d504120494420526570204672616d65c0010000");
    ASSERT_EQ(::send(fd, stream.data(), stream.size(), MSG_NOSIGNAL), static_cast<ssize_t>(stream.size()));
    EXPECT_TRUE(waiter.wait([&] { return waiter.received.size() == sent.size() || waiter.closed; }));
    EXPECT_EQ(waiter.received, sent);
    EXPECT_EQ(next_sequence(fd), static_cast<std::uint32_t>(start + 1 + request.size() + stream.size()));
    EXPECT_LT(next_sequence(fd), start) << "the number did wrap";
    ::close(fd);
    EXPECT_TRUE(waiter.wait_closed());
  }
}

// --- Revision 1 ------------------------------------------------------------------------------------------

// Rules: RFC6581-10-06
TEST(MpaOverTcp, APeerOfRevision1IsReachedOnASecondConnection) {
  const int listener = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  SocketAddress address = loopback("127.0.0.1");
  ASSERT_EQ(::bind(listener, address.get(), address.length()), 0);
  ASSERT_EQ(::listen(listener, 4), 0);
  socklen_t length = SocketAddress::capacity();
  ASSERT_EQ(::getsockname(listener, address.get(), &length), 0);
  address.set_length(length);

  // RFC 5044 alone: closes on revision 2, answers revision 1.
  std::vector<std::string> requests;
  int kept = -1;
  std::thread peer([&] {
    for (int i = 0; i < 2; ++i) {
      kept = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
      std::array<std::byte, 24> request{};
      const bool enhanced = i == 0;
      const auto n = ::recv(kept, request.data(), enhanced ? 24 : 20, MSG_WAITALL);
      requests.push_back(to_hex(Octets(request).first(n < 0 ? 0 : static_cast<std::size_t>(n))));
      if (enhanced) {
        ::close(kept);
      } else {
        const auto reply = *from_hex("4d504120494420526570204672616d6540010000");
        std::ignore = ::send(kept, reply.data(), reply.size(), MSG_NOSIGNAL);
      }
    }
  });
  RnicOptions options;
  options.legacy_peers = true;
  auto rnic = make_rnic(options);
  Waiter waiter;
  rnic->connect(address, 0, {}, waiter);
  EXPECT_TRUE(waiter.wait_open());
  peer.join();
  ASSERT_EQ(requests.size(), 2U);
  EXPECT_EQ(requests[0], "4d504120494420526571204672616d655002000400100010");
  EXPECT_EQ(requests[1], "4d504120494420526571204672616d6540010000");
  SocketAddress seen;
  length = SocketAddress::capacity();
  ASSERT_EQ(::getpeername(kept, seen.get(), &length), 0);
  seen.set_length(length);
  on_loop(rnic->loop(0), [&] { EXPECT_EQ(waiter.stream->local().to_string(), seen.to_string()); });
  ::close(kept);
  EXPECT_TRUE(waiter.wait_closed());
  ::close(listener);
}

}  // namespace
}  // namespace kbtp::rnic::test
