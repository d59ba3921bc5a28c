// Hand-built InfiniBand packets and the frames that carry them over RoCEv2, for tests of this room.

#pragma once

#include <cstdint>

#include "ib_binding/wire/icrc.h"
#include "ib_binding/wire/packet.h"
#include "pcap/ib_decoder.h"
#include "pcap/test_frames.h"

namespace kbtp::trace::test {

inline constexpr std::uint8_t kUdpProtocol = 17;

/// A packet with every header that its operation has.
inline ib::Packet ib_packet(ib::Operation operation, std::uint32_t qp, std::uint32_t psn, Octets payload = {},
                            ib::Service service = ib::Service::reliable_connection) {
  ib::Packet packet;
  packet.bth.opcode = make_opcode(service, operation);
  packet.bth.destination_qp = qp;
  packet.bth.psn = psn;
  packet.payload = payload;
  const ib::OperationFacts* facts = packet.bth.opcode.facts();
  if (facts->reth) packet.reth = ib::Reth{0x1000, 0xABCD, 4096};
  if (facts->atomic_eth) packet.atomic = ib::AtomicEth{0x2000, 0xABCE, 5, 6};
  if (facts->aeth) packet.aeth = ib::Aeth{0x1F, 1};
  if (facts->atomic_ack) packet.atomic_original = 77;
  if (facts->immediate) packet.immediate = 0x01020304;
  if (facts->invalidates) packet.invalidated_key = 0xABCF;
  if (service == ib::Service::unreliable_datagram) packet.deth = ib::Deth{1, 9};
  return packet;
}

/// The packet with its right ICRC, inside UDP, IP and Ethernet.
inline Bytes roce(const ib::Packet& packet, const TransportAddress& from, const TransportAddress& to,
                  std::uint16_t destination_port = kRoceV2Port) {
  Bytes transport = ib::encode_packet(packet);
  const auto wrap = [&](const Bytes& body) {
    Bytes datagram(8);
    ByteWriter out(datagram);
    out.u16(49152);
    out.u16(destination_port);
    out.u16(static_cast<std::uint16_t>(8 + body.size()));
    out.u16(0);
    append(datagram, body);
    return from.v6 ? ipv6(from, to, kUdpProtocol, datagram) : ipv4(from, to, kUdpProtocol, datagram);
  };
  const Bytes unsigned_packet = wrap(transport + Bytes(ib::kIcrcSize));
  const std::size_t headers = unsigned_packet.size() - transport.size() - ib::kIcrcSize;
  const std::uint32_t icrc = ib::invariant_crc(from.v6 ? ib::Network::ipv6_udp : ib::Network::ipv4_udp,
                                               Octets(unsigned_packet).first(headers), transport);
  for (unsigned shift = 0; shift < 32; shift += 8) transport.push_back(static_cast<std::byte>(icrc >> shift));
  return ethernet(from.v6 ? 0x86DD : 0x0800, wrap(transport));
}

/// A GRH of version 6 with GIDs that end in these octets; its length is that of what follows.
inline Bytes grh(std::uint8_t from, std::uint8_t to, std::size_t length) {
  constexpr std::uint8_t kIbaTransport = 0x1B;  // IBTA 8.3.5
  Bytes header = ipv6(v6(from, 0), v6(to, 0), kIbaTransport, Bytes(length));
  header.resize(40);
  return header;
}

/// The packet on InfiniBand's own link, between LIDs and, `global`, between GIDs: with its right ICRC and a
/// VCRC.
inline Bytes native(const ib::Packet& packet, std::uint8_t from, std::uint8_t to, bool global = false) {
  const Bytes transport = ib::encode_packet(packet);
  const std::size_t behind = transport.size() + ib::kIcrcSize;
  Bytes frame(8);
  ByteWriter lrh(frame);
  lrh.u8(0x30);  // Virtual Lane 3
  lrh.u8(global ? 3 : 2);
  lrh.u16(to);
  lrh.u16(static_cast<std::uint16_t>((8 + (global ? 40 : 0) + behind) / 4));
  lrh.u16(from);
  if (global) append(frame, grh(from, to, behind));
  const std::uint32_t icrc =
      ib::invariant_crc(global ? ib::Network::lrh_grh : ib::Network::lrh, frame, transport);
  append(frame, transport);
  for (unsigned shift = 0; shift < 32; shift += 8) frame.push_back(static_cast<std::byte>(icrc >> shift));
  append(frame, Bytes(2, std::byte{0xCC}));
  return frame;
}

}  // namespace kbtp::trace::test
