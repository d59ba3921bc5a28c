// `kbtp conform run`.

#pragma once

#include "tools/subcommand.h"

namespace kbtp::tools {

void set_up_conform_run(CLI::App& app, Run& run);

}  // namespace kbtp::tools
