// FPDUs: the frames that carry one ULPDU each over TCP (RFC 5044 4).
//
//   0    2  ULPDU_Length  octets of the ULPDU alone, big-endian
//   2    n  ULPDU         one DDP Segment
//        p  PAD           0 to 3 zero octets, so that 2 + n + p is a multiple of 4
//        4  CRC32C        least significant octet first; covers everything in front of it
//
// An engine sends the pieces as they lie (encode_length, the ULPDU, make_trailer); tests, the dissector and
// the raw peer use whole buffers. Markers are no part of these functions: they are put between the octets of
// an FPDU later, and the CRC then also runs over them, which is why make_trailer and check_crc take the CRC
// so far instead of octets. Pure, any thread, no allocation except encode_fpdu().

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "rdmap_binding/mpa/startup.h"
#include "rdmap_binding/terminate_code.h"

namespace kbtp::mpa {

inline constexpr std::size_t kLengthSize = 2;  // RFC 5044 4.1
inline constexpr std::size_t kCrcSize = 4;     // RFC 5044 4.1
inline constexpr std::size_t kMaxPad = 3;      // RFC 5044 4.1
inline constexpr std::size_t kMaxTrailer = kMaxPad + kCrcSize;
inline constexpr std::size_t kMinMulpdu = 128;       // RFC 5044 3, 4.5
inline constexpr std::size_t kMaxMulpdu = 64768;     // RFC 5044 3: 0xFD00
inline constexpr std::size_t kMarkerSize = 4;        // RFC 5044 4.2
inline constexpr std::size_t kMarkerInterval = 512;  // RFC 5044 4.3

[[nodiscard]] constexpr std::size_t pad_size(std::size_t ulpdu) {
  return (4 - (kLengthSize + ulpdu) % 4) % 4;
}
/// PAD and CRC.
[[nodiscard]] constexpr std::size_t trailer_size(std::size_t ulpdu) { return pad_size(ulpdu) + kCrcSize; }
/// The whole FPDU, without markers.
[[nodiscard]] constexpr std::size_t fpdu_size(std::size_t ulpdu) {
  return kLengthSize + ulpdu + trailer_size(ulpdu);
}

/// Largest ULPDU whose FPDU fits a TCP segment of `emss` octets, kept within 128..64768 (RFC 5044 3, 4.5).
[[nodiscard]] std::size_t mulpdu(std::size_t emss, bool markers);

[[nodiscard]] std::array<std::byte, kLengthSize> encode_length(std::uint16_t ulpdu);

/// PAD and CRC of one FPDU, ready to be sent behind its ULPDU.
struct Trailer {
  std::array<std::byte, kMaxTrailer> storage{};
  std::uint8_t size = 0;
  [[nodiscard]] Octets octets() const { return Octets(storage).first(size); }
};
/// `crc` has run over length field and ULPDU (and the markers that belong to them).
[[nodiscard]] Trailer make_trailer(std::size_t ulpdu, Crc32c crc);
/// When CRCs are off the field is still there (RFC 5044 4.4); we send zero.
[[nodiscard]] Trailer make_trailer_without_crc(std::size_t ulpdu);

/// Whether a received trailer (trailer_size(ulpdu) octets) holds the right CRC. `crc` has run over everything
/// in front of the trailer; the trailer's own pad octets, whatever they hold, are added here.
[[nodiscard]] bool check_crc(Octets trailer, Crc32c crc);

/// Judges a length field alone. Lengths of 0 and above 64768 are no ULPDU that may be posted (RFC 5044 3); no
/// RFC names an answer, ours is 2/0/03 before anything is buffered.
[[nodiscard]] std::optional<WireError> check_length(std::uint16_t ulpdu);

struct Fpdu {
  Octets ulpdu;
  Octets pad;             ///< ignored on receive but for the CRC (RFC 5044 4.1)
  std::uint32_t crc = 0;  ///< as found
  std::size_t size = 0;   ///< octets used
};

enum class CrcUse : std::uint8_t {
  check,
  ignore,  ///< both start-up frames said C=0 (RFC 5044 7.1.1)
};

using FpduResult = std::variant<NeedMore, Fpdu, WireError>;

/// Decodes the FPDU, free of markers, at the start of `octets`, which may be incomplete or go on behind it.
[[nodiscard]] FpduResult decode_fpdu(Octets octets, CrcUse use);

/// One whole FPDU. `ulpdu` has at most 65535 octets; sizes above 64768 are encoded as told.
[[nodiscard]] std::vector<std::byte> encode_fpdu(Octets ulpdu);

}  // namespace kbtp::mpa
