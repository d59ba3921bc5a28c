// IP fragments in any order, twice, overlapping, cut short and never completed.

#include "pcap/defragment.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <random>

#include "pcap/test_frames.h"

namespace kbtp::trace {
namespace {

using namespace test;

const TransportAddress kA = v4(1, 0), kB = v4(2, 0);

Bytes datagram(std::size_t n) {
  Bytes octets(8);
  ByteWriter out(octets);
  out.u16(1234);
  out.u16(4791);
  out.u16(static_cast<std::uint16_t>(8 + n));
  out.u16(0);
  append(octets, pattern(n));
  return octets;
}

struct Piece {
  std::uint32_t from = 0, to = 0;
};
IpFragment fragment(const Bytes& packet, Piece piece, std::uint32_t id = 7) {
  IpFragment out;
  out.source = kA;
  out.destination = kB;
  out.identification = id;
  out.protocol = 17;
  out.offset = piece.from;
  out.more = piece.to < packet.size();
  out.payload = Octets(packet).subspan(piece.from, piece.to - piece.from);
  out.payload_length = static_cast<std::uint32_t>(out.payload.size());
  return out;
}

void expect_whole(const std::optional<Packet>& packet, const Bytes& sent) {
  ASSERT_TRUE(packet);
  const auto* udp = std::get_if<UdpDatagram>(&*packet);
  ASSERT_NE(udp, nullptr);
  EXPECT_EQ(udp->destination.port, 4791);
  EXPECT_EQ(to_vector(udp->payload), Bytes(sent.begin() + 8, sent.end()));
}

TEST(Defragment, AnyOrderAndCopiesGiveThePacketOnce) {
  const Bytes packet = datagram(3000);
  std::vector<Piece> pieces{{0, 1000}, {1000, 2000}, {2000, 3008}, {0, 1000}, {1504, 2504}};
  std::mt19937 random(1);
  for (int round = 0; round < 50; ++round) {
    std::ranges::shuffle(pieces, random);
    Defragmenter fragments;
    int whole = 0;
    for (const Piece& piece : pieces) {
      if (const auto out = fragments.take(fragment(packet, piece))) {
        expect_whole(out, packet);
        ++whole;
      }
    }
    EXPECT_GE(whole, 1);
  }
}

TEST(Defragment, OfSeveralPacketsAtOnce) {
  const Bytes one = datagram(2000), two = datagram(2040);
  Defragmenter fragments;
  EXPECT_FALSE(fragments.take(fragment(one, {0, 1000}, 1)));
  EXPECT_FALSE(fragments.take(fragment(two, {1000, 2048}, 2)));
  expect_whole(fragments.take(fragment(one, {1000, 2008}, 1)), one);
  expect_whole(fragments.take(fragment(two, {0, 1000}, 2)), two);
}

TEST(Defragment, ALaterCopyDoesNotReplaceTheFirst) {
  const Bytes packet = datagram(1000);
  Bytes other = packet;
  other[500] ^= std::byte{1};
  Defragmenter fragments;
  EXPECT_FALSE(fragments.take(fragment(packet, {0, 800})));
  EXPECT_FALSE(fragments.take(fragment(other, {400, 800})));
  expect_whole(fragments.take(fragment(packet, {800, 1008})), packet);
}

TEST(Defragment, WhatIsCutShortOrBeyondAPacketIsDropped) {
  const Bytes packet = datagram(1000);
  Defragmenter fragments;
  IpFragment cut = fragment(packet, {0, 800});
  cut.payload = cut.payload.first(700);
  EXPECT_FALSE(fragments.take(cut));
  EXPECT_FALSE(fragments.take(fragment(packet, {800, 1008})));
  IpFragment far = fragment(packet, {0, 800});
  far.offset = 65528;
  EXPECT_FALSE(fragments.take(far));
  IpFragment ragged = fragment(packet, {0, 797});
  EXPECT_FALSE(fragments.take(ragged));
  expect_whole(fragments.take(fragment(packet, {0, 800})), packet);
}

TEST(Defragment, WhatWaitsIsBounded) {
  const Bytes packet = datagram(60000);
  Defragmenter fragments({.packets = 1000, .octets = 200'000});
  for (std::uint32_t id = 0; id < 20; ++id) EXPECT_FALSE(fragments.take(fragment(packet, {0, 50000}, id)));
  EXPECT_FALSE(fragments.take(fragment(packet, {50000, 60008}, 0)));  // made room long ago
  expect_whole(fragments.take(fragment(packet, {50000, 60008}, 19)), packet);
}

}  // namespace
}  // namespace kbtp::trace
