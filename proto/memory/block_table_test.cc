#include "proto/memory/block_table.h"

#include <atomic>
#include <gtest/gtest.h>
#include <thread>
#include <vector>

#include "base/hex.h"

namespace kbtp::memory {
namespace {

using wire::TableEntry;

BlockTable table_of(std::uint64_t base, std::uint64_t count) {
  auto table = BlockTable::create(base, count);
  EXPECT_TRUE(table);
  return *std::move(table);
}

TEST(BlockTable, Kbtp_3_2_01_SixteenOctetsPerHandleFromTheBase) {
  BlockTable table = table_of(1000, 8);
  EXPECT_EQ(table.memory().size(), 128u);
  EXPECT_FALSE(table.contains(999));
  EXPECT_TRUE(table.contains(1000));
  EXPECT_TRUE(table.contains(1007));
  EXPECT_FALSE(table.contains(1008));
  table.bind(1003, 0x0102030405060708, 9, true);
  EXPECT_EQ(to_hex(table.memory().subspan(3 * 16, 16)),
            "000300020000000901020304"
            "05060708");
  EXPECT_EQ(table.memory(1003, 2).data(), table.memory().data() + 48);
  EXPECT_EQ(table.memory(1003, 2).size(), 32u);
}

TEST(BlockTable, G_14_UnboundEntriesStartWithGeneration1) {
  const BlockTable table = table_of(0, 3);
  for (std::uint64_t h = 0; h < 3; ++h) EXPECT_EQ(table.read(h), TableEntry{});
  EXPECT_EQ(to_hex(table.memory().first(16)), "00000001000000000000000000000000");
}

TEST(BlockTable, RangesThatCannotBeAreRefused) {
  EXPECT_FALSE(BlockTable::create(0, 0));
  EXPECT_FALSE(BlockTable::create(~std::uint64_t{0}, 2));
  EXPECT_TRUE(BlockTable::create(~std::uint64_t{0}, 1));
}

TEST(BlockTable, Kbtp_6_3_05_BindSetsAllAndTheNextGeneration) {
  BlockTable table = table_of(5, 1);
  EXPECT_EQ(table.bind(5, 4096, 100, false), (TableEntry{0x0001, 2, 100, 4096}));
  EXPECT_EQ(table.read(5), (TableEntry{0x0001, 2, 100, 4096}));
}

TEST(BlockTable, Kbtp_6_2_05_UpdateReplacesDataLengthAndSeals) {
  BlockTable table = table_of(5, 1);
  table.bind(5, 4096, 100, false);
  EXPECT_EQ(table.update(5, 7, false), (TableEntry{0x0001, 2, 7, 4096}));  // may shrink (G-18)
  EXPECT_EQ(table.update(5, 200, true), (TableEntry{0x0003, 2, 200, 4096}));
  EXPECT_EQ(table.read(5), (TableEntry{0x0003, 2, 200, 4096}));
}

TEST(BlockTable, Kbtp_6_4_02_UnbindClearsFlagsAndLengthAndTakesTheNextGeneration) {
  BlockTable table = table_of(5, 1);
  table.bind(5, 4096, 100, true);
  const TableEntry freed = table.unbind(5);
  EXPECT_EQ(freed.flags, 0);
  EXPECT_EQ(freed.generation, 3);
  EXPECT_EQ(freed.data_length, 0u);  // P-13
  EXPECT_EQ(table.read(5), freed);
}

TEST(BlockTable, Kbtp_3_2_05_GenerationIsNeverZeroAcrossItsWrap) {
  BlockTable table = table_of(0, 1);
  table.preset_generation(0, 0xFFFD);
  EXPECT_EQ(table.bind(0, 8, 1, false).generation, 0xFFFE);
  EXPECT_EQ(table.unbind(0).generation, 0xFFFF);
  EXPECT_EQ(table.bind(0, 8, 1, false).generation, 1);
  EXPECT_EQ(table.unbind(0).generation, 2);
  table.preset_generation(0, 0xFFFE);
  table.bind(0, 8, 1, false);
  EXPECT_EQ(table.unbind(0).generation, 1);
  for (int i = 0; i < 70000; ++i) {
    ASSERT_NE(table.bind(0, 8, 1, false).generation, 0);
    ASSERT_NE(table.unbind(0).generation, 0);
  }
}

// The k-th binding has Block Offset 8 * k, Data Length k, and with Generation 1 at first the generation
// below.
constexpr std::uint16_t generation_of_binding(std::uint64_t k) {
  return static_cast<std::uint16_t>((2 * k - 1) % 65535 + 1);
}

// More threads than cores: readers and writer are interrupted between any two of their words.
TEST(BlockTable, E_02_SnapshotsAreConsistentAndKbtp_3_2_07_OffsetComesBeforeFlags) {
  BlockTable table = table_of(0, 1);
  constexpr std::uint64_t kBindings = 400000;
  std::atomic<bool> done{false};
  std::atomic<std::uint64_t> snapshots{0};
  std::vector<std::jthread> readers;
  for (unsigned i = 0; i < std::thread::hardware_concurrency() + 2; ++i) {
    readers.emplace_back([&] {
      auto* words = reinterpret_cast<std::uint64_t*>(table.memory().data());
      std::uint64_t seen = 0;
      while (!done.load(std::memory_order_relaxed)) {
        const TableEntry entry = table.read(0);
        if (entry.valid()) {
          if (++seen == 1) snapshots.fetch_add(1);
          ASSERT_EQ(entry.block_offset, 8 * std::uint64_t{entry.data_length});
          ASSERT_EQ(entry.generation, generation_of_binding(entry.data_length));
        }
        // As an RNIC reads: word by word with acquire, ascending. The offset may be of a later binding, never
        // of an earlier one.
        const std::uint64_t first = std::atomic_ref(words[0]).load(std::memory_order_acquire);
        const std::uint64_t second = std::atomic_ref(words[1]).load(std::memory_order_acquire);
        const TableEntry raw = wire::unpack_entry({first, second});
        if (raw.valid()) {
          ASSERT_GE(raw.block_offset, 8 * std::uint64_t{raw.data_length});
        }
      }
    });
  }
  // On a busy machine the readers may come late.
  for (std::uint64_t k = 1; k <= kBindings || (snapshots.load() == 0 && k < 1000 * kBindings); ++k) {
    table.bind(0, 8 * k, static_cast<std::uint32_t>(k), true);
    table.unbind(0);
  }
  done.store(true);
  readers.clear();
  EXPECT_FALSE(table.read(0).valid());
  EXPECT_GT(snapshots.load(), 0u);
}

}  // namespace
}  // namespace kbtp::memory
