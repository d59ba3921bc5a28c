#include "proto/memory/pool.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <set>

namespace kbtp::memory {
namespace {

TEST(Pool, Kbtp_3_1_01_BlocksAreEqualDistinctAndInsideTheRegion) {
  const auto pool = Pool::create(7, 24);
  ASSERT_TRUE(pool);
  EXPECT_EQ(pool->memory().size(), 7u * 24u);
  std::set<std::uint64_t> offsets;
  for (std::uint64_t i = 0; i < pool->blocks(); ++i) {
    const std::uint64_t offset = pool->offset_of(i);
    EXPECT_TRUE(offsets.insert(offset).second);
    EXPECT_EQ(offset % 8, 0u);  // G-45
    EXPECT_EQ(pool->number_of(offset), i);
    EXPECT_EQ(pool->block(offset).data(), pool->memory().data() + 24 * i);
    EXPECT_EQ(pool->block(offset).size(), 24u);
  }
}

TEST(Pool, Kbtp_3_1_02_ABlockOffsetIsATaggedOffset) {
  const auto pool = Pool::create(4, 4096);
  ASSERT_TRUE(pool);
  // What a region registered with base() holds at Tagged Offset `offset` is the block.
  const std::uint64_t offset = pool->offset_of(3);
  EXPECT_EQ(pool->memory().subspan(offset - pool->base()).data(), pool->block(offset).data());
  EXPECT_NE(pool->offset_of(0), 0u);  // G-16: Block Offset 0 says "none"
}

TEST(Pool, BlockOffsetsAreAddressesWhereTheProviderKnowsNoOthers) {
  const auto pool = Pool::create_at_address(4, 4096);
  ASSERT_TRUE(pool);
  EXPECT_EQ(pool->base(), reinterpret_cast<std::uintptr_t>(pool->memory().data()));
  EXPECT_EQ(pool->block(pool->offset_of(3)).data(), pool->memory().data() + std::size_t{3} * 4096);
  EXPECT_EQ(pool->number_of(pool->offset_of(3)), 3);
}

TEST(Pool, OffsetsThatStartNoBlockAreNone) {
  const auto pool = Pool::create(4, 4096);
  ASSERT_TRUE(pool);
  for (const std::uint64_t offset : {std::uint64_t{0}, pool->base() - 4096, pool->base() + 1,
                                     pool->base() + 4095, pool->base() + 4 * 4096, ~std::uint64_t{0}}) {
    EXPECT_EQ(pool->number_of(offset), std::nullopt) << offset;
  }
}

TEST(Pool, G_45_SizesThatCannotBeAreRefused) {
  EXPECT_FALSE(Pool::create(0, 4096));
  EXPECT_FALSE(Pool::create_at_address(0, 4096));
  EXPECT_FALSE(Pool::create((std::uint64_t{1} << 28) + 1, 8));
  EXPECT_FALSE(Pool::create(1, 0));
  EXPECT_FALSE(Pool::create(1, 12));
  EXPECT_FALSE(Pool::create(1, 8, 4095));
  EXPECT_FALSE(Pool::create(1, 8192, ~std::uint64_t{0} - 4095));
}

// Rules: RFC5042-6.3.2-01, RFC5042-A-02
TEST(Pool, StartsZeroedAndG_43_ScrubZeroesTheWholeBlockOnly) {
  const auto pool = Pool::create(3, 64);
  ASSERT_TRUE(pool);
  const auto is_zero = [](MutableOctets octets) {
    return std::ranges::all_of(octets, [](std::byte b) { return b == std::byte{0}; });
  };
  EXPECT_TRUE(is_zero(pool->memory()));
  std::ranges::fill(pool->memory(), std::byte{0xEE});
  pool->scrub(pool->offset_of(1));
  EXPECT_TRUE(is_zero(pool->block(pool->offset_of(1))));
  for (const std::uint64_t other : {0, 2}) {
    EXPECT_TRUE(std::ranges::all_of(pool->block(pool->offset_of(other)),
                                    [](std::byte b) { return b == std::byte{0xEE}; }));
  }
}

}  // namespace
}  // namespace kbtp::memory
