#include "tools/soak_judge.h"

#include <algorithm>
#include <span>

namespace kbtp::tools {

Flatness judge_flat(const std::vector<Reading>& readings, const FlatRule& rule) {
  const auto judged = std::span(readings).subspan(readings.size() / 3);
  Flatness result;
  result.readings = judged.size();
  if (judged.size() < kFewestReadings) return result;
  result.judged = true;

  const auto count = static_cast<double>(judged.size());
  double mean_seconds = 0;
  double mean_value = 0;
  for (const Reading& reading : judged) {
    mean_seconds += reading.seconds / count;
    mean_value += reading.value / count;
  }
  double together = 0;
  double spread = 0;
  for (const Reading& reading : judged) {
    together += (reading.seconds - mean_seconds) * (reading.value - mean_value);
    spread += (reading.seconds - mean_seconds) * (reading.seconds - mean_seconds);
  }
  if (spread > 0) result.slope_per_hour = together / spread * 3600;
  const auto [least, greatest] = std::minmax_element(
      judged.begin(), judged.end(), [](const Reading& a, const Reading& b) { return a.value < b.value; });
  result.range = greatest->value - least->value;
  result.flat = result.slope_per_hour <= rule.slope_per_hour && result.range <= rule.range;
  return result;
}

}  // namespace kbtp::tools
