#include "pcap/frame.h"

#include <algorithm>
#include <arpa/inet.h>
#include <cstring>
#include <netinet/in.h>
#include <optional>

namespace kbtp::trace {
namespace {

using Kind = FrameProblem::Kind;

constexpr std::uint16_t kEtherIpv4 = 0x0800;
constexpr std::uint16_t kEtherIpv6 = 0x86DD;
constexpr std::uint16_t kEtherRoceV1 = 0x8915;   // IBTA Annex A16
constexpr std::uint16_t kEtherVlan = 0x8100;     // IEEE 802.1Q
constexpr std::uint16_t kEtherQinQ = 0x88A8;     // IEEE 802.1ad
constexpr std::uint16_t kEtherOldQinQ = 0x9100;  // in use before 802.1ad

constexpr std::uint8_t kProtocolTcp = 6;
constexpr std::uint8_t kProtocolUdp = 17;
constexpr std::uint8_t kProtocolEsp = 50;
constexpr std::uint8_t kHopByHop = 0;  // RFC 8200 4.3
constexpr std::uint8_t kRouting = 43;
constexpr std::uint8_t kFragment = 44;
constexpr std::uint8_t kAuthentication = 51;
constexpr std::uint8_t kDestination = 60;

auto problem(Kind kind, const char* text) { return unexpected(FrameProblem{kind, text}); }

/// What is left of a frame: the octets that were captured and how many there were on the wire.
struct Rest {
  Octets octets;
  std::uint64_t wire = 0;

  [[nodiscard]] bool has(std::size_t n) const { return octets.size() >= n; }
  [[nodiscard]] Rest after(std::size_t n) const { return {octets.subspan(n), wire - n}; }
  /// Drops what lies behind the first `n` octets on the wire (padding of the link layer).
  [[nodiscard]] Rest first(std::uint64_t n) const {
    return {octets.first(static_cast<std::size_t>(std::min<std::uint64_t>(n, octets.size()))),
            std::min(n, wire)};
  }
  /// The problem of a header of `n` octets that is not all there.
  [[nodiscard]] FrameProblem lacks(std::size_t n, const char* cut, const char* short_on_wire) const {
    return wire < n ? FrameProblem{Kind::malformed, short_on_wire} : FrameProblem{Kind::cut_short, cut};
  }
};

std::uint8_t octet(const Rest& rest, std::size_t at) {
  return std::to_integer<std::uint8_t>(rest.octets[at]);
}
std::uint16_t u16(const Rest& rest, std::size_t at) {
  return load_be<std::uint16_t>(rest.octets.data() + at);
}

/// Addresses of an IP packet and its first octet in the frame, nullptr when it was put together.
struct Network {
  TransportAddress source, destination;
  const std::byte* begin = nullptr;

