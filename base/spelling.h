// How alike two words are, to name the nearest known word to somebody who mistyped one. Any thread.

#pragma once

#include <cstddef>
#include <string_view>

namespace kbtp {

/// Letters to insert, remove or replace that turn `one` into `other` (Levenshtein's distance).
[[nodiscard]] std::size_t edit_distance(std::string_view one, std::string_view other);

}  // namespace kbtp
