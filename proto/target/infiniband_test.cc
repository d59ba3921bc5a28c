// The target where the provider can do what 9.2 asks for: completion records and unmasked counters.

#include <algorithm>
#include <gtest/gtest.h>

#include "proto/target/direct_testing.h"

namespace kbtp::target {
namespace {

using fake::Observed;
using testing::direct_config;
using testing::DirectInitiator;
using testing::kAlice;
using testing::pattern;
using testing::RawInitiator;
using testing::small_config;
using testing::World;
using wire::Status;

constexpr wire::Features kAll{
    .record_completion = true, .direct_load = true, .direct_alloc = true, .atomic_unmasked = true};

World infiniband_world(TargetConfig config, std::uint64_t seed = 1,
                       const fake::HostOptions& target = fake::infiniband_host()) {
  return World(std::move(config), seed, target, fake::infiniband_host(), fake::Rules::infiniband);
}

TEST(RecordGrant, Kbtp_6_5_05_OnlyWhereWritesAreVisibleInOrderAndComeWithImmediate) {
  const auto granted = [](bool immediate, bool ordered, bool wanted) {
    fake::HostOptions host = fake::infiniband_host();
    host.capabilities.write_immediate = immediate;
    host.capabilities.ordered_write_visibility = ordered;
    World world = infiniband_world(small_config(), 1, host);
    RawInitiator one(world);
    wire::Hello hello;
    hello.request_id = 1;
    hello.quota = 1;
    hello.handle_count = 1;
    hello.wanted.record_completion = wanted;
    return one.hello(hello).granted.record_completion;
  };
  EXPECT_TRUE(granted(true, true, true));
  EXPECT_FALSE(granted(false, true, true));
  EXPECT_FALSE(granted(true, false, true));
  EXPECT_FALSE(granted(true, true, false));
}

class Records : public ::testing::Test {
 protected:
  Records() {
    world.fabric.observe([this](const Observed& seen) {
      if (seen.sender == 1) sent.push_back(seen);
    });
    EXPECT_EQ(one.ack.granted, kAll);
    sink = one.expose(memory);
    slots = one.expose(slot_memory, rdma::Access::remote_write);
    sent.clear();
  }
  [[nodiscard]] wire::CompletionDescriptor slot(std::size_t number) const {
    return {slots.stag, slots.tagged_offset + number * wire::kCompletionRecordSize};
  }
  /// Sends and waits for one receive to be used up.
  void ask(const wire::Request& request) {
    const std::size_t before = one.messages.size();
    one.send(wire::encode(request));
    ASSERT_TRUE(world.fabric.run_until([&] { return one.messages.size() > before; }));
    one.taken = one.messages.size();
  }
  [[nodiscard]] wire::CompletionRecord record(std::size_t number) const {
    return *wire::decode_completion_record(
        Octets(slot_memory).subspan(number * wire::kCompletionRecordSize).first(wire::kCompletionRecordSize));
  }
  [[nodiscard]] std::vector<Observed::Kind> kinds() const {
    std::vector<Observed::Kind> all;
    for (const Observed& seen : sent) all.push_back(seen.kind);
    return all;
  }

