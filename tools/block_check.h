// What a replayed block is stored from, and the check of what a LOAD brought.

#pragma once

#include <cstdint>
#include <string>

#include "proto/initiator/initiator.h"
#include "tools/content.h"

namespace kbtp::tools {

/// Before a LOAD: so that octets that the target did not write cannot pass for right ones.
void poison(MutableOctets memory);

/// What is wrong with a LOAD of the block that was stored with `key` and `generation` and fills all of
/// `memory`; empty when nothing is.
[[nodiscard]] std::string check_loaded(const initiator::Outcome& outcome, std::uint16_t generation,
                                       ContentKey key, Octets memory);

}  // namespace kbtp::tools
