// Whether a quantity stayed flat over a soak: resident memory, open descriptors.

#pragma once

#include <cstddef>
#include <vector>

namespace kbtp::tools {

/// One reading: seconds since the start, and the least value that was seen in the interval before it. The
/// least is what stays when short-lived connections and buffers are gone; a leak lifts it.
struct Reading {
  double seconds = 0;
  double value = 0;
};

struct FlatRule {
  double slope_per_hour = 0;  ///< greatest rise of the fitted line
  double range = 0;           ///< greatest difference between two readings
};

struct Flatness {
  std::size_t readings = 0;   ///< that were judged
  double slope_per_hour = 0;  ///< of the least-squares line; may be negative
  double range = 0;           ///< greatest reading minus least
  bool judged = false;        ///< false: fewer than kFewestReadings
  bool flat = false;
};

inline constexpr std::size_t kFewestReadings = 6;

/// The first third of the readings is warm-up and left out. Over the rest the least-squares slope must not
/// exceed `rule.slope_per_hour` and the range must not exceed `rule.range`. What falls is flat as far as the
/// slope goes.
[[nodiscard]] Flatness judge_flat(const std::vector<Reading>& readings, const FlatRule& rule);

}  // namespace kbtp::tools
