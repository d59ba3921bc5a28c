// Copies into and out of octets that other threads may read and write at the same time: a pool that peers
// write into while the host and other streams use it. Every access is a relaxed atomic one, a 64-bit word
// where the shared side is aligned to one and a single octet at its ragged ends, so that nothing beside the
// named octets is ever written. There is no order and no snapshot of more than a word: a reader may see a mix
// of what writers left, and whoever needs order gets it from the messages around the copy. Any thread.

#pragma once

#include "base/bytes.h"

namespace kbtp {

/// Copies `shared` into private memory of the same size.
void copy_from_shared(MutableOctets destination, Octets shared);

/// Copies private memory into `shared`, of the same size.
void copy_to_shared(MutableOctets shared, Octets source);

void fill_shared(MutableOctets shared, std::byte value);

}  // namespace kbtp
