#include "verbs/staging.h"

#include <deque>
#include <gtest/gtest.h>
#include <random>
#include <vector>

namespace kbtp::verbs {
namespace {

TEST(StagingRing, GivesPiecesUntilItIsFull) {
  std::vector<std::byte> memory(100);
  StagingRing ring(memory);
  const auto a = ring.take(60);
  const auto b = ring.take(40);
  ASSERT_TRUE(a && b);
  EXPECT_EQ(a->data(), memory.data());
  EXPECT_EQ(b->data(), memory.data() + 60);
  EXPECT_FALSE(ring.take(1));
  ring.give_back();
  const auto c = ring.take(60);
  ASSERT_TRUE(c);
  EXPECT_EQ(c->data(), memory.data());
}

TEST(StagingRing, PiecesAreWholeAndSkipTheRingsEnd) {
  std::vector<std::byte> memory(100);
  StagingRing ring(memory);
  ASSERT_TRUE(ring.take(50));
  ASSERT_TRUE(ring.take(30));
  ring.give_back();
  // 20 at the end and 50 in front are free, but not 60 in one piece, and then not 51.
  EXPECT_FALSE(ring.take(60));
  EXPECT_FALSE(ring.take(51));
  const auto piece = ring.take(50);
  ASSERT_TRUE(piece);
  EXPECT_EQ(piece->data(), memory.data());
  EXPECT_FALSE(ring.take(1));
  ring.give_back();
  ring.give_back();
  EXPECT_TRUE(ring.empty());
  EXPECT_TRUE(ring.take(100));
}

TEST(StagingRing, MoreThanItHasIsNeverThere) {
  std::vector<std::byte> memory(10);
  StagingRing ring(memory);
  EXPECT_FALSE(ring.take(11));
  EXPECT_TRUE(ring.take(10));
}

TEST(StagingRing, PiecesOfNothingKeepTheirPlaceInTheOrder) {
  std::vector<std::byte> memory(10);
  StagingRing ring(memory);
  ASSERT_TRUE(ring.take(10));
  ASSERT_TRUE(ring.take(0));
  ring.give_back();
  ring.give_back();
  EXPECT_TRUE(ring.empty());
  EXPECT_TRUE(ring.take(10));
}

/// No two pieces in use ever overlap, and a ring that is empty has room for all.
TEST(StagingRing, RandomUseNeverOverlaps) {
  std::mt19937 random(7);
  std::vector<std::byte> memory(257);
  StagingRing ring(memory);
  std::deque<MutableOctets> used;
  for (int i = 0; i < 20'000; ++i) {
    if (random() % 2 == 0) {
      const auto piece = ring.take(1 + random() % 90);
      if (!piece) {
        EXPECT_FALSE(used.empty());
        continue;
      }
      ASSERT_GE(piece->data(), memory.data());
      ASSERT_LE(piece->data() + piece->size(), memory.data() + memory.size());
      for (const MutableOctets& other : used) {
        ASSERT_TRUE(piece->data() + piece->size() <= other.data() ||
                    other.data() + other.size() <= piece->data());
      }
      used.push_back(*piece);
    } else if (!used.empty()) {
      ring.give_back();
      used.pop_front();
    }
  }
}

}  // namespace
}  // namespace kbtp::verbs