  [[nodiscard]] Octets up_to(const std::byte* end) const {
    return begin == nullptr ? Octets{} : Octets(begin, static_cast<std::size_t>(end - begin));
  }
};

Expected<Packet, FrameProblem> transport(std::uint8_t protocol, const Rest& rest, const Network& network) {
  TransportAddress source = network.source;
  TransportAddress destination = network.destination;
  if (protocol == kProtocolUdp) {
    if (!rest.has(8))
      return unexpected(rest.lacks(8, "the UDP header is cut short", "no room for a UDP header"));
    source.port = u16(rest, 0);
    destination.port = u16(rest, 2);
    const std::uint16_t length = u16(rest, 4);
    if (length < 8 || length > rest.wire)
      return problem(Kind::malformed, "the UDP length fits neither header nor packet");
    const Rest payload = rest.first(length).after(8);
    return UdpDatagram{source, destination, static_cast<std::uint32_t>(payload.wire), payload.octets,
                       network.up_to(payload.octets.data())};
  }
  if (protocol == kProtocolEsp)
    return EspPacket{source, destination, static_cast<std::uint32_t>(rest.wire), rest.octets};
  if (protocol != kProtocolTcp) return problem(Kind::other_protocol, "neither TCP, UDP nor ESP");
  if (!rest.has(20))
    return unexpected(rest.lacks(20, "the TCP header is cut short", "no room for a TCP header"));
  source.port = u16(rest, 0);
  destination.port = u16(rest, 2);
  const std::size_t header = std::size_t{4} * (octet(rest, 12) >> 4);
  if (header < 20) return problem(Kind::malformed, "the TCP data offset is below 5");
  if (!rest.has(header))
    return unexpected(
        rest.lacks(header, "the TCP options are cut short", "the TCP data offset points behind the packet"));
  const std::uint8_t flags = octet(rest, 13);
  const Rest payload = rest.after(header);
  TcpSegment segment;
  segment.source = source;
  segment.destination = destination;
  segment.sequence = load_be<std::uint32_t>(rest.octets.data() + 4);
  segment.acknowledgment = load_be<std::uint32_t>(rest.octets.data() + 8);
  segment.fin = (flags & 0x01) != 0;
  segment.syn = (flags & 0x02) != 0;
  segment.rst = (flags & 0x04) != 0;
  segment.ack = (flags & 0x10) != 0;
  segment.payload_length = static_cast<std::uint32_t>(payload.wire);
  segment.payload = payload.octets;
  return segment;
}

TransportAddress address(const Rest& rest, std::size_t at, bool v6) {
  TransportAddress result;
  result.v6 = v6;
  std::memcpy(result.host.data(), rest.octets.data() + at, v6 ? 16 : 4);
  return result;
}

/// RFC 791 3.1.
Expected<Packet, FrameProblem> ipv4(Rest rest) {
  if (!rest.has(20))
    return unexpected(rest.lacks(20, "the IPv4 header is cut short", "no room for an IPv4 header"));
  if (octet(rest, 0) >> 4 != 4) return problem(Kind::malformed, "the IP version is not 4");
  const std::size_t header = std::size_t{4} * (octet(rest, 0) & 0x0F);
  if (header < 20) return problem(Kind::malformed, "the IPv4 header length is below 5");
  // A packet that segmentation offload will cut later can be longer than the field can say; it is 0 then.
  const std::uint64_t total = u16(rest, 2) != 0 ? u16(rest, 2) : rest.wire;
  if (total < header) return problem(Kind::malformed, "the IPv4 total length is below the header length");
  if (total > rest.wire) return problem(Kind::malformed, "the IPv4 total length is beyond the frame");
  rest = rest.first(total);
  if (!rest.has(header))
    return unexpected(rest.lacks(header, "the IPv4 options are cut short", "no room for the IPv4 options"));
  const Network network{address(rest, 12, false), address(rest, 16, false), rest.octets.data()};
  const std::uint16_t fragment = u16(rest, 6);
  const Rest payload = rest.after(header);
  if ((fragment & 0x3FFF) != 0) {  // more fragments, or an offset
    return IpFragment{network.source,
                      network.destination,
                      u16(rest, 4),
                      octet(rest, 9),
                      (fragment & 0x1FFFU) * 8,
                      (fragment & 0x2000) != 0,
                      static_cast<std::uint32_t>(payload.wire),
                      payload.octets};
  }
  return transport(octet(rest, 9), payload, network);
}

/// The Jumbo Payload length of a hop-by-hop header (RFC 2675 2); nothing when there is no such option.
std::optional<std::uint32_t> jumbo_length(Octets hop_by_hop) {
  ByteReader options(hop_by_hop.subspan(2));
  while (options.remaining() > 0) {
    const std::uint8_t type = options.u8();
    if (type == 0) continue;  // Pad1
    const std::uint8_t length = options.u8();
    if (type == 0xC2 && length == 4) {
      const std::uint32_t value = options.u32();
      return options.ok() ? std::optional(value) : std::nullopt;
    }
    options.skip(length);
    if (!options.ok()) return std::nullopt;
  }
  return std::nullopt;
}

/// Skips extension headers (RFC 8200 4) in front of the transport header.
Expected<Packet, FrameProblem> behind_extensions(std::uint8_t next, Rest rest, const Network& network) {
  while (next == kHopByHop || next == kRouting || next == kDestination || next == kAuthentication ||
         next == kFragment) {
    if (!rest.has(8))
      return unexpected(
          rest.lacks(8, "an IPv6 extension header is cut short", "no room for an IPv6 extension header"));
    const bool fragment = next == kFragment && (u16(rest, 2) & 0xFFF9) != 0;
    // In units of 8 octets beyond the first 8; of 4 octets beyond the first 8 for AH (RFC 4302 2.2).
    const std::size_t units = next == kFragment ? 0 : octet(rest, 1);
    const std::size_t size = next == kAuthentication ? (units + 2) * 4 : 8 + units * 8;
    if (!rest.has(size))
      return unexpected(rest.lacks(size, "an IPv6 extension header is cut short",
                                   "an IPv6 extension header is longer than the packet"));
    next = octet(rest, 0);
    const Rest header = rest;
    rest = rest.after(size);
    if (fragment) {
      const std::uint16_t place = u16(header, 2);
      return IpFragment{network.source,
                        network.destination,
                        load_be<std::uint32_t>(header.octets.data() + 4),
                        next,
                        place & 0xFFF8U,
                        (place & 1) != 0,
                        static_cast<std::uint32_t>(rest.wire),
                        rest.octets};
    }
  }
  return transport(next, rest, network);
}

/// RFC 8200 3.
Expected<Packet, FrameProblem> ipv6(Rest rest) {
  if (!rest.has(40))
    return unexpected(rest.lacks(40, "the IPv6 header is cut short", "no room for an IPv6 header"));
  if (octet(rest, 0) >> 4 != 6) return problem(Kind::malformed, "the IP version is not 6");
  const Network network{address(rest, 8, true), address(rest, 24, true), rest.octets.data()};
  const std::uint8_t next = octet(rest, 6);
  std::uint64_t length = u16(rest, 4);
  rest = rest.after(40);
  if (length == 0 && next == kHopByHop && rest.has(8)) {
    const std::size_t size = 8 + std::size_t{8} * octet(rest, 1);
    if (!rest.has(size)) return problem(Kind::cut_short, "the hop-by-hop header is cut short");
    length = jumbo_length(rest.octets.first(size)).value_or(0);
  }
  if (length == 0 && (next == kProtocolTcp || next == kProtocolUdp)) length = rest.wire;  // as with IPv4
  if (length > rest.wire) return problem(Kind::malformed, "the IPv6 payload length is beyond the frame");
  return behind_extensions(next, rest.first(length), network);
}

/// IBTA Annex A16: the Global Route Header has the layout of an IPv6 header.
Expected<Packet, FrameProblem> roce_v1(const Rest& rest) {
  constexpr std::size_t kGrh = 40;
  if (!rest.has(kGrh)) return unexpected(rest.lacks(kGrh, "the GRH is cut short", "no room for a GRH"));
  const std::uint16_t length = u16(rest, 4);
  const Rest behind = rest.after(kGrh);
  if (length > behind.wire) return problem(Kind::malformed, "the GRH's payload length is beyond the frame");
  const Rest payload = behind.first(length);
  return RoceV1Packet{address(rest, 8, true), address(rest, 24, true),
                      static_cast<std::uint32_t>(payload.wire), payload.octets, rest.octets.first(kGrh)};
}

/// IBTA Volume 1, 7.7: the Local Route Header, a Global one when LNH says so. Its length, in units of 4
/// octets, runs from the LRH to the ICRC; the VCRC behind it is not looked at.
Expected<Packet, FrameProblem> infiniband(Rest rest) {
  constexpr std::size_t kLrh = 8;
  constexpr std::size_t kGrh = 40;
  if (!rest.has(kLrh)) return unexpected(rest.lacks(kLrh, "the LRH is cut short", "no room for an LRH"));
  const unsigned next = octet(rest, 1) & 3U;
  if (next < 2) return problem(Kind::other_protocol, "a raw packet, which is not InfiniBand's transport");
  const std::size_t length = std::size_t{4} * (u16(rest, 4) & 0x7FFU);
  const std::size_t headers = next == 3 ? kLrh + kGrh : kLrh;
  if (length < headers) return problem(Kind::malformed, "the LRH's packet length is below its headers");
  if (length > rest.wire) return problem(Kind::malformed, "the LRH's packet length is beyond the frame");
  rest = rest.first(length);
  if (!rest.has(headers)) return unexpected(rest.lacks(headers, "the GRH is cut short", "no room for a GRH"));
  const Rest payload = rest.after(headers);
  const auto end = [&](std::size_t lid, std::size_t gid) {
    return next == 3 ? address(rest, gid, true) : InfinibandPacket::address_of_lid(u16(rest, lid));
  };
  return InfinibandPacket{end(6, kLrh + 8), end(2, kLrh + 24), static_cast<std::uint32_t>(payload.wire),
                          payload.octets, rest.octets.first(headers)};
}

/// Extensible Record Format: a header of 16 octets, extension headers of 8 as long as a first bit says that
/// one follows, the packet and padding.
Expected<Packet, FrameProblem> erf(Rest rest) {
  constexpr std::size_t kHeader = 16;
  constexpr std::size_t kExtension = 8;
  constexpr unsigned kInfiniband = 21;
  constexpr unsigned kMore = 0x80;
  if (!rest.has(kHeader))
    return unexpected(rest.lacks(kHeader, "the ERF header is cut short", "no room for an ERF header"));
  const unsigned type = octet(rest, 8);
  const std::uint16_t wire = u16(rest, 14);
  rest = rest.after(kHeader);
  for (unsigned first = type; (first & kMore) != 0; rest = rest.after(kExtension)) {
    if (!rest.has(kExtension))
      return unexpected(rest.lacks(kExtension, "an ERF extension header is cut short",
                                   "no room for an ERF extension header"));
    first = octet(rest, 0);
  }
  if ((type & ~kMore) != kInfiniband)
    return problem(Kind::other_protocol, "an ERF record of something else than InfiniBand");
  rest.wire = std::max<std::uint64_t>(wire, rest.octets.size());
  return infiniband(rest);
}

Expected<Packet, FrameProblem> network(std::uint16_t ether_type, const Rest& rest) {
  if (ether_type == kEtherIpv4) return ipv4(rest);
  if (ether_type == kEtherIpv6) return ipv6(rest);
  if (ether_type == kEtherRoceV1) return roce_v1(rest);
  return problem(Kind::other_protocol, "not IP");
}

/// Skips VLAN tags, however many, in front of the packet.
Expected<Packet, FrameProblem> tagged(std::uint16_t ether_type, Rest rest) {
  while (ether_type == kEtherVlan || ether_type == kEtherQinQ || ether_type == kEtherOldQinQ) {
    if (!rest.has(4)) return unexpected(rest.lacks(4, "a VLAN tag is cut short", "no room for a VLAN tag"));
    ether_type = u16(rest, 2);
    rest = rest.after(4);
  }
  return network(ether_type, rest);
}

Expected<Packet, FrameProblem> either_ip(const Rest& rest) {
  if (!rest.has(1)) return unexpected(rest.lacks(1, "nothing of the packet was kept", "an empty packet"));
  return octet(rest, 0) >> 4 == 6 ? ipv6(rest) : ipv4(rest);
}

/// Address families differ between the systems that wrote the file: 2 is IPv4 everywhere; IPv6 is 10 on
/// Linux, 24 on NetBSD and OpenBSD, 28 on FreeBSD, 30 on macOS.
Expected<Packet, FrameProblem> by_family(const Rest& rest, bool network_order_only) {
  if (!rest.has(4))
    return unexpected(rest.lacks(4, "the link header is cut short", "no room for the link header"));
  std::uint32_t family = load_be<std::uint32_t>(rest.octets.data());
  if (!network_order_only && family > 0xFFFF) family = __builtin_bswap32(family);
  switch (family) {
    case 2:
      return ipv4(rest.after(4));
    case 10:
    case 24:
    case 28:
    case 30:
      return ipv6(rest.after(4));
    default:
      return problem(Kind::other_protocol, "an address family that is not IP");
  }
}

}  // namespace

Expected<Packet, FrameProblem> decode_frame(LinkType link, Octets octets, std::uint32_t wire_length) {
  const Rest rest{octets, std::max<std::uint64_t>(wire_length, octets.size())};
  switch (link) {
    case LinkType::ethernet:
      if (!rest.has(14))
        return unexpected(
            rest.lacks(14, "the Ethernet header is cut short", "no room for an Ethernet header"));
      return tagged(u16(rest, 12), rest.after(14));
    case LinkType::linux_sll:
      if (!rest.has(16))
        return unexpected(rest.lacks(16, "the SLL header is cut short", "no room for an SLL header"));
      return tagged(u16(rest, 14), rest.after(16));
    case LinkType::linux_sll2:
      if (!rest.has(20))
        return unexpected(rest.lacks(20, "the SLL2 header is cut short", "no room for an SLL2 header"));
      return tagged(u16(rest, 0), rest.after(20));
    case LinkType::null_loopback:
      return by_family(rest, false);
    case LinkType::openbsd_loop:
      return by_family(rest, true);
    case LinkType::raw_ip:
      return either_ip(rest);
    case LinkType::ipv4:
      return ipv4(rest);
    case LinkType::ipv6:
      return ipv6(rest);
    case LinkType::infiniband:
      return infiniband(rest);
    case LinkType::erf:
      return erf(rest);
  }
  return problem(Kind::unsupported_link, "a link type that is not understood");
}

Expected<Packet, FrameProblem> decode_ip_payload(std::uint8_t protocol, Octets octets,
                                                 std::uint32_t wire_length, const TransportAddress& source,
                                                 const TransportAddress& destination) {
  const Rest rest{octets, std::max<std::uint64_t>(wire_length, octets.size())};
  const Network network{source, destination, nullptr};
  return source.v6 ? behind_extensions(protocol, rest, network) : transport(protocol, rest, network);
}

Expected<Packet, FrameProblem> decode_ip(Octets octets, std::uint32_t wire_length) {
  return either_ip(Rest{octets, std::max<std::uint64_t>(wire_length, octets.size())});
}

TransportAddress TransportAddress::from(const SocketAddress& address) {
  TransportAddress result;
  result.port = address.port();
  if (address.family() == AF_INET) {
    sockaddr_in in{};
    std::memcpy(&in, address.get(), sizeof in);
    std::memcpy(result.host.data(), &in.sin_addr, 4);
  } else if (address.family() == AF_INET6) {
    sockaddr_in6 in6{};
    std::memcpy(&in6, address.get(), sizeof in6);
    if (IN6_IS_ADDR_V4MAPPED(&in6.sin6_addr)) {
      std::memcpy(result.host.data(), in6.sin6_addr.s6_addr + 12, 4);
    } else {
      result.v6 = true;
      std::memcpy(result.host.data(), &in6.sin6_addr, 16);
    }
  }
  return result;
}

std::string TransportAddress::to_string() const {
  char text[INET6_ADDRSTRLEN] = "";
  inet_ntop(v6 ? AF_INET6 : AF_INET, host.data(), text, sizeof text);
  return (v6 ? "[" + std::string(text) + "]" : std::string(text)) + ":" + std::to_string(port);
}

std::size_t FlowHash::operator()(const Flow& flow) const {
  std::uint64_t hash = std::uint64_t{flow.low.port} << 16 | flow.high.port;
  for (const TransportAddress* end : {&flow.low, &flow.high}) {
    for (const std::size_t at : {0, 8}) {
      std::uint64_t word;
      std::memcpy(&word, end->host.data() + at, sizeof word);
      hash = (hash ^ word) * 0x9E3779B97F4A7C15u;  // Fibonacci hashing: an odd number near 2^64 / phi
      hash ^= hash >> 32;
    }
  }
  return hash;
}

std::string Flow::to_string() const { return low.to_string() + " - " + high.to_string(); }

}  // namespace kbtp::trace
