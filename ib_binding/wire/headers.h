// The Base Transport Header and the extended transport headers (IBTA Volume 1, 9.2 and 9.3). Big-endian, no
// I/O, any thread. Sizes are octets; a decoder takes just as many octets as its header has.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "ib_binding/wire/opcode.h"

namespace kbtp::ib {

inline constexpr std::size_t kBthSize = 12;        // IBTA 9.2
inline constexpr std::size_t kRdethSize = 4;       // IBTA 9.3.1
inline constexpr std::size_t kDethSize = 8;        // IBTA 9.3.2
inline constexpr std::size_t kRethSize = 16;       // IBTA 9.3.3
inline constexpr std::size_t kAtomicEthSize = 28;  // IBTA 9.3.4
inline constexpr std::size_t kAethSize = 4;        // IBTA 9.3.5
inline constexpr std::size_t kAtomicAckSize = 8;   // IBTA 9.5.3
inline constexpr std::size_t kImmediateSize = 4;   // IBTA 9.3.6
inline constexpr std::size_t kIethSize = 4;        // IBTA 9.3.7
inline constexpr std::size_t kXrcethSize = 4;      // IBTA Annex A14.3.1
inline constexpr std::size_t kGrhSize = 40;        // IBTA 8.3
inline constexpr std::size_t kIcrcSize = 4;        // IBTA 7.8.1

/// 12 octets: 0 OpCode 8 | 1 SE 1, MigReq 1, PadCnt 2, TVer 4 | 2 P_Key 16 | 4 FECN 1, BECN 1, reserved 6 |
/// 5 DestQP 24 | 8 AckReq 1, reserved 7 | 9 PSN 24.
struct Bth {
  Opcode opcode;
  bool solicited_event = false;
  bool migration = false;
  std::uint8_t pad_count = 0;          ///< 2 bits: octets of zero between payload and ICRC
  std::uint8_t transport_version = 0;  ///< 4 bits
  std::uint16_t partition_key = 0xFFFF;
  bool fecn = false;  ///< RoCEv2 only; reserved before
  bool becn = false;
  std::uint32_t destination_qp = 0;  ///< 24 bits
  bool acknowledge_request = false;
  std::uint32_t psn = 0;  ///< Packet Sequence Number, 24 bits
  bool operator==(const Bth&) const = default;
};
inline constexpr std::uint32_t kPsnMask = 0xFFFFFF;

/// 8 octets: 0 Q_Key 32 | 4 reserved 8 | 5 SrcQP 24.
struct Deth {
  std::uint32_t queue_key = 0;
  std::uint32_t source_qp = 0;
  bool operator==(const Deth&) const = default;
};

/// 16 octets: 0 Virtual Address 64 | 8 R_Key 32 | 12 DMA Length 32.
struct Reth {
  std::uint64_t virtual_address = 0;
  std::uint32_t remote_key = 0;
  std::uint32_t dma_length = 0;  ///< of the whole message
  bool operator==(const Reth&) const = default;
};

/// 28 octets: 0 Virtual Address 64 | 8 R_Key 32 | 12 Swap or Add Data 64 | 20 Compare Data 64.
struct AtomicEth {
  std::uint64_t virtual_address = 0;
  std::uint32_t remote_key = 0;
  std::uint64_t swap_or_add = 0;
  std::uint64_t compare = 0;
  bool operator==(const AtomicEth&) const = default;
};

/// 4 octets: 0 Syndrome 8 | 1 MSN 24 (IBTA 9.7.5.2).
struct Aeth {
  enum class Kind : std::uint8_t {
    ack = 0,
    rnr_nak = 1,  ///< receiver not ready
    reserved = 2,
    nak = 3,
  };
  std::uint8_t syndrome = 0;
  std::uint32_t msn = 0;
  [[nodiscard]] constexpr Kind kind() const { return static_cast<Kind>((syndrome >> 5) & 0x3); }
  /// Credit count of an ACK, timer of an RNR NAK, code of a NAK.
  [[nodiscard]] constexpr std::uint8_t value() const { return syndrome & 0x1F; }
  bool operator==(const Aeth&) const = default;
};
/// "ACK", "RNR NAK", "NAK: PSN sequence error" ...
[[nodiscard]] std::string_view describe(const Aeth& aeth);

[[nodiscard]] Bth decode_bth(std::span<const std::byte, kBthSize> octets);
[[nodiscard]] Deth decode_deth(std::span<const std::byte, kDethSize> octets);
[[nodiscard]] Reth decode_reth(std::span<const std::byte, kRethSize> octets);
[[nodiscard]] AtomicEth decode_atomic_eth(std::span<const std::byte, kAtomicEthSize> octets);
[[nodiscard]] Aeth decode_aeth(std::span<const std::byte, kAethSize> octets);

[[nodiscard]] std::array<std::byte, kBthSize> encode(const Bth& bth);
[[nodiscard]] std::array<std::byte, kDethSize> encode(const Deth& deth);
[[nodiscard]] std::array<std::byte, kRethSize> encode(const Reth& reth);
[[nodiscard]] std::array<std::byte, kAtomicEthSize> encode(const AtomicEth& atomic);
[[nodiscard]] std::array<std::byte, kAethSize> encode(const Aeth& aeth);

}  // namespace kbtp::ib
