// From the octets of one FPDU, whole or in part, to the Fpdu that an event tells of. Pure, any thread.

#pragma once

#include <cstddef>
#include <optional>

#include "base/bytes.h"
#include "pcap/event.h"
#include "rdmap_binding/mpa/marker.h"

namespace kbtp::trace {

/// The octets of an FPDU as they lie in the stream.
struct RawFpdu {
  Octets stream;                            ///< from its first marker or its length on; octets that the
                                            ///< capture lacks are zero
  std::size_t size = 0;                     ///< that it should have, markers included
  std::optional<std::size_t> lacking_from;  ///< the first octet of `stream` that the capture lacks
  std::optional<mpa::MarkerClock> markers;  ///< at its first octet, when the direction has markers
};

/// Whether CRCs are on, as far as the capture tells.
enum class CrcUse : std::uint8_t {
  on,
  off,
  unknown,
};

/// Fills in `fpdu`, which is as newly made. `scratch` takes the FPDU without its markers: Fpdu::ulpdu points
/// there when there are any, else into raw.stream. `raw.stream` holds the length field at least.
void decode_fpdu(const RawFpdu& raw, CrcUse crc, std::vector<std::byte>& scratch, Fpdu& fpdu);

/// Fills in Fpdu::header from the ULPDU, which is whole, when its opcode has an RDMAP header.
void decode_rdmap_header(Fpdu& fpdu);

}  // namespace kbtp::trace
