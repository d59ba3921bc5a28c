#include "tools/replay_places.h"

#include <gtest/gtest.h>
#include <set>
#include <utility>

namespace kbtp::tools {
namespace {

TEST(PeerPlaces, APrefillNodeStoresIntoAnotherNodesPool) {
  for (const std::uint32_t nodes : {2U, 3U, 5U}) {
    PeerPlaces places(nodes, 4);
    EXPECT_EQ(places.capacity(), nodes * (nodes - 1) * 4);
    std::set<std::pair<std::uint32_t, std::uint32_t>> pairs;
    for (std::uint64_t request = 0; request < std::uint64_t{nodes} * (nodes - 1); ++request) {
      const Lru::Touch touch = places.touch(request, 1000 + request);
      EXPECT_FALSE(touch.hit);
      EXPECT_EQ(places.home(touch.place), request % nodes);
      EXPECT_EQ(places.owner(touch.place), places.reader(request));
      EXPECT_NE(places.owner(touch.place), places.home(touch.place));
      pairs.emplace(places.owner(touch.place), places.home(touch.place));
    }
    EXPECT_EQ(pairs.size(), nodes * (nodes - 1)) << "every pair takes its turn";
  }
}

TEST(PeerPlaces, AHeldBlockStaysWhereItIs) {
  PeerPlaces places(3, 4);
  const Lru::Touch first = places.touch(0, 7);
  for (std::uint64_t request = 1; request < 12; ++request) {
    const Lru::Touch again = places.touch(request, 7);
    EXPECT_TRUE(again.hit);
    EXPECT_EQ(again.place, first.place);
  }
}

TEST(PeerPlaces, TheLeastRecentlyUsedOfThePairLeaves) {
  PeerPlaces places(2, 2);
  const std::uint32_t one = places.touch(0, 1).place;
  places.touch(0, 2);
  places.touch(1, 3);  // the other pair has room of its own
  EXPECT_TRUE(places.touch(1, 2).hit);
  const Lru::Touch third = places.touch(2, 4);
  EXPECT_EQ(third.evicted, 1);
  EXPECT_EQ(third.place, one);
  EXPECT_FALSE(places.touch(0, 1).hit);
  EXPECT_TRUE(places.touch(0, 3).hit);
}

}  // namespace
}  // namespace kbtp::tools
