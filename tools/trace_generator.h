// KV-cache traces made up: conversations whose requests begin with blocks seen before. The same options give
// the same trace on every machine.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "tools/trace_reader.h"

namespace kbtp::tools {

struct GeneratorOptions {
  std::uint64_t requests = 1000;
  std::uint64_t mean_blocks = 24;        ///< of a request
  double reuse = 0.6;                    ///< share of requests that begin with a prefix seen before
  double prefix_share = 0.7;             ///< of such a request's blocks, on average
  std::uint64_t prefixes = 200;          ///< conversations remembered
  std::uint64_t mean_interval_ms = 250;  ///< between requests
  std::uint64_t seed = 1;
};

class TraceGenerator {
 public:
  explicit TraceGenerator(const GeneratorOptions& options) : options_(options), state_(options.seed) {}

  [[nodiscard]] TraceRequest next();

 private:
  std::uint64_t random();
  /// Uniform in [0, limit).
  std::uint64_t below(std::uint64_t limit);
  bool happens(double share);
  /// Uniform in [1, 2 * mean - 1].
  std::uint64_t around(std::uint64_t mean);

  GeneratorOptions options_;
  std::uint64_t state_;
  std::uint64_t now_ms_ = 0;
  std::uint64_t next_id_ = 0;
  std::vector<std::vector<std::uint64_t>> conversations_;  // the block ids of each one's last request
};

/// The request as one line of a trace, without the line's end.
[[nodiscard]] std::string to_line(const TraceRequest& request);

}  // namespace kbtp::tools
