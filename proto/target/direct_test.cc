// Direct modes (6.6) as the target grants them, and as BIND ends them.

#include <gtest/gtest.h>
#include <set>

#include "proto/target/core.h"
#include "proto/target/direct_testing.h"

namespace kbtp::target {
namespace {

using testing::direct_config;
using testing::DirectInitiator;
using testing::kAlice;
using testing::kBob;
using testing::kBothModes;
using testing::pattern;
using testing::RawInitiator;
using testing::small_config;
using testing::World;
using wire::Status;

constexpr std::uint32_t kBlock = 64;

void expect_no_modes(const wire::HelloAck& ack) {
  EXPECT_EQ(ack.granted, wire::Features{});
  // P-16
  EXPECT_EQ(ack.ring_log2, 0u);
  EXPECT_EQ(ack.ticket_timeout_ms, 0u);
  EXPECT_EQ(ack.table_stag | ack.pool_stag | ack.partition_stag | ack.ring_stag | ack.head_stag, 0u);
  EXPECT_EQ(ack.table_offset | ack.ring_offset | ack.head_offset | ack.pool_offset | ack.partition_offset,
            0u);
  EXPECT_EQ(ack.pool_length | ack.partition_length | ack.table_handle_count | ack.table_base_handle, 0u);
}

TEST(DirectGrant, Kbtp_6_6_02_OnlyToWhoIsNamedAndAsks) {
  World world(direct_config());
  {
    DirectInitiator one(world);
    EXPECT_EQ(one.ack.granted, kBothModes);
    EXPECT_EQ(one.ack.quota, 2u);
    EXPECT_EQ(one.ack.ring_log2, 1u);
    EXPECT_EQ(one.ack.ticket_timeout_ms, 400u);
    EXPECT_EQ(one.ack.head_offset % 8, 0u);                   // KBTP-3.3-02
    EXPECT_EQ(one.ack.ring_offset % (16 * one.slots()), 0u);  // E-8
    EXPECT_EQ(one.ack.table_handle_count, 32u);
    EXPECT_EQ(one.ack.pool_length, 8u * kBlock);
    EXPECT_EQ(one.ack.partition_length, 2u * kBlock);  // KBTP-3.4-08
    EXPECT_GE(one.ack.partition_offset, one.ack.pool_offset);
    EXPECT_EQ(world.target->snapshot().direct_sessions, 1u);
  }
  world.settle();
  EXPECT_EQ(world.target->snapshot().direct_sessions, 0u);
  expect_no_modes(DirectInitiator(world, 0, kAlice, {}).ack);
  expect_no_modes(DirectInitiator(world, 0, Uuid{}).ack);
  const auto load = DirectInitiator(world, 0, kAlice, {.direct_load = true}).ack;
  EXPECT_EQ(load.granted, (wire::Features{.direct_load = true}));
  EXPECT_EQ(load.ring_stag | load.head_stag | load.partition_stag, 0u);
  const auto alloc = DirectInitiator(world, 0, kAlice, {.direct_alloc = true}).ack;
  EXPECT_EQ(alloc.granted, (wire::Features{.direct_alloc = true}));
  EXPECT_EQ(alloc.table_stag | alloc.pool_stag, 0u);
  EXPECT_EQ(alloc.pool_length, 0u);
}

TEST(DirectGrant, ByConfigurationEachForItself) {
  auto config = direct_config();
  config.initiators[0].direct_alloc = false;
  config.initiators[1].direct_load = false;
  World world(config);
  EXPECT_EQ(DirectInitiator(world).ack.granted, (wire::Features{.direct_load = true}));
  EXPECT_EQ(DirectInitiator(world, 1, kBob).ack.granted, (wire::Features{.direct_alloc = true}));
}

TEST(DirectGrant, G36_DirectAllocNeedsMaskedAtomics) {
  for (const auto atomics : {rdma::Atomics::none, rdma::Atomics::plain}) {
    fake::HostOptions options;
    options.capabilities.atomics = atomics;
    World world(direct_config(), 1, options);
    DirectInitiator one(world);
    EXPECT_EQ(one.ack.granted, (wire::Features{.direct_load = true}));
    EXPECT_EQ(one.answer(one.bind(0, 0, one.ack.pool_offset, 1)).status, Status::access_denied);
    EXPECT_EQ(one.answer(one.alloc_inline(0, pattern(5, 1))).status, Status::success);
  }
}

TEST(DirectGrant, G35_NothingWithoutReads) {
  auto config = direct_config();
  config.ird = 0;
  World world(config);
  expect_no_modes(DirectInitiator(world).ack);
}

// Rules: RFC5040-8.1.2-03, RFC5042-2.1-02
TEST(DirectGrant, ConfigurationsThatWouldExposeOthersAreRefused) {
  fake::Fabric fabric;
  auto& host = fabric.add_host();
  const auto error_of = [&](const TargetConfig& config) {
    const auto created = Target::create(config, host);
    return created ? std::string() : created.error().text;
  };
  EXPECT_EQ(error_of(direct_config()), "");
  auto config = direct_config();
  config.initiators[1].domain = "red";
  EXPECT_NE(error_of(config).find("one trust domain"), std::string::npos) << error_of(config);
  for (auto& initiator : config.initiators) initiator.direct_load = false;
  EXPECT_NE(error_of(config).find("another trust domain"), std::string::npos) << "E-12";
  config.initiators[0].direct_alloc = false;
  EXPECT_EQ(error_of(config), "") << "DIRECT_ALLOC beside other domains reaches its own partition only";
  config = direct_config();
  for (auto& initiator : config.initiators) initiator.domain = "red";
  EXPECT_NE(error_of(config), "") << "anonymous sessions are of another domain";
  config.anonymous.accept_anonymous = config.anonymous.accept_unknown_identity = false;
  EXPECT_EQ(error_of(config), "");
  config = direct_config(0);
  EXPECT_NE(error_of(config).find("no quota"), std::string::npos);
  config = direct_config();
  config.direct.ticket_timeout = {};
  EXPECT_NE(error_of(config).find("Ticket Timeout"), std::string::npos);
}

/// Each attempt has a session of its own, since the refusal ends it.
class DirectRights : public ::testing::Test {
 protected:
  template <class Attempt>
  std::uint16_t refused(Attempt attempt) {
    DirectInitiator one(world);
    attempt(one);
    EXPECT_TRUE(world.fabric.run_until([&] { return one.closed.has_value(); }));
    EXPECT_EQ(one.closed->kind, rdma::CloseReason::Kind::remote_error);
    return one.closed->terminate.value_or(0);
  }
  World world{direct_config()};
  const std::vector<std::byte> octets = pattern(8, 1);
};

// Rules: RFC5042-6.3.4-01, RFC5042-6.3.5-01
TEST_F(DirectRights, G47_EachStagHasOneRight) {
  using Kind = wire::HelloAck;
  for (const auto stag : {&Kind::table_stag, &Kind::pool_stag, &Kind::ring_stag, &Kind::head_stag}) {
    const auto offset = stag == &Kind::table_stag  ? &Kind::table_offset
                        : stag == &Kind::pool_stag ? &Kind::pool_offset
                        : stag == &Kind::ring_stag ? &Kind::ring_offset
                                                   : &Kind::head_offset;
    // KBTP-3.2-06, KBTP-6.6-03, KBTP-6.6-12: no Write.
    EXPECT_EQ(refused([&](DirectInitiator& one) { one.write(one.ack.*stag, one.ack.*offset, octets); }),
              0x1100);
    if (stag == &Kind::head_stag) continue;
    EXPECT_EQ(refused([&](DirectInitiator& one) {
                (void)one.perform(rdma::FetchAdd{0, {one.ack.*stag, one.ack.*offset}, 1, 0});
              }),
              0x0102);
  }
  // KBTP-3.3-09: counters are never read.
  EXPECT_EQ(refused([](DirectInitiator& one) { (void)one.read(one.ack.head_stag, one.ack.head_offset, 8); }),
            0x0102);
  EXPECT_EQ(refused([](DirectInitiator& one) {
              (void)one.read(one.ack.partition_stag, one.ack.partition_offset, 8);
            }),
            0x0102);
  // A partition ends where the next one's begins.
  EXPECT_EQ(refused([&](DirectInitiator& one) {
              one.write(one.ack.partition_stag, one.ack.partition_offset + one.ack.partition_length, octets);
            }),
            0x1101);
  EXPECT_EQ(refused([&](DirectInitiator& one) {
              one.write(one.ack.partition_stag, one.ack.partition_offset - 8, octets);
            }),
            0x1101);
}

// Rules: RFC5042-6.1.1-01, RFC5042-6.3.2-01
TEST_F(DirectRights, G44_StagsAreTheSessionsOwn) {
  DirectInitiator bob(world, 1, kBob);
  EXPECT_EQ(refused([&](DirectInitiator& one) {
              one.write(bob.ack.partition_stag, bob.ack.partition_offset, octets);
            }),
            0x1102);
  const auto entry = bob.entry(0);
  EXPECT_EQ(entry, wire::TableEntry{});
  EXPECT_EQ(bob.read(bob.ack.pool_stag, bob.ack.partition_offset, 8), std::vector<std::byte>(8));
}

// Rules: RFC5042-6.3.6-01
TEST_F(DirectRights, NoTwoInitiatorsMayWriteToTheSameBlock) {
  const auto alice = DirectInitiator(world).ack;
  const auto bob = DirectInitiator(world, 1, kBob).ack;
  EXPECT_NE(alice.partition_stag, bob.partition_stag);
  EXPECT_TRUE(alice.partition_offset + alice.partition_length <= bob.partition_offset ||
              bob.partition_offset + bob.partition_length <= alice.partition_offset);
}

class Direct : public ::testing::Test {
 protected:
  explicit Direct(const TargetConfig& config = direct_config()) : world(config), one(world) {}
  World world;
  DirectInitiator one;
};

TEST_F(Direct, DirectLoadSeesTableAndPool) {
  RawInitiator other(world, 1);
  other.hello(2, 4);
  const auto data = pattern(41, 3);
  const auto stored = other.answer(other.alloc_inline(16, data, true));
  ASSERT_EQ(stored.status, Status::success);
  const auto entry = one.entry(16);
  EXPECT_EQ(entry, (wire::TableEntry{wire::kEntryValid | wire::kEntrySealed, stored.generation, 41,
                                     stored.block_offset}));
  EXPECT_EQ(one.read(one.ack.pool_stag, entry.block_offset, 41), data);
  EXPECT_EQ(other.answer(other.free(16)).status, Status::success);
  EXPECT_EQ(one.entry(16),
            (wire::TableEntry{0, wire::next_generation(stored.generation), 0, entry.block_offset}));
}

TEST_F(Direct, RingStartsAsInSection_3_3) {
  // F = N = 2: KBTP-3.3-10 to -12.
  std::set<std::uint64_t> blocks;
  for (std::uint64_t s = 0; s < 2; ++s) {
    EXPECT_EQ(one.slot(s).sequence, s);
    blocks.insert(one.slot(s).block_offset);
  }
  EXPECT_EQ(blocks, (std::set{one.ack.partition_offset, one.ack.partition_offset + kBlock}));
  EXPECT_EQ(one.perform(rdma::FetchAdd{0, {one.ack.head_stag, one.ack.head_offset}, 0, 0}).original, 0u);
  EXPECT_EQ(one.must_take(), (wire::Counter{0, 0}));
  EXPECT_EQ(one.must_take(), (wire::Counter{1, 16}));
  EXPECT_EQ(one.must_take(), (wire::Counter{2, 0}));
}

TEST_F(Direct, Kbtp_6_6_BindEndsADirectAllocation) {
  const auto data = pattern(60, 4);
  const auto counter = one.must_take();
  const auto ready = one.slot(0);
  one.write(one.ack.partition_stag, ready.block_offset, data);
  world.settle();
  EXPECT_EQ(world.target->free_blocks(), 8u);
  auto request = one.bind(3, counter.ticket, ready.block_offset, 60);
  const auto c = one.answer(request);
  EXPECT_EQ(c.status, Status::success);
  EXPECT_EQ(c.block_offset, ready.block_offset);
  EXPECT_EQ(c.data_length, 60u);
  EXPECT_EQ(c.generation, 2u);
  EXPECT_EQ(one.slot(0), (wire::Slot{0, wire::kNoBlock}));  // KBTP-3.3-15
  EXPECT_EQ(one.entry(3), (wire::TableEntry{wire::kEntryValid, 2, 60, ready.block_offset}));
  const auto now = world.target->snapshot();
  EXPECT_EQ(now.free_blocks, 7u);
  EXPECT_EQ(now.bound_handles, 1u);
  EXPECT_EQ(now.usage, 1u);
  EXPECT_EQ(now.tickets_outstanding, 0u);
  EXPECT_EQ(now.operations.at(wire::Opcode::bind).by_status.at(Status::success), 1u);

  // G-31: not sealed, so STORE may follow, which a LOAD of anybody shows.
  const auto again = pattern(64, 9);
  EXPECT_EQ(one.answer(one.store_inline(3, again, true)).status, Status::success);
  RawInitiator other(world, 1);
  other.hello(0, 0);
  std::vector<std::byte> memory(kBlock);
  const auto sink = other.expose(memory);
  EXPECT_EQ(other.answer(other.load(3, sink, kBlock)).status, Status::success);
  EXPECT_EQ(memory, again);
}

// E-12: sealed by contract only, so never sent from where it lies; the other blocks still are.
TEST(DirectLoads, BlocksThatAPeerMayWriteAreCopied) {
  auto config = direct_config();
  config.reserve = 2;
  World world(config);
  DirectInitiator one(world);
  RawInitiator other(world, 1);
  other.hello(2, 4);
  std::vector<std::byte> memory(kBlock);
  const auto sink = other.expose(memory);
  ASSERT_EQ(other.answer(other.alloc_inline(16, pattern(64, 1), true)).status, Status::success);
  EXPECT_EQ(other.answer(other.load(16, sink, kBlock)).status, Status::success);
  EXPECT_EQ(world.target->snapshot().copied_loads, 0u);
  ASSERT_EQ(one.store(0, pattern(64, 2)).status, Status::success);
  EXPECT_EQ(other.answer(other.load(0, sink, kBlock)).status, Status::success);
  EXPECT_EQ(memory, pattern(64, 2));
  EXPECT_EQ(world.target->snapshot().copied_loads, 1u);
}

TEST_F(Direct, StoreReadsIntoABlockOfThePartition) {
  ASSERT_EQ(one.store(2, pattern(8, 1), false).status, Status::success);
  auto source = pattern(50, 7);
  const auto region = one.expose(source);
  wire::Store store;
  store.head = one.head(2);
  store.body.source = {region.stag, region.tagged_offset, 50};
  ASSERT_EQ(one.answer(store).status, Status::success);
  EXPECT_EQ(one.read(one.ack.pool_stag, one.entry(2).block_offset, 50), source);
}

TEST_F(Direct, EveryStatusOfBind) {
  const auto refused = [&](const wire::Bind& request, Status status) {
    const auto before = world.target->snapshot();
    const auto c = one.answer(request);
    EXPECT_EQ(c.status, status) << wire::to_string(c.status);
    EXPECT_EQ(c.block_offset, 0u);
    const auto after = world.target->snapshot();
    EXPECT_EQ(after.usage, before.usage);
    EXPECT_EQ(after.free_blocks, before.free_blocks);
    EXPECT_EQ(after.bound_handles, before.bound_handles);
  };
  const auto counter = one.must_take();
  const auto ready = one.slot(0);
  const auto other_block = one.slot(1).block_offset;
  const auto good = [&](std::uint64_t handle) {
    return one.bind(handle, counter.ticket, ready.block_offset, 10);
  };

  refused(good(40), Status::no_such_handle);  // in nobody's range
  refused(good(9), Status::not_owner);        // Bob's (E-9)
  auto wrong = good(3);
  wrong.head.generation = 7;
  refused(wrong, Status::generation_mismatch);
  wrong = good(3);
  wrong.data_length = kBlock + 1;
  refused(wrong, Status::length_error);
  refused(one.bind(3, counter.ticket, other_block, 10), Status::invalid_ticket);
  refused(one.bind(3, counter.ticket, ready.block_offset + 8, 10), Status::invalid_ticket);
  refused(one.bind(3, counter.ticket + 2, ready.block_offset, 10), Status::invalid_ticket);  // same slot
  refused(one.bind(3, 1, other_block, 10), Status::invalid_ticket);  // not issued (G-30)
  refused(one.bind(3, 1u << 31, other_block, 10), Status::invalid_ticket);
  auto flagged = wire::encode(good(3));
  flagged[3] = std::byte{0x01};  // INLINE is no flag of BIND (G-11)
  one.send(flagged);
  EXPECT_EQ(one.completion().status, Status::invalid_request);

  // G-30: the ticket has kept its state through all that.
  const auto bound = one.answer(good(3));
  EXPECT_EQ(bound.status, Status::success);
  refused(good(3), Status::already_bound);
  refused(good(4), Status::invalid_ticket);  // bound once already
  ASSERT_EQ(one.store(5, pattern(64, 2)).status, Status::success);
  one.take();
  refused(one.bind(4, 2, ready.block_offset, 10), Status::no_space);  // P-15: before the ticket

  // A replayed old ticket never matches after the slot was used again (E-9).
  ASSERT_EQ(one.answer(one.free(3)).status, Status::success);
  EXPECT_EQ(one.slot(0), (wire::Slot{2, ready.block_offset}));
  refused(good(4), Status::invalid_ticket);
  EXPECT_EQ(one.answer(one.bind(4, 2, ready.block_offset, 10)).status, Status::success);
  EXPECT_FALSE(one.closed);
}

TEST_F(Direct, Kbtp_3_4_03_TicketsCountAsUsage) {
  one.take();
  EXPECT_EQ(one.answer(one.alloc_inline(0, pattern(4, 1))).status, Status::success);
  EXPECT_EQ(world.target->snapshot().tickets_outstanding, 1u);
  EXPECT_EQ(one.answer(one.alloc_inline(1, pattern(4, 1))).status, Status::no_space);
  // P-15: a ticket past the quota does not keep back the BIND of a good one.
  one.take();
  one.take();
  EXPECT_EQ(one.answer(one.bind(1, 0, one.slot(0).block_offset, 4)).status, Status::success);
  EXPECT_EQ(world.target->snapshot().tickets_outstanding, 2u);
}

TEST_F(Direct, G26_AllocStoreAndFreeUseTheOwnRing) {
  DirectInitiator bob(world, 1, kBob);
  RawInitiator guest(world, 1);
  guest.hello(4, 8);
  std::map<const RawInitiator*, std::set<std::uint64_t>> blocks;
  for (unsigned round = 0; round < 6; ++round) {
    for (const auto& [who, base] :
         {std::pair<RawInitiator*, std::uint64_t>{&one, 0}, {&bob, 8}, {&guest, 16}}) {
      const auto c = who->answer(who->alloc_inline(base + round % 2, pattern(3, round)));
      ASSERT_EQ(c.status, Status::success);
      blocks[who].insert(c.block_offset);
      if (round > 0) {
        ASSERT_EQ(who->answer(who->free(base + (round - 1) % 2)).status, Status::success);
      }
    }
  }
  for (const auto* who : {&one, &bob}) {
    EXPECT_EQ(blocks[who], (std::set{who->ack.partition_offset, who->ack.partition_offset + kBlock}));
  }
  for (const std::uint64_t block : blocks[&guest]) {
    EXPECT_LT(block, one.ack.partition_offset);
  }
  // KBTP-3.4-08: tickets are each initiator's own.
  EXPECT_EQ(one.must_take().ticket, 6u);
  EXPECT_EQ(bob.must_take().ticket, 6u);
}

// KBTP-3.3-18, KBTP-3.3-19, E-3, E-6: quota = F = N = 4. Ticket 0 is held while the others go round until
// frees with tickets N and 2N queue on its slot.
TEST(DirectRing, UnconsumedSlotIsNeverOverwritten) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    World world(direct_config(4), seed);
    DirectInitiator one(world);
    const std::uint64_t n = one.slots();
    ASSERT_EQ(n, 4u);
    const auto held = one.must_take();
    const auto held_slot = one.slot(0);
    const auto cycle = [&](std::uint64_t handle) {  // FREE, then the same handle anew
      ASSERT_EQ(one.answer(one.free(handle)).status, Status::success);
      ASSERT_EQ(one.store(handle, pattern(9, static_cast<unsigned>(handle))).status, Status::success);
    };
    for (std::uint64_t handle = 1; handle < n; ++handle) {
      ASSERT_EQ(one.store(handle, pattern(9, 1)).status, Status::success);
    }
    // Tail stands at N: the next free is for slot 0, and waits. Its FREE does not, nor do those after it.
    const auto first = one.entry(1).block_offset;
    ASSERT_EQ(one.answer(one.free(1)).status, Status::success);
    EXPECT_EQ(one.slot(0), held_slot);
    // Ticket N waits on slot 0 as well; N+1 .. 2N-1 go round with what is freed.
    const auto waits = one.must_take();
    EXPECT_EQ(waits.ticket, n);
    cycle(2);
    cycle(3);
    ASSERT_EQ(one.answer(one.free(2)).status, Status::success);  // Tail ticket N+3
    const auto second = one.entry(3).block_offset;
    ASSERT_EQ(one.answer(one.free(3)).status, Status::success);  // Tail ticket 2N: slot 0 again
    EXPECT_EQ(one.slot(0), held_slot) << "after N frees it must still hold ticket 0's block";
    EXPECT_EQ(world.target->free_blocks(), 8u) << "all are free but for tickets";

