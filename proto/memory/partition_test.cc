#include "proto/memory/partition.h"

#include <gtest/gtest.h>

#include "base/masked_add.h"

namespace kbtp::memory {
namespace {

constexpr std::uint64_t kBase = 0x10000;

std::unique_ptr<Partition> partition_of(std::uint64_t blocks, RingOptions options = {}) {
  auto made = Partition::create(
      kBase, blocks, 64,
      [](std::uint64_t& word, std::uint64_t add, std::uint64_t mask) {
        return fetch_masked_add(word, add, mask);
      },
      options);
  EXPECT_TRUE(made);
  return std::move(*made);
}

TEST(Partition, IsOnePieceOfThePool) {
  const auto partition = partition_of(3);
  EXPECT_EQ(partition->length(), 3u * 64);
  EXPECT_FALSE(partition->contains(kBase - 64));
  EXPECT_TRUE(partition->contains(kBase));
  EXPECT_TRUE(partition->contains(kBase + 128));
  EXPECT_FALSE(partition->contains(kBase + 192));
  EXPECT_EQ(partition->free_blocks(), 3u);
  EXPECT_EQ(partition->ring().format().slots(), 4u);
}

// G-24
TEST(Partition, ANewRingHoldsWhatNobodyHasTaken) {
  const auto partition = partition_of(3, {.first_ticket = 0xFFFF'FFFFu});
  const auto first = partition->ring().allocate({});
  ASSERT_EQ(first.block_offset, kBase);
  partition->took(kBase);
  (void)partition->ring().allocate({});  // a ticket, whose block stays free
  partition->hand_out();
  ASSERT_TRUE(partition->renew());
  EXPECT_FALSE(partition->handed_out());
  EXPECT_EQ(partition->ring().head_ticket(), 0xFFFF'FFFFu);
  EXPECT_EQ(partition->ring().tail_ticket(), 1u);
  EXPECT_EQ(partition->ring().free_blocks(), 2u);
  EXPECT_EQ(partition->free_blocks(), 2u);
  partition->free(kBase);
  EXPECT_EQ(partition->free_blocks(), 3u);
  for (const std::uint64_t block : {kBase + 64, kBase + 128, kBase}) {
    EXPECT_EQ(partition->ring().allocate({}).block_offset, block);
  }
}

TEST(Partition, NeedsABlock) { EXPECT_FALSE(Partition::create(kBase, 0, 64, {}, {})); }

}  // namespace
}  // namespace kbtp::memory
