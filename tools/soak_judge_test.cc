#include "tools/soak_judge.h"

#include <gtest/gtest.h>

namespace kbtp::tools {
namespace {

constexpr double kMiB = 1 << 20;
constexpr FlatRule kMemory{4 * kMiB, 8 * kMiB};

// One reading a minute, each from its minute's number.
template <class Value>
std::vector<Reading> minutes(int count, Value value) {
  std::vector<Reading> readings;
  for (int minute = 1; minute <= count; ++minute) readings.push_back({minute * 60.0, value(minute)});
  return readings;
}

TEST(SoakJudge, AConstantIsFlat) {
  const Flatness flatness = judge_flat(minutes(30, [](int) { return 30 * kMiB; }), kMemory);
  EXPECT_TRUE(flatness.judged);
  EXPECT_TRUE(flatness.flat);
  EXPECT_EQ(flatness.readings, 20);
  EXPECT_DOUBLE_EQ(flatness.slope_per_hour, 0);
  EXPECT_DOUBLE_EQ(flatness.range, 0);
}

TEST(SoakJudge, NoiseIsFlat) {
  const Flatness flatness =
      judge_flat(minutes(30, [](int minute) { return 30 * kMiB + minute % 3 * 65536.0; }), kMemory);
  EXPECT_TRUE(flatness.flat) << flatness.slope_per_hour;
}

TEST(SoakJudge, GrowthWhileWarmingUpDoesNotCount) {
  const Flatness flatness =
      judge_flat(minutes(30, [](int minute) { return std::min(minute, 10) * 5 * kMiB; }), kMemory);
  EXPECT_TRUE(flatness.flat) << flatness.slope_per_hour;
}

TEST(SoakJudge, ASlowLeakShowsInTheSlopeOfHalfAnHour) {
  const Flatness flatness =
      judge_flat(minutes(35, [](int minute) { return 30 * kMiB + minute * kMiB / 10; }), kMemory);
  EXPECT_TRUE(flatness.judged);
  EXPECT_NEAR(flatness.slope_per_hour, 6 * kMiB, 1);
  EXPECT_LE(flatness.range, kMemory.range);
  EXPECT_FALSE(flatness.flat);
}

TEST(SoakJudge, ASlowerLeakShowsInTheRangeOfADay) {
  const Flatness flatness =
      judge_flat(minutes(24 * 60, [](int minute) { return 30 * kMiB + minute * kMiB / 60; }), kMemory);
  EXPECT_LE(flatness.slope_per_hour, kMemory.slope_per_hour);
  EXPECT_NEAR(flatness.range, 16 * kMiB, kMiB);
  EXPECT_FALSE(flatness.flat);
}

TEST(SoakJudge, OneJumpShowsInTheRange) {
  const Flatness flatness =
      judge_flat(minutes(600, [](int minute) { return minute == 590 ? 50 * kMiB : 30 * kMiB; }), kMemory);
  EXPECT_FALSE(flatness.flat);
}

TEST(SoakJudge, ADescriptorLostEveryMinuteShows) {
  EXPECT_FALSE(judge_flat(minutes(20, [](int minute) { return 20.0 + minute; }), {12, 16}).flat);
}

TEST(SoakJudge, WhatFallsIsFlatWithinTheRange) {
  EXPECT_TRUE(
      judge_flat(minutes(30, [](int minute) { return 40 * kMiB - minute * kMiB / 5; }), kMemory).flat);
}

TEST(SoakJudge, TooFewReadingsAreNotJudged) {
  const Flatness flatness = judge_flat(minutes(7, [](int) { return 1.0; }), kMemory);
  EXPECT_FALSE(flatness.judged);
  EXPECT_FALSE(flatness.flat);
  EXPECT_FALSE(judge_flat({}, kMemory).judged);
}

}  // namespace
}  // namespace kbtp::tools
