// Finds where FPDUs begin in the middle of a stream: behind octets that the capture lacks, and in connections
// whose start-up is not in the capture. Strict, so that HTTP, TLS, SMB or NVMe/TCP are never taken for iWARP.
// Pure, any thread.

#pragma once

#include <cstddef>
#include <optional>

#include "base/bytes.h"

namespace kbtp::trace {

/// How an FPDU was recognised.
enum class Evidence : std::uint8_t {
  crc,      ///< its CRC is right
  headers,  ///< it and those behind it have headers that fit, see kChain
};

/// Without a right CRC so many FPDUs in a row must have headers that fit.
inline constexpr std::size_t kChain = 6;
/// Octets that are looked at in vain before a search is given up.
inline constexpr std::size_t kSearchLimit = std::size_t{512} << 10;

struct SearchResult {
  std::size_t at = 0;                ///< the first FPDU, when `evidence`; else octets that hold no start
  std::optional<Evidence> evidence;  ///< nothing: more octets are needed
};

/// Looks for an FPDU without markers in `octets`, any part of a stream. When `last` no more octets follow,
/// and candidates that are not whole count as none.
[[nodiscard]] SearchResult find_fpdu(Octets octets, bool last);

/// The strict test of one candidate's first octets (20 of them at least): length, DDP and RDMAP control
/// fields without reserved bits, queue number and Message Offset that go with the opcode.
[[nodiscard]] bool may_be_fpdu(Octets octets);

}  // namespace kbtp::trace
