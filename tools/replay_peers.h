// `kbtp replay --peers N`: N processes, each target and initiator at once (replay_node.h), and the parent
// that hands out the work.

#pragma once

#include <fstream>
#include <string>

#include "tools/replay_report.h"

namespace kbtp::tools {

/// Call it on the main thread, before there are others. Returns an exit status.
int replay_with_peers(const std::string& command, const ReplaySettings& settings, std::ifstream& trace);

}  // namespace kbtp::tools
