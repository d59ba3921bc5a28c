// Hexadecimal text for tests, logs and evidence.

#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace kbtp {

/// Lower-case digits, no separators: {0x4d, 0x50} is "4d50".
[[nodiscard]] std::string to_hex(Octets octets);

/// Reads hex digits, ignoring white space and anything from '#' to the end of its line (so that golden tables
/// can carry comments). Nothing on another character or an odd number of digits.
[[nodiscard]] std::optional<std::vector<std::byte>> from_hex(std::string_view text);

}  // namespace kbtp
