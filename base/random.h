// Octets that a peer cannot predict (RFC 5040 8.1.1: STags are hard to guess). Backed by OpenSSL's RAND.

#pragma once

#include <cstdint>

#include "base/bytes.h"

namespace kbtp {

void random_octets(MutableOctets destination);
[[nodiscard]] std::uint32_t random_u32();
[[nodiscard]] std::uint64_t random_u64();

}  // namespace kbtp
