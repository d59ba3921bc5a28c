// One node of `kbtp replay --peers`: target and initiator at once over one provider, told what to do by its
// parent, one JSON object a line.
//
//   parent -> node, on standard input         node -> parent, on standard output
//                                             listening on HOST:PORT
//   {"connect": [HOST:PORT of every node]}    {"ready": [first own handle at every node]}
//   {"id", "op": "load|alloc_store|free",     {"id", "ns", "generation"} and, when it was not right,
//    "at": node, "handle", "hash_id",          "finding" or "lost"
//    "times", "generation"}
//   the end of the input                      drained: N of F blocks are free

#pragma once

#include <string_view>

#include "tools/replay_report.h"

namespace kbtp::tools {

/// `settings.node` is its number, `settings.capacity` the blocks that each other node may hold here. Returns
/// an exit status.
int run_replay_node(std::string_view command, const ReplaySettings& settings);

}  // namespace kbtp::tools
