#include "ib_binding/wire/icrc.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <isa-l/crc.h>

#include "ib_binding/wire/headers.h"

namespace kbtp::ib {

namespace {

constexpr std::size_t kUdpSize = 8;
constexpr std::size_t kIpv4Longest = 60;
constexpr std::size_t kIpv6Size = 40;
constexpr std::size_t kLrhSize = 8;

std::uint32_t run(std::uint32_t crc, Octets octets) {
  // ISA-L takes its input as non-const and does not write to it.
  return crc32_gzip_refl(crc, reinterpret_cast<const unsigned char*>(octets.data()), octets.size());
}

}  // namespace

std::uint32_t invariant_crc(Network kind, Octets network, Octets transport) {
  if (kind == Network::lrh_grh) {
    // Between subnets all of the LRH changes on the way.
    if (network.size() < kLrhSize) return 0;
    return invariant_crc(Network::grh, network.subspan(kLrhSize), transport);
  }
  std::array<std::byte, kLrhSize + kIpv4Longest + kUdpSize + kBthSize> masked;
  masked.fill(std::byte{0xFF});
  if (network.size() > kIpv4Longest + kUdpSize || transport.size() < kBthSize) return 0;
  // There is no LRH in RoCE: eight octets of ones stand for it (A16.3).
  const std::size_t lrh_ones = kind == Network::lrh ? 0 : kLrhSize;
  std::byte* header = masked.data() + lrh_ones;
  std::copy(network.begin(), network.end(), header);
  const auto ones = [header](std::size_t from, std::size_t n) { std::memset(header + from, 0xFF, n); };
  switch (kind) {
    case Network::ipv4_udp:
      if (network.size() < 20 + kUdpSize) return 0;
      ones(1, 1);                   // DSCP and ECN
      ones(8, 1);                   // Time to Live
      ones(10, 2);                  // header checksum
      ones(network.size() - 2, 2);  // UDP checksum
      break;
    case Network::ipv6_udp:
    case Network::grh:
      if (network.size() < kIpv6Size + (kind == Network::grh ? 0 : kUdpSize)) return 0;
      header[0] |= std::byte{0x0F};  // traffic class and flow label
      ones(1, 3);
      ones(7, 1);  // hop limit
      if (kind == Network::ipv6_udp) ones(network.size() - 2, 2);
      break;
    case Network::lrh:
      if (network.size() != kLrhSize) return 0;
      header[0] |= std::byte{0xF0};  // Virtual Lane
      break;
    case Network::lrh_grh:
      break;
  }
  std::byte* bth = header + network.size();
  std::copy_n(transport.begin(), kBthSize, bth);
  bth[4] = std::byte{0xFF};  // FECN, BECN and the reserved bits behind them
  const std::uint32_t crc = run(0, Octets(masked).first(lrh_ones + network.size() + kBthSize));
  return run(crc, transport.subspan(kBthSize));
}

std::uint32_t load_icrc(const std::byte* p) { return __builtin_bswap32(load_be<std::uint32_t>(p)); }

}  // namespace kbtp::ib
