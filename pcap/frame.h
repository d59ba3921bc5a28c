// One captured frame, and what a pure decoder reads in it down to the transport layer: link header (Ethernet
// with VLAN tags, Linux cooked v1 and v2, raw IP, null/loopback, InfiniBand), IPv4 and IPv6, TCP, UDP, ESP,
// RoCEv1 and InfiniBand's own packets.
//
// Sizes are octets; times are nanoseconds since the epoch; addresses stay in network order as they were in
// the frame, ports and sequence numbers are in host order. Nothing here does I/O or throws on what a frame
// holds: a frame that is cut short, malformed or of no interest is a FrameProblem. Checksums of IP and TCP
// are not looked at (offloading leaves them unfinished in frames captured on the sending host).

#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <string>
#include <variant>
#include <vector>

#include "base/address.h"
#include "base/bytes.h"
#include "base/result.h"

namespace kbtp::trace {

/// The link types that are understood, with their LINKTYPE_ numbers of capture files.
enum class LinkType : std::uint16_t {
  null_loopback = 0,  ///< four octets of address family, in the capturing host's order
  ethernet = 1,
  raw_ip = 101,
  openbsd_loop = 108,  ///< as null_loopback, always in network order
  linux_sll = 113,     ///< "cooked" capture, the "any" device
  erf = 197,           ///< Endace's records; those that hold InfiniBand
  ipv4 = 228,
  ipv6 = 229,
  infiniband = 247,  ///< from the Local Route Header on
  linux_sll2 = 276,
};

/// A frame as it was captured. `octets` is what was kept, `wire_length` what was on the wire. `Storage` is
/// Octets for a frame that lies in somebody's buffer.
template <class Storage>
struct FrameOf {
  std::uint64_t number = 0;  ///< 1 for the first frame of its file, as Wireshark counts
  std::int64_t time_ns = 0;
  LinkType link = LinkType::ethernet;
  std::uint32_t wire_length = 0;
  Storage octets;
};
using Frame = FrameOf<std::vector<std::byte>>;
using FrameView = FrameOf<Octets>;
[[nodiscard]] inline FrameView view(const Frame& frame) {
  return {frame.number, frame.time_ns, frame.link, frame.wire_length, frame.octets};
}

/// An IPv4 or IPv6 address with its port; ordered, so that it can be a key.
struct TransportAddress {
  bool v6 = false;
  std::array<std::uint8_t, 16> host{};  ///< network order; IPv4 uses the first four
  std::uint16_t port = 0;

  auto operator<=>(const TransportAddress&) const = default;
  bool operator==(const TransportAddress&) const = default;
  /// An IPv4-mapped IPv6 address (a dual-stack socket's view) becomes the IPv4 address that is on the wire.
  [[nodiscard]] static TransportAddress from(const SocketAddress& address);
  /// "127.0.0.1:7420" or "[::1]:7420".
  [[nodiscard]] std::string to_string() const;
};

/// A TCP connection, from either end: two flows are equal when their ends are, in whatever order.
struct Flow {
  TransportAddress low, high;

