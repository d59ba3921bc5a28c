// A simulation repeats itself only if its STags and Request IDs do. So its executables define the functions
// of base/random.h themselves, over a seed, and the linker leaves base's own, which ask OpenSSL, in the
// library: nothing that is shipped can be seeded.

#pragma once

#include <cstdint>

namespace kbtp::sim {

void seed_random(std::uint64_t seed);

}  // namespace kbtp::sim
