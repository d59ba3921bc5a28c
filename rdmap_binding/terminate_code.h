// What a Terminate Message says went wrong: Layer, Error Type and Error Code (RFC 5040 4.8). It is also what
// every decoder of MPA, DDP and RDMAP answers with, so that the parser's error is the wire's error. Header
// only, because the three layers share it and none of them owns it.

#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace kbtp {

/// The triple, as RFC 5040 Figure 8 lays it out: Layer 4 bits, Error Type 4 bits, Error Code 8 bits.
struct TerminateCode {
  std::uint8_t layer = 0;
  std::uint8_t error_type = 0;
  std::uint8_t error_code = 0;

  /// Layer << 12 | Error Type << 8 | Error Code: the first 16 bits of a Terminate Header, and the form that
  /// rdma::CloseReason::terminate has.
  [[nodiscard]] constexpr std::uint16_t packed() const {
    return static_cast<std::uint16_t>((layer & 0x0F) << 12 | (error_type & 0x0F) << 8 | error_code);
  }
  [[nodiscard]] static constexpr TerminateCode from_packed(std::uint16_t word) {
    return {static_cast<std::uint8_t>(word >> 12), static_cast<std::uint8_t>((word >> 8) & 0x0F),
            static_cast<std::uint8_t>(word & 0xFF)};
  }
  auto operator<=>(const TerminateCode&) const = default;
};