  World world = infiniband_world(direct_config());
  DirectInitiator one{world, 0, kAlice, kAll};
  std::vector<Observed> sent;  // by the target
  std::vector<std::byte> memory = std::vector<std::byte>(256, std::byte{0xEE});
  std::vector<std::byte> slot_memory =
      std::vector<std::byte>(4 * wire::kCompletionRecordSize, std::byte{0xEE});
  rdma::Region sink, slots;
};

TEST_F(Records, Kbtp_9_2_03_ByOneRdmaWriteWithImmediateBehindTheData) {
  one.answer(one.alloc_inline(0, pattern(40, 1), true));
  sent.clear();
  auto load = one.load(0, sink, 64);
  load.record = slot(1);
  ask(load);
  ASSERT_EQ(kinds(), (std::vector{Observed::Kind::write, Observed::Kind::write_immediate}));
  EXPECT_EQ(sent[1].length, 24u);
  EXPECT_EQ(sent[1].buffer.stag, slots.stag);
  EXPECT_EQ(sent[1].buffer.tagged_offset, slots.tagged_offset + 24);
  // G-42
  ASSERT_EQ(one.immediates.size(), 1u);
  EXPECT_EQ(one.immediates[0], load.head.request_id & 0xFFFF'FFFFu);
  EXPECT_NE(one.immediates[0], load.head.request_id);
  const auto got = record(1);  // KBTP-6.5-04
  EXPECT_EQ(got.request_id, load.head.request_id);
  EXPECT_EQ(got.status, Status::success);
  EXPECT_EQ(got.generation, 2u);
  EXPECT_EQ(got.data_length, 40u);
  EXPECT_NE(got.block_offset, 0u);
  EXPECT_TRUE(std::ranges::equal(Octets(memory).first(40), pattern(40, 1)));
  EXPECT_EQ(memory[40], std::byte{0xEE});
  EXPECT_EQ(slot_memory[23], std::byte{0xEE});
  EXPECT_EQ(slot_memory[48], std::byte{0xEE}) << "24 octets and no more";
}

TEST_F(Records, EveryRequestThatCanAsk) {
  auto alloc = one.alloc_inline(0, pattern(8, 1));
  alloc.body.record = slot(0);
  ask(alloc);
  EXPECT_EQ(record(0).request_id, alloc.head.request_id);
  auto store = one.store_inline(0, pattern(9, 2));
  store.body.record = slot(1);
  ask(store);
  EXPECT_EQ(record(1).data_length, 9u);
  auto free = one.free(0);
  free.record = slot(2);
  ask(free);
  EXPECT_EQ(record(2).status, Status::success);
  EXPECT_EQ(record(2).generation, 3u);
  EXPECT_EQ(record(2).block_offset, 0u);
  const auto ticket = one.must_take();
  const auto ready = one.slot(ticket.slot_offset / wire::kSlotSize);
  auto bind = one.bind(1, ticket.ticket, ready.block_offset, 5);
  bind.record = slot(3);
  ask(bind);
  EXPECT_EQ(record(3).block_offset, ready.block_offset);
  EXPECT_EQ(kinds()[0], Observed::Kind::write_immediate);
  EXPECT_EQ(one.immediates.size(), 4u);
}

TEST_F(Records, RefusalsOfWellFormedRequestsToo) {
  auto free = one.free(3);
  free.record = slot(0);
  ask(free);
  EXPECT_EQ(record(0).status, Status::not_bound);
  free = one.free(9999);
  free.record = slot(1);
  ask(free);
  EXPECT_EQ(record(1).status, Status::no_such_handle);
  EXPECT_EQ(record(1).generation, 0u);
}

TEST_F(Records, E11_RecordWithInvalidateIsRefusedByAMessage) {
  one.answer(one.alloc_inline(0, pattern(8, 1), true));
  auto load = one.load(0, sink, 64);
  load.record = slot(0);
  load.invalidate = true;
  EXPECT_EQ(one.answer(load).status, Status::invalid_request);
  EXPECT_TRUE(one.immediates.empty());
  EXPECT_EQ(slot_memory[0], std::byte{0xEE});
}

TEST_F(Records, WithoutTheFlagItIsAMessage) {
  EXPECT_EQ(one.answer(one.alloc_inline(0, pattern(8, 1), true)).status, Status::success);
  EXPECT_EQ(kinds(), std::vector{Observed::Kind::send});
}

TEST(RecordNotGranted, G13_TheFlagChangesNothing) {
  World world = infiniband_world(direct_config());
  DirectInitiator one(world, 0, kAlice, {});
  std::vector<std::byte> memory(64, std::byte{0xEE});
  const auto region = one.expose(memory);
  auto alloc = one.alloc_inline(0, pattern(8, 1), true);
  alloc.body.record = wire::CompletionDescriptor{region.stag, region.tagged_offset};
  EXPECT_EQ(one.answer(alloc).status, Status::success);
  EXPECT_TRUE(one.immediates.empty());
  EXPECT_EQ(memory, std::vector(64, std::byte{0xEE}));
}

TEST(RecordToNowhere, G37_EndsTheConnection) {
  World world = infiniband_world(direct_config());
  DirectInitiator one(world, 0, kAlice, kAll);
  auto free = one.free(0);
  free.record = wire::CompletionDescriptor{0x1234, 0};
  one.send(wire::encode(free));
  EXPECT_TRUE(one.ended());
}

TEST(UnmaskedGrant, Kbtp_9_2_02_OnlyToWhoAsksForIt) {
  World world = infiniband_world(direct_config());
  const auto ack = [&](const wire::Features& wanted) {
    return DirectInitiator(world, 0, kAlice, wanted).ack;
  };
  const auto both = ack(kAll);
  EXPECT_TRUE(both.granted.direct_alloc);
  EXPECT_TRUE(both.granted.atomic_unmasked);
  const auto masked = ack({.direct_alloc = true});
  EXPECT_EQ(masked.granted, wire::Features{}) << "it would take the counters for those of 3.3";
  EXPECT_EQ(masked.head_stag, 0u);
  EXPECT_EQ(ack({.direct_load = true, .atomic_unmasked = true}).granted,
            (wire::Features{.direct_load = true}));
}

TEST(UnmaskedGrant, NotWhereCountersAreMasked) {
  World world(direct_config());
  const auto ack = DirectInitiator(world, 0, kAlice, kAll).ack;
  EXPECT_TRUE(ack.granted.direct_alloc);
  EXPECT_FALSE(ack.granted.atomic_unmasked);
  EXPECT_FALSE(ack.granted.record_completion);
}

class UnmaskedRing : public ::testing::TestWithParam<std::uint32_t> {};

// Many laps of the ring, from 0 and over the wrap of the ticket: the counter holds the ticket and nothing
// else.
TEST_P(UnmaskedRing, Kbtp_9_2_02_LapsByDirectAllocationAndFree) {
  auto config = direct_config(3, 2);
  config.direct.first_ticket = GetParam();
  World world = infiniband_world(config);
  DirectInitiator one(world, 0, kAlice, kAll);
  ASSERT_EQ(one.slots(), 4u);
  for (std::uint32_t i = 0; i < 14; ++i) {
    const auto done =
        one.perform(rdma::FetchAdd{0, {one.ack.head_stag, one.ack.head_offset}, 0x1'0000'0000, 0});
    ASSERT_EQ(done.status, rdma::WorkStatus::success);
    const std::uint32_t ticket = GetParam() + 2 * i;
    ASSERT_EQ(done.original, std::uint64_t{ticket} << 32);
    const auto ready = one.slot(ticket % 4);
    ASSERT_TRUE(ready.ready_for(ticket));
    const auto data = pattern(20, i);
    one.write(one.ack.partition_stag, ready.block_offset, data);
    auto bind = one.bind(0, ticket, ready.block_offset, 20);
    bind.seal = true;
    ASSERT_EQ(one.answer(bind).status, Status::success);
    // The target's own allocation advances the same Head (G-26).
    ASSERT_EQ(one.answer(one.alloc_inline(1, data)).status, Status::success);
    ASSERT_EQ(one.answer(one.free(1)).status, Status::success);
    ASSERT_EQ(one.answer(one.free(0)).status, Status::success);
  }
  world.settle();
  EXPECT_EQ(world.target->snapshot().tickets_outstanding, 0u);
}

INSTANTIATE_TEST_SUITE_P(FromTicket, UnmaskedRing, ::testing::Values(0u, 0x7FFF'FFF0u, 0xFFFF'FFF0u));

}  // namespace
}  // namespace kbtp::target
