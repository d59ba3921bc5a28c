#include "conformance/pieces.h"

#include <algorithm>

#include "rdmap_binding/mpa/fpdu.h"

namespace kbtp::conformance {

namespace {

/// The ULPDU_Length at the start of `octets`; octets that hold none count as an FPDU that goes on to their
/// end.
std::size_t ulpdu_length(Octets octets) {
  return octets.size() < mpa::kLengthSize ? octets.size() : load_be<std::uint16_t>(octets.data());
}

}  // namespace

std::size_t trailer_at(Octets octets) {
  return std::min(mpa::kLengthSize + ulpdu_length(octets), octets.size());
}

std::vector<std::size_t> pieces_with_whole_trailers(Octets octets, std::size_t segment) {
  std::vector<std::size_t> pieces;
  std::size_t start = 0;  // of the piece in the making
  const auto cut = [&](std::size_t at) {
    if (at > start) pieces.push_back(at - start);
    start = at;
  };
  std::size_t fpdu = 0;
  while (fpdu < octets.size()) {
    const Octets rest = octets.subspan(fpdu);
    const std::size_t trailer = fpdu + trailer_at(rest);
    const std::size_t end = fpdu + std::min(mpa::fpdu_size(ulpdu_length(rest)), rest.size());
    if (end - start > segment) cut(fpdu);
    while (end - start > segment) cut(std::min(start + segment, trailer));
    fpdu = end;
  }
  cut(octets.size());
  return pieces;
}

}  // namespace kbtp::conformance
