// Running a target in this process until SIGINT or SIGTERM.

#pragma once

#include <string_view>

#include "tools/target_config.h"

namespace kbtp::tools {

/// Prints "listening on HOST:PORT" when ready and "drained: N of F blocks are free" at the end, each flushed
/// to standard output. Returns an exit status; errors have been told on standard error in the name of
/// `command`. Call it on the main thread before there are others: the signals are blocked for all of them.
int serve(const ServeSettings& settings, std::string_view command);

}  // namespace kbtp::tools
