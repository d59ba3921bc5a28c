#include "rdmap_binding/rnic/stag_table.h"

#include <gtest/gtest.h>
#include <set>
#include <vector>

#include "rdmap_binding/rnic/send_window.h"

namespace kbtp::rnic {
namespace {

using rdma::Access;
using rdma::Content;
using rdma::DomainId;

class StagTableTest : public testing::Test {
 protected:
  StagTable table;
  std::vector<std::byte> memory = std::vector<std::byte>(64);
  std::vector<std::uint64_t> words = std::vector<std::uint64_t>(4);
  StreamScope me{StreamId{1}, DomainId{1}};

  [[nodiscard]] auto error(rdma::STag stag, std::uint64_t offset, std::uint64_t length,
                           Access wanted = Access::remote_write) const {
    const auto found = table.find(me, stag, offset, length, wanted);
    return found ? std::optional<StagFault>() : std::optional(found.error());
  }
};

// Rules: RFC5040-8.1.1-03, RFC5042-6.2.1-01
TEST_F(StagTableTest, Rfc5040_8_1_1_03_BoundsToTheOctet) {
  const auto stag = table.add(StreamId{1}, {memory, Access::remote_write, Content::octets, 100, false})->stag;
  EXPECT_EQ(error(stag, 100, 64), std::nullopt);
  EXPECT_EQ(error(stag, 163, 1), std::nullopt);
  EXPECT_EQ(error(stag, 99, 1), StagFault::bounds);
  EXPECT_EQ(error(stag, 100, 65), StagFault::bounds);
  EXPECT_EQ(error(stag, 164, 1), StagFault::bounds);
  EXPECT_EQ(error(stag, 0, ~std::uint64_t{0}), StagFault::bounds);
  EXPECT_EQ(error(stag, ~std::uint64_t{0}, 2), StagFault::wrap);
  EXPECT_EQ(error(stag, ~std::uint64_t{0}, 1), StagFault::bounds);
  const auto target = table.find(me, stag, 110, 4, Access::remote_write);
  ASSERT_TRUE(target.has_value());
  EXPECT_EQ(target->memory.data(), memory.data() + 10);
}

TEST_F(StagTableTest, RegionUpToTheLastTaggedOffset) {
  const auto stag =
      table.add(StreamId{1}, {memory, Access::remote_write, Content::octets, ~std::uint64_t{0} - 64, false});
  ASSERT_TRUE(stag.has_value());
  EXPECT_EQ(error(stag->stag, ~std::uint64_t{0} - 1, 1), std::nullopt);
  EXPECT_FALSE(
      table.add(StreamId{1}, {memory, Access::remote_write, Content::octets, ~std::uint64_t{0} - 63, false}));
}

// Rules: RFC5040-8.1.1-01, RFC5040-8.1.1-02, RFC5042-6.1.1-02
TEST_F(StagTableTest, Rfc5041_8_2_ScopesOfStreamAndDomain) {
  const auto mine = table.add(DomainId{1}, {memory, Access::remote_write, Content::octets, 0, false})->stag;
  const auto others = table.add(DomainId{2}, {memory, Access::remote_write, Content::octets, 0, false})->stag;
  const auto stranger =
      table.add(StreamId{2}, {memory, Access::remote_write, Content::octets, 0, false})->stag;
  EXPECT_EQ(error(mine, 0, 1), std::nullopt);
  EXPECT_EQ(error(others, 0, 1), StagFault::not_associated);
  EXPECT_EQ(error(stranger, 0, 1), StagFault::not_associated);
  EXPECT_EQ(error(mine + 1, 0, 1), StagFault::invalid);
}

// Rules: RFC5042-6.3.5-01, RFC5040-8.1.1-05
TEST_F(StagTableTest, Rfc5042_6_3_5_RightsAreThoseGranted) {
  const auto stag = table.add(StreamId{1}, {memory, Access::remote_write, Content::octets, 0, false})->stag;
  EXPECT_EQ(error(stag, 0, 1, Access::remote_read), StagFault::access);
  EXPECT_EQ(error(stag, 0, 8, Access::remote_atomic), StagFault::access);
}

TEST_F(StagTableTest, WordsAreAlignedAndNeverOpenToWrites) {
  const auto octets = std::as_writable_bytes(std::span(words));
  EXPECT_TRUE(table.add(StreamId{1},
                        {octets, Access::remote_read | Access::remote_atomic, Content::words, 0, false}));
  EXPECT_FALSE(table.add(StreamId{1}, {octets, Access::remote_write, Content::words, 0, false}));
  EXPECT_FALSE(table.add(StreamId{1}, {octets.subspan(1, 8), Access::remote_read, Content::words, 0, false}));
  EXPECT_FALSE(table.add(StreamId{1}, {octets.first(12), Access::remote_read, Content::words, 0, false}));
  EXPECT_FALSE(table.add(StreamId{1}, {memory, Access::remote_atomic, Content::octets, 0, false}));
}

// Rules: RFC5040-8.1.1-07
TEST_F(StagTableTest, Rfc5040_8_1_1_07_OnlyOwnAndAllowedStagsAreInvalidatedByAPeer) {
  EXPECT_FALSE(table.add(DomainId{1}, {memory, Access::remote_write, Content::octets, 0, true}));
  const auto domain = table.add(DomainId{1}, {memory, Access::remote_write, Content::octets, 0, false})->stag;
  const auto shut = table.add(StreamId{1}, {memory, Access::remote_write, Content::octets, 0, false})->stag;
  const auto open = table.add(StreamId{1}, {memory, Access::remote_write, Content::octets, 0, true})->stag;
  EXPECT_FALSE(table.invalidate_by_peer(StreamId{1}, domain));
  EXPECT_FALSE(table.invalidate_by_peer(StreamId{1}, shut));
  EXPECT_FALSE(table.invalidate_by_peer(StreamId{2}, open));
  EXPECT_TRUE(table.invalidate_by_peer(StreamId{1}, open));
  EXPECT_FALSE(table.exists(open));
}

// Rules: RFC5040-8.1.1-08, RFC5040-8.1.1-13, RFC5042-6.1.1-03
TEST_F(StagTableTest, Rfc5040_8_1_1_08_StagsAreSpreadOverTheWholeRange) {
  std::set<rdma::STag> seen;
  std::size_t high = 0;
  constexpr std::size_t kCount = 1000;
  for (std::size_t i = 0; i < kCount; ++i) {
    const auto stag = table.add(StreamId{1}, {memory, Access::remote_read, Content::octets, 0, false})->stag;
    seen.insert(stag);
    high += stag >> 31;
  }
  EXPECT_EQ(seen.size(), kCount);
  EXPECT_GT(high, 400U);  // 500 expected; 400 is more than six standard deviations away
  EXPECT_LT(high, 600U);
  std::set<std::uint32_t> gaps;
  for (auto it = seen.begin(), next = std::next(it); next != seen.end(); ++it, ++next)
    gaps.insert(*next - *it);
  EXPECT_GT(gaps.size(), 900U);
}

TEST(CopyWords, PartsOfWordsAreCopiedAsTheyLie) {
  std::vector<std::uint64_t> words = {0x0706050403020100, 0x0F0E0D0C0B0A0908, 0x1716151413121110};
  const auto octets = std::as_bytes(std::span(words));
  for (std::size_t from = 0; from < 24; ++from) {
    for (std::size_t n = 0; from + n <= 24; ++n) {
      std::vector<std::byte> copy(n);
      copy_words(copy, octets.subspan(from, n));
      EXPECT_TRUE(std::equal(copy.begin(), copy.end(), octets.begin() + static_cast<std::ptrdiff_t>(from)));
    }
  }
}

}  // namespace
}  // namespace kbtp::rnic
