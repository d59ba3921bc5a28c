// Content of a replayed block: a function of the trace's hash_id and of how often that block was stored, so
// that stale or misplaced octets show. Made and checked at memory speed (a Weyl sequence of 64-bit words).

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>

#include "base/bytes.h"

namespace kbtp::tools {

struct ContentKey {
  std::uint64_t hash_id = 0;
  std::uint64_t times_stored = 0;  ///< 1 for the first store of this hash_id
};

/// Fills all of `destination`.
void make_content(ContentKey key, MutableOctets destination);

/// The index of the first octet that is not what make_content() wrote, or nothing when all are.
[[nodiscard]] std::optional<std::size_t> find_wrong_octet(ContentKey key, Octets octets);

}  // namespace kbtp::tools
