// The simulation can fail: it is linked with libraries in which errors of the draft can be left un-repaired
// (KBTP_UNREPAIRED_LIST of base/fault.h), and finds each of them, and what is wrong by its order in
// completion records, within a bounded number of seeds.

#include <cstdint>
#include <gtest/gtest.h>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "base/fault.h"
#include "tests/sim/simulation.h"

namespace kbtp::sim {
namespace {

constexpr std::uint64_t kSeeds = 1000;

struct Unrepaired {
  std::string name;
  std::string error;
};

std::vector<Unrepaired> all_unrepaired() {
  std::vector<Unrepaired> all;
  for_each_unrepaired([&](std::string_view name, std::string_view error) {
    all.push_back({std::string(name), std::string(error)});
  });
  for (const char* name : {"record_before_data", "record_without_immediate"})
    all.push_back({name, "KBTP 9.2"});
  return all;
}

class Faults : public ::testing::TestWithParam<Unrepaired> {
 protected:
  ~Faults() override { switch_faults_off(); }
};

TEST_P(Faults, IsFound) {
  ASSERT_TRUE(switch_fault_on(GetParam().name));
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    const Report report = simulate(seed);
    if (report.ok()) continue;
    std::cout << GetParam().error << " un-repaired (" << GetParam().name << "), seed " << seed << ": "
              << report.failures.front() << "\n";
    return;
  }
  FAIL() << GetParam().error << " un-repaired (" << GetParam().name << ") is not found by " << kSeeds
         << " seeds";
}

INSTANTIATE_TEST_SUITE_P(Unrepaired, Faults, ::testing::ValuesIn(all_unrepaired()),
                         [](const auto& param) { return param.param.name; });

// What is found is the fault and not these libraries.
TEST(NoFault, NoneIsFoundWhereNoneIs) {
  switch_faults_off();
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    const Report report = simulate(seed);
    EXPECT_TRUE(report.ok()) << to_string(report);
  }
}

}  // namespace
}  // namespace kbtp::sim
