// The RDMAP control field and one table of what is true of each opcode (RFC 5040 4.1 to 4.3, RFC 7306 4),
// shared by the engine, the dissector and the suite.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace kbtp::rdmap {

inline constexpr std::uint8_t kVersionShift = 6;     // RV, RFC 5040 4.1
inline constexpr std::uint8_t kReservedMask = 0x30;  // Rsvd, RFC 5040 4.1
inline constexpr std::uint8_t kOpcodeMask = 0x0F;    // RFC 5040 4.1
inline constexpr std::uint8_t kVersion = 1;          // RFC 5040 4.1: 01b; 00b is RDMAC's

/// RFC 5040 4.1 (Figure 3) and RFC 7306 4.1. 0xC to 0xE are unassigned, 0xF is for experiments (RFC 6580).
enum class Opcode : std::uint8_t {
  rdma_write = 0x0,
  read_request = 0x1,
  read_response = 0x2,
  send = 0x3,
  send_invalidate = 0x4,
  send_se = 0x5,
  send_se_invalidate = 0x6,
  terminate = 0x7,
  immediate = 0x8,
  immediate_se = 0x9,
  atomic_request = 0xA,
  atomic_response = 0xB,
};

/// Untagged queues (RFC 5040 3.1, RFC 7306 5.2).
inline constexpr std::uint32_t kSendQueue = 0;            ///< Send family and Immediate Data
inline constexpr std::uint32_t kRequestQueue = 1;         ///< Read Request and Atomic Request, one MSN space
inline constexpr std::uint32_t kTerminateQueue = 2;       ///< Terminate
inline constexpr std::uint32_t kAtomicResponseQueue = 3;  ///< Atomic Response
inline constexpr std::uint32_t kQueueCount = 4;

inline constexpr std::size_t kReadRequestSize = 28;      // RFC 5040 4.4
inline constexpr std::size_t kImmediateSize = 8;         // RFC 7306 6.2
inline constexpr std::size_t kAtomicRequestSize = 52;    // RFC 7306 5.2.1
inline constexpr std::size_t kAtomicResponseSize = 12;   // RFC 7306 5.2.2
inline constexpr std::size_t kTerminateControlSize = 4;  // RFC 5040 4.8

struct OpcodeFacts {
  Opcode opcode;
  std::string_view name;       ///< as the RFCs write it
  bool tagged;                 ///< T of its DDP Segments
  std::uint32_t queue_number;  ///< of an untagged message; 0 for tagged ones
  std::size_t header_size;     ///< RDMAP header; smallest one for Terminate
  bool has_payload;            ///< carries octets of the ULP
  bool solicited;              ///< with Solicited Event
  bool invalidates;            ///< the Invalidate STag field is meant
  bool rfc7306;                ///< not in RFC 5040
};

/// In the order of the opcodes.
inline constexpr std::array<OpcodeFacts, 12> kOpcodes{{
    {Opcode::rdma_write, "RDMA Write", true, 0, 0, true, false, false, false},
    {Opcode::read_request, "RDMA Read Request", false, kRequestQueue, kReadRequestSize, false, false, false,
     false},
    {Opcode::read_response, "RDMA Read Response", true, 0, 0, true, false, false, false},
    {Opcode::send, "Send", false, kSendQueue, 0, true, false, false, false},
    {Opcode::send_invalidate, "Send with Invalidate", false, kSendQueue, 0, true, false, true, false},
    {Opcode::send_se, "Send with SE", false, kSendQueue, 0, true, true, false, false},
    {Opcode::send_se_invalidate, "Send with SE and Invalidate", false, kSendQueue, 0, true, true, true,
     false},
    {Opcode::terminate, "Terminate", false, kTerminateQueue, kTerminateControlSize, false, false, false,
     false},
    {Opcode::immediate, "Immediate Data", false, kSendQueue, kImmediateSize, false, false, false, true},
    {Opcode::immediate_se, "Immediate Data with SE", false, kSendQueue, kImmediateSize, false, true, false,
     true},
    {Opcode::atomic_request, "Atomic Request", false, kRequestQueue, kAtomicRequestSize, false, false, false,
     true},
    {Opcode::atomic_response, "Atomic Response", false, kAtomicResponseQueue, kAtomicResponseSize, false,
     false, false, true},
}};

/// nullptr for 0xC to 0xF.
[[nodiscard]] constexpr const OpcodeFacts* find_opcode(std::uint8_t opcode) {
  return opcode < kOpcodes.size() ? &kOpcodes[opcode] : nullptr;
}
[[nodiscard]] constexpr const OpcodeFacts& facts(Opcode opcode) {
  return kOpcodes[static_cast<std::uint8_t>(opcode)];
}

/// The RDMAP control field: first RsvdULP octet of the DDP header.
struct Control {
  std::uint8_t version = kVersion;  ///< RV, 2 bits
  std::uint8_t reserved = 0;        ///< 2 bits, sent 0, never checked
  std::uint8_t opcode = 0;          ///< 4 bits, any value
  bool operator==(const Control&) const = default;
};
[[nodiscard]] constexpr Control decode_control(std::uint8_t octet) {
  return {static_cast<std::uint8_t>(octet >> kVersionShift),
          static_cast<std::uint8_t>((octet & kReservedMask) >> 4),
          static_cast<std::uint8_t>(octet & kOpcodeMask)};
}
[[nodiscard]] constexpr std::uint8_t encode_control(const Control& control) {
  return static_cast<std::uint8_t>((control.version << kVersionShift) | ((control.reserved & 0x03) << 4) |
                                   (control.opcode & kOpcodeMask));
}
/// The octet that we send with an opcode, such as 0x43 for Send.
[[nodiscard]] constexpr std::uint8_t control_octet(Opcode opcode) {
  return encode_control({kVersion, 0, static_cast<std::uint8_t>(opcode)});
}

}  // namespace kbtp::rdmap
