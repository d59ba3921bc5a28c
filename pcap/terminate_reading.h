// A Terminate as it was meant: by RFC 5040 4.8, or with the control bits of Linux siw, which lays them out in
// the host's order. Each copied header is told as far as its octets are there. Pure, any thread.

#pragma once

#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "rdmap_binding/rdmap/terminate.h"

namespace kbtp::trace {

enum class BitOrder : std::uint8_t {
  rfc,
  siw,  ///< Layer and Error Type change places, M, D and R are the low bits
};

struct TerminateReading {
  BitOrder order = BitOrder::rfc;
  rdmap::TerminateControl control;
  std::optional<std::uint16_t> segment_length;  ///< when M or D and there
  Octets ddp_header;                            ///< the copy, 14 or 18 octets, or empty
  std::optional<rdmap::ReadRequest> read_request;
  Octets rest;             ///< behind all that
  bool cut_short = false;  ///< M, D, R promise more than there is
};

/// `body` is what follows the DDP header. Nothing when there are fewer than 4 octets. The order is siw's only
/// when the RFC's makes no sense: bits where it has none, or a code that no RFC lists.
[[nodiscard]] std::optional<TerminateReading> read_terminate(Octets body);

}  // namespace kbtp::trace
