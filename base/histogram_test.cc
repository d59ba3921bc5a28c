#include "base/histogram.h"

#include <gtest/gtest.h>

namespace kbtp {
namespace {

using std::chrono::microseconds;
using std::chrono::nanoseconds;

TEST(Histogram, IsZeroWithoutSamples) { EXPECT_EQ(Histogram().percentile_us(0.5), 0); }

TEST(Histogram, PercentilesAreWithin1Point6Percent) {
  Histogram histogram;
  for (int us = 1; us <= 10000; ++us) histogram.add(microseconds(us));
  EXPECT_EQ(histogram.count(), 10000U);
  EXPECT_NEAR(histogram.percentile_us(0.5), 5000, 5000 * 0.016);
  EXPECT_NEAR(histogram.percentile_us(0.99), 9900, 9900 * 0.016);
  EXPECT_EQ(histogram.percentile_us(1), 10000);
}

TEST(Histogram, SmallValuesAreExact) {
  Histogram histogram;
  for (int ns = 0; ns < 64; ++ns) histogram.add(nanoseconds(ns));
  EXPECT_DOUBLE_EQ(histogram.percentile_us(0.5), 0.031);
}

TEST(Histogram, TakesTheLongestAndNegativeDurations) {
  Histogram histogram;
  histogram.add(nanoseconds(-5));
  histogram.add(nanoseconds::max());
  EXPECT_EQ(histogram.count(), 2U);
  EXPECT_EQ(histogram.percentile_us(0.5), 0);
  EXPECT_DOUBLE_EQ(histogram.percentile_us(1), static_cast<double>(nanoseconds::max().count()) / 1000);
}

TEST(Histogram, MergeAddsSamples) {
  Histogram low;
  Histogram high;
  for (int i = 0; i < 90; ++i) low.add(microseconds(1));
  for (int i = 0; i < 10; ++i) high.add(microseconds(1000));
  low.merge(high);
  EXPECT_EQ(low.count(), 100U);
  EXPECT_NEAR(low.percentile_us(0.9), 1, 0.02);
  EXPECT_NEAR(low.percentile_us(0.95), 1000, 16);
}

}  // namespace
}  // namespace kbtp
