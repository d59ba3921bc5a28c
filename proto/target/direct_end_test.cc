// How direct allocations end when they are not bound (3.4): Ticket Timeout, abandonment in both ways,
// sessions that break at any step, and the initiator's return (G-24).

#include <gtest/gtest.h>
#include <set>

#include "proto/target/direct_testing.h"
#include "proto/target/tickets.h"

namespace kbtp::target {
namespace {

using std::chrono::microseconds;
using std::chrono::milliseconds;
using testing::direct_config;
using testing::DirectInitiator;
using testing::kAlice;
using testing::kBob;
using testing::kBothModes;
using testing::pattern;
using testing::RawInitiator;
using testing::World;
using wire::Status;

constexpr std::uint64_t kBlocks = 8;

TargetConfig invalidating_config(std::uint32_t quota) {
  auto config = direct_config(quota);
  config.direct.abandonment = Abandonment::invalidate_partition;
  return config;
}

TEST(Tickets, CountsAcrossTheWrap) {
  Tickets tickets(0xFFFF'FFFEu);
  const TimePoint early{};
  const TimePoint late = early + milliseconds(5);
  EXPECT_EQ(tickets.unseen(0xFFFF'FFFEu), 0u);
  EXPECT_EQ(tickets.unseen(1), 3u);
  EXPECT_FALSE(tickets.oldest());
  tickets.see(0xFFFF'FFFFu, early);
  tickets.see(2, late);
  EXPECT_EQ(tickets.count(), 4u);
  EXPECT_EQ(tickets.oldest(), early);
  tickets.resolve(5);             // not taken yet
  tickets.resolve(0xFFFF'FFF0u);  // long ago
  EXPECT_EQ(tickets.count(), 4u);
  tickets.resolve(0xFFFF'FFFEu);
  tickets.resolve(0);
  tickets.resolve(0);
  EXPECT_EQ(tickets.oldest(), late);
  EXPECT_EQ(tickets.give_up(), (std::vector<std::uint32_t>{0xFFFF'FFFFu, 1}));
  EXPECT_EQ(tickets.count(), 0u);
}

TEST(Abandonment, Kbtp_3_4_09_EndsTheConnectionAndReclaims) {
  World world(direct_config(3));
  std::uint64_t bound_block = 0;
  {
    DirectInitiator one(world);
    bound_block = one.store(0, pattern(20, 1)).block_offset;
    const TimePoint taken = world.fabric.now();
    one.take();
    world.fabric.run_for(taken + milliseconds(399) - world.fabric.now());
    EXPECT_FALSE(one.closed || one.peer_finished) << "G-28: never earlier than the initiator's own clock";
    EXPECT_EQ(world.target->snapshot().tickets_outstanding, 1u);
    ASSERT_TRUE(one.ended());
    // Looks are a quarter of the timeout apart: one to see the ticket, one to find it expired.
    EXPECT_LE(world.fabric.now(), taken + milliseconds(650));
  }
  world.settle();
  auto now = world.target->snapshot();
  EXPECT_EQ(now.tickets_outstanding, 0u);
  EXPECT_EQ(now.tickets_abandoned, 1u);
  EXPECT_EQ(now.free_blocks, kBlocks - 1);

  // G-24: k = 2 of 3 blocks are free.
  DirectInitiator again(world);
  EXPECT_EQ(again.ack.usage, 1u);
  EXPECT_EQ(again.entry(0).block_offset, bound_block);
  std::set<std::uint64_t> blocks{bound_block};
  for (std::uint32_t s = 0; s < 2; ++s) {
    EXPECT_EQ(again.slot(s).sequence, s);
    EXPECT_FALSE(again.slot(s).consumed());
    blocks.insert(again.slot(s).block_offset);
  }
  EXPECT_EQ(blocks.size(), 3u);
  for (std::uint32_t s = 2; s < 4; ++s) EXPECT_EQ(again.slot(s), (wire::Slot{s - 4, wire::kNoBlock}));
  // A FREE of the older binding returns to the new ring, at Tail ticket k.
  EXPECT_EQ(again.answer(again.free(0)).status, Status::success);
  EXPECT_EQ(again.slot(2), (wire::Slot{2, bound_block}));
  EXPECT_EQ(again.must_take().ticket, 0u);
  EXPECT_EQ(again.answer(again.bind(5, 0, again.slot(0).block_offset, 1)).status, Status::success);
}

TEST(Abandonment, ABoundTicketNeverExpires) {
  World world(direct_config(2));
  DirectInitiator one(world);
  const auto counter = one.must_take();
  world.fabric.run_for(milliseconds(390));
  const auto ready = one.slot(counter.slot_offset / 16);
  ASSERT_EQ(one.answer(one.bind(0, counter.ticket, ready.block_offset, 1)).status, Status::success);
  ASSERT_EQ(one.answer(one.alloc_inline(1, pattern(3, 1))).status, Status::success) << "its own ticket";
  world.fabric.run_for(std::chrono::seconds(3));
  EXPECT_FALSE(one.closed || one.peer_finished);
  EXPECT_EQ(world.target->snapshot().tickets_abandoned, 0u);
}

TEST(Abandonment, Kbtp_3_4_11_InvalidatingThePartitionEndsDirectAllocOnly) {
  World world(invalidating_config(3));
  DirectInitiator one(world);
  ASSERT_EQ(one.store(0, pattern(20, 1)).status, Status::success);
  const auto counter = one.must_take();
  const auto ready = one.slot(counter.slot_offset / 16);
  world.fabric.run_for(milliseconds(650));
  ASSERT_FALSE(one.closed || one.peer_finished);
  const auto now = world.target->snapshot();
  EXPECT_EQ(now.tickets_outstanding, 0u);
  EXPECT_EQ(now.tickets_abandoned, 1u);
  EXPECT_EQ(now.free_blocks, kBlocks - 1);

  // KBTP-3.4-13 and P-03: whatever the ticket is; but the checks before step 15 keep their place.
  EXPECT_EQ(one.answer(one.bind(1, counter.ticket, ready.block_offset, 4)).status, Status::ticket_abandoned);
  EXPECT_EQ(one.answer(one.bind(1, 77, ready.block_offset, 4)).status, Status::ticket_abandoned);
  EXPECT_EQ(one.answer(one.bind(0, 77, ready.block_offset, 4)).status, Status::already_bound);
  // The session goes on: DIRECT_LOAD, ALLOC_STORE up to the quota, FREE.
  EXPECT_EQ(one.entry(0).data_length, 20u);
  EXPECT_EQ(one.answer(one.alloc_inline(1, pattern(4, 2))).status, Status::success);
  EXPECT_EQ(one.answer(one.alloc_inline(2, pattern(4, 3))).status, Status::success);
  EXPECT_EQ(one.answer(one.alloc_inline(3, pattern(4, 3))).status, Status::no_space);
  EXPECT_EQ(one.answer(one.bind(3, 77, ready.block_offset, 4)).status, Status::no_space);
  EXPECT_EQ(one.answer(one.free(0)).status, Status::success);
  EXPECT_EQ(one.answer(one.alloc_inline(3, pattern(4, 3))).status, Status::success);
  EXPECT_EQ(world.target->free_blocks(), kBlocks - 3);
}

TEST(Abandonment, RevokedStagsAreNoLongerThere) {
  for (const bool count : {false, true}) {
    World world(invalidating_config(1));
    DirectInitiator one(world);
    one.take();
    world.fabric.run_for(milliseconds(650));
    if (count) {
      EXPECT_FALSE(one.take());
    } else {
      EXPECT_FALSE(one.read(one.ack.ring_stag, one.ack.ring_offset, 16));
    }
    ASSERT_TRUE(world.fabric.run_until([&] { return one.closed.has_value(); }));
    EXPECT_EQ(one.closed->terminate, 0x0100) << "E-10: Head and Ring go with the Partition";
  }
}

// KBTP-3.4-10: the block of an abandoned ticket is used again; a Write that the initiator sends before or
// after it learns that does not reach it.
TEST(Abandonment, AWriteAfterRevocationNeverLands) {
  int stores = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    World world(invalidating_config(1), seed);
    DirectInitiator bob(world, 1, kBob);
    const auto stored = pattern(64, 5);
    const auto rogue = pattern(64, 6);
    DirectInitiator one(world);
    const std::uint64_t block = one.ack.partition_offset;
    one.take();
    world.fabric.run_for(milliseconds(650));
    std::vector<rdma::WorkRequest> requests;
    const auto write = [&] {
      requests.emplace_back(rdma::Write{9, rogue, {one.ack.partition_stag, block}, {}});
    };
    const auto store = [&] {
      requests.emplace_back(rdma::Send{9, wire::encode(one.alloc_inline(0, stored, true)), false, {}});
    };
    if (seed % 2 == 0) {
      store();
      write();
    } else {
      write();
      store();
    }
    one.stream->post(std::move(requests));
    ASSERT_TRUE(world.fabric.run_until([&] { return one.closed.has_value(); }));
    EXPECT_EQ(one.closed->terminate, 0x1100);
    world.settle();
    const bool bound = bob.entry(0).valid();
    EXPECT_EQ(bob.read(bob.ack.pool_stag, block, 64), bound ? stored : std::vector<std::byte>(64));
    stores += bound ? 1 : 0;
    EXPECT_EQ(world.target->free_blocks(), kBlocks - (bound ? 1 : 0));
  }
  EXPECT_GT(stores, 0) << "a Write never came after the block had a new owner";
}

// G-29, G-49: tickets past the quota only wait. Given up, they take nothing from the ring.
TEST(Abandonment, TicketsPastTheQuota) {
  World world(invalidating_config(2));
  DirectInitiator one(world);
  ASSERT_EQ(one.store(0, pattern(20, 1)).status, Status::success);
  for (int i = 0; i < 4; ++i) one.take();
  world.fabric.run_for(milliseconds(650));
  EXPECT_EQ(world.target->snapshot().tickets_abandoned, 4u);
  ASSERT_EQ(one.answer(one.alloc_inline(1, {})).status, Status::success);
  for (std::uint64_t k = 0; k < 12; ++k) {
    ASSERT_EQ(one.answer(one.free(k % 2)).status, Status::success);
    ASSERT_EQ(one.answer(one.alloc_inline(k % 2, {})).status, Status::success);
  }
  EXPECT_EQ(world.target->free_blocks(), kBlocks - 2);
}

TEST(Abandonment, TakingTicketsWithoutEndEndsTheSession) {
  auto config = direct_config(2);
  config.direct.ticket_timeout = std::chrono::seconds(60);
  World world(config);
  {
    DirectInitiator one(world);
    for (int i = 0; i < 60; ++i) one.take();
    world.fabric.run_for(std::chrono::seconds(3));
    EXPECT_FALSE(one.closed || one.peer_finished) << "G-49: they wait, at nobody's cost";
    EXPECT_EQ(world.target->snapshot().tickets_outstanding, 60u);
    for (int i = 0; i < 20; ++i) one.take();
    EXPECT_TRUE(one.ended());
  }
  world.settle();
  EXPECT_EQ(world.target->snapshot().tickets_abandoned, 80u);
  EXPECT_EQ(world.target->snapshot().tickets_outstanding, 0u);
  EXPECT_EQ(world.target->free_blocks(), kBlocks);
}

// P-17, G-26: an ALLOC_STORE whose slot an older, unbound ticket holds up.
TEST(Abandonment, AllocStoreBehindAnUnboundTicket) {
  for (const bool starve : {false, true}) {
    auto config = direct_config(2);
    config.deadlines.allocation = milliseconds(100);
    World world(config);
    DirectInitiator one(world);
    const auto held = one.must_take();
    const auto ready = one.slot(0);
    ASSERT_EQ(one.store(1, pattern(4, 4)).status, Status::success);
    ASSERT_EQ(one.answer(one.free(1)).status, Status::success);
    const auto waiting = one.alloc_inline(2, pattern(4, 5));
    one.send(wire::encode(waiting));
    if (starve) {
      EXPECT_EQ(one.completion().status, Status::no_space);
    }
    world.fabric.run_for(milliseconds(10));
    const auto bind = one.bind(0, held.ticket, ready.block_offset, 4);
    one.send(wire::encode(bind));
    EXPECT_EQ(one.completion().status, Status::success);
    if (!starve) {
      EXPECT_EQ(one.completion().status, Status::success);
    }
    EXPECT_EQ(world.target->free_blocks(), kBlocks - (starve ? 1 : 2));
    if (starve) {
      EXPECT_EQ(one.answer(one.alloc_inline(2, {})).status, Status::success);
    }
  }
}

TEST(Reattach, ASessionWithoutTheModeFindsAUsableRing) {
  World world(direct_config(2));
  {
    DirectInitiator one(world);
    one.take();
    one.take();
  }
  world.settle();
  {
    DirectInitiator plain(world, 0, kAlice, {});
    EXPECT_EQ(plain.answer(plain.alloc_inline(0, pattern(3, 1))).status, Status::success);
    EXPECT_EQ(plain.answer(plain.alloc_inline(1, pattern(3, 1))).status, Status::success);
    EXPECT_EQ(plain.answer(plain.bind(2, 0, 0, 0)).status, Status::access_denied);
  }
  world.settle();
  DirectInitiator one(world);
  EXPECT_EQ(one.ack.usage, 2u);
  EXPECT_TRUE(one.slot(0).consumed() && one.slot(1).consumed());
  EXPECT_EQ(one.must_take().ticket, 0u);
}

TEST(Reattach, G51_TheOldSessionsStagsEndFirst) {
  World world(direct_config(2));
  DirectInitiator old(world);
  const auto counter = old.must_take();
  const auto ready = old.slot(0);
  DirectInitiator now(world);
  ASSERT_TRUE(old.closed);
  EXPECT_EQ(now.ack.granted, kBothModes);
  EXPECT_EQ(now.answer(now.bind(0, counter.ticket, ready.block_offset, 1)).status, Status::invalid_ticket);
  EXPECT_EQ(now.must_take().ticket, 0u);
}

// Three kinds of sessions, of which one is cut, stalled or drained at each step of what it does.
enum class Breaks : std::uint8_t {
  cut,
  drained,
  stalled,
  stalled_invalidating,
};

class Broken : public ::testing::TestWithParam<Breaks> {
 protected:
  struct Script {
    World& world;
    DirectInitiator& one;
    /// False when the session has ended.
    bool ask(const wire::Request& request) {
      if (one.stream == nullptr || one.peer_finished) return false;
      one.send(wire::encode(request));
      return !one.next().empty();
    }
    bool store(std::uint64_t handle) {
      const auto counter = one.stream == nullptr ? std::nullopt : one.take();
      if (!counter) return false;
      const auto octets = one.read(one.ack.ring_stag, one.ack.ring_offset + counter->slot_offset, 16);
      if (!octets) return false;
      const auto slot = wire::decode_slot(std::span<const std::byte, 16>(*octets));
      if (!slot.ready_for(counter->ticket)) return false;  // abandoned meanwhile
      one.write(one.ack.partition_stag, slot.block_offset, data);
      return ask(one.bind(handle, counter->ticket, slot.block_offset, 30));
    }
    std::vector<std::byte> data = pattern(30, 1);
  };

  static bool run(Script script) {
    auto& one = script.one;
    auto source = pattern(60, 3);
    const auto region = one.expose(source);
    return script.store(0) && script.store(1) && script.ask(one.free(0)) &&
           script.ask(one.alloc_read(2, region, 60)) && script.store(3) && script.ask(one.free(2)) &&
           script.ask(one.alloc_inline(4, script.data)) && script.ask(one.free(1)) && script.store(5);
  }
};

TEST_P(Broken, NoBlockIsLostAndQuotasBalance) {
  bool finished = false;
  for (int step = 0; !finished; ++step) {
    ASSERT_LT(step, 2000);
    auto config = direct_config(3, 2);
    const bool draining = GetParam() == Breaks::drained;
    if (GetParam() == Breaks::stalled_invalidating)
      config.direct.abandonment = Abandonment::invalidate_partition;
    config.deadlines.drain = milliseconds(200);
    config.deadlines.send = milliseconds(300);
    World world(config, static_cast<std::uint64_t>(step) + 1);
    RawInitiator guest(world, 1);
    guest.hello(3, 4);
    ASSERT_EQ(guest.answer(guest.alloc_inline(16, pattern(9, 9))).status, Status::success);
    bool drained = false;
    {
      DirectInitiator one(world);
      const auto connection = world.fabric.connection_count() - 1;
      rdma::Loop& loop = world.hosts[0]->loop(0);
      loop.call_at(loop.now() + microseconds(10 * step), [&, connection] {
        switch (GetParam()) {
          case Breaks::cut:
            return world.fabric.cut(connection);
          case Breaks::drained:
            return world.target->drain([&] { drained = true; });
          case Breaks::stalled:
            return world.fabric.stall(connection, 0, true);
          case Breaks::stalled_invalidating:  // and goes on after the Ticket Timeout
            loop.call_at(loop.now() + milliseconds(700),
                         [&, connection] { world.fabric.stall(connection, 0, false); });
            return world.fabric.stall(connection, 0, true);
        }
      });
      finished = run({world, one});
      // The guest works on beside it.
      if (!draining) {
        ASSERT_EQ(guest.answer(guest.alloc_inline(17, pattern(9, 8))).status, Status::success);
      }
      if (one.stream != nullptr) one.stream->abort("killed");
    }
    if (draining) {
      ASSERT_TRUE(world.fabric.run_until([&] { return drained; }));
    }
    ASSERT_TRUE(world.fabric.run_until(
        [&] { return world.target->snapshot().sessions_open == (draining ? 0u : 1u); }));
    const auto now = world.target->snapshot();
    ASSERT_EQ(now.free_blocks + now.bound_handles, kBlocks) << "step " << step;
    ASSERT_EQ(now.usage, now.bound_handles) << "step " << step;
    ASSERT_EQ(now.tickets_outstanding, 0u);
    if (draining) continue;

    // The partition is whole: what is bound and what the new ring gives out is all of it, once.
    DirectInitiator again(world);
    std::set<std::uint64_t> blocks;
    std::uint32_t bound = 0;
    for (std::uint64_t handle = 0; handle < 8; ++handle) {
      const auto entry = again.entry(handle);
      if (entry.valid()) blocks.insert(entry.block_offset), ++bound;
    }
    ASSERT_EQ(again.ack.usage, bound);
    std::uint64_t handle = 0;
    for (std::uint32_t left = bound; left < 3; ++left, ++handle) {
      while (again.entry(handle).valid()) ++handle;
      const auto c = again.store(handle, pattern(12, left));
      ASSERT_EQ(c.status, Status::success);
      blocks.insert(c.block_offset);
    }
    ASSERT_EQ(blocks.size(), 3u) << "step " << step;
    ASSERT_EQ(*blocks.begin(), again.ack.partition_offset);
  }
}

std::string name_of(const ::testing::TestParamInfo<Breaks>& param) {
  switch (param.param) {
    case Breaks::cut:
      return "EachStepCut";
    case Breaks::drained:
      return "EachStepDrained";
    case Breaks::stalled:
      return "EachStepStalled";
    case Breaks::stalled_invalidating:
      return "EachStepStalledInvalidating";
  }
  return "";
}

INSTANTIATE_TEST_SUITE_P(At, Broken,
                         ::testing::Values(Breaks::cut, Breaks::drained, Breaks::stalled,
                                           Breaks::stalled_invalidating),
                         name_of);

}  // namespace
}  // namespace kbtp::target
