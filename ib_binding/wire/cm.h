// Messages of InfiniBand's Communication Manager: MADs of 256 octets sent to queue pair 1 that set up and end
// reliable connections (IBTA Volume 1, 12.6), and the IP addressing part that librdmacm puts in front of a
// user's private data (IBTA Annex A11). Big-endian. Pure, any thread.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "base/bytes.h"

namespace kbtp::ib {

inline constexpr std::size_t kMadSize = 256;            // IBTA 13.4.2
inline constexpr std::size_t kMadHeaderSize = 24;       // IBTA 13.4.3
inline constexpr std::uint8_t kCmClass = 0x07;          // Communication Management
inline constexpr std::uint32_t kGeneralServicesQp = 1;  // where MADs go

/// Attribute ID of the MAD header: IBTA Volume 1, Table 105.
enum class CmKind : std::uint16_t {
  connect_request = 0x10,     ///< REQ
  message_received = 0x11,    ///< MRA
  connect_reject = 0x12,      ///< REJ
  connect_reply = 0x13,       ///< REP
  ready_to_use = 0x14,        ///< RTU
  disconnect_request = 0x15,  ///< DREQ
  disconnect_reply = 0x16,    ///< DREP
};
/// "REQ", "MRA" ...
[[nodiscard]] std::string_view to_string(CmKind kind);

/// Octets of payload in a packet by the code of a Path MTU (IBTA Volume 1, 12.7.11); 0 for a code that is
/// none.
[[nodiscard]] constexpr std::uint32_t path_mtu_octets(std::uint8_t code) {
  return code >= 1 && code <= 5 ? 128U << code : 0;
}

/// IP addressing, the first 36 octets of a REQ's private data when its Service ID is one of IP CM's:
/// 0 major 4, minor 4 | 1 IP version 4, reserved 4 | 2 source port 16 | 4 source 128 | 20 destination 128;
/// IPv4 addresses lie in the last four octets.
struct IpAddressing {
  std::uint8_t version = 4;   ///< 4 or 6
  std::uint8_t protocol = 6;  ///< from the Service ID: 6 for RDMA_PS_TCP
  std::uint16_t source_port = 0;
  std::uint16_t destination_port = 0;  ///< from the Service ID
  std::array<std::byte, 16> source{};
  std::array<std::byte, 16> destination{};
};
inline constexpr std::size_t kIpAddressingSize = 36;

/// What a CM message says; fields that its kind lacks stay empty.
struct CmMessage {
  CmKind kind = CmKind::connect_request;
  std::uint64_t transaction = 0;
  std::uint32_t local_id = 0;                       ///< Communication ID of the sender
  std::uint32_t remote_id = 0;                      ///< of the receiver; 0 in a REQ
  std::optional<std::uint64_t> service_id;          ///< REQ
  std::optional<std::uint32_t> qp;                  ///< REQ, REP: the sender's; DREQ: the receiver's
  std::optional<std::uint32_t> starting_psn;        ///< REQ, REP
  std::optional<std::uint8_t> responder_resources;  ///< REQ, REP: Reads that the sender answers at once
  std::optional<std::uint8_t> initiator_depth;      ///< REQ, REP: Reads that it will have outstanding
  std::optional<std::uint8_t> path_mtu;             ///< REQ: 1 to 5 for 256 to 4096 octets
  std::optional<std::uint8_t> retry_count;          ///< REQ
  std::optional<std::uint8_t> rnr_retry_count;      ///< REQ, REP
  std::optional<std::uint16_t> reject_reason;       ///< REJ
  std::optional<IpAddressing> ip;                   ///< REQ of librdmacm
  Octets private_data;                              ///< behind the IP addressing, with its trailing zeros
};

/// The reason of a REJ in words: IBTA Volume 1, Table 110; "" for one that is not in it.
[[nodiscard]] std::string_view describe_reject(std::uint16_t reason);

/// A CM message in the payload of a UD Send to queue pair 1; nothing when it is another kind of MAD, or when
/// less than 256 octets are there.
[[nodiscard]] std::optional<CmMessage> decode_cm(Octets mad);

}  // namespace kbtp::ib
