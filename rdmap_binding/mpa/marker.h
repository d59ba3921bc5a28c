// Markers: 4 octets at every 512th octet of a direction whose receiver asked for them (RFC 5044 4.3).
//
//   0  2  Reserved  sent 0, ignored on receive
//   2  2  FPDUPTR   octets from the first one of ULPDU_Length to the marker's first, earlier markers
//   included;
//                   0 when the marker stands in front of ULPDU_Length; low 2 bits sent 0, taken as 0
//
// The first marker is the direction's first 4 octets of full operation; start-up frames are not counted. All
// parts of an FPDU are multiples of 4, so a marker never splits ULPDU_Length from the next 2 octets nor the
// CRC, but it may stand between PAD and CRC. Every marker belongs to the CRC of the FPDU that it stands in;
// the one in front of ULPDU_Length to the FPDU that follows.
//
// "Clean" octets are those that are no markers. Pure, any thread; nothing here allocates but
// encode_marked_fpdu().

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "rdmap_binding/mpa/fpdu.h"

namespace kbtp::mpa {

/// Clean octets between two markers.
inline constexpr std::size_t kMarkerRun = kMarkerInterval - kMarkerSize;
/// No FPDU holds more: the leading one, then one each 508 clean octets of the largest FPDU.
inline constexpr std::size_t kMaxMarkers = (fpdu_size(kMaxMulpdu) + kMarkerRun - 1) / kMarkerRun;
static_assert(kMaxMarkers == 128);

using Marker = std::array<std::byte, kMarkerSize>;

[[nodiscard]] Marker encode_marker(std::uint16_t fpduptr);
/// FPDUPTR as a receiver takes it: Reserved is not looked at, the low 2 bits are 0.
[[nodiscard]] std::uint16_t decode_marker(const std::byte* marker);

/// Where one direction stands in its sequence of markers. Positions are TCP sequence numbers or octets
/// counted from anywhere: only their distance matters, modulo 2^32, of which 512 is a divisor; so they may
/// wrap.
class MarkerClock {
 public:
  /// `first` is the position of the direction's first octet of full operation.
  explicit constexpr MarkerClock(std::uint32_t first = 0) : first_(first), at_(first) {}

  /// Octets that come before the next marker; 0 when it is due now.
  [[nodiscard]] constexpr std::size_t until_marker() const {
    return (kMarkerInterval - (at_ - first_) % kMarkerInterval) % kMarkerInterval;
  }
  /// Passes over octets, markers among them.
  constexpr void advance(std::size_t octets) { at_ += static_cast<std::uint32_t>(octets); }
  [[nodiscard]] constexpr std::uint32_t position() const { return at_; }

 private:
  std::uint32_t first_;
  std::uint32_t at_;
};

/// Octets in the stream, markers among them, of an FPDU with `clean` octets that begins `until_marker` octets
/// before a marker (0: a leading marker is counted).
[[nodiscard]] constexpr std::size_t marked_size(std::size_t clean, std::size_t until_marker) {
  if (clean <= until_marker) return clean;
  return clean + kMarkerSize * (1 + (clean - 1 - until_marker) / kMarkerRun);
}
/// The most that it can be, wherever it begins.
[[nodiscard]] constexpr std::size_t largest_marked_size(std::size_t clean) { return marked_size(clean, 0); }

// --- Sending ---------------------------------------------------------------------------------------------

/// Tells a sender where markers go and what they say. In turn: begin_fpdu(), then for the FPDU's clean octets
/// in order: while marker_due(), send next_marker(); then at most run() octets, told by advance(). A marker
/// that is due before the CRC is sent, and added to the CRC, before the CRC is made.
class MarkerInserter {
 public:
  explicit constexpr MarkerInserter(MarkerClock clock = MarkerClock()) : clock_(clock) {}

  void begin_fpdu() { fpdu_ = clock_.position() + (marker_due() ? std::uint32_t{kMarkerSize} : 0); }
  [[nodiscard]] bool marker_due() const { return clock_.until_marker() == 0; }
  [[nodiscard]] Marker next_marker();
  /// Clean octets up to the next marker, 4 to 508. Only when none is due.
  [[nodiscard]] std::size_t run() const { return clock_.until_marker(); }
  void advance(std::size_t clean) { clock_.advance(clean); }
  [[nodiscard]] const MarkerClock& clock() const { return clock_; }

 private:
  MarkerClock clock_;
  std::uint32_t fpdu_ = 0;  // position of ULPDU_Length's first octet
};

/// One whole FPDU with its markers and its CRC; moves the inserter behind it.
[[nodiscard]] std::vector<std::byte> encode_marked_fpdu(Octets ulpdu, MarkerInserter& inserter);

// --- Receiving -------------------------------------------------------------------------------------------

/// One FPDU as it lies in the stream, its leading marker (if it has one) included.
struct MarkedFpdu {
  std::uint16_t ulpdu_length = 0;
  std::size_t length_at = 0;  ///< of ULPDU_Length: 4 behind a leading marker, else 0
  std::size_t size = 0;       ///< in the stream
};

/// Measures the FPDU at the start of `octets`, which may go on behind it. `at` stands at the first of them. A
/// length that may not be posted is 2/0/03 (see check_length()); markers and CRC are not judged.
[[nodiscard]] std::variant<NeedMore, MarkedFpdu, WireError> measure_marked(Octets octets, MarkerClock at);

/// The CRC over all of `fpdu`, as measured, but its last 4 octets, which hold the one that came.
[[nodiscard]] bool check_marked_crc(Octets fpdu);

/// Whether every marker of `fpdu`, as measured, points to its ULPDU_Length; else 2/0/03 with the marker's
/// octet.
[[nodiscard]] std::optional<WireError> check_markers(Octets fpdu, MarkerClock at);

/// Copies the clean octets of `fpdu`, as measured, to the front of `clean`, which has room for as many octets
/// as fpdu_size() of its length, and returns them: an FPDU without markers, whose CRC is not its own.
Octets remove_markers(MutableOctets clean, Octets fpdu, MarkerClock at);

}  // namespace kbtp::mpa
