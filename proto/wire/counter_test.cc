// Ring counters (3.3, 9.2) and generations against the text's own arithmetic.

#include <gtest/gtest.h>

#include "base/masked_add.h"
#include "proto/wire/structures.h"

namespace kbtp::wire {
namespace {

TEST(KbtpCounter, Kbtp_3_3_07_AddDataAndMask) {
  EXPECT_EQ(CounterFormat(1).add_data(), 0x0000000100000010u);
  EXPECT_EQ(CounterFormat(1).add_mask(), 0x8000000080000010u);   // bits 63, 31, 4
  EXPECT_EQ(CounterFormat(10).add_mask(), 0x8000000080002000u);  // bits 63, 31, 13
  EXPECT_EQ(CounterFormat(28).add_mask(), 0x8000000080000000u);  // bit n+3 is bit 31 (E-4)
}

TEST(KbtpCounter, Kbtp_3_3_08_FieldsAdvanceOnTheirOwnForEveryN) {
  for (unsigned n = CounterFormat::kMinLog2; n <= CounterFormat::kMaxLog2; ++n) {
    const CounterFormat format(n);
    // Across the slot wrap and across the ticket wrap, which is a slot wrap too.
    for (const std::uint32_t around : {static_cast<std::uint32_t>(format.slots()), std::uint32_t{0}}) {
      std::uint32_t ticket = around - 3;
      std::uint64_t word = format.pack(ticket);
      for (int i = 0; i < 6; ++i, ++ticket) {
        const Counter counter = format.unpack(word);
        ASSERT_EQ(counter.ticket, ticket) << n;
        ASSERT_EQ(counter.slot_offset, 16u * (ticket % format.slots())) << n;
        ASSERT_EQ(word & format.zero_bits(), 0u) << n;  // KBTP-3.3-06
        ASSERT_EQ(word, format.pack(ticket)) << n;
        word = masked_add(word, format.add_data(), format.add_mask());
      }
    }
  }
}

TEST(KbtpCounter, Kbtp_9_2_02_UnmaskedFormKeepsTheLowHalfZero) {
  const CounterFormat format(3, CounterFormat::Kind::unmasked);
  EXPECT_EQ(format.add_data(), 0x0000000100000000u);
  EXPECT_EQ(format.add_mask(), 0u);
  std::uint64_t word = format.pack(0xFFFFFFFE);
  for (const std::uint32_t ticket : {0xFFFFFFFEu, 0xFFFFFFFFu, 0u, 1u}) {
    EXPECT_EQ(word, std::uint64_t{ticket} << 32);
    EXPECT_EQ(format.unpack(word), (Counter{ticket, 16 * (ticket % 8)}));
    EXPECT_EQ(word & format.zero_bits(), 0u);
    word = masked_add(word, format.add_data(), format.add_mask());
  }
}

TEST(KbtpCounter, E_04_RingSizes) {
  EXPECT_EQ(ring_log2(1), 1u);  // F = 1 uses N = 2
  EXPECT_EQ(ring_log2(2), 1u);
  EXPECT_EQ(ring_log2(3), 2u);
  EXPECT_EQ(ring_log2(1024), 10u);
  EXPECT_EQ(ring_log2(1025), 11u);
  EXPECT_EQ(ring_log2(std::uint64_t{1} << 28), 28u);
  EXPECT_EQ(ring_log2((std::uint64_t{1} << 28) + 1), std::nullopt);
}

TEST(KbtpSlot, Kbtp_3_3_13_ReadyNeedsTicketAndBlock) {
  EXPECT_TRUE((Slot{5, 4096}).ready_for(5));
  EXPECT_FALSE((Slot{5, 4096}).ready_for(6));
  EXPECT_FALSE((Slot{5, kNoBlock}).ready_for(5));
}

TEST(KbtpSlot, E_03_FreeNeedsTheTicketOneLapEarlier) {
  EXPECT_TRUE((Slot{5, kNoBlock}).free_for(9, 4));
  EXPECT_FALSE((Slot{5, kNoBlock}).free_for(13, 4));  // consumed, but the free of ticket 9 is still to come
  EXPECT_FALSE((Slot{5, 4096}).free_for(9, 4));
  EXPECT_TRUE((Slot{0xFFFFFFFE, kNoBlock}).free_for(2, 4));  // across the ticket wrap
}

TEST(KbtpGeneration, Kbtp_3_2_05_SkipsZero) {
  EXPECT_EQ(next_generation(1), 2);
  EXPECT_EQ(next_generation(0xFFFE), 0xFFFF);
  EXPECT_EQ(next_generation(0xFFFF), 1);
}

}  // namespace
}  // namespace kbtp::wire
