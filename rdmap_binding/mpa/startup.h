// MPA start-up frames: the Request and the Reply that open a connection (RFC 5044 7.1.1, RFC 6581 6 and 9).
// 20 to 532 octets, big-endian, neither CRC nor markers:
//
//   0  16  Key            "MPA ID Req Frame" or "MPA ID Rep Frame"
//   16  1  M C R S Res(4)
//   17  1  Rev
//   18  2  PD_Length      0..512, counts the 4 enhanced octets
//   20  4  enhanced data  A B IRD(14) C D ORD(14), only when S=1 and Rev >= 2
//       n  Private Data of the ULP
//
// All functions are pure and may be called from any thread.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string_view>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "rdmap_binding/terminate_code.h"

namespace kbtp::mpa {

inline constexpr std::size_t kKeySize = 16;                          // RFC 5044 7.1.1
inline constexpr std::string_view kRequestKey = "MPA ID Req Frame";  // RFC 5044 7.1.1
inline constexpr std::string_view kReplyKey = "MPA ID Rep Frame";    // RFC 5044 7.1.1
inline constexpr std::size_t kKindOctet = 9;           ///< the only octet in which the two keys differ
inline constexpr std::size_t kStartupHeaderSize = 20;  // RFC 5044 7.1.1
inline constexpr std::size_t kMaxPrivateData = 512;    // RFC 5044 7.1.1
inline constexpr std::size_t kEnhancedSize = 4;        // RFC 6581 9
inline constexpr std::size_t kMaxEnhancedPrivateData = kMaxPrivateData - kEnhancedSize;  // RFC 6581 9
inline constexpr std::size_t kMaxStartupSize = kStartupHeaderSize + kMaxPrivateData;

inline constexpr std::uint8_t kMarkersFlag = 0x80;       // M, RFC 5044 7.1.1
inline constexpr std::uint8_t kCrcFlag = 0x40;           // C, RFC 5044 7.1.1
inline constexpr std::uint8_t kRejectFlag = 0x20;        // R, RFC 5044 7.1.1
inline constexpr std::uint8_t kEnhancedFlag = 0x10;      // S, RFC 6581 6; part of Res before revision 2
inline constexpr std::uint8_t kReservedMask = 0x0F;      // Res, RFC 6581 6
inline constexpr std::uint8_t kReservedMaskRev1 = 0x1F;  // Res, RFC 5044 7.1.1

inline constexpr std::uint8_t kRevision1 = 1;  // RFC 5044 7.1.1
inline constexpr std::uint8_t kRevision2 = 2;  // RFC 6581 6

/// IRD or ORD value that leaves the pair to the ULP (RFC 6581 9.1).
inline constexpr std::uint16_t kNoNegotiation = 0x3FFF;
inline constexpr std::uint16_t kMaxReadDepth = 0x3FFE;

enum class StartupKind : std::uint8_t {
  request,
  reply,
};

/// The 4 octets of RFC 6581 9. Decoded as they stand: with A=0 a receiver ignores B, C and D (9.2).
struct Enhanced {
  bool peer_to_peer = false;  ///< A: the initiator owes an RTR indication
  bool rtr_send = false;      ///< B: zero-length Send
  std::uint16_t ird = 0;      ///< 14 bits
  bool rtr_write = false;     ///< C: zero-length RDMA Write
  bool rtr_read = false;      ///< D: zero-length RDMA Read
  std::uint16_t ord = 0;      ///< 14 bits

  bool operator==(const Enhanced&) const = default;
};

struct StartupFrame {
  StartupKind kind = StartupKind::request;
  bool markers = false;       ///< M: the sender of this frame wants markers in what it receives
  bool crc = false;           ///< C: CRCs are off only when both frames say C=0
  bool reject = false;        ///< R: meaningful in a Reply only
  std::uint8_t reserved = 0;  ///< Res: 4 bits from revision 2 on, 5 before; sent 0, never checked
  std::uint8_t revision = kRevision2;
  std::optional<Enhanced> enhanced;  ///< set exactly when S=1 and revision >= 2
  Octets private_data;               ///< the ULP's part; points into the octets decoded

  friend bool operator==(const StartupFrame& a, const StartupFrame& b);
};

/// Not all there yet: the frame is known to have `total` octets at least, so far as can be told (20 until the
/// header is complete, then the whole frame).
struct NeedMore {
  std::size_t total = 0;
  bool operator==(const NeedMore&) const = default;
};

struct StartupComplete {
  StartupFrame frame;
  std::size_t size = 0;  ///< octets used; what follows is the first FPDU or marker
};

enum class StartupRule : std::uint8_t {
  bad_key,                ///< RFC 5044 7.1.1: neither key; seen at the first wrong octet
  wrong_kind,             ///< RFC 5044 7.1.2: Initiator/Initiator, or a Reply where a Request is due
  private_data_too_long,  ///< RFC 5044 7.1.1: PD_Length above 512
  enhanced_too_short,     ///< RFC 6581 6: S=1 with PD_Length below 4
};
[[nodiscard]] std::string_view to_string(StartupRule rule);

/// A malformed frame. TCP is closed at once (RFC 5044 8); a Terminate is not sent.
struct StartupError {
  StartupRule rule = StartupRule::bad_key;
  std::size_t octet = 0;
  [[nodiscard]] WireError wire_error() const;  ///< 2/0/04 with the same octet
  bool operator==(const StartupError&) const = default;
};

using StartupResult = std::variant<NeedMore, StartupComplete, StartupError>;

/// Decodes the frame at the start of `octets`, which may be any part of it from its first octet on, and may
/// go on behind it. With `expected`, the other kind is an error; without, either will do (a dissector's use).
/// The revision is not judged: see understands_revision().
[[nodiscard]] StartupResult decode_startup(Octets octets, std::optional<StartupKind> expected);

/// Whether this stack interoperates with a frame of that Rev: 1 and 2 (RFC 5044 7.1.1, RFC 6581 6).
[[nodiscard]] constexpr bool understands_revision(std::uint8_t revision) {
  return revision == kRevision1 || revision == kRevision2;
}

/// PD_Length of the frame: enhanced octets and private data.
[[nodiscard]] std::size_t private_data_length(const StartupFrame& frame);

/// The frame as octets. Encodes what it is told, legal or not (a conformance peer needs both): Res and any
/// revision as given, PD_Length modulo 2^16. A stack keeps private_data_length() <= kMaxPrivateData.
[[nodiscard]] std::vector<std::byte> encode_startup(const StartupFrame& frame);

/// The 4 enhanced octets alone.
[[nodiscard]] std::array<std::byte, kEnhancedSize> encode_enhanced(const Enhanced& enhanced);
[[nodiscard]] Enhanced decode_enhanced(std::span<const std::byte, kEnhancedSize> octets);

}  // namespace kbtp::mpa
