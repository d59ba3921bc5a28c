// Every operation of ours is right in every order that the rules allow: in all orders of small cases, in a
// sample of those of larger ones. Many operations of many initiators at once: sim_test.

#include "tests/sim/orders.h"

#include <gtest/gtest.h>
#include <iostream>
#include <spdlog/spdlog.h>
#include <string>
#include <tuple>

namespace kbtp::sim {
namespace {

constexpr std::uint64_t kSamples = 3000;

class Orders : public ::testing::TestWithParam<std::tuple<Case, int>> {};

TEST_P(Orders, AreAllRight) {
  spdlog::set_level(spdlog::level::off);
  const auto [which, number] = GetParam();
  const Setting setting{number == 0 ? fake::Rules::rdmap : fake::Rules::infiniband, number == 2};
  const fake::Explored explored = explore(which, setting, kSamples);
  EXPECT_EQ(explored.wrong, "");
  EXPECT_EQ(explored.all, is_small(which, setting));
  std::cout << explored.orders << " orders" << (explored.all ? ", all there are\n" : " of more\n");
}

std::string name_of(const ::testing::TestParamInfo<std::tuple<Case, int>>& info) {
  constexpr const char* kSettings[] = {"rdmap", "infiniband", "infiniband_records"};
  return std::string(to_string(std::get<0>(info.param))) + "_" + kSettings[std::get<1>(info.param)];
}
INSTANTIATE_TEST_SUITE_P(Small, Orders,
                         ::testing::Combine(::testing::ValuesIn(kCases), ::testing::Values(0, 1, 2)),
                         name_of);

}  // namespace
}  // namespace kbtp::sim
