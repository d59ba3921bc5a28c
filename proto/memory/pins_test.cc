#include "proto/memory/pins.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace kbtp::memory {
namespace {

class PinsTest : public testing::Test {
 protected:
  std::vector<std::uint64_t> returned_;
  Pins pins_{4, [this](std::uint64_t number) { returned_.push_back(number); }};
};

TEST_F(PinsTest, UnpinnedBlockReturnsAtOnce) {
  pins_.retire(2);
  EXPECT_THAT(returned_, testing::ElementsAre(2));
  EXPECT_EQ(pins_.held_back(), 0u);
  EXPECT_FALSE(pins_.retired(2));
}

TEST_F(PinsTest, E_05_PinnedBlockReturnsWithItsLastPin) {
  pins_.pin(1);
  pins_.pin(1);
  EXPECT_EQ(pins_.count(1), 2u);
  pins_.retire(1);
  EXPECT_TRUE(pins_.retired(1));
  EXPECT_EQ(pins_.held_back(), 1u);
  pins_.unpin(1);
  EXPECT_THAT(returned_, testing::IsEmpty());
  pins_.unpin(1);
  EXPECT_THAT(returned_, testing::ElementsAre(1));
  EXPECT_EQ(pins_.held_back(), 0u);
  EXPECT_EQ(pins_.count(1), 0u);
}

TEST_F(PinsTest, PinsOfABlockInUseReturnNothing) {
  pins_.pin(0);
  pins_.unpin(0);
  EXPECT_THAT(returned_, testing::IsEmpty());
  pins_.pin(0);
  pins_.unpin(0);
  pins_.retire(0);
  EXPECT_THAT(returned_, testing::ElementsAre(0));
}

TEST_F(PinsTest, BlocksDoNotMix) {
  pins_.pin(0);
  pins_.retire(0);
  pins_.retire(3);
  EXPECT_THAT(returned_, testing::ElementsAre(3));
}

}  // namespace
}  // namespace kbtp::memory
