#include "pcap/frame.h"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>

#include "base/hex.h"
#include "pcap/test_frames.h"

namespace kbtp::trace {
namespace {

using namespace test;

const TransportAddress kA = v4(1, 40000), kB = v4(2, 7420);
const TransportAddress kA6 = v6(1, 40000), kB6 = v6(2, 7420);

Bytes segment() { return tcp(40000, 7420, 77, kAck, pattern(9)); }

void expect_segment(const Expected<Packet, FrameProblem>& packet, const TransportAddress& source,
                    const TransportAddress& destination) {
  ASSERT_TRUE(packet) << packet.error().text;
  const auto* tcp = std::get_if<TcpSegment>(&*packet);
  ASSERT_NE(tcp, nullptr);
  EXPECT_EQ(tcp->source, source);
  EXPECT_EQ(tcp->destination, destination);
  EXPECT_EQ(tcp->sequence, 77U);
  EXPECT_TRUE(tcp->ack);
  EXPECT_FALSE(tcp->syn || tcp->fin || tcp->rst);
  EXPECT_EQ(tcp->payload_length, 9U);
  EXPECT_EQ(to_vector(tcp->payload), pattern(9));
}

void expect_problem(const Expected<Packet, FrameProblem>& packet, FrameProblem::Kind kind) {
  ASSERT_FALSE(packet);
  EXPECT_EQ(packet.error().kind, kind) << packet.error().text;
}

Expected<Packet, FrameProblem> decode(LinkType link, const Bytes& octets) {
  return decode_frame(link, octets, static_cast<std::uint32_t>(octets.size()));
}

TEST(Frame, EthernetWithPaddingBehindThePacket) {
  expect_segment(decode(LinkType::ethernet, ethernet(0x0800, ipv4(kA, kB, 6, segment())) + Bytes(11)), kA,
                 kB);
  expect_segment(decode(LinkType::ethernet, ethernet(0x86DD, ipv6(kA6, kB6, 6, segment())) + Bytes(3)), kA6,
                 kB6);
}

TEST(Frame, VlanTagsAreSkipped) {
  const Bytes packet = ipv4(kA, kB, 6, segment());
  const Bytes one = *from_hex("0007 0800") + packet;
  const Bytes two = *from_hex("0064 8100") + one;
  expect_segment(decode(LinkType::ethernet, ethernet(0x8100, one)), kA, kB);
  expect_segment(decode(LinkType::ethernet, ethernet(0x88A8, two)), kA, kB);
}

TEST(Frame, LinuxCooked) {
  const Bytes packet = ipv4(kA, kB, 6, segment());
  // Packet type, ARPHRD, address length, address, protocol.
  expect_segment(decode(LinkType::linux_sll, *from_hex("0000 0304 0006 000000000000 0000 0800") + packet), kA,
                 kB);
  // Protocol, reserved, interface index, ARPHRD, packet type, address length, address.
  expect_segment(
      decode(LinkType::linux_sll2, *from_hex("0800 0000 00000001 0304 00 06 0000000000000000") + packet), kA,
      kB);
}

TEST(Frame, RawAndLoopback) {
  const Bytes four = ipv4(kA, kB, 6, segment());
  const Bytes six = ipv6(kA6, kB6, 6, segment());
  expect_segment(decode(LinkType::raw_ip, four), kA, kB);
  expect_segment(decode(LinkType::raw_ip, six), kA6, kB6);
  expect_segment(decode(LinkType::ipv4, four), kA, kB);
  expect_segment(decode(LinkType::ipv6, six), kA6, kB6);
  expect_segment(decode(LinkType::null_loopback, *from_hex("02000000") + four), kA, kB);
  expect_segment(decode(LinkType::null_loopback, *from_hex("00000002") + four), kA, kB);
  expect_segment(decode(LinkType::null_loopback, *from_hex("1e000000") + six), kA6, kB6);
  expect_segment(decode(LinkType::openbsd_loop, *from_hex("00000018") + six), kA6, kB6);
}

TEST(Frame, Ipv6ExtensionHeaders) {
  const Bytes hop = *from_hex("3c 00 0104 00000000");                          // then destination options
  const Bytes destination = *from_hex("2b 01 010c 000000000000000000000000");  // then routing
  const Bytes routing = *from_hex("2c 00 0000 00000000");                      // then fragment
  const Bytes whole = *from_hex("06 00 0000 12345678");                        // an atomic fragment, then TCP
  expect_segment(decode(LinkType::ipv6, ipv6(kA6, kB6, 0, hop + destination + routing + whole + segment())),
                 kA6, kB6);
}

TEST(Frame, LengthZeroOfOffloadedPacketsMeansTheWholeFrame) {
  Bytes four = ipv4(kA, kB, 6, segment());
  four[2] = four[3] = std::byte{0};
  expect_segment(decode(LinkType::ipv4, four), kA, kB);
  // RFC 2675: hop-by-hop with Jumbo Payload 8 + 29.
  Bytes six = ipv6(kA6, kB6, 0, *from_hex("06 00 c2 04 00000025") + segment());
  six[4] = six[5] = std::byte{0};
  expect_segment(decode(LinkType::ipv6, six), kA6, kB6);
}

TEST(Frame, ChecksumsThatOffloadingLeavesWrongAreNotLookedAt) {
  for (const int value : {0x0000, 0xFFFF, 0xBAD0}) {
    Bytes packet = ipv4(kA, kB, 6, segment());
    store_be(packet.data() + 10, static_cast<std::uint16_t>(value));
    store_be(packet.data() + 20 + 16, static_cast<std::uint16_t>(~value));
    expect_segment(decode(LinkType::ipv4, packet), kA, kB);
  }
}

TEST(Frame, FragmentsTellTheirPlace) {
  Bytes four = ipv4(kA, kB, 6, segment());
  four[4] = std::byte{0x12};
  four[6] = std::byte{0x20};  // MF
  four[7] = std::byte{0x03};
  const auto packet = decode(LinkType::ipv4, four);
  const auto* fragment = packet ? std::get_if<IpFragment>(&*packet) : nullptr;
  ASSERT_NE(fragment, nullptr);
  EXPECT_EQ(fragment->identification, 0x1200U);
  EXPECT_EQ(fragment->offset, 24U);
  EXPECT_TRUE(fragment->more);
  EXPECT_EQ(fragment->payload_length, segment().size());
  const Bytes octets = ipv6(kA6, kB6, 44, *from_hex("06 00 0009 12345678") + segment());
  const auto six = decode(LinkType::ipv6, octets);
  fragment = six ? std::get_if<IpFragment>(&*six) : nullptr;
  ASSERT_NE(fragment, nullptr);
  EXPECT_EQ(fragment->identification, 0x12345678U);
  EXPECT_EQ(fragment->protocol, 6);
  EXPECT_EQ(fragment->offset, 8U);
  // One that is all of its packet.
  const Bytes atomic_octets = ipv6(kA6, kB6, 44, *from_hex("06 00 0000 12345678") + segment());
  const auto atomic = decode(LinkType::ipv6, atomic_octets);
  expect_segment(atomic, kA6, kB6);
}

TEST(Frame, EspAndRoceV1) {
  const Bytes esp_octets = ipv4(kA, kB, 50, pattern(40));
  const auto packet = decode(LinkType::ipv4, esp_octets);
  const auto* esp = packet ? std::get_if<EspPacket>(&*packet) : nullptr;
  ASSERT_NE(esp, nullptr);
  EXPECT_EQ(to_vector(esp->payload), pattern(40));
  const Bytes roce_octets = ethernet(0x8915, ipv6(kA6, kB6, 0x1B, pattern(32)) + pattern(6));
  const auto frame = decode(LinkType::ethernet, roce_octets);
  const auto* roce = frame ? std::get_if<RoceV1Packet>(&*frame) : nullptr;
  ASSERT_NE(roce, nullptr);
  EXPECT_EQ(roce->source.host, kA6.host);
  EXPECT_EQ(to_vector(roce->payload), pattern(32));
  EXPECT_EQ(roce->headers.size(), 40U);
}

/// Virtual Lane 3, LNH, from LID 0x0102 to 0x0304, `words` of 4 octets.
Bytes lrh(std::uint8_t next, std::uint8_t words) {
  return Bytes{std::byte{0x30}, std::byte{next},  std::byte{3}, std::byte{4},
               std::byte{0},    std::byte{words}, std::byte{1}, std::byte{2}};
}

TEST(Frame, InfinibandByLid) {
  const Bytes octets = lrh(2, 6) + pattern(16) + pattern(2);
  const auto frame = decode(LinkType::infiniband, octets);
  const auto* native = frame ? std::get_if<InfinibandPacket>(&*frame) : nullptr;
  ASSERT_NE(native, nullptr);
  EXPECT_EQ(InfinibandPacket::lid(native->source), 0x0102);
  EXPECT_EQ(InfinibandPacket::lid(native->destination), 0x0304);
  EXPECT_EQ(to_vector(native->payload), pattern(16)) << "the VCRC is none of it";
  EXPECT_EQ(native->headers.size(), 8U);
}

TEST(Frame, InfinibandByGid) {
  const Bytes octets = lrh(3, 16) + ipv6(kA6, kB6, 0x1B, {}) + pattern(16);
  const auto frame = decode(LinkType::infiniband, octets);
  const auto* native = frame ? std::get_if<InfinibandPacket>(&*frame) : nullptr;
  ASSERT_NE(native, nullptr);
  EXPECT_EQ(native->source.host, kA6.host);
  EXPECT_EQ(native->destination.host, kB6.host);
  EXPECT_EQ(to_vector(native->payload), pattern(16));
  EXPECT_EQ(native->headers.size(), 48U);
}

TEST(Frame, InfinibandThatCannotBeRead) {
  const auto problem_of = [](const Bytes& octets, FrameProblem::Kind kind) {
    expect_problem(decode(LinkType::infiniband, octets), kind);
  };
  problem_of(lrh(0, 6) + pattern(16), FrameProblem::Kind::other_protocol);
  problem_of(lrh(1, 6) + pattern(16), FrameProblem::Kind::other_protocol);
  problem_of(lrh(2, 7) + pattern(16), FrameProblem::Kind::malformed);
  problem_of(lrh(2, 1) + pattern(16), FrameProblem::Kind::malformed);
  problem_of(lrh(3, 6) + pattern(16), FrameProblem::Kind::malformed);
  problem_of(pattern(7), FrameProblem::Kind::malformed);
  const auto cut = decode_frame(LinkType::infiniband, lrh(3, 16) + pattern(20), 64);
  expect_problem(cut, FrameProblem::Kind::cut_short);
}

TEST(Frame, InfinibandInErf) {
  // Time, type, flags, lengths of record and packet; then what the type's first bit announces.
  const auto record = [](std::uint8_t type, const Bytes& behind) {
    Bytes octets(16);
    octets[8] = std::byte{type};
    octets[15] = std::byte{26};
    return octets + behind;
  };
  const Bytes packet = lrh(2, 6) + pattern(16) + pattern(2);
  Bytes more(8);
  more[0] = std::byte{0x80};
  for (const Bytes& octets :
       {record(21, packet + Bytes(6)), record(0x80 | 21, more + Bytes(8) + packet + Bytes(6))}) {
    const auto frame = decode(LinkType::erf, octets);
    const auto* native = frame ? std::get_if<InfinibandPacket>(&*frame) : nullptr;
    ASSERT_NE(native, nullptr);
    EXPECT_EQ(to_vector(native->payload), pattern(16));
  }
  expect_problem(decode(LinkType::erf, record(2, packet)), FrameProblem::Kind::other_protocol);
  expect_problem(decode(LinkType::erf, record(0x80 | 21, more)), FrameProblem::Kind::malformed);
  expect_problem(decode(LinkType::erf, Bytes(15)), FrameProblem::Kind::malformed);
}

TEST(Frame, UdpKeepsTheHeadersInFrontOfIt) {
  const Bytes octets = ethernet(0x0800, ipv4(kA, kB, 17, *from_hex("0001 0002 000a 0000 aabb")));
  const auto packet = decode(LinkType::ethernet, octets);
  const auto* udp = packet ? std::get_if<UdpDatagram>(&*packet) : nullptr;
  ASSERT_NE(udp, nullptr);
  EXPECT_EQ(udp->headers.size(), 28U);
  EXPECT_EQ(udp->headers[0], std::byte{0x45});
}

TEST(Frame, OtherProtocolsAreTold) {
  expect_problem(decode(LinkType::ipv4, ipv4(kA, kB, 47, segment())), FrameProblem::Kind::other_protocol);
  expect_problem(decode(LinkType::ethernet, ethernet(0x0806, pattern(28))),
                 FrameProblem::Kind::other_protocol);
  // A link type without a name is the point. NOLINTNEXTLINE(clang-analyzer-optin.core.EnumCastOutOfRange)
  expect_problem(decode(static_cast<LinkType>(147), pattern(28)), FrameProblem::Kind::unsupported_link);
}

TEST(Frame, ContradictoryLengthsAreMalformed) {
  const Bytes good = ipv4(kA, kB, 6, segment());
  const auto with = [&](std::size_t at, std::uint8_t value) {
    Bytes changed = good;
    changed[at] = static_cast<std::byte>(value);
    return decode(LinkType::ipv4, changed);
  };
  expect_problem(with(0, 0x44), FrameProblem::Kind::malformed);   // IHL 4
  expect_problem(with(0, 0x55), FrameProblem::Kind::malformed);   // version 5
  expect_problem(with(2, 0x01), FrameProblem::Kind::malformed);   // total length beyond the frame
  expect_problem(with(3, 19), FrameProblem::Kind::malformed);     // total length below the header
  expect_problem(with(32, 0x40), FrameProblem::Kind::malformed);  // TCP data offset 4
  expect_problem(with(32, 0xF0), FrameProblem::Kind::malformed);  // TCP data offset behind the packet
  expect_problem(with(3, 30), FrameProblem::Kind::malformed);     // no room for TCP
}

TEST(Frame, CutShortAtEveryOctet) {
  const Bytes whole = ethernet(
      0x8100, *from_hex("0007 86dd") + ipv6(kA6, kB6, 0, *from_hex("06 00 0104 00000000") + segment()));
  const std::size_t headers = whole.size() - 9;
  for (std::size_t kept = 0; kept < whole.size(); ++kept) {
    const auto packet =
        decode_frame(LinkType::ethernet, Octets(whole).first(kept), static_cast<std::uint32_t>(whole.size()));
    if (kept < headers) {
      expect_problem(packet, FrameProblem::Kind::cut_short);
    } else {
      ASSERT_TRUE(packet) << kept;
      EXPECT_EQ(std::get<TcpSegment>(*packet).payload_length, 9U);
      EXPECT_EQ(std::get<TcpSegment>(*packet).payload.size(), kept - headers);
    }
  }
}

TEST(Frame, UdpIsRead) {
  const Bytes datagram = *from_hex("9c40 1cfc 000b 0000 010203");
  const Bytes whole = ipv4(kA, kB, 17, datagram);
  const auto packet = decode(LinkType::ipv4, whole);
  ASSERT_TRUE(packet);
  EXPECT_EQ(std::get<UdpDatagram>(*packet).source, kA);
  EXPECT_EQ(to_vector(std::get<UdpDatagram>(*packet).payload), *from_hex("010203"));
  expect_problem(decode(LinkType::ipv4, ipv4(kA, kB, 17, *from_hex("9c40 1cfc 0007 0000"))),
                 FrameProblem::Kind::malformed);
}

TEST(Frame, AddressesOfSockets) {
  sockaddr_in6 in6{};
  in6.sin6_family = AF_INET6;
  in6.sin6_port = htons(7420);
  inet_pton(AF_INET6, "::ffff:10.0.0.2", &in6.sin6_addr);
  EXPECT_EQ(TransportAddress::from(SocketAddress(reinterpret_cast<sockaddr*>(&in6), sizeof in6)), kB);
  inet_pton(AF_INET6, "fd00::2", &in6.sin6_addr);
  const auto six = TransportAddress::from(SocketAddress(reinterpret_cast<sockaddr*>(&in6), sizeof in6));
  EXPECT_EQ(six, kB6);
  EXPECT_EQ(six.to_string(), "[fd00::2]:7420");
  EXPECT_EQ(kB.to_string(), "10.0.0.2:7420");
  EXPECT_EQ(Flow(kA, kB), Flow(kB, kA));
}

}  // namespace
}  // namespace kbtp::trace
