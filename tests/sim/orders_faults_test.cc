// Looking at orders can find what is wrong.

#include <gtest/gtest.h>
#include <iostream>
#include <spdlog/spdlog.h>
#include <string>

#include "base/fault.h"
#include "tests/sim/orders.h"

namespace kbtp::sim {
namespace {

constexpr std::uint64_t kSamples = 3000;

struct Wrong {
  const char* fault;
  Case which;
  Setting setting;
};

class OrderFaults : public ::testing::TestWithParam<Wrong> {
 protected:
  OrderFaults() { spdlog::set_level(spdlog::level::off); }
  ~OrderFaults() override { switch_faults_off(); }
};

TEST_P(OrderFaults, IsFound) {
  const Wrong& wrong = GetParam();
  ASSERT_TRUE(switch_fault_on(wrong.fault));
  const fake::Explored found = explore(wrong.which, wrong.setting, kSamples);
  EXPECT_NE(found.wrong, "") << wrong.fault << " is right in " << found.orders << " orders";
  std::cout << wrong.fault << ", order " << found.orders << ": " << found.wrong << "\n";
}

constexpr Setting kRdmap{fake::Rules::rdmap, false};
constexpr Setting kMessages{fake::Rules::infiniband, false};
constexpr Setting kRecords{fake::Rules::infiniband, true};

std::string name_of(const ::testing::TestParamInfo<Wrong>& info) {
  const Setting& setting = info.param.setting;
  const char* suffix = setting.records ? "_records" : "_infiniband";
  return std::string(info.param.fault) + (setting.rules == fake::Rules::rdmap ? "_rdmap" : suffix);
}
INSTANTIATE_TEST_SUITE_P(All, OrderFaults,
                         ::testing::Values(Wrong{"load_completes_before_write", Case::load, kRdmap},
                                           Wrong{"load_completes_before_write", Case::load, kMessages},
                                           Wrong{"record_before_data", Case::load, kRecords},
                                           Wrong{"record_without_immediate", Case::store, kRecords},
                                           Wrong{"store_completes_before_read", Case::store, kRdmap},
                                           Wrong{"load_does_not_pin", Case::load_and_free, kRdmap},
                                           Wrong{"load_does_not_pin", Case::load_and_free, kRecords}),
                         name_of);

}  // namespace
}  // namespace kbtp::sim
