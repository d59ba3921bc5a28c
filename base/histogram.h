// Latencies in nanoseconds, in buckets 1/64 of their power of two wide: percentiles within 1.6 %, fixed size.

#pragma once

#include <array>
#include <cstdint>

#include "base/time.h"

namespace kbtp {

class Histogram {
 public:
  void add(Duration latency);
  void merge(const Histogram& other);

  [[nodiscard]] std::uint64_t count() const { return count_; }
  /// The latency that `fraction` (0 to 1) of the samples do not exceed, in microseconds; 0 without samples.
  [[nodiscard]] double percentile_us(double fraction) const;

 private:
  static constexpr unsigned kSubBits = 6;
  static constexpr std::size_t kBuckets = (64 - kSubBits + 1) << kSubBits;
  static std::size_t bucket(std::uint64_t ns);
  static std::uint64_t upper_end(std::size_t bucket);

  std::array<std::uint64_t, kBuckets> counts_{};
  std::uint64_t count_ = 0;
  std::uint64_t max_ns_ = 0;
};

}  // namespace kbtp