  Flow() = default;
  Flow(const TransportAddress& one, const TransportAddress& other)
      : low(one < other ? one : other), high(one < other ? other : one) {}
  auto operator<=>(const Flow&) const = default;
  bool operator==(const Flow&) const = default;
  [[nodiscard]] std::string to_string() const;
};

struct FlowHash {
  [[nodiscard]] std::size_t operator()(const Flow& flow) const;
};

/// RFC 9293 3.1.
struct TcpSegment {
  TransportAddress source, destination;
  std::uint32_t sequence = 0;
  std::uint32_t acknowledgment = 0;
  bool syn = false, ack = false, fin = false, rst = false;
  std::uint32_t payload_length = 0;  ///< on the wire
  Octets payload;                    ///< shorter than payload_length when the frame was cut short
};

/// RFC 768.
struct UdpDatagram {
  TransportAddress source, destination;
  std::uint32_t payload_length = 0;
  Octets payload;
  Octets headers;  ///< from the IP header's first octet to the UDP header's last; empty when put together
};

/// IP Encapsulating Security Payload, RFC 4303. Ports are 0.
struct EspPacket {
  TransportAddress source, destination;
  std::uint32_t payload_length = 0;
  Octets payload;  ///< from the SPI on
};

/// RoCEv1: an InfiniBand packet behind EtherType 0x8915 (IBTA Annex A16). Ports are 0.
struct RoceV1Packet {
  TransportAddress source, destination;  ///< GIDs, as IPv6 addresses
  std::uint32_t payload_length = 0;
  Octets payload;  ///< from the BTH on
  Octets headers;  ///< the Global Route Header, 40 octets
};

/// A packet of InfiniBand's own link (IBTA Volume 1, 7.7). Ports are 0.
struct InfinibandPacket {
  TransportAddress source, destination;  ///< GIDs as IPv6 addresses; without a GRH LIDs, see lid()
  std::uint32_t payload_length = 0;      ///< from the BTH to the ICRC
  Octets payload;
  Octets headers;  ///< the Local Route Header, 8 octets, and the Global one if there is one, 40 octets

  /// A Local Identifier in the place of an address.
  [[nodiscard]] static TransportAddress address_of_lid(std::uint16_t lid) {
    TransportAddress address;
    address.host[0] = static_cast<std::uint8_t>(lid >> 8);
    address.host[1] = static_cast<std::uint8_t>(lid);
    return address;
  }
  [[nodiscard]] static std::uint16_t lid(const TransportAddress& address) {
    return static_cast<std::uint16_t>(address.host[0] << 8 | address.host[1]);
  }
};

/// A part of an IP packet (RFC 791 3.2, RFC 8200 4.5). Ports are 0.
struct IpFragment {
  TransportAddress source, destination;
  std::uint32_t identification = 0;
  std::uint8_t protocol = 0;  ///< of what the fragments make up; IPv6: the first header in it
  std::uint32_t offset = 0;   ///< octets
  bool more = false;          ///< it is not the last
  std::uint32_t payload_length = 0;
  Octets payload;
};

/// Why a frame holds no segment for us.
struct FrameProblem {
  enum class Kind : std::uint8_t {
    other_protocol,    ///< well formed as far as read, but none that Packet has
    fragment,          ///< an IP fragment whose packet is not complete (yet)
    cut_short,         ///< the capture kept too little of it to reach the transport header's end
    malformed,         ///< lengths that contradict each other
    unsupported_link,  ///< a link type that is not in LinkType
  };
  Kind kind = Kind::other_protocol;
  const char* text = "";  ///< what and where, a literal
};

using Packet = std::variant<TcpSegment, UdpDatagram, EspPacket, RoceV1Packet, InfinibandPacket, IpFragment>;

/// Reads one frame. `octets` is what was captured of `wire_length` octets; the payload's span points into it.
[[nodiscard]] Expected<Packet, FrameProblem> decode_frame(LinkType link, Octets octets,
                                                          std::uint32_t wire_length);
/// Reads what an IP packet carries: from the first header behind the IP header, or of an IPv6 packet behind
/// its fragment header, on. The addresses' ports are not looked at.
[[nodiscard]] Expected<Packet, FrameProblem> decode_ip_payload(std::uint8_t protocol, Octets octets,
                                                               std::uint32_t wire_length,
                                                               const TransportAddress& source,
                                                               const TransportAddress& destination);
/// A whole IPv4 or IPv6 packet, as found in a tunnel.
[[nodiscard]] Expected<Packet, FrameProblem> decode_ip(Octets octets, std::uint32_t wire_length);
[[nodiscard]] inline Expected<Packet, FrameProblem> decode_frame(const Frame& frame) {
  return decode_frame(frame.link, frame.octets, frame.wire_length);
}

}  // namespace kbtp::trace
