#include "base/histogram.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace kbtp {

std::size_t Histogram::bucket(std::uint64_t ns) {
  if (ns < (1U << kSubBits)) return ns;
  const unsigned shift = static_cast<unsigned>(std::bit_width(ns)) - 1 - kSubBits;
  return ((shift + 1ULL) << kSubBits) + ((ns >> shift) - (1ULL << kSubBits));
}

std::uint64_t Histogram::upper_end(std::size_t bucket) {
  if (bucket < (1U << kSubBits)) return bucket;
  const unsigned shift = static_cast<unsigned>(bucket >> kSubBits) - 1;
  const std::uint64_t lower = ((bucket & ((1ULL << kSubBits) - 1)) + (1ULL << kSubBits)) << shift;
  return lower + ((1ULL << shift) - 1);
}

void Histogram::add(Duration latency) {
  const auto ns = static_cast<std::uint64_t>(
      std::max<std::int64_t>(0, std::chrono::duration_cast<std::chrono::nanoseconds>(latency).count()));
  ++counts_[bucket(ns)];
  ++count_;
  max_ns_ = std::max(max_ns_, ns);
}

void Histogram::merge(const Histogram& other) {
  for (std::size_t i = 0; i < kBuckets; ++i) counts_[i] += other.counts_[i];
  count_ += other.count_;
  max_ns_ = std::max(max_ns_, other.max_ns_);
}

double Histogram::percentile_us(double fraction) const {
  if (count_ == 0) return 0;
  const auto wanted = std::max<std::uint64_t>(
      1, static_cast<std::uint64_t>(std::ceil(fraction * static_cast<double>(count_))));
  std::uint64_t seen = 0;
  for (std::size_t i = 0; i < kBuckets; ++i) {
    seen += counts_[i];
    if (seen >= wanted) return static_cast<double>(std::min(upper_end(i), max_ns_)) / 1000.0;
  }
  return static_cast<double>(max_ns_) / 1000.0;
}

}  // namespace kbtp
