#include "rdmap_binding/mpa/marker.h"

#include <algorithm>
#include <cstring>

namespace kbtp::mpa {

namespace {

constexpr std::uint16_t kPointerMask = 0xFFFC;  // RFC 5044 4.2: the low 2 bits are reserved
constexpr std::size_t kPointerAt = 2;

}  // namespace

Marker encode_marker(std::uint16_t fpduptr) {
  Marker marker{};
  store_be(marker.data() + kPointerAt, static_cast<std::uint16_t>(fpduptr & kPointerMask));
  return marker;
}

std::uint16_t decode_marker(const std::byte* marker) {
  return static_cast<std::uint16_t>(load_be<std::uint16_t>(marker + kPointerAt) & kPointerMask);
}

// --- Sending ---------------------------------------------------------------------------------------------

Marker MarkerInserter::next_marker() {
  const std::uint32_t at = clock_.position();
  // A marker in front of ULPDU_Length says 0 (RFC 5044 4.3); the difference is right across a wrap.
  const std::uint32_t behind = at + std::uint32_t{kMarkerSize};
  const std::uint32_t distance = behind == fpdu_ ? 0 : at - fpdu_;
  clock_.advance(kMarkerSize);
  return encode_marker(static_cast<std::uint16_t>(distance));
}

std::vector<std::byte> encode_marked_fpdu(Octets ulpdu, MarkerInserter& inserter) {
  std::vector<std::byte> stream;
  stream.reserve(largest_marked_size(fpdu_size(ulpdu.size())));
  const auto put_markers = [&] {
    while (inserter.marker_due()) {
      const Marker marker = inserter.next_marker();
      stream.insert(stream.end(), marker.begin(), marker.end());
    }
  };
  const auto put = [&](Octets clean) {
    while (!clean.empty()) {
      put_markers();
      const Octets run = clean.first(std::min(clean.size(), inserter.run()));
      stream.insert(stream.end(), run.begin(), run.end());
      inserter.advance(run.size());
      clean = clean.subspan(run.size());
    }
  };
  inserter.begin_fpdu();
  put(encode_length(static_cast<std::uint16_t>(ulpdu.size())));
  put(ulpdu);
  constexpr std::array<std::byte, kMaxPad> kZeros{};
  put(Octets(kZeros).first(pad_size(ulpdu.size())));
  put_markers();  // between PAD and CRC: covered (RFC 5044 4.4)
  std::array<std::byte, kCrcSize> crc{};
  store_crc32c(crc.data(), crc32c(stream));
  put(crc);
  return stream;
}

// --- Receiving -------------------------------------------------------------------------------------------

std::variant<NeedMore, MarkedFpdu, WireError> measure_marked(Octets octets, MarkerClock at) {
  const std::size_t until = at.until_marker();
  MarkedFpdu fpdu;
  fpdu.length_at = until == 0 ? kMarkerSize : 0;
  if (octets.size() < fpdu.length_at + kLengthSize) return NeedMore{fpdu.length_at + kLengthSize};
  fpdu.ulpdu_length = load_be<std::uint16_t>(octets.data() + fpdu.length_at);
  if (auto error = check_length(fpdu.ulpdu_length)) {
    error->octet += fpdu.length_at;
    return *error;
  }
  fpdu.size = marked_size(fpdu_size(fpdu.ulpdu_length), until);
  if (octets.size() < fpdu.size) return NeedMore{fpdu.size};
  return fpdu;
}

bool check_marked_crc(Octets fpdu) {
  const Octets covered = fpdu.first(fpdu.size() - kCrcSize);
  return crc32c(covered) == load_crc32c(fpdu.data() + covered.size());
}

std::optional<WireError> check_markers(Octets fpdu, MarkerClock at) {
  const std::size_t first = at.until_marker();
  const std::size_t length_at = first == 0 ? kMarkerSize : 0;
  for (std::size_t marker = first; marker < fpdu.size(); marker += kMarkerInterval) {
    const std::size_t distance = marker < length_at ? 0 : marker - length_at;
    if (decode_marker(fpdu.data() + marker) != distance) {
      return WireError{terminate::kMpaMarkerMismatch, marker,
                       "a marker does not point to the FPDU it stands in (RFC 5044 8)"};
    }
  }
  return std::nullopt;
}

Octets remove_markers(MutableOctets clean, Octets fpdu, MarkerClock at) {
  std::size_t done = 0;
  std::size_t run = at.until_marker();
  while (!fpdu.empty()) {
    const std::size_t n = std::min(run, fpdu.size());
    if (n != 0) std::memcpy(clean.data() + done, fpdu.data(), n);
    done += n;
    fpdu = fpdu.subspan(n);
    fpdu = fpdu.subspan(std::min(kMarkerSize, fpdu.size()));
    run = kMarkerRun;
  }
  return clean.first(done);
}

}  // namespace kbtp::mpa
