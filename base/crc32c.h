// CRC32C as iSCSI and MPA use it: polynomial 0x1EDC6F41, initial value and final complement all ones
// (RFC 5044 4.4). Backed by ISA-L.

#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace kbtp {

/// Accumulates a CRC over pieces in order. value() may be asked at any point.
class Crc32c {
 public:
  void update(Octets octets);
  [[nodiscard]] std::uint32_t value() const { return ~state_; }

 private:
  std::uint32_t state_ = ~std::uint32_t{0};
};

/// The CRC of one run of octets; crc32c("123456789") is 0xE3069283.
[[nodiscard]] std::uint32_t crc32c(Octets octets);

/// On the wire the least significant octet of the value comes first (RFC 5044 4.4, RFC 3720 12.1).
void store_crc32c(std::byte* p, std::uint32_t crc);
[[nodiscard]] std::uint32_t load_crc32c(const std::byte* p);

/// Copies `source` to `destination` (same size) in pieces that stay in the first-level cache and returns the
/// CRC of the *copy*, going on from `crc`: whoever changes the source meanwhile cannot make octets and CRC
/// differ.
void copy_with_crc(MutableOctets destination, Octets source, Crc32c& crc);

}  // namespace kbtp
