#include "proto/memory/ring.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/hex.h"
#include "base/masked_add.h"

namespace kbtp::memory {
namespace {

using wire::kNoBlock;
using wire::Slot;
using Consumed = Ring::Consumed;

/// Block Offset of block `i` in these tests.
constexpr std::uint64_t block(std::uint64_t i) { return 0x10000 + 0x1000 * i; }

std::vector<std::uint64_t> blocks(std::uint64_t count) {
  std::vector<std::uint64_t> offsets;
  for (std::uint64_t i = 0; i < count; ++i) offsets.push_back(block(i));
  return offsets;
}

std::unique_ptr<Ring> ring_of(std::uint64_t filled, std::uint64_t capacity, RingOptions options = {}) {
  auto ring = Ring::create(blocks(filled), capacity, fetch_masked_add, options);
  EXPECT_TRUE(ring);
  return *std::move(ring);
}

/// A direct allocation's first step (6.6): FetchAdd on Head by the peer.
std::uint32_t peer_ticket(Ring& ring) {
  auto& head = *reinterpret_cast<std::uint64_t*>(ring.head_memory().data());
  const std::uint64_t word = fetch_masked_add(head, ring.format().add_data(), ring.format().add_mask());
  return ring.format().unpack(word).ticket;
}

/// An allocation that must find its block.
std::uint64_t allocate(Ring& ring) {
  const auto taken = ring.allocate([](std::uint64_t) { FAIL() << "not pending"; });
  EXPECT_TRUE(taken.block_offset);
  return taken.block_offset.value_or(kNoBlock);
}

TEST(Ring, Kbtp_3_3_10_to_12_InitialSlotsHeadAndTail) {
  const auto ring = ring_of(3, 3);
  EXPECT_EQ(ring->format().slots(), 4u);  // KBTP-3.3-01: N >= F
  EXPECT_EQ(ring->slot(0), (Slot{0, block(0)}));
  EXPECT_EQ(ring->slot(1), (Slot{1, block(1)}));
  EXPECT_EQ(ring->slot(2), (Slot{2, block(2)}));
  EXPECT_EQ(ring->slot(3), (Slot{0xFFFFFFFF, kNoBlock}));  // s - N
  EXPECT_EQ(ring->head_ticket(), 0u);
  EXPECT_EQ(ring->tail_ticket(), 3u);
  EXPECT_EQ(to_hex(ring->slot_memory().first(16)), "00000000000000000000000000010000");  // network order
  EXPECT_EQ(ring->free_blocks(), 3u);
}

TEST(Ring, Kbtp_3_3_12_TailOfAFullRingWraps) {
  const auto ring = ring_of(4, 4);
  EXPECT_EQ(ring->tail_ticket(), 4u);
  allocate(*ring);
  ring->free(block(0));
  EXPECT_EQ(ring->slot(0), (Slot{4, block(0)}));  // the first freed block has ticket F
}

TEST(Ring, G_24_ReattachedPartitionStartsWithItsUnboundBlocks) {
  const auto ring = ring_of(2, 4);
  EXPECT_EQ(ring->slot(1), (Slot{1, block(1)}));
  EXPECT_EQ(ring->slot(2), (Slot{0xFFFFFFFE, kNoBlock}));
  EXPECT_EQ(ring->tail_ticket(), 2u);
  ring->free(block(9));  // of an older binding
  EXPECT_EQ(ring->slot(2), (Slot{2, block(9)}));
}

TEST(Ring, SizesThatCannotBeAreRefused) {
  EXPECT_FALSE(Ring::create({}, 0, fetch_masked_add));
  EXPECT_FALSE(Ring::create({}, (std::uint64_t{1} << 28) + 1, fetch_masked_add));
  EXPECT_FALSE(Ring::create(blocks(3), 2, fetch_masked_add));
}

TEST(Ring, Kbtp_3_3_02_HeadIsAlignedAndAlone) {
  const auto ring = ring_of(1, 1);
  EXPECT_EQ(ring->head_memory().size(), 8u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(ring->head_memory().data()) % 64, 0u);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(ring->slot_memory().data()) % 8, 0u);
}

TEST(Ring, Kbtp_3_3_14_AllocationConsumesItsSlotAndKeepsTheSequence) {
  const auto ring = ring_of(2, 2);
  EXPECT_EQ(allocate(*ring), block(0));
  EXPECT_EQ(ring->slot(0), (Slot{0, kNoBlock}));
  EXPECT_EQ(ring->slot(1), (Slot{1, block(1)}));
}

class RingWrap : public testing::TestWithParam<std::uint32_t> {};
INSTANTIATE_TEST_SUITE_P(FirstTicket, RingWrap,
                         testing::Values(0u, 3u, 0x7FFFFFF0u, 0xFFFFFFF0u, 0xFFFFFFFFu));

TEST_P(RingWrap, Kbtp_3_3_20_BlocksGoRoundInOrderAcrossSlotAndTicketWrap) {
  for (const auto kind : {wire::CounterFormat::Kind::masked, wire::CounterFormat::Kind::unmasked}) {
    const auto ring = ring_of(3, 4, {.counters = kind, .first_ticket = GetParam()});
    std::vector<std::uint64_t> order = blocks(3);
    for (std::uint32_t i = 0; i < 100; ++i) {
      const auto taken = ring->allocate({});
      ASSERT_EQ(taken.ticket, GetParam() + i);
      ASSERT_EQ(taken.block_offset, order[i % 3]) << i;
      ring->free(*taken.block_offset);
      ASSERT_EQ(ring->tail_ticket(), GetParam() + 3 + i + 1);
    }
    EXPECT_EQ(ring->free_blocks(), 3u);
    EXPECT_EQ(ring->deferred(), 0u);
  }
}

TEST_P(RingWrap, Kbtp_3_3_18_FreeIsDeferredUntilTheSlotIsConsumed) {
  const std::uint32_t first = GetParam();
  const auto ring = ring_of(4, 4, {.first_ticket = first});
  const std::uint64_t held_slot = ring->format().slot_of(first);
  const std::uint32_t held = peer_ticket(*ring);  // taken, not bound
  ASSERT_EQ(held, first);
  // Three others go round until Tail reaches the held slot.
  std::vector<std::uint64_t> bound;
  for (int i = 0; i < 3; ++i) bound.push_back(allocate(*ring));
  ring->free(bound[0]);
  EXPECT_EQ(ring->deferred(), 1u);
  EXPECT_EQ(ring->slot(held_slot), (Slot{first, block(0)}));  // KBTP-3.3-19
  EXPECT_EQ(ring->consume(held, block(0)), Consumed::yes);    // KBTP-3.3-15
  EXPECT_EQ(ring->deferred(), 0u);
  EXPECT_EQ(ring->slot(held_slot), (Slot{first + 4, bound[0]}));
}

TEST_P(RingWrap, E_03_TwoDeferredFreesOfOneSlotComeInTicketOrder) {
  const std::uint32_t first = GetParam();
  const auto ring = ring_of(4, 4, {.first_ticket = first});
  const std::uint64_t slot = ring->format().slot_of(first);
  const std::uint32_t held = peer_ticket(*ring);  // first + 0, for block 0
  for (int i = 1; i < 4; ++i) EXPECT_EQ(allocate(*ring), block(i));
  ring->free(block(1));  // first + 4: deferred
  std::vector<std::uint64_t> woken;
  const auto waits = ring->allocate([&](std::uint64_t b) { woken.push_back(b); });
  EXPECT_EQ(waits.ticket, first + 4);
  EXPECT_FALSE(waits.block_offset);
  // The other slots go once round: first + 5 .. first + 7.
  for (const std::uint64_t i : {2, 3, 2}) {
    ring->free(block(i));
    EXPECT_EQ(allocate(*ring), block(i));
  }
  ring->free(block(2));  // first + 8: the held slot again
  EXPECT_EQ(ring->deferred(), 2u);
  EXPECT_EQ(ring->slot(slot), (Slot{first, block(0)}));
  EXPECT_EQ(ring->consume(held, block(0)), Consumed::yes);
  // first + 4 was written and served its waiter at once, which let first + 8 in.
  EXPECT_THAT(woken, testing::ElementsAre(block(1)));
  EXPECT_EQ(ring->deferred(), 0u);
  EXPECT_EQ(ring->slot(slot), (Slot{first + 8, block(2)}));
}

TEST(Ring, Kbtp_3_4_06_AnAllocationAheadOfItsFreeIsWokenByIt) {
  const auto ring = ring_of(1, 1);
  const std::uint64_t b = allocate(*ring);
  std::vector<std::uint64_t> woken;
  const auto second = ring->allocate([&](std::uint64_t got) { woken.push_back(got); });
  EXPECT_FALSE(second.block_offset);
  EXPECT_EQ(ring->pending(), 1u);
  ring->free(b);
  EXPECT_THAT(woken, testing::ElementsAre(b));
  EXPECT_EQ(ring->pending(), 0u);
  EXPECT_EQ(ring->slot(1), (Slot{1, kNoBlock}));  // consumed for it
}

TEST(Ring, ReadyMayCallIntoTheRing) {
  const auto ring = ring_of(1, 1);
  const std::uint64_t b = allocate(*ring);
  int rounds = 0;
  std::function<void(std::uint64_t)> ready = [&](std::uint64_t got) {
    if (++rounds < 5) (void)ring->allocate(ready);
    ring->free(got);
  };
  (void)ring->allocate(ready);
  ring->free(b);
  EXPECT_EQ(rounds, 5);
  EXPECT_EQ(ring->free_blocks(), 1u);
}

TEST(Ring, Kbtp_6_6_10_BindNeedsAnIssuedTicketAndItsBlock) {
  const auto ring = ring_of(3, 3);
  EXPECT_EQ(ring->consume(0, block(0)), Consumed::not_issued);
  const std::uint32_t ticket = peer_ticket(*ring);
  EXPECT_EQ(ring->consume(ticket, block(1)), Consumed::no_match);  // a foreign block
  EXPECT_EQ(ring->consume(ticket, kNoBlock), Consumed::no_match);
  EXPECT_EQ(ring->consume(ticket + 1, block(1)), Consumed::not_issued);
  EXPECT_EQ(ring->consume(ticket - 1, block(0)), Consumed::no_match);
  EXPECT_EQ(ring->probe(ticket, block(0)), Consumed::yes);
  EXPECT_EQ(ring->slot(0), (Slot{0, block(0)}));  // G-30: all these left it as it was
  EXPECT_EQ(ring->consume(ticket, block(0)), Consumed::yes);
  EXPECT_EQ(ring->consume(ticket, block(0)), Consumed::no_match);  // a duplicate BIND
}

TEST(Ring, G_26_ATicketOfTheTargetIsNotForBind) {
  const auto ring = ring_of(1, 1);
  const std::uint64_t b = allocate(*ring);
  const auto pending = ring->allocate({});
  EXPECT_EQ(ring->consume(pending.ticket, b), Consumed::no_match);
  ring->free(b);
  EXPECT_EQ(ring->consume(pending.ticket, b), Consumed::no_match);  // taken by its waiter
}

TEST(Ring, Kbtp_3_4_12_AbandonedTicketReturnsItsBlockWithANewTicket) {
  const auto ring = ring_of(2, 2);
  const std::uint32_t ticket = peer_ticket(*ring);
  EXPECT_TRUE(ring->abandon(ticket));
  EXPECT_EQ(ring->slot(0), (Slot{2, block(0)}));
  EXPECT_EQ(ring->consume(ticket, block(0)), Consumed::no_match);
  EXPECT_FALSE(ring->abandon(ticket));
  EXPECT_EQ(allocate(*ring), block(1));
  EXPECT_EQ(allocate(*ring), block(0));
}

TEST(Ring, G_29_AbandonedTicketWithoutABlockIsConsumedWhenItsSlotIsFilled) {
  const auto ring = ring_of(1, 2);
  const std::uint64_t b = allocate(*ring);
  const std::uint32_t ahead = peer_ticket(*ring);
  const auto waiting = ring->allocate([](std::uint64_t) { FAIL() << "given up"; });
  EXPECT_TRUE(ring->abandon(ahead));
  EXPECT_FALSE(ring->abandon(ahead));
  EXPECT_TRUE(ring->abandon(waiting.ticket));  // E-10, P-17: the allocation's deadline passed
  ring->free(b);                               // both are filled and pass it on
  EXPECT_EQ(ring->pending(), 0u);
  EXPECT_EQ(ring->free_blocks(), 1u);
  EXPECT_EQ(allocate(*ring), b);
}

TEST(Ring, AbandonLeavesWhatIsNotIssuedOrServedAlone) {
  const auto ring = ring_of(2, 2);
  EXPECT_FALSE(ring->abandon(0));
  const auto taken = ring->allocate({});
  EXPECT_FALSE(ring->abandon(taken.ticket));
  ring->free(*taken.block_offset);
  EXPECT_FALSE(ring->abandon(taken.ticket));  // the slot holds a later ticket now
  EXPECT_EQ(ring->free_blocks(), 2u);
}

TEST(Ring, LongChainsOfAbandonedTicketsNeedNoDeepStack) {
  const auto ring = ring_of(1, 1);
  const std::uint64_t b = allocate(*ring);
  constexpr int kTickets = 200000;
  for (int i = 0; i < kTickets; ++i) ASSERT_TRUE(ring->abandon(peer_ticket(*ring)));
  ring->free(b);
  EXPECT_EQ(ring->pending(), 0u);
  EXPECT_EQ(allocate(*ring), b);
}

// The counterexample to the literal rule of 3.3, "if the slot is consumed, write" (E-3), with F = N = 2 and
// quotas respected: while the free with ticket 2 is between its FetchAdd and its write, the block of slot 1
// goes round once more and its free, ticket 4, finds slot 0 consumed.
//
// The literal rule lets it in: the slot is lost to ticket 2, and the allocation that holds it waits although
// nothing but that free is in progress.
TEST(RingLiteralRule, E_03_StarvesATakenTicket) {
  Slot slots[2] = {{0, kNoBlock}, {1, kNoBlock}};  // both blocks bound
  const auto literal_free = [&](std::uint32_t ticket, std::uint64_t b) {
    Slot& slot = slots[ticket % 2];
    if (!slot.consumed()) return false;  // deferred
    slot = {ticket, b};
    return true;
  };
  // FREE of block 0 has ticket 2 and pauses; FREE of block 1 has ticket 3.
  EXPECT_TRUE(literal_free(3, block(1)));
  // Allocation with ticket 2 waits; the one with ticket 3 gets block 1 and frees it with ticket 4.
  EXPECT_TRUE(slots[1].ready_for(3));
  slots[1].block_offset = kNoBlock;
  EXPECT_TRUE(literal_free(4, block(1)));
  // Now the paused one goes on and can only be deferred.
  EXPECT_FALSE(literal_free(2, block(0)));
  EXPECT_FALSE(slots[0].ready_for(2));  // nobody holds a block, both are free, and ticket 2 starves
}

TEST(Ring, E_03_TheSameScheduleServesEveryTicket) {
  std::function<void()> between;  // runs between a free's FetchAdd on Tail and its write
  const auto fetch_add = [&](std::uint64_t& word, std::uint64_t add, std::uint64_t mask) {
    const std::uint64_t before = fetch_masked_add(word, add, mask);
    if (auto run = std::exchange(between, nullptr)) run();
    return before;
  };
  auto created = Ring::create(blocks(2), 2, fetch_add);
  ASSERT_TRUE(created);
  Ring& ring = **created;
  const std::uint64_t b0 = allocate(ring);
  const std::uint64_t b1 = allocate(ring);
  std::vector<std::uint64_t> woken;
  between = [&] {
    ring.free(b1);
    const auto waits = ring.allocate([&](std::uint64_t b) { woken.push_back(b); });
    EXPECT_EQ(waits.ticket, 2u);
    EXPECT_FALSE(waits.block_offset);
    EXPECT_EQ(allocate(ring), b1);
    ring.free(b1);
    EXPECT_EQ(ring.deferred(), 1u);
  };
  ring.free(b0);
  EXPECT_THAT(woken, testing::ElementsAre(b0));
  EXPECT_EQ(ring.deferred(), 0u);
  EXPECT_EQ(ring.slot(0), (Slot{4, b1}));
}

}  // namespace
}  // namespace kbtp::memory
