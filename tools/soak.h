// `kbtp bench soak`.

#pragma once

#include "tools/subcommand.h"

namespace kbtp::tools {

/// Adds `soak` to `bench`.
void set_up_soak(CLI::App& bench, Run& run);

}  // namespace kbtp::tools
