#include "tests/sim/seeded_random.h"

#include <random>

#include "base/random.h"

namespace {
std::mt19937_64 source;  // simulations have one thread
}

namespace kbtp::sim {
void seed_random(std::uint64_t seed) { source.seed(seed ^ 0x5EED'0F57'A65A'11D5u); }
}  // namespace kbtp::sim

namespace kbtp {

void random_octets(MutableOctets destination) {
  for (std::byte& octet : destination) octet = static_cast<std::byte>(source());
}
std::uint32_t random_u32() { return static_cast<std::uint32_t>(source() >> 32); }
std::uint64_t random_u64() { return source(); }

}  // namespace kbtp
