// The Terminate Message (RFC 5040 4.8): 4 control octets, then copies of the headers of the message that
// caused it.
//
//   0  4  Layer 4, Error Type 4, Error Code 8, M D R, Reserved 13
//   4  2  DDP Segment Length            when M or D; meaningful only when M
//   6  14 or 18  Terminated DDP Header  when D; the size follows from its own T bit
//      28        Terminated RDMA Header when R; only a Read Request's
//
// Its own DDP header is untagged: QN 2, MSN 1, MO 0. Pure, any thread.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/bytes.h"
#include "base/result.h"
#include "rdmap_binding/ddp/segment.h"
#include "rdmap_binding/rdmap/headers.h"
#include "rdmap_binding/rdmap/opcode.h"
#include "rdmap_binding/terminate_code.h"

namespace kbtp::rdmap {

inline constexpr std::uint8_t kLengthValidFlag = 0x80;  // M, RFC 5040 4.8
inline constexpr std::uint8_t kDdpHeaderFlag = 0x40;    // D, RFC 5040 4.8
inline constexpr std::uint8_t kRdmaHeaderFlag = 0x20;   // R, RFC 5040 4.8
inline constexpr std::size_t kSegmentLengthSize = 2;    // RFC 5040 4.8
inline constexpr std::size_t kMaxTerminateSize =
    kTerminateControlSize + kSegmentLengthSize + ddp::kMaxHeaderSize + kReadRequestSize;

/// First 32 bits of the Terminate Header. The 13 reserved bits are sent 0 and ignored.
struct TerminateControl {
  TerminateCode code;
  bool length_valid = false;  ///< M
  bool ddp_header = false;    ///< D
  bool rdma_header = false;   ///< R
  bool operator==(const TerminateControl&) const = default;
};
[[nodiscard]] TerminateControl decode_terminate_control(
    std::span<const std::byte, kTerminateControlSize> octets);
/// The same four octets as Linux siw on a little-endian host lays them out, against the RFC: Error Type and
/// Layer change places, M, D and R are the low bits 0x01, 0x02, 0x04 of octet 2.
[[nodiscard]] TerminateControl decode_siw_terminate_control(
    std::span<const std::byte, kTerminateControlSize> octets);

/// A received Terminate. M, D and R are kept as they stand; each copy is there exactly when its octets are.
struct Terminate {
  TerminateControl control;
  std::uint16_t segment_length = 0;  ///< as sent when M or D, else 0
  Octets ddp_header;                 ///< copied header, 0, 14 or 18 octets; points into what was decoded
  std::optional<ReadRequest> read_request;
  Octets rest;  ///< octets behind all that: padding of some peers, not interpreted

  [[nodiscard]] TerminateCode code() const { return control.code; }
};

/// Decodes the octets behind the DDP header. An error when fewer are left than M, D, R and the T bit of the
/// copy promise: 0/2/FF.
[[nodiscard]] Expected<Terminate, WireError> decode_terminate(Octets octets);

/// A Terminate Header ready to be sent behind a DDP header.
struct TerminateOctets {
  std::array<std::byte, kMaxTerminateSize> storage{};
  std::uint8_t size = 0;
  [[nodiscard]] Octets octets() const { return Octets(storage).first(size); }
};

/// What went wrong and with which message, for make_terminate(). The octets are those received.
struct Offender {
  Octets ddp_header;                 ///< 14 or 18 octets; empty when there is none to show
  std::uint16_t segment_length = 0;  ///< of the whole DDP Segment
  std::optional<ReadRequest>
      read_request;  ///< when it was a delivered Read Request, advanced() by what was sent
};
/// The Offender of a ULPDU at whose first octets `head` one has got, as far as a header can be read in it.
/// Fills read_request when the whole of it is there.
[[nodiscard]] Offender make_offender(Octets head, std::size_t ulpdu_length);

/// The Terminate Header for `code` as RFC 5040 Figure 10 and RFC 7306 8.1 want it: no copies for a local
/// catastrophic or LLP error, length and DDP header otherwise, and the RDMA header for a protection error of
/// RDMAP on a Read Request.
[[nodiscard]] TerminateOctets make_terminate(TerminateCode code, const Offender& offender);

/// Encodes any combination as told: a copy is written exactly when it is there, M, D, R as `control` says.
[[nodiscard]] TerminateOctets encode_terminate(const Terminate& terminate);

}  // namespace kbtp::rdmap
