// What a fuzzer asserts. A failed requirement ends the process, which libFuzzer and the replay report as a
// finding, in every build type.

#pragma once

#include <cstdio>
#include <cstdlib>

namespace kbtp::fuzz {

inline void require(bool ok, const char* what) {
  if (ok) return;
  std::fprintf(stderr, "fuzzer: %s\n", what);
  std::abort();
}

}  // namespace kbtp::fuzz
