// DDP Segments: header and payload of one ULPDU (RFC 5041 4). Big-endian. Sizes in octets:
//
//   Tagged, 14                        Untagged, 18
//    0  1  T L Rsvd(4) DV(2)           0  1  T L Rsvd(4) DV(2)
//    1  1  RsvdULP                     1  5  RsvdULP: 1 octet, then 4
//    2  4  STag                        6  4  QN
//    6  8  TO                         10  4  MSN
//                                     14  4  MO
//
// For RDMAP the first RsvdULP octet is its control field and the other four are the Invalidate STag (RFC 5040
// 4.1). Pure, any thread, no allocation.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>

#include "base/bytes.h"
#include "base/result.h"
#include "rdmap_binding/terminate_code.h"

namespace kbtp::ddp {

inline constexpr std::size_t kTaggedHeaderSize = 14;    // RFC 5041 4.2
inline constexpr std::size_t kUntaggedHeaderSize = 18;  // RFC 5041 4.3
inline constexpr std::size_t kMaxHeaderSize = kUntaggedHeaderSize;

inline constexpr std::uint8_t kTaggedFlag = 0x80;    // T, RFC 5041 4.1
inline constexpr std::uint8_t kLastFlag = 0x40;      // L, RFC 5041 4.1
inline constexpr std::uint8_t kReservedMask = 0x3C;  // Rsvd, RFC 5041 4.1
inline constexpr std::uint8_t kVersionMask = 0x03;   // DV, RFC 5041 4.1
inline constexpr std::uint8_t kVersion = 1;          // RFC 5041 4.1

inline constexpr std::uint32_t kFirstMsn = 1;  // RFC 5041 4.3

struct TaggedHeader {
  bool last = true;
  std::uint8_t reserved = 0;  ///< 4 bits, sent 0, never checked
  std::uint8_t version = kVersion;
  std::uint8_t rsvdulp = 0;
  std::uint32_t stag = 0;
  std::uint64_t tagged_offset = 0;
  bool operator==(const TaggedHeader&) const = default;
};

struct UntaggedHeader {
  bool last = true;
  std::uint8_t reserved = 0;  ///< 4 bits, sent 0, never checked
  std::uint8_t version = kVersion;
  std::uint8_t rsvdulp = 0;          ///< first octet of RsvdULP
  std::uint32_t rsvdulp_stag = 0;    ///< the other four
  std::uint32_t queue_number = 0;    ///< QN
  std::uint32_t msn = kFirstMsn;     ///< MSN: from 1 on, per queue and direction; 2^32-1 is followed by 0
  std::uint32_t message_offset = 0;  ///< MO: of the payload's first octet in the message
  bool operator==(const UntaggedHeader&) const = default;
};

using Header = std::variant<TaggedHeader, UntaggedHeader>;

[[nodiscard]] constexpr bool is_tagged(std::byte control) {
  return (std::to_integer<unsigned>(control) & kTaggedFlag) != 0;
}
/// Size of the header that begins with this octet.
[[nodiscard]] constexpr std::size_t header_size(std::byte control) {
  return is_tagged(control) ? kTaggedHeaderSize : kUntaggedHeaderSize;
}
[[nodiscard]] std::size_t header_size(const Header& header);
[[nodiscard]] bool is_last(const Header& header);
[[nodiscard]] std::uint8_t rsvdulp(const Header& header);

/// Reads the header at the start of `octets`, any DV. Too few octets for it: RFC 5041 has no code; 1/0/00, an
/// error that needs no header copy.
[[nodiscard]] Expected<Header, WireError> read_header(Octets octets);
/// The same into `header`, which stays as it was when there is an error.
[[nodiscard]] std::optional<WireError> read_header(Octets octets, Header& header);

/// 1/1/04 or 1/2/06 when DV is not 1 (RFC 5041 4.1, 7.2).
[[nodiscard]] std::optional<WireError> check_version(const Header& header);

struct Segment {
  Header header;
  Octets payload;  ///< points into the ULPDU
};

/// read_header() and check_version() on a whole ULPDU.
[[nodiscard]] Expected<Segment, WireError> decode_segment(Octets ulpdu);

/// Encodes what it is told, any version and reserved bits.
[[nodiscard]] std::array<std::byte, kTaggedHeaderSize> encode(const TaggedHeader& header);
[[nodiscard]] std::array<std::byte, kUntaggedHeaderSize> encode(const UntaggedHeader& header);
/// Writes header_size(header) octets to the front of `destination`, which must have room; returns how many.
std::size_t encode(const Header& header, MutableOctets destination);

/// The MSN behind `msn` (RFC 5041 4.3).
[[nodiscard]] constexpr std::uint32_t next_msn(std::uint32_t msn) { return msn + 1; }

}  // namespace kbtp::ddp
