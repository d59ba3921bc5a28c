// Packets that Linux rxe put on the wire (octets as captured, from the IPv4 header on), and what any packet
// must hold: encode and decode agree, no cut makes the decoder read past its end, the ICRC moves with every
// bit that it covers and with no other.

#include "ib_binding/wire/packet.h"

#include <gtest/gtest.h>
#include <vector>

#include "base/hex.h"
#include "ib_binding/wire/icrc.h"

namespace kbtp::ib {
namespace {

constexpr std::size_t kIpv4AndUdp = 28;

// IPv4, UDP, BTH, then as named; the last four octets are the ICRC.
constexpr std::string_view kAcknowledge = R"(
    45000030 47474000 4011dd71 0a010102 0a010101   c13212b7 001c0000
    11 00 ffff 00 000012 00 20cf36                 # opcode 0x11, DestQP 0x12, PSN 0x20CF36
    1f 000001                                      # AETH: ACK, no credit limit; MSN 1
    c8c7312f)";
constexpr std::string_view kFetchAdd = R"(
    45000048 43684000 4011e138 0a010101 0a010102   c1ce12b7 00340000
    14 00 ffff 00 000015 80 cc0318                 # opcode 0x14, DestQP 0x15, AckReq, PSN
    000056189ff8a000 000006bf                      # VA, R_Key
    0000000000000001 0000000000000000              # add, compare
    defb6453)";
constexpr std::string_view kAtomicAcknowledge = R"(
    45000038 4d874000 4011d729 0a010102 0a010101   c1ce12b7 00240000
    12 00 ffff 00 000016 00 cc0318  1f 000001      # AETH
    7fb52412b1cef6ed                               # the word before
    9510c687)";

Packet decode(Octets frame) {
  const auto packet = decode_packet(frame.subspan(kIpv4AndUdp), frame.size() - kIpv4AndUdp);
  EXPECT_TRUE(packet) << packet.error().text;
  return packet.value_or(Packet{});
}
std::uint32_t right_icrc(Octets frame) {
  return invariant_crc(Network::ipv4_udp, frame.first(kIpv4AndUdp),
                       frame.subspan(kIpv4AndUdp, frame.size() - kIpv4AndUdp - kIcrcSize));
}

TEST(IbPacket, AcknowledgeOfRxe) {
  const auto frame = from_hex(kAcknowledge).value();
  const Packet packet = decode(frame);
  EXPECT_EQ(to_string(packet.bth.opcode), "RC Acknowledge");
  EXPECT_EQ(packet.bth.destination_qp, 0x12U);
  EXPECT_EQ(packet.bth.psn, 0x20CF36U);
  ASSERT_TRUE(packet.aeth);
  EXPECT_EQ(describe(*packet.aeth), "ACK");
  EXPECT_EQ(packet.aeth->value(), 0x1F);
  EXPECT_EQ(packet.aeth->msn, 1U);
  EXPECT_EQ(packet.payload_length, 0U);
  EXPECT_EQ(packet.icrc, right_icrc(frame));
}

TEST(IbPacket, FetchAddOfRxe) {
  const auto frame = from_hex(kFetchAdd).value();
  const Packet packet = decode(frame);
  EXPECT_TRUE(packet.bth.acknowledge_request);
  EXPECT_EQ(packet.atomic, (AtomicEth{0x56189FF8A000, 0x6BF, 1, 0}));
  EXPECT_EQ(packet.icrc, right_icrc(frame));
}

TEST(IbPacket, AtomicAcknowledgeOfRxe) {
  const auto frame = from_hex(kAtomicAcknowledge).value();
  const Packet packet = decode(frame);
  EXPECT_EQ(packet.atomic_original, 0x7FB52412B1CEF6EDU);
  EXPECT_EQ(packet.icrc, right_icrc(frame));
}

/// One packet for each OpCode that exists, with all that it must carry.
std::vector<Packet> all_packets(Octets payload) {
  std::vector<Packet> packets;
  for (unsigned value = 0; value < 256; ++value) {
    Packet packet;
    packet.bth.opcode.value = static_cast<std::uint8_t>(value);
    const OperationFacts* facts = packet.bth.opcode.facts();
    if (facts == nullptr) continue;
    const Service service = packet.bth.opcode.service();
    packet.bth.solicited_event = true;
    packet.bth.becn = true;
    packet.bth.destination_qp = 0xABCDEF;
    packet.bth.psn = 0xFFFFFF;
    if (service == Service::reliable_datagram) packet.ee_context = 0x010203;
    if (service == Service::unreliable_datagram ||
        (service == Service::reliable_datagram && !facts->response))
      packet.deth = Deth{0x80010000, 0x123456};
    if (service == Service::extended_reliable_connection && !facts->response) packet.xrc_srq = 7;
    if (facts->reth) packet.reth = Reth{0x1122334455667788, 0xAABBCCDD, 0x10000};
    if (facts->atomic_eth) packet.atomic = AtomicEth{8, 9, 10, 11};
    if (facts->aeth) packet.aeth = Aeth{0x61, 0x00FFFF};
    if (facts->atomic_ack) packet.atomic_original = 12;
    if (facts->immediate) packet.immediate = 0xCAFEF00D;
    if (facts->invalidates) packet.invalidated_key = 0x55;
    if (facts->payload) packet.payload = payload;
    packets.push_back(packet);
  }
  return packets;
}

