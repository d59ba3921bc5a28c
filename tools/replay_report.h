// What a replay is told on the command line, and what it says at its end.

#pragma once

#include <cstdint>
#include <cstdio>
#include <optional>
#include <string>

#include "base/result.h"
#include "tools/link.h"
#include "tools/measurement.h"
#include "tools/replay_engine.h"

namespace kbtp::tools {

struct ReplaySettings {
  std::string trace;
  LinkOptions link;
  std::uint64_t capacity = 1024;
  std::uint64_t block_size = 65536;
  std::uint64_t initiators = 1;
  std::uint64_t peers = 0;            ///< nodes; 0: one target and initiators in this process
  std::optional<std::uint64_t> node;  ///< this process is that node (replay_node.h)
  std::uint64_t outstanding = 32;
  std::optional<double> speed;
  std::uint64_t deadline = 30;  ///< seconds
  std::string json;
};

/// "75,812"
[[nodiscard]] std::string grouped(std::uint64_t number);

/// `cpu_seconds` is of all sides, or nothing when a side is not ours to ask.
[[nodiscard]] Measurement measure(const ReplaySettings& settings, const ReplayResult& result,
                                  std::uint64_t connections, std::optional<double> cpu_seconds);

/// `out` is standard error when the report goes to standard output.
void print_summary(std::FILE* out, const ReplayResult& result, const Measurement& measured);

/// The JSON object, when there is to be one.
[[nodiscard]] Result<> write_report(const ReplaySettings& settings, const ReplayResult& result,
                                    const Measurement& measured);

}  // namespace kbtp::tools
