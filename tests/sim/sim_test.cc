// The seeds that CI runs, in shards so that they run beside each other. KBTP_SIM_SEEDS says how many there
// are in all (builds with sanitizers are slow: fewer there).

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <gtest/gtest.h>
#include <iostream>
#include <string>

#include "tests/sim/simulation.h"

namespace kbtp::sim {
namespace {

constexpr std::uint64_t kShards = 10;
constexpr std::uint64_t kFirstSeed = 1;

std::uint64_t seeds() {
  if (const char* wanted = std::getenv("KBTP_SIM_SEEDS")) return std::strtoull(wanted, nullptr, 10);
  return KBTP_SIM_DEFAULT_SEEDS;
}

class Seeds : public ::testing::TestWithParam<std::uint64_t> {};

TEST_P(Seeds, NothingIsLostAndNoLoadMixesStores) {
  const std::uint64_t first = kFirstSeed + GetParam() * seeds() / kShards;
  const std::uint64_t end = kFirstSeed + (GetParam() + 1) * seeds() / kShards;
  std::uint64_t answered = 0;
  std::uint64_t judged = 0;
  for (std::uint64_t seed = first; seed < end; ++seed) {
    const Report report = simulate(seed);
    if (!report.ok()) FAIL() << to_string(report);
    answered += report.answered;
    judged += report.loads_judged;
  }
  std::cout << "seeds " << first << " to " << end - 1 << ": " << answered << " operations answered, "
            << judged << " loads judged\n";
  EXPECT_GT(answered, (end - first) * 100) << "something happened";
  EXPECT_GT(judged, end - first) << "something was looked at";
}

INSTANTIATE_TEST_SUITE_P(Shard, Seeds, ::testing::Range(std::uint64_t{0}, kShards));

TEST(Simulation, SameSeedSameRun) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    const Report once = simulate(seed);
    const Report again = simulate(seed);
    EXPECT_EQ(once.hash, again.hash) << "seed " << seed;
    EXPECT_EQ(once.events, again.events) << "seed " << seed;
    EXPECT_NE(once.hash, simulate(seed + 1000).hash) << "seed " << seed;
  }
}

// What the seeds have to cover: all kinds of runs stand among the first hundred.
TEST(Simulation, SeedsCoverEveryKindOfRun) {
  std::uint64_t engines = 0;
  std::uint64_t fake = 0;
  std::uint64_t infiniband = 0;
  std::uint64_t calm = 0;
  std::uint64_t direct = 0;
  std::uint64_t restarted = 0;
  for (std::uint64_t seed = 1; seed <= 100; ++seed) {
    const Report report = simulate(seed);
    EXPECT_TRUE(report.ok()) << to_string(report);
    ++(report.engines ? engines : report.infiniband ? infiniband : fake);
    calm += report.calm ? 1 : 0;
    direct += report.direct ? 1 : 0;
    restarted += report.lives > 1 ? 1 : 0;
  }
  EXPECT_GE(engines, 20u);
  EXPECT_GE(fake, 15u);
  EXPECT_GE(infiniband, 15u);
  EXPECT_GE(calm, 5u);
  EXPECT_GE(direct, 20u);
  EXPECT_GE(restarted, 10u);
}

}  // namespace
}  // namespace kbtp::sim
