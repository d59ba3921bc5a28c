#include "base/random.h"

#include <cstdio>
#include <cstdlib>
#include <openssl/rand.h>

namespace kbtp {

void random_octets(MutableOctets destination) {
  if (RAND_bytes(reinterpret_cast<unsigned char*>(destination.data()),
                 static_cast<int>(destination.size())) != 1) {
    // Going on with guessable STags would open every region to every peer.
    std::fputs("kbtp: the system gives no random numbers; stopping\n", stderr);
    std::abort();
  }
}

std::uint32_t random_u32() {
  std::byte octets[4];
  random_octets(octets);
  return load_be<std::uint32_t>(octets);
}

std::uint64_t random_u64() {
  std::byte octets[8];
  random_octets(octets);
  return load_be<std::uint64_t>(octets);
}

}  // namespace kbtp
