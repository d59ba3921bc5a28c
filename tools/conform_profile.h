// The file of `kbtp conform run --profile` (docs/man/kbtp-conform.1 lists its keys).

#pragma once

#include <string>
#include <string_view>

#include "base/result.h"
#include "conformance/profile.h"

namespace kbtp::tools {

/// The profile of a TOML text. `file` stands in errors, each "FILE:LINE: what is wrong"; keys that are not
/// known are errors, and so are assigned values that no codec could work with.
[[nodiscard]] Result<conformance::Profile> parse_profile(std::string_view text, const std::string& file);

}  // namespace kbtp::tools
