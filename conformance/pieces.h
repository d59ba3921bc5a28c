// How octets of FPDUs are cut into writes, so that no pad and CRC is divided between two TCP segments.

#pragma once

#include <cstddef>
#include <vector>

#include "base/bytes.h"

namespace kbtp::conformance {

/// Where pad and CRC of the FPDU at the start of `octets` begin; at most octets.size().
[[nodiscard]] std::size_t trailer_at(Octets octets);

/// Lengths of writes of at most `segment` octets each (64 or more) that together are `octets`, which begin
/// with an FPDU; none ends inside a pad or CRC.
[[nodiscard]] std::vector<std::size_t> pieces_with_whole_trailers(Octets octets, std::size_t segment);

}  // namespace kbtp::conformance