    ASSERT_EQ(one.answer(one.bind(7, held.ticket, held_slot.block_offset, 1)).status, Status::success);
    EXPECT_EQ(one.slot(0), (wire::Slot{static_cast<std::uint32_t>(n), first})) << "in the order of tickets";
    ASSERT_EQ(one.answer(one.bind(1, waits.ticket, first, 1)).status, Status::success);
    EXPECT_EQ(one.slot(0), (wire::Slot{static_cast<std::uint32_t>(2 * n), second}));
    EXPECT_NE(first, second);
  }
}

// The whole ring with every small quota, across the wrap of slots and of tickets.
TEST(DirectRing, SlotAndTicketWrap) {
  for (const std::uint32_t quota : {1u, 2u, 3u, 4u, 5u, 8u, 9u, 17u}) {
    auto config = direct_config(quota, 0);
    config.initiators.pop_back();
    config.blocks = quota;  // no block is left for others
    config.handles = 64;
    config.initiators[0].handles = 64;
    const std::uint64_t slots = std::uint64_t{1} << *wire::ring_log2(quota);
    config.direct.first_ticket = static_cast<std::uint32_t>(std::uint64_t{0} - slots - 1);
    World world(config);
    DirectInitiator one(world);
    ASSERT_EQ(one.slots(), slots);
    std::uint32_t ticket = config.direct.first_ticket;
    std::map<std::uint64_t, std::vector<std::byte>> data;
    for (std::uint64_t k = 0; k < 3 * slots + 2 * quota; ++k, ++ticket) {
      const std::uint64_t handle = k % quota;
      if (k >= quota) {
        ASSERT_EQ(one.answer(one.free(handle)).status, Status::success);
      }
      const auto counter = one.must_take();
      ASSERT_EQ(counter, (wire::Counter{ticket, static_cast<std::uint32_t>(16 * (ticket % slots))}));
      const auto ready = one.slot(ticket % slots);
      ASSERT_TRUE(ready.ready_for(ticket)) << "quota " << quota << ", ticket " << ticket;
      data[handle] = pattern(40, static_cast<unsigned>(k));
      one.write(one.ack.partition_stag, ready.block_offset, data[handle]);
      ASSERT_EQ(one.answer(one.bind(handle, ticket, ready.block_offset, 40)).status, Status::success);
    }
    std::set<std::uint64_t> blocks;
    for (const auto& [handle, octets] : data) {
      const auto entry = one.entry(handle);
      blocks.insert(entry.block_offset);
      EXPECT_EQ(one.read(one.ack.pool_stag, entry.block_offset, 40), octets);
    }
    EXPECT_EQ(blocks.size(), quota);
    EXPECT_EQ(world.target->free_blocks(), 0u);
    EXPECT_EQ(world.target->snapshot().tickets_outstanding, 0u);
  }
}

TEST_F(Direct, GenerationWrapsWithoutZero) {
  std::uint16_t generation = 1;
  for (int k = 0; k < 32767; ++k) {
    one.send(wire::encode(one.alloc_inline(0, {})));
    generation = one.completion().generation;
    one.send(wire::encode(one.free(0)));
    ASSERT_EQ(one.completion().status, Status::success);
  }
  ASSERT_EQ(generation, 65534u);
  ASSERT_EQ(one.store(0, pattern(3, 3)).generation, 1u) << "65535 was that of the FREE";
  EXPECT_EQ(one.entry(0).generation, 1u);
  EXPECT_EQ(one.answer(one.free(0)).generation, 2u);
}

}  // namespace
}  // namespace kbtp::target
