#include "rdmap_binding/terminate_code.h"

#include <gtest/gtest.h>
#include <set>

namespace kbtp {
namespace {

// Rules: RFC5040-4.8-01
TEST(TerminateCode, Rfc5040_4_8_01_PacksAsFigure8) {
  EXPECT_EQ(terminate::kDdpUntaggedTooLong.packed(), 0x1205);
  EXPECT_EQ(TerminateCode::from_packed(0x2007), terminate::kMpaNoMatchingRtr);
  for (unsigned word = 0; word <= 0xFFFF; ++word) {
    ASSERT_EQ(TerminateCode::from_packed(static_cast<std::uint16_t>(word)).packed(), word);
  }
}

TEST(TerminateCode, NamesEveryRow) {
  std::set<TerminateCode> seen;
  for (const auto& row : terminate::kRows) {
    EXPECT_TRUE(seen.insert(row.code).second) << to_string(row.code);
    EXPECT_EQ(terminate::find(row.code), &row);
  }
  EXPECT_EQ(to_string(terminate::kDdpTaggedBaseOrBounds), "DDP/Tagged/base or bounds");
  EXPECT_EQ(to_string(terminate::kMpaCrcError), "LLP/MPA/CRC error");
  EXPECT_EQ(to_string(TerminateCode{0x3, 0x1, 0x0A}), "3/1/0a");
}

TEST(TerminateCode, LocalCatastrophicTakesAnyCode) {
  EXPECT_EQ(to_string(TerminateCode{0, 0, 0x5C}), to_string(terminate::kRdmapLocalCatastrophic));
  EXPECT_EQ(terminate::find(TerminateCode{1, 0, 0x5C}), nullptr) << "only RDMAP's";
}

TEST(TerminateCode, ToWrapDiffersBetweenTheLayers) {
  EXPECT_EQ(terminate::kRdmapToWrap.error_code, 0x04);
  EXPECT_EQ(terminate::kDdpTaggedToWrap.error_code, 0x03);
}

}  // namespace
}  // namespace kbtp
