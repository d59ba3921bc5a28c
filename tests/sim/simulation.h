// One run from one seed.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace kbtp::sim {

struct Report {
  std::uint64_t seed = 0;
  std::vector<std::string> failures;  ///< invariants that did not hold, the first few
  std::uint64_t hash = 0;             ///< of all events: equal hashes, equal runs
  std::uint64_t events = 0;
  std::uint64_t answered = 0;  ///< operations that were answered
  std::uint64_t loads_judged = 0;
  std::uint64_t binds = 0;  ///< direct allocations of the agent
  std::uint64_t lives = 0;  ///< of the target
  bool engines = false;
  bool infiniband = false;
  bool calm = false;
  bool direct = false;
  [[nodiscard]] bool ok() const { return failures.empty(); }
};

/// `print`: a line for every event goes to standard output.
[[nodiscard]] Report simulate(std::uint64_t seed, bool print = false);

/// What a failing seed is told with, and the command that replays it.
[[nodiscard]] std::string to_string(const Report& report);

}  // namespace kbtp::sim
