// One InfiniBand transport packet: BTH, the extended headers that its OpCode asks for, payload, pad, ICRC
// (IBTA Volume 1, 9.2 to 9.5). The same on InfiniBand, RoCEv1 and RoCEv2, whose network headers are taken off
// before. Pure, any thread; spans point into what was decoded.

#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "ib_binding/wire/headers.h"

namespace kbtp::ib {

struct Packet {
  Bth bth;
  std::optional<std::uint32_t> xrc_srq;     ///< XRCETH: 24 bits
  std::optional<std::uint32_t> ee_context;  ///< RDETH: 24 bits
  std::optional<Deth> deth;
  std::optional<Reth> reth;
  std::optional<AtomicEth> atomic;
  std::optional<Aeth> aeth;
  std::optional<std::uint64_t> atomic_original;  ///< AtomicAckETH
  std::optional<std::uint32_t> immediate;        ///< as a big-endian number
  std::optional<std::uint32_t> invalidated_key;  ///< IETH
  std::size_t header_length = kBthSize;          ///< octets of all headers
  Octets payload;                                ///< without pad; shorter than payload_length when cut
  std::uint32_t payload_length = 0;              ///< on the wire
  std::optional<std::uint32_t> icrc;             ///< nothing when the capture has cut it off
};

struct PacketError {
  std::size_t octet = 0;   ///< from the first octet of the BTH
  const char* text = "";   ///< a literal
  bool cut_short = false;  ///< the capture lacks the octets: the packet itself may be right
};

/// Decodes a packet of `wire_length` octets, from BTH to ICRC, of which `octets` were captured. An OpCode
/// that is reserved yields the BTH, and everything between it and the ICRC as payload.
[[nodiscard]] Expected<Packet, PacketError> decode_packet(Octets octets, std::size_t wire_length);

/// BTH, extended headers, payload and pad, without an ICRC; bth.pad_count is set to fit the payload.
[[nodiscard]] std::vector<std::byte> encode_packet(const Packet& packet);

}  // namespace kbtp::ib
