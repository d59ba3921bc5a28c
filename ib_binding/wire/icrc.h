// The Invariant CRC of InfiniBand, RoCEv1 and RoCEv2 packets (IBTA Volume 1, 7.8.1; Annex A16.3, A17.3.3):
// CRC-32 as Ethernet's over everything from the network header to the last pad octet, with the fields that
// may change on the way taken as ones. On the wire the least significant octet comes first.

#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace kbtp::ib {

enum class Network : std::uint8_t {
  ipv4_udp,  ///< RoCEv2: IPv4 header with its options, UDP header
  ipv6_udp,  ///< RoCEv2: IPv6 header of 40 octets, UDP header
  grh,       ///< RoCEv1: Global Route Header of 40 octets
  lrh,       ///< InfiniBand within a subnet: Local Route Header of 8 octets
  lrh_grh,   ///< InfiniBand between subnets: both
};

/// The right ICRC of one packet. `network` is everything in front of the BTH as `kind` says; `transport` is
/// the BTH and what follows, pad octets included, the ICRC not. Both are as captured; 0 when `network`
/// or `transport` is too short for its fixed part, or `network` longer than such headers get.
[[nodiscard]] std::uint32_t invariant_crc(Network kind, Octets network, Octets transport);

/// The ICRC field in the 4 octets at `p`.
[[nodiscard]] std::uint32_t load_icrc(const std::byte* p);

}  // namespace kbtp::ib