/// Every row of the tables of RFC 5040 4.8 (Figure 9), RFC 5041 7.2, RFC 5044 8 and RFC 6581 8. TO wrap is 04
/// in RDMAP and 03 in DDP; "cannot be invalidated" exists as protection and as operation error.
namespace terminate {

inline constexpr std::uint8_t kLayerRdmap = 0x0;
inline constexpr std::uint8_t kLayerDdp = 0x1;
inline constexpr std::uint8_t kLayerLlp = 0x2;

/// Error types of the RDMAP layer.
inline constexpr std::uint8_t kRdmapLocalCatastrophicType = 0x0;
inline constexpr std::uint8_t kRdmapProtectionType = 0x1;
inline constexpr std::uint8_t kRdmapOperationType = 0x2;
/// Error types of the DDP layer; 3 is reserved for the LLP.
inline constexpr std::uint8_t kDdpLocalCatastrophicType = 0x0;
inline constexpr std::uint8_t kDdpTaggedType = 0x1;
inline constexpr std::uint8_t kDdpUntaggedType = 0x2;
/// The only error type of MPA.
inline constexpr std::uint8_t kMpaType = 0x0;

// RFC 5040 4.8. A local catastrophic error has no code of its own; 0 is what we send.
inline constexpr TerminateCode kRdmapLocalCatastrophic{0x0, 0x0, 0x00};
inline constexpr TerminateCode kRdmapInvalidStag{0x0, 0x1, 0x00};
inline constexpr TerminateCode kRdmapBaseOrBounds{0x0, 0x1, 0x01};
inline constexpr TerminateCode kRdmapAccessRights{0x0, 0x1, 0x02};
inline constexpr TerminateCode kRdmapStagNotAssociated{0x0, 0x1, 0x03};
inline constexpr TerminateCode kRdmapToWrap{0x0, 0x1, 0x04};
inline constexpr TerminateCode kRdmapStagCannotBeInvalidated{0x0, 0x1, 0x09};
inline constexpr TerminateCode kRdmapProtectionUnspecified{0x0, 0x1, 0xFF};
inline constexpr TerminateCode kRdmapInvalidVersion{0x0, 0x2, 0x05};
inline constexpr TerminateCode kRdmapUnexpectedOpcode{0x0, 0x2, 0x06};
inline constexpr TerminateCode kRdmapCatastrophicStream{0x0, 0x2, 0x07};  ///< also RFC 7306 8.2: unaligned
inline constexpr TerminateCode kRdmapCatastrophicGlobal{0x0, 0x2, 0x08};
inline constexpr TerminateCode kRdmapOperationStagCannotBeInvalidated{0x0, 0x2, 0x09};
inline constexpr TerminateCode kRdmapOperationUnspecified{0x0, 0x2, 0xFF};

// RFC 5041 7.2.
inline constexpr TerminateCode kDdpLocalCatastrophic{0x1, 0x0, 0x00};
inline constexpr TerminateCode kDdpTaggedInvalidStag{0x1, 0x1, 0x00};
inline constexpr TerminateCode kDdpTaggedBaseOrBounds{0x1, 0x1, 0x01};
inline constexpr TerminateCode kDdpTaggedStagNotAssociated{0x1, 0x1, 0x02};
inline constexpr TerminateCode kDdpTaggedToWrap{0x1, 0x1, 0x03};
inline constexpr TerminateCode kDdpTaggedInvalidVersion{0x1, 0x1, 0x04};
inline constexpr TerminateCode kDdpUntaggedInvalidQn{0x1, 0x2, 0x01};
inline constexpr TerminateCode kDdpUntaggedNoBuffer{0x1, 0x2, 0x02};  ///< invalid MSN, no buffer available
inline constexpr TerminateCode kDdpUntaggedMsnRange{0x1, 0x2, 0x03};  ///< invalid MSN, out of range
inline constexpr TerminateCode kDdpUntaggedInvalidMo{0x1, 0x2, 0x04};
inline constexpr TerminateCode kDdpUntaggedTooLong{0x1, 0x2, 0x05};  ///< message too long for the buffer
inline constexpr TerminateCode kDdpUntaggedInvalidVersion{0x1, 0x2, 0x06};

// RFC 5044 8 (01 to 04), RFC 6581 8 (05 to 07).
inline constexpr TerminateCode kMpaConnectionLost{0x2, 0x0, 0x01};
inline constexpr TerminateCode kMpaCrcError{0x2, 0x0, 0x02};
inline constexpr TerminateCode kMpaMarkerMismatch{0x2, 0x0, 0x03};  ///< marker and ULPDU Length disagree
inline constexpr TerminateCode kMpaInvalidStartup{0x2, 0x0, 0x04};
inline constexpr TerminateCode kMpaLocalCatastrophic{0x2, 0x0, 0x05};
inline constexpr TerminateCode kMpaInsufficientIrd{0x2, 0x0, 0x06};
inline constexpr TerminateCode kMpaNoMatchingRtr{0x2, 0x0, 0x07};

struct Row {
  TerminateCode code;
  std::string_view layer;
  std::string_view error_type;
  std::string_view meaning;
};

inline constexpr std::array<Row, 33> kRows{{
    {kRdmapLocalCatastrophic, "RDMAP", "Local Catastrophic", "local catastrophic error"},
    {kRdmapInvalidStag, "RDMAP", "Protection", "invalid STag"},
    {kRdmapBaseOrBounds, "RDMAP", "Protection", "base or bounds"},
    {kRdmapAccessRights, "RDMAP", "Protection", "access rights"},
    {kRdmapStagNotAssociated, "RDMAP", "Protection", "STag not associated with stream"},
    {kRdmapToWrap, "RDMAP", "Protection", "TO wrap"},
    {kRdmapStagCannotBeInvalidated, "RDMAP", "Protection", "STag cannot be invalidated"},
    {kRdmapProtectionUnspecified, "RDMAP", "Protection", "unspecified"},
    {kRdmapInvalidVersion, "RDMAP", "Operation", "invalid RDMAP version"},
    {kRdmapUnexpectedOpcode, "RDMAP", "Operation", "unexpected opcode"},
    {kRdmapCatastrophicStream, "RDMAP", "Operation", "catastrophic, this stream"},
    {kRdmapCatastrophicGlobal, "RDMAP", "Operation", "catastrophic, global"},
    {kRdmapOperationStagCannotBeInvalidated, "RDMAP", "Operation", "STag cannot be invalidated"},
    {kRdmapOperationUnspecified, "RDMAP", "Operation", "unspecified"},
    {kDdpLocalCatastrophic, "DDP", "Local Catastrophic", "local catastrophic error"},
    {kDdpTaggedInvalidStag, "DDP", "Tagged", "invalid STag"},
    {kDdpTaggedBaseOrBounds, "DDP", "Tagged", "base or bounds"},
    {kDdpTaggedStagNotAssociated, "DDP", "Tagged", "STag not associated with stream"},
    {kDdpTaggedToWrap, "DDP", "Tagged", "TO wrap"},
    {kDdpTaggedInvalidVersion, "DDP", "Tagged", "invalid DDP version"},
    {kDdpUntaggedInvalidQn, "DDP", "Untagged", "invalid QN"},
    {kDdpUntaggedNoBuffer, "DDP", "Untagged", "invalid MSN, no buffer"},
    {kDdpUntaggedMsnRange, "DDP", "Untagged", "invalid MSN, out of range"},
    {kDdpUntaggedInvalidMo, "DDP", "Untagged", "invalid MO"},
    {kDdpUntaggedTooLong, "DDP", "Untagged", "message too long for buffer"},
    {kDdpUntaggedInvalidVersion, "DDP", "Untagged", "invalid DDP version"},
    {kMpaConnectionLost, "LLP", "MPA", "TCP connection closed or lost"},
    {kMpaCrcError, "LLP", "MPA", "CRC error"},
    {kMpaMarkerMismatch, "LLP", "MPA", "marker and ULPDU Length mismatch"},
    {kMpaInvalidStartup, "LLP", "MPA", "invalid Request or Reply Frame"},
    {kMpaLocalCatastrophic, "LLP", "MPA", "local catastrophic error"},
    {kMpaInsufficientIrd, "LLP", "MPA", "insufficient IRD"},
    {kMpaNoMatchingRtr, "LLP", "MPA", "no matching RTR option"},
}};

/// The row of a code, or nullptr when no RFC lists it. Any code is good for a local catastrophic error of
/// RDMAP (RFC 5040 Figure 9).
[[nodiscard]] constexpr const Row* find(TerminateCode code) {
  if (code.layer == kLayerRdmap && code.error_type == kRdmapLocalCatastrophicType) code.error_code = 0;
  for (const Row& row : kRows) {
    if (row.code == code) return &row;
  }
  return nullptr;
}

}  // namespace terminate

/// "DDP/Tagged/base or bounds", or the three numbers ("3/1/07") when no RFC lists the code.
[[nodiscard]] inline std::string to_string(TerminateCode code) {
  if (const terminate::Row* row = terminate::find(code)) {
    return std::string(row->layer) + "/" + std::string(row->error_type) + "/" + std::string(row->meaning);
  }
  constexpr std::string_view kDigits = "0123456789abcdef";
  const std::string high(1, kDigits[(code.error_code >> 4) & 0x0F]);
  const std::string low(1, kDigits[code.error_code & 0x0F]);
  return std::to_string(code.layer) + "/" + std::to_string(code.error_type) + "/" + high + low;
}

/// What a decoder found wrong: the answer that goes out, and where the fault is.
struct WireError {
  TerminateCode code;
  std::size_t octet = 0;    ///< offset of the faulty octet in what the decoder was given
  std::string_view reason;  ///< for people, with the section; a literal

  bool operator==(const WireError&) const = default;
};

}  // namespace kbtp
