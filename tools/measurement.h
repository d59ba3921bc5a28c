// What `bench` and `replay` measured, as a table for people and as JSON for scripts (docs/man/kbtp-bench.1).

#pragma once

#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace kbtp::tools {

struct Measurement {
  std::string op;                 ///< "load", "replay"
  std::uint64_t size = 0;         ///< octets of one operation's block data
  std::uint64_t outstanding = 0;  ///< of each connection
  std::uint64_t connections = 0;
  bool crc = true;
  bool spin = false;
  double ops_per_s = 0;
  double gbytes_per_s = 0;  ///< 10^9 octets of block data a second
  double p50_us = 0;
  double p99_us = 0;
  std::optional<double> cpu_s_per_gib;  ///< of both sides; nothing when the target is not ours to ask
  std::string congestion_control;
  std::uint64_t runs = 1;
  double min_gbytes_per_s = 0;  ///< over all runs
  double max_gbytes_per_s = 0;
};

/// The median run by gbytes_per_s, with min and max of all. At least one.
[[nodiscard]] Measurement median_of(std::vector<Measurement> runs);

[[nodiscard]] nlohmann::ordered_json to_json(const Measurement& measurement);

/// "op size outstanding ..." in aligned columns, a header line first.
[[nodiscard]] std::string to_table(const std::vector<Measurement>& measurements);

/// One JSON object a line; "-" is standard output.
[[nodiscard]] Result<> write_json(const std::string& path,
                                  const std::vector<nlohmann::ordered_json>& objects);

/// Processor time of this process so far, in seconds.
[[nodiscard]] double own_cpu_seconds();

/// The congestion control of the connections: `asked`, or the system's when that is empty.
[[nodiscard]] std::string congestion_control_in_force(const std::string& asked);

}  // namespace kbtp::tools
