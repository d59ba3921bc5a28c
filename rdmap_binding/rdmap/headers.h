// The fixed RDMAP headers that follow an untagged DDP header: RDMA Read Request (RFC 5040 4.4), Immediate
// Data, Atomic Request and Atomic Response (RFC 7306 6.2, 5.2.1, 5.2.2). Big-endian. Pure, any thread.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>

#include "base/bytes.h"
#include "rdmap_binding/rdmap/opcode.h"

namespace kbtp::rdmap {

/// 28 octets: 0 SinkSTag 32 | 4 SinkTO 64 | 12 RDMARDSZ 32 | 16 SrcSTag 32 | 20 SrcTO 64.
struct ReadRequest {
  std::uint32_t sink_stag = 0;
  std::uint64_t sink_to = 0;
  std::uint32_t size = 0;  ///< octets; 0 asks for a zero-length Response and nothing is validated
  std::uint32_t source_stag = 0;
  std::uint64_t source_to = 0;
  bool operator==(const ReadRequest&) const = default;

  /// As a Terminate tells it once `sent` octets of the Response are out (RFC 5040 4.8).
  [[nodiscard]] constexpr ReadRequest advanced(std::uint32_t sent) const {
    return {sink_stag, sink_to + sent, size - sent, source_stag, source_to + sent};
  }
};

/// 8 octets of Immediate Data, which RDMAP does not interpret: the first is the most significant.
struct Immediate {
  std::uint64_t data = 0;
  bool operator==(const Immediate&) const = default;
};

/// RFC 7306 5.2.1: 0x1 is reserved, 0x3 to 0xF are unassigned.
enum class AtomicOpcode : std::uint8_t {
  fetch_add = 0x0,
  compare_swap = 0x2,
};
inline constexpr std::uint8_t kAtomicOpcodeMask = 0x0F;  // RFC 7306 5.2.1

/// 52 octets: 0 Reserved 28, AOpCode 4 | 4 Request Identifier 32 | 8 Remote STag 32 | 12 Remote TO 64 |
/// 20 Add or Swap Data 64 | 28 Add or Swap Mask 64 | 36 Compare Data 64 | 44 Compare Mask 64.
struct AtomicRequest {
  AtomicOpcode operation = AtomicOpcode::fetch_add;  ///< 4 bits, may hold a value without a name
  std::uint32_t request_identifier = 0;
  std::uint32_t remote_stag = 0;
  std::uint64_t remote_to = 0;
  std::uint64_t add_or_swap_data = 0;
  std::uint64_t add_or_swap_mask = 0;
  std::uint64_t compare_data = 0;                  ///< FetchAdd: sent 0, ignored
  std::uint64_t compare_mask = ~std::uint64_t{0};  ///< FetchAdd: sent all ones, ignored
  bool operator==(const AtomicRequest&) const = default;
};

/// 12 octets: 0 Original Request Identifier 32 | 4 Original Remote Data Value 64.
struct AtomicResponse {
  std::uint32_t request_identifier = 0;
  std::uint64_t original_value = 0;
  bool operator==(const AtomicResponse&) const = default;
};

[[nodiscard]] std::array<std::byte, kReadRequestSize> encode(const ReadRequest& header);
[[nodiscard]] std::array<std::byte, kImmediateSize> encode(const Immediate& header);
[[nodiscard]] std::array<std::byte, kAtomicRequestSize> encode(const AtomicRequest& header);
[[nodiscard]] std::array<std::byte, kAtomicResponseSize> encode(const AtomicResponse& header);

[[nodiscard]] ReadRequest decode_read_request(std::span<const std::byte, kReadRequestSize> octets);
[[nodiscard]] Immediate decode_immediate(std::span<const std::byte, kImmediateSize> octets);
/// The 28 reserved bits are dropped; an AOpCode without a name is kept: see is_known().
[[nodiscard]] AtomicRequest decode_atomic_request(std::span<const std::byte, kAtomicRequestSize> octets);
[[nodiscard]] AtomicResponse decode_atomic_response(std::span<const std::byte, kAtomicResponseSize> octets);

[[nodiscard]] constexpr bool is_known(AtomicOpcode operation) {
  return operation == AtomicOpcode::fetch_add || operation == AtomicOpcode::compare_swap;
}

}  // namespace kbtp::rdmap
