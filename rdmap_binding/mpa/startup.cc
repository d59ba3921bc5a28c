#include "rdmap_binding/mpa/startup.h"

#include <algorithm>

#include "base/fault.h"

namespace kbtp::mpa {
namespace {

/// Judges the part of the key that is there.
std::optional<StartupError> check_key(Octets octets, std::optional<StartupKind> expected) {
  if (fault(Fault::startup_key_not_checked)) return std::nullopt;
  const Octets key = octets.first(std::min(octets.size(), kKeySize));
  const Octets request = as_octets(kRequestKey);
  const Octets reply = as_octets(kReplyKey);
  for (std::size_t i = 0; i < key.size(); ++i) {
    if (i != kKindOctet) {
      if (key[i] != request[i]) return StartupError{StartupRule::bad_key, i};
      continue;
    }
    if (key[i] != request[i] && key[i] != reply[i]) return StartupError{StartupRule::bad_key, i};
    const StartupKind kind = key[i] == request[i] ? StartupKind::request : StartupKind::reply;
    if (expected && kind != *expected) return StartupError{StartupRule::wrong_kind, i};
  }
  return std::nullopt;
}

}  // namespace

bool operator==(const StartupFrame& a, const StartupFrame& b) {
  return a.kind == b.kind && a.markers == b.markers && a.crc == b.crc && a.reject == b.reject &&
         a.reserved == b.reserved && a.revision == b.revision && a.enhanced == b.enhanced &&
         std::ranges::equal(a.private_data, b.private_data);
}

std::string_view to_string(StartupRule rule) {
  switch (rule) {
    case StartupRule::bad_key:
      return "the key is not MPA's (RFC 5044 7.1.1)";
    case StartupRule::wrong_kind:
      return "a frame of the other kind is due here (RFC 5044 7.1.2)";
    case StartupRule::private_data_too_long:
      return "PD_Length is above 512 (RFC 5044 7.1.1)";
    case StartupRule::enhanced_too_short:
      return "S=1 with PD_Length below 4 (RFC 6581 6)";
  }
  return {};
}

WireError StartupError::wire_error() const { return {terminate::kMpaInvalidStartup, octet, to_string(rule)}; }

StartupResult decode_startup(Octets octets, std::optional<StartupKind> expected) {
  if (const auto error = check_key(octets, expected)) return *error;
  if (octets.size() < kStartupHeaderSize) return NeedMore{kStartupHeaderSize};

  ByteReader reader(octets);
  reader.skip(kKeySize);
  const std::uint8_t flags = reader.u8();
  const std::uint8_t revision = reader.u8();
  std::uint16_t private_data = reader.u16();
  constexpr std::size_t kLengthOctet = 18;
  if (fault(Fault::private_data_length_not_checked))
    private_data = static_cast<std::uint16_t>(std::min<std::size_t>(private_data, reader.remaining()));
  const std::size_t most = fault(Fault::private_data_length_not_checked) ? kMaxPrivateData + 1
                           : fault(Fault::private_data_of_256_at_most)   ? 256
                                                                         : kMaxPrivateData;
  if (private_data > most) return StartupError{StartupRule::private_data_too_long, kLengthOctet};
  // Before revision 2 that bit is one of the reserved ones, which are not looked at.
  bool enhanced = revision >= kRevision2 && (flags & kEnhancedFlag) != 0;
  if (fault(Fault::enhanced_length_not_checked) && private_data < kEnhancedSize) enhanced = false;
  if (enhanced && private_data < kEnhancedSize) {
    return StartupError{StartupRule::enhanced_too_short, kLengthOctet};
  }
  const std::size_t total = kStartupHeaderSize + private_data;
  if (octets.size() < total) return NeedMore{total};

  StartupFrame frame;
  frame.kind =
      octets[kKindOctet] == as_octets(kRequestKey)[kKindOctet] ? StartupKind::request : StartupKind::reply;
  frame.markers = (flags & kMarkersFlag) != 0;
  frame.crc = (flags & kCrcFlag) != 0;
  frame.reject = (flags & kRejectFlag) != 0;
  frame.reserved = flags & (revision >= kRevision2 ? kReservedMask : kReservedMaskRev1);
  frame.revision = revision;
  std::size_t ulp_part = private_data;
  if (enhanced) {
    frame.enhanced = decode_enhanced(reader.bytes(kEnhancedSize).first<kEnhancedSize>());
    ulp_part -= kEnhancedSize;
  }
  frame.private_data = reader.bytes(ulp_part);
  return StartupComplete{frame, total};
}

std::size_t private_data_length(const StartupFrame& frame) {
  return (frame.enhanced ? kEnhancedSize : 0) + frame.private_data.size();
}

std::vector<std::byte> encode_startup(const StartupFrame& frame) {
  std::vector<std::byte> octets(kStartupHeaderSize + private_data_length(frame));
  ByteWriter writer(octets);
  writer.bytes(as_octets(frame.kind == StartupKind::request ? kRequestKey : kReplyKey));
  std::uint8_t flags = frame.reserved & kReservedMaskRev1;
  if (frame.markers) flags |= kMarkersFlag;
  if (frame.crc) flags |= kCrcFlag;
  if (frame.reject) flags |= kRejectFlag;
  if (frame.enhanced) flags |= kEnhancedFlag;
  writer.u8(flags);
  writer.u8(frame.revision);
  writer.u16(static_cast<std::uint16_t>(private_data_length(frame)));
  if (frame.enhanced) writer.bytes(encode_enhanced(*frame.enhanced));
  writer.bytes(frame.private_data);
  return octets;
}

namespace {
constexpr std::uint16_t kHighFlag = 0x8000;  // A and C, RFC 6581 9
constexpr std::uint16_t kLowFlag = 0x4000;   // B and D, RFC 6581 9
constexpr std::uint16_t kDepthMask = 0x3FFF;

std::uint16_t half(bool high, bool low, std::uint16_t depth) {
  return static_cast<std::uint16_t>((high ? kHighFlag : 0) | (low ? kLowFlag : 0) | (depth & kDepthMask));
}
}  // namespace

std::array<std::byte, kEnhancedSize> encode_enhanced(const Enhanced& enhanced) {
  std::array<std::byte, kEnhancedSize> octets{};
  ByteWriter writer(octets);
  writer.u16(half(enhanced.peer_to_peer, enhanced.rtr_send, enhanced.ird));
  writer.u16(half(enhanced.rtr_write, enhanced.rtr_read, enhanced.ord));
  return octets;
}

Enhanced decode_enhanced(std::span<const std::byte, kEnhancedSize> octets) {
  ByteReader reader(octets);
  const std::uint16_t first = reader.u16();
  const std::uint16_t second = reader.u16();
  Enhanced enhanced;
  enhanced.peer_to_peer = (first & kHighFlag) != 0;
  enhanced.rtr_send = (first & kLowFlag) != 0;
  enhanced.ird = first & kDepthMask;
  enhanced.rtr_write = (second & kHighFlag) != 0;
  enhanced.rtr_read = (second & kLowFlag) != 0;
  enhanced.ord = second & kDepthMask;
  return enhanced;
}

}  // namespace kbtp::mpa
