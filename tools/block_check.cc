#include "tools/block_check.h"

#include <algorithm>
#include <fmt/format.h>

namespace kbtp::tools {

void poison(MutableOctets memory) { std::fill(memory.begin(), memory.end(), std::byte{0xa5}); }

std::string check_loaded(const initiator::Outcome& outcome, std::uint16_t generation, ContentKey key,
                         Octets memory) {
  if (outcome.generation != generation) {
    return fmt::format("found Generation {}, but the block was stored with Generation {}", outcome.generation,
                       generation);
  }
  if (outcome.data_length != memory.size())
    return fmt::format("brought {} octets of {}", outcome.data_length, memory.size());
  if (const auto wrong = find_wrong_octet(key, memory))
    return fmt::format("brought a wrong octet at {}", *wrong);
  return {};
}

}  // namespace kbtp::tools
