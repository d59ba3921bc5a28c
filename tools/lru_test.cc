#include "tools/lru.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <list>
#include <random>

namespace kbtp::tools {
namespace {

TEST(Lru, MissesFillThePlacesInOrder) {
  Lru lru(3);
  for (std::uint32_t i = 0; i < 3; ++i) {
    const auto touch = lru.touch(100 + i);
    EXPECT_FALSE(touch.hit);
    EXPECT_EQ(touch.place, i);
    EXPECT_EQ(touch.evicted, std::nullopt);
  }
  EXPECT_EQ(lru.size(), 3U);
}

TEST(Lru, EvictsTheLeastRecentlyUsedAndReusesItsPlace) {
  Lru lru(2);
  EXPECT_EQ(lru.touch(1).place, 0U);
  EXPECT_EQ(lru.touch(2).place, 1U);
  EXPECT_TRUE(lru.touch(1).hit);
  const auto touch = lru.touch(3);
  EXPECT_FALSE(touch.hit);
  EXPECT_EQ(touch.evicted, 2U);
  EXPECT_EQ(touch.place, 1U);
  EXPECT_TRUE(lru.touch(1).hit);
}

TEST(Lru, CapacityOneHoldsTheLast) {
  Lru lru(1);
  EXPECT_FALSE(lru.touch(1).hit);
  EXPECT_TRUE(lru.touch(1).hit);
  EXPECT_EQ(lru.touch(2).evicted, 1U);
}

TEST(Lru, AgreesWithAPlainListOnRandomReferences) {
  Lru lru(17);
  std::list<std::uint64_t> plain;
  std::mt19937_64 random(5);
  for (int i = 0; i < 20000; ++i) {
    const std::uint64_t id = random() % 40;
    const auto found = std::find(plain.begin(), plain.end(), id);
    const bool hit = found != plain.end();
    std::optional<std::uint64_t> evicted;
    if (hit) {
      plain.erase(found);
    } else if (plain.size() == 17) {
      evicted = plain.back();
      plain.pop_back();
    }
    plain.push_front(id);
    const auto touch = lru.touch(id);
    ASSERT_EQ(touch.hit, hit);
    ASSERT_EQ(touch.evicted, evicted);
  }
}

}  // namespace
}  // namespace kbtp::tools
