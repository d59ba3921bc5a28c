// Whole files, where "-" is standard input or output.

#pragma once

#include <string>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"

namespace kbtp::tools {

/// All octets of `path`; an error when there are more than `limit`.
[[nodiscard]] Result<std::vector<std::byte>> read_file(const std::string& path, std::uint64_t limit);

[[nodiscard]] Result<> write_file(const std::string& path, Octets octets);

}  // namespace kbtp::tools