TEST(IbPacket, EveryOpcodeRoundTripsAndNoCutReadsPastTheEnd) {
  const auto payload = from_hex("0102030405").value();
  const auto packets = all_packets(payload);
  EXPECT_EQ(packets.size(), 23U + 12U + 22U + 2U + 23U);  // RC, UC, RD, UD, XRC
  for (const Packet& sent : packets) {
    auto octets = encode_packet(sent);
    octets.resize(octets.size() + kIcrcSize);
    const auto got = decode_packet(octets, octets.size());
    ASSERT_TRUE(got) << to_string(sent.bth.opcode);
    EXPECT_EQ(got->reth, sent.reth);
    EXPECT_EQ(got->deth, sent.deth);
    EXPECT_EQ(got->atomic, sent.atomic);
    EXPECT_EQ(got->aeth, sent.aeth);
    EXPECT_EQ(got->atomic_original, sent.atomic_original);
    EXPECT_EQ(got->immediate, sent.immediate);
    EXPECT_EQ(got->invalidated_key, sent.invalidated_key);
    EXPECT_EQ(got->ee_context, sent.ee_context);
    EXPECT_EQ(got->xrc_srq, sent.xrc_srq);
    EXPECT_EQ(to_vector(got->payload), to_vector(sent.payload));
    EXPECT_EQ(got->bth.psn, sent.bth.psn);
    for (std::size_t n = 0; n < octets.size(); ++n) {
      const std::vector<std::byte> cut(octets.begin(), octets.begin() + static_cast<std::ptrdiff_t>(n));
      const auto captured = decode_packet(cut, octets.size());  // the capture lacks the rest
      ASSERT_EQ(captured.has_value(), n >= got->header_length);
      if (captured) {
        EXPECT_FALSE(captured->icrc);
        EXPECT_EQ(captured->payload_length, sent.payload.size());
      } else {
        EXPECT_TRUE(captured.error().cut_short);
      }
      const auto whole = decode_packet(cut, n);  // so short on the wire
      EXPECT_TRUE(whole || !whole.error().cut_short);
    }
  }
}

TEST(IbPacket, ReservedOpcodeAndCongestionNotificationKeepTheirOctets) {
  for (const unsigned value : {0x1FU, 0x81U, 0xC0U}) {
    std::vector<std::byte> octets(kBthSize + 16 + kIcrcSize);
    octets[0] = static_cast<std::byte>(value);
    const auto packet = decode_packet(octets, octets.size());
    ASSERT_TRUE(packet);
    EXPECT_EQ(packet->bth.opcode.facts(), nullptr);
    EXPECT_EQ(packet->payload_length, 16U);
  }
  EXPECT_EQ(to_string(Opcode{0x81}), "CNP");
  EXPECT_EQ(to_string(Opcode{0x1F}), "reserved opcode 0x1F");
}

struct Covered {
  Network kind;
  std::size_t network;                    ///< octets in front of the BTH
  std::vector<std::size_t> whole_octets;  ///< not covered at all
  std::vector<std::size_t> low_nibbles;   ///< covered in their upper four bits only
  std::vector<std::size_t> high_nibbles;  ///< in their lower four
};

TEST(IbIcrc, MovesWithEveryBitThatItCoversAndWithNoOther) {
  const std::vector<Covered> kinds{
      {Network::ipv4_udp, 28, {1, 8, 10, 11, 26, 27, 28 + 4}, {}, {}},
      {Network::ipv4_udp, 32, {1, 8, 10, 11, 30, 31, 32 + 4}, {}, {}},  // with an IPv4 option
      {Network::ipv6_udp, 48, {1, 2, 3, 7, 46, 47, 48 + 4}, {0}, {}},
      {Network::grh, 40, {1, 2, 3, 7, 40 + 4}, {0}, {}},
      {Network::lrh, 8, {8 + 4}, {}, {0}},
      {Network::lrh_grh, 48, {0, 1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 15, 48 + 4}, {8}, {}},
  };
  for (const Covered& covered : kinds) {
    std::vector<std::byte> frame(covered.network + kBthSize + 8, std::byte{0x5A});
    const auto icrc = [&] {
      return invariant_crc(covered.kind, Octets(frame).first(covered.network),
                           Octets(frame).subspan(covered.network));
    };
    const std::uint32_t right = icrc();
    for (std::size_t at = 0; at < frame.size(); ++at) {
      for (unsigned bit = 0; bit < 8; ++bit) {
        const auto in = [at](const std::vector<std::size_t>& list) {
          return std::find(list.begin(), list.end(), at) != list.end();
        };
        const bool free = in(covered.whole_octets) || (in(covered.low_nibbles) && bit < 4) ||
                          (in(covered.high_nibbles) && bit >= 4);
        frame[at] ^= static_cast<std::byte>(1U << bit);
        EXPECT_EQ(icrc() == right, free) << "octet " << at << " bit " << bit;
        frame[at] ^= static_cast<std::byte>(1U << bit);
      }
    }
  }
}

// The sample that IBTA Volume 1, 7.8.2 gives for a packet within a subnet, on Virtual Lane 7.
TEST(IbIcrc, OfThePacketInTheSpecification) {
  const auto packet = from_hex(
      "70 12 37 5c 00 0e 17 d2 0a 20 24 87 00 87 b1 b3 00 0d ec 2a 01 71 0a 1c 01 5d 40 02 38 f2 7a 05"
      "00 00 00 0e bb 88 4d 85 fd 5c fb a4 72 8b c0 69 0e d4 00 00 96 25 b7 5a");
  ASSERT_TRUE(packet);
  const Octets octets(*packet);
  ASSERT_EQ(octets.size(), 56U);
  const std::uint32_t icrc = invariant_crc(Network::lrh, octets.first(8), octets.subspan(8, 44));
  EXPECT_EQ(icrc, load_icrc(octets.data() + 52));
}

}  // namespace
}  // namespace kbtp::ib
