// What a soak says while it runs and at its end: a line and a JSON object each interval, then the verdict.

#pragma once

#include <cstdint>
#include <fstream>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <sys/types.h>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "tools/process_usage.h"
#include "tools/soak_judge.h"
#include "tools/soak_lane.h"

namespace kbtp::tools {

struct SoakLimits {
  FlatRule memory;       ///< octets
  FlatRule descriptors;  ///< open ones
};

/// How often peers were disturbed from outside of the sessions.
struct SoakDisturbance {
  std::uint64_t bad_starts = 0;
  std::uint64_t kills = 0;
};

/// The usage of the target and of this process over time.
class SoakWatch {
 public:
  /// Without `target` only this process is watched.
  explicit SoakWatch(std::optional<pid_t> target);
  /// Reads both once; to be called often.
  void look();
  /// Ends an interval: the least of each since the last one becomes a reading.
  void sample(double seconds);

  struct Subject {
    std::string name;  ///< "target", "self"
    pid_t pid = 0;
    std::optional<ProcessUsage> least;  ///< of the interval under way
    std::vector<Reading> resident;
    std::vector<Reading> descriptors;
  };
  [[nodiscard]] const std::vector<Subject>& subjects() const { return subjects_; }

 private:
  std::vector<Subject> subjects_;
};

class SoakReport {
 public:
  /// `json` is a path, "-" for standard output (what people read then goes to standard error), or empty.
  [[nodiscard]] static Result<SoakReport> open(const std::string& json);

  void progress(double seconds, const SoakTally& tally, const SoakDisturbance& disturbance,
                const SoakWatch& watch);
  /// Prints the judgement of every quantity and what was done; returns whether all that was judged is flat.
  bool verdict(double seconds, const SoakTally& tally, const SoakDisturbance& disturbance,
               const SoakWatch& watch, const SoakLimits& limits, nlohmann::ordered_json measurement);
  void say(const std::string& line) const;

 private:
  void write(const nlohmann::ordered_json& object);

  bool to_standard_output_ = false;
  std::ofstream file_;
  std::uint64_t last_total_ = 0;
  double last_seconds_ = 0;
  std::uint64_t samples_ = 0;
};

}  // namespace kbtp::tools
