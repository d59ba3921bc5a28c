// DIRECT_ALLOC over the fake fabric: tickets, slots, BIND, quota and credits, and targets that are late,
// refuse, abandon or lie.

#include <set>

#include "proto/initiator/direct_testing.h"

namespace kbtp::initiator {
namespace {

using testing::content;
using testing::kBlocks;
using testing::kBlockSize;
using testing::kHandles;
using testing::kPoolOffset;
using testing::kRingLog2;
using testing::kTableBase;
using testing::ScriptedTarget;
using wire::Bind;
using wire::Status;
using Kind = fake::Observed::Kind;

class DirectAllocTest : public testing::DirectTest {
 protected:
  explicit DirectAllocTest(std::uint64_t seed = 1, const fake::HostOptions& initiator = {})
      : DirectTest(seed, initiator) {}
  [[nodiscard]] std::uint32_t tickets_taken() const { return format.unpack(target.head[0]).ticket; }
  [[nodiscard]] bool run_until(const std::function<bool()>& done) {
    return fabric.run_until(done, std::chrono::seconds(60));
  }

  const wire::CounterFormat format{kRingLog2};
  const std::vector<std::byte> data = content(40, 3);
};

TEST_F(DirectAllocTest, Kbtp_6_6_TicketTwoEqualSlotReadsWriteThenBind) {
  ASSERT_TRUE(connect());
  std::vector<Kind> seen;
  std::set<std::uint64_t> read_from, written_to;
  observer = [&](const fake::Observed& message) {
    if (message.sender == 0) seen.push_back(message.kind);
    if (message.kind == Kind::read_request) read_from.insert(message.buffer.tagged_offset);
    if (message.kind == Kind::write) written_to.insert(message.buffer.tagged_offset);
  };
  const Outcome stored = alloc(kTableBase + 1, data);
  EXPECT_TRUE(stored.ok()) << stored.error;
  EXPECT_EQ(stored.block_offset, kPoolOffset);
  EXPECT_EQ(stored.data_length, 40u);
  // The first Atomic Request adds nothing (G-36).
  const std::vector<Kind> expected{Kind::atomic_request, Kind::atomic_request, Kind::read_request,
                                   Kind::read_request,   Kind::write,          Kind::send};
  EXPECT_EQ(seen, expected);
  EXPECT_EQ(read_from, std::set<std::uint64_t>{0});
  EXPECT_EQ(written_to, std::set<std::uint64_t>{kPoolOffset});
  EXPECT_EQ(tickets_taken(), 1u);
  EXPECT_EQ(target.head[0], format.pack(1));
  EXPECT_TRUE(load(kTableBase + 1).ok());
  EXPECT_TRUE(sink_holds(3, 40));
  seen.clear();
  EXPECT_TRUE(alloc(kTableBase + 2, data, {.seal = false}).ok());
  EXPECT_EQ(seen.front(), Kind::atomic_request);
  EXPECT_EQ(seen[1], Kind::read_request) << "Head is probed once";
  EXPECT_EQ(load(kTableBase + 2).status, Status::not_sealed);
}

TEST_F(DirectAllocTest, TheDataIsInPlaceWhenBindArrives) {
  ASSERT_TRUE(connect());
  bool judged = false;
  target.on_request = [&](const wire::Request& request) {
    if (const auto* bind = std::get_if<Bind>(&request)) {
      judged = true;
      EXPECT_TRUE(std::ranges::equal(data, target.memory_of(bind->block_offset).first(data.size())));
    }
    return false;
  };
  for (std::size_t h = 0; h < kHandles; ++h) EXPECT_TRUE(alloc(kTableBase + h, data).ok());
  EXPECT_TRUE(judged);
}

TEST_F(DirectAllocTest, AnEmptyBlockNeedsNoWrite) {
  ASSERT_TRUE(connect());
  observer = [&](const fake::Observed& message) { EXPECT_NE(message.kind, Kind::write); };
  EXPECT_TRUE(alloc(kTableBase, {}).ok());
  EXPECT_EQ(load(kTableBase).data_length, 0u);
}

// 3.4, G-49: FetchAdd cannot be refused, so that nothing but the initiator keeps the quota.
TEST_F(DirectAllocTest, G49_HeadIsNeverAdvancedPastTheQuota) {
  target.ack.usage = 1;
  target.set_entry(3, {3, 9, 8, target.block(3)});
  ASSERT_TRUE(connect());
  for (int i = 0; i < 12; ++i) session->direct_alloc_store(kTableBase + i % 3, data, {}, note());
  ASSERT_TRUE(wait(12));
  EXPECT_EQ(tickets_taken(), 3u);
  EXPECT_EQ(std::ranges::count_if(outcomes, [](const Outcome& o) { return o.ok(); }), 3);
  for (const Outcome& o : outcomes) {
    EXPECT_TRUE(o.answered);
    EXPECT_TRUE(o.ok() || o.status == Status::no_space);
  }
  EXPECT_TRUE(free(kTableBase).ok());
  EXPECT_TRUE(alloc(kTableBase, data).ok()) << "FREE gives one back";
  EXPECT_EQ(alloc(kTableBase + 1, data).status, Status::no_space);
}

TEST_F(DirectAllocTest, AllocStoresCountForTheQuotaToo) {
  ASSERT_TRUE(connect());
  std::vector<wire::Request> held;
  target.on_request = [&](const wire::Request& request) {
    if (!std::holds_alternative<wire::AllocStore>(request)) return false;
    held.push_back(request);
    return true;
  };
  for (std::size_t h = 0; h < 3; ++h) session->alloc_store_inline(kTableBase + h, data, {}, note());
  ASSERT_TRUE(run_until([&] { return held.size() == 3; }));
  session->direct_alloc_store(kTableBase + 3, data, {}, note());
  ASSERT_TRUE(wait(1));
  EXPECT_TRUE(outcomes[0].ok());
  session->direct_alloc_store(kTableBase + 2, data, {}, note());
  ASSERT_TRUE(wait(2));
  EXPECT_EQ(outcomes[1].status, Status::no_space);
  target.complete(held[0], Status::no_space);
  target.complete(held[1], Status::success);
  target.complete(held[2], Status::success);
  ASSERT_TRUE(wait(5));
  EXPECT_TRUE(alloc(kTableBase, data).ok()) << "the ALLOC_STORE that failed takes no block";
}

TEST_F(DirectAllocTest, WhatMustFailTakesNoTicket) {
  ASSERT_TRUE(connect());
  EXPECT_EQ(alloc(kTableBase + kHandles, data).status, Status::not_owner);
  EXPECT_EQ(alloc(kTableBase - 1, data).status, Status::not_owner);
  EXPECT_EQ(alloc(kTableBase, content(kBlockSize + 1, 1)).status, Status::length_error);
  EXPECT_EQ(tickets_taken(), 0u);
  EXPECT_TRUE(target.requests.empty());
}

// G-30: the ticket of a BIND that was refused stays good. Left alone it would be abandoned, which ends the
// connection by default.
TEST_F(DirectAllocTest, G30_TheTicketOfARefusedBindServesTheNext) {
  ASSERT_TRUE(connect());
  EXPECT_TRUE(alloc(kTableBase, data).ok());
  EXPECT_EQ(alloc(kTableBase, data).status, Status::already_bound);
  EXPECT_EQ(tickets_taken(), 2u);
  EXPECT_TRUE(alloc(kTableBase + 1, content(30, 8)).ok());
  EXPECT_EQ(tickets_taken(), 2u);
  EXPECT_TRUE(load(kTableBase + 1).ok());
  EXPECT_TRUE(sink_holds(8, 30));
  for (std::size_t h = 2; h < 4; ++h) EXPECT_TRUE(alloc(kTableBase + h, data).ok());
  EXPECT_EQ(tickets_taken(), 4u);
}

TEST_F(DirectAllocTest, G30_ButNotPastItsTicketTimeout) {
  ASSERT_TRUE(connect());
  EXPECT_TRUE(alloc(kTableBase, data).ok());
  EXPECT_EQ(alloc(kTableBase, data).status, Status::already_bound);
  fabric.run_for(std::chrono::seconds(1));
  const std::size_t before = target.requests.size();
  EXPECT_EQ(alloc(kTableBase + 1, data).direct, DirectFailure::ticket_timeout);
  EXPECT_EQ(alloc(kTableBase + 2, data).direct, DirectFailure::unavailable);
  EXPECT_EQ(target.requests.size(), before);
  EXPECT_TRUE(session->is_open());
}

TEST_F(DirectAllocTest, ASlotIsReadAgainUntilItIsReady) {
  ASSERT_TRUE(connect());
  const wire::Slot ready = target.slot(0);
  target.set_slot(0, {0, wire::kNoBlock});
  int reads = 0;
  observer = [&](const fake::Observed& message) { reads += message.kind == Kind::read_request; };
  target.stream->loop().call_at(fabric.now() + std::chrono::milliseconds(50),
                                [&] { target.set_slot(0, ready); });
  EXPECT_TRUE(alloc(kTableBase, data).ok());
  EXPECT_GT(reads, 40);
  EXPECT_LT(reads, 80) << "with pauses that grow to a millisecond";
}

// G-33, G-32: neither a slot of another lap nor one that is read torn is taken.
TEST_F(DirectAllocTest, G33_ATornSlotIsNotTaken) {
  ASSERT_TRUE(connect());
  int reads = 0;
  observer = [&](const fake::Observed& message) {
    if (message.kind != Kind::read_request) return;
    const wire::Slot seen[] = {{0, target.block(2) + 5}, {0, target.block(2)}, {4, target.block(0)}};
    if (reads < 3) target.set_slot(0, seen[reads]);
    if (reads == 3) target.set_slot(0, {0, target.block(0)});
    ++reads;
  };
  const Outcome stored = alloc(kTableBase, data);
  EXPECT_TRUE(stored.ok());
  EXPECT_EQ(stored.block_offset, target.block(0));
  EXPECT_EQ(reads, 5);
}

TEST_F(DirectAllocTest, G28_NoBlockWithinTheTicketTimeoutEndsDirectAllocations) {
  ASSERT_TRUE(connect());
  for (std::uint32_t s = 1; s < kBlocks; ++s) target.set_slot(s, {s, wire::kNoBlock});
  const TimePoint start = fabric.now();
  for (std::size_t h = 0; h < 3; ++h) session->direct_alloc_store(kTableBase + h, data, {}, note());
  ASSERT_TRUE(wait(3));
  EXPECT_TRUE(outcomes[0].ok());
  EXPECT_EQ(outcomes[1].direct, DirectFailure::ticket_timeout);
  EXPECT_EQ(outcomes[2].direct, DirectFailure::unavailable) << "its Partition STag is about to go";
  EXPECT_LT(fabric.now() - start, std::chrono::milliseconds(1000));
  EXPECT_GT(fabric.now() - start, std::chrono::milliseconds(800));
  EXPECT_EQ(target.count<Bind>(), 1u);
  EXPECT_TRUE(free(kTableBase).ok()) << "all else goes on";
}

TEST_F(DirectAllocTest, TicketAbandonedEndsDirectAllocations) {
  ASSERT_TRUE(connect());
  target.on_request = [&](const wire::Request& request) {
    if (!std::holds_alternative<Bind>(request)) return false;
    target.complete(request, Status::ticket_abandoned);
    return true;
  };
  EXPECT_EQ(alloc(kTableBase, data).status, Status::ticket_abandoned);
  const Outcome next = alloc(kTableBase + 1, data);
  EXPECT_EQ(next.direct, DirectFailure::unavailable);
  EXPECT_NE(next.error.find("abandoned"), std::string::npos) << next.error;
  EXPECT_EQ(tickets_taken(), 1u);
}

class DirectAllocLie : public DirectAllocTest, public ::testing::WithParamInterface<std::uint64_t> {};

constexpr std::uint64_t kEnd = kPoolOffset + kBlocks * kBlockSize;
INSTANTIATE_TEST_SUITE_P(Offsets, DirectAllocLie,
                         ::testing::Values(0, kPoolOffset - 1, kEnd, kEnd - kBlockSize + 1, kEnd - 1,
                                           ~std::uint64_t{0} - 1));

TEST_P(DirectAllocLie, ABlockOutsideOfThePartitionIsNotWritten) {
  ASSERT_TRUE(connect());
  target.set_slot(0, {0, GetParam()});
  observer = [&](const fake::Observed& message) { EXPECT_NE(message.kind, Kind::write); };
  const Outcome stored = alloc(kTableBase, data);
  EXPECT_EQ(stored.direct, DirectFailure::target_lies) << stored.error;
  EXPECT_EQ(alloc(kTableBase, data).direct, DirectFailure::unavailable);
  EXPECT_TRUE(target.requests.empty());
  EXPECT_TRUE(session->is_open());
}

// KBTP-3.3-06 and the two fields advancing together: no address is made of a counter that cannot be one.
TEST_F(DirectAllocTest, AHeadThatIsNoCounterIsFoundByTheProbe) {
  ASSERT_TRUE(connect());
  target.head[0] = format.pack(5) + 0x1000;
  int reads = 0;
  observer = [&](const fake::Observed& message) { reads += message.kind == Kind::read_request; };
  const Outcome stored = alloc(kTableBase, data);
  EXPECT_FALSE(stored.answered);
  EXPECT_EQ(stored.direct, DirectFailure::unavailable);
  EXPECT_NE(stored.error.find("Head"), std::string::npos) << stored.error;
  EXPECT_EQ(reads, 0);
  EXPECT_EQ(target.head[0], format.pack(5) + 0x1000) << "nothing was added";
}

// Ticket and slot wrap: the ticket past 2^32 - 1 is 0, and both fields go on together (3.3).
TEST_F(DirectAllocTest, TicketsAndSlotsWrap) {
  const std::uint32_t first = 0xFFFF'FFFE;
  target.head[0] = format.pack(first);
  for (std::uint32_t s = 0; s < kBlocks; ++s) target.set_slot((first + s) % 4, {first + s, target.block(s)});
  ASSERT_TRUE(connect());
  for (std::size_t h = 0; h < 4; ++h) EXPECT_TRUE(alloc(kTableBase + h, content(40, h)).ok());
  EXPECT_EQ(target.head[0], format.pack(2));
  for (std::size_t h = 0; h < 4; ++h) {
    EXPECT_TRUE(load(kTableBase + h).ok());
    EXPECT_TRUE(sink_holds(h, 40));
  }
}

// docs/ring-model.md, row no-credit-for-BIND: an ALLOC_STORE that waits for the slot of an older ticket must
// not hold the credit that this ticket's BIND needs.
TEST_F(DirectAllocTest, ATicketHoldsTheCreditOfItsBind) {
  target.ack.max_requests = 1;
  ASSERT_TRUE(connect());
  const wire::Slot ready = target.slot(0);
  target.set_slot(0, {0, wire::kNoBlock});
  std::vector<wire::Request> waiting;
  bool bound = false;
  target.on_request = [&](const wire::Request& request) {
    bound = bound || std::holds_alternative<Bind>(request);
    if (!std::holds_alternative<wire::AllocStore>(request) || bound) return false;
    waiting.push_back(request);  // for a BIND that will never come
    return true;
  };
  session->direct_alloc_store(kTableBase, data, {}, note());
  session->alloc_store_inline(kTableBase + 1, data, {}, note());
  target.stream->loop().call_at(fabric.now() + std::chrono::milliseconds(20),
                                [&] { target.set_slot(0, ready); });
  ASSERT_TRUE(wait(2));
  EXPECT_TRUE(waiting.empty());
  EXPECT_TRUE(outcomes[0].ok());
  EXPECT_TRUE(outcomes[1].ok());
}

TEST_F(DirectAllocTest, DirectAllocationsKeepWithinTheCredits) {
  target.ack.max_requests = 2;
  ASSERT_TRUE(connect());
  std::size_t most = 0;
  observer = [&](const fake::Observed&) { most = std::max<std::size_t>(most, session->stats().outstanding); };
  for (std::size_t h = 0; h < 4; ++h) session->direct_alloc_store(kTableBase + h, data, {}, note());
  EXPECT_EQ(session->stats().queued, 2u);
  ASSERT_TRUE(wait(4));
  for (const Outcome& o : outcomes) EXPECT_TRUE(o.ok());
  EXPECT_LE(most, 2u);
}

TEST_F(DirectAllocTest, ACutConnectionAnswersEveryone) {
  target.ack.max_requests = 2;
  for (const std::uint64_t events : {0, 5, 9, 14, 20, 26, 33, 40}) {
    target = ScriptedTarget();
    session.reset();
    outcomes.clear();
    reason.reset();
    target.ack.max_requests = 2;
    ASSERT_TRUE(connect());
    for (std::size_t h = 0; h < 4; ++h) session->direct_alloc_store(kTableBase + h, data, {}, note());
    for (std::uint64_t i = 0; i < events; ++i) fabric.step();
    fabric.cut(fabric.connection_count() - 1);
    ASSERT_TRUE(wait(4)) << events;
    ASSERT_TRUE(run_until([&] { return reason.has_value(); }));
  }
}

TEST_F(DirectAllocTest, CloseWaitsForAnAllocation) {
  ASSERT_TRUE(connect());
  session->direct_alloc_store(kTableBase, data, {}, note());
  session->close();
  session->direct_alloc_store(kTableBase + 1, data, {}, note());
  ASSERT_TRUE(run_until([&] { return reason.has_value(); }));
  ASSERT_EQ(outcomes.size(), 2u);
  EXPECT_FALSE(outcomes[0].answered) << "it came after close()";
  EXPECT_TRUE(outcomes[1].ok());
  EXPECT_EQ(reason->kind, rdma::CloseReason::Kind::graceful);
}

// Over verbs of siw or cxgb4: no atomics, so DIRECT_ALLOC is not asked for (9.1, G-36).
class DirectWithoutAtomics : public DirectAllocTest {
 protected:
  DirectWithoutAtomics()
      : DirectAllocTest(
            1, {.capabilities = {.invalidate_tx = true, .invalidate_rx = true, .ird = 16, .ord = 16}}) {}
};
TEST_F(DirectWithoutAtomics, DirectAllocIsNotAskedFor) {
  target.ack.granted.direct_alloc = false;
  std::optional<wire::Hello> hello;
  observer = [&](const fake::Observed& message) {
    if (message.sender == 0 && message.kind == Kind::send && !hello)
      hello = *wire::decode_hello(message.payload);
  };
  ASSERT_TRUE(connect());
  ASSERT_TRUE(hello);
  EXPECT_TRUE(hello->wanted.direct_load);
  EXPECT_FALSE(hello->wanted.direct_alloc);
  EXPECT_EQ(alloc(kTableBase, data).direct, DirectFailure::unavailable);
}

// Allocations and frees at random, the target's stores into slots in two steps and late; every block that is
// bound must hold what was written for its handle, and no block may serve two handles.
class DirectAllocAgainst : public DirectAllocTest, public ::testing::WithParamInterface<std::uint64_t> {
 protected:
  DirectAllocAgainst() : DirectAllocTest(GetParam()) {}

  void free_late(const wire::Request& request) {
    const std::size_t index = wire::head(request).handle - kTableBase;
    const wire::TableEntry freed = target.entry(index);
    target.set_entry(index, {0, wire::next_generation(freed.generation), 0, 0});
    const std::uint32_t ticket = target.tail++;
    target.complete(request, Status::success);  // E-6: before the slot is written
    place_late(ticket, freed.block_offset);
  }
  void place_late(std::uint32_t ticket, std::uint64_t block_offset) {
    const std::size_t at = ticket % 4;
    const auto later = [this](const std::function<void()>& task) {
      if (target.stream == nullptr) return;  // the test is over
      target.stream->loop().call_at(fabric.now() + std::chrono::microseconds(fabric.random()() % 200), task);
    };
    later([this, at, ticket, block_offset, later] {
      if (!target.slot(at).free_for(ticket, 4)) return place_late(ticket, block_offset);  // KBTP-3.3-18, E-3
      const wire::Words words = wire::pack(wire::Slot{ticket, block_offset});
      target.ring[2 * at + 1] = words.second;
      later([this, at, words] { target.ring[2 * at] = words.first; });
    });
  }
  void keep_going(std::size_t index) {
    if (operations++ >= 600) return;
    const std::uint64_t handle = kTableBase + index;
    const auto go_on = [this, index](const Outcome& outcome) {
      outcomes.push_back(outcome);
      EXPECT_TRUE(outcome.ok()) << outcome.error << wire::to_string(outcome.status);
      keep_going(index);
    };
    if (!target.entry(index).valid()) {
      sources[index] = content(1 + fabric.random()() % kBlockSize, operations);
      return session->direct_alloc_store(handle, sources[index], {.seal = true}, go_on);
    }
    const wire::TableEntry entry = target.entry(index);
    EXPECT_TRUE(
        std::ranges::equal(sources[index], target.memory_of(entry.block_offset).first(entry.data_length)));
    for (std::size_t other = 0; other < kHandles; ++other) {
      EXPECT_TRUE(other == index || !target.entry(other).valid() ||
                  target.entry(other).block_offset != entry.block_offset);
    }
    session->free(handle, 0, go_on);
  }

  std::size_t operations = 0;
  std::vector<std::vector<std::byte>> sources = std::vector<std::vector<std::byte>>(kHandles);
};
INSTANTIATE_TEST_SUITE_P(Seeds, DirectAllocAgainst, ::testing::Range<std::uint64_t>(1, 31));

TEST_P(DirectAllocAgainst, LateAndTornSlotsNoBlockIsSharedOrWrong) {
  target.head[0] = format.pack(0xFFFF'FFF0);
  target.tail = 0xFFFF'FFF0 + kBlocks;
  for (std::uint32_t s = 0; s < kBlocks; ++s) target.set_slot(s, {0xFFFF'FFF0 + s, target.block(s)});
  ASSERT_TRUE(connect());
  target.on_request = [&](const wire::Request& request) {
    if (!std::holds_alternative<wire::Free>(request)) return false;
    free_late(request);
    return true;
  };
  for (std::size_t index = 0; index < kHandles; ++index) keep_going(index);
  ASSERT_TRUE(wait(600));
  EXPECT_LT(tickets_taken(), 400u) << "tickets have wrapped";
  EXPECT_GT(tickets_taken(), 200u);
}

// What HELLO_ACK says of the direct modes is checked before anything rests on it.
class HelloAckLie : public testing::DirectTest {
 protected:
  void expect_refused(const char* why) {
    EXPECT_FALSE(connect()) << why;
    EXPECT_EQ(error.phase, ConnectPhase::hello);
    EXPECT_FALSE(error.status);
    EXPECT_NE(error.text.find(why), std::string::npos) << error.text;
    EXPECT_EQ(session, nullptr);
  }
};

TEST_F(HelloAckLie, IsAConnectErrorThatSaysWhatCannotBe) {
  using Ack = wire::HelloAck;
  constexpr std::uint64_t kAll = ~std::uint64_t{0};
  const std::pair<std::function<void(Ack&)>, const char*> lies[] = {
      {[](Ack& a) { a.ring_log2 = 0; }, "n is 0 and has to be from 1 to 28"},
      {[](Ack& a) { a.ring_log2 = 29; }, "n is 29"},
      {[](Ack& a) { a.ring_log2 = 255; }, "n is 255"},
      {[](Ack& a) { a.ring_log2 = 1; }, "fewer slots than the quota"},
      {[](Ack& a) { a.quota = 0; }, "the quota is 0"},
      {[](Ack& a) { a.ticket_timeout_ms = 0; }, "the Ticket Timeout is 0"},
      {[](Ack& a) { a.ring_offset = 4; }, "Ring Offset is not aligned"},
      {[](Ack& a) { a.ring_offset = kAll - 55; }, "its ring wraps"},
      {[](Ack& a) { a.head_offset = 12; }, "Head Offset is not aligned"},
      {[](Ack& a) { a.head_offset = kAll - 7; }, "Head wraps"},
      {[](Ack& a) { a.partition_length = kBlocks * kBlockSize - 1; }, "its partition is smaller"},
      {[](Ack& a) { a.partition_offset = kAll - 255; }, "its partition wraps"},
      {[](Ack& a) { a.table_handle_count = 0; }, "has no handle"},
      {[](Ack& a) { a.table_base_handle = kAll - 2; }, "the handles of its block table wrap"},
      {[](Ack& a) { a.table_offset = 2; }, "Table Offset is not aligned"},
      {[](Ack& a) { a.table_offset = kAll - 63; }, "its block table wraps"},
      {[](Ack& a) {
         a.table_base_handle = 0;
         a.table_handle_count = std::uint64_t{1} << 60;
       },
       "its block table wraps"},
      {[](Ack& a) { a.pool_length = kBlockSize - 1; }, "its pool is smaller than a block"},
      {[](Ack& a) { a.pool_offset = kAll - 255; }, "its pool wraps"},
  };
  for (const auto& [spoil, why] : lies) {
    target = testing::ScriptedTarget();
    spoil(target.ack);
    expect_refused(why);
    fabric.run_for(std::chrono::seconds(1));
  }
  target = testing::ScriptedTarget();
  options.wanted = {.direct_alloc = true};
  expect_refused("DIRECT_LOAD and cannot be right: it was not asked for");
  fabric.run_for(std::chrono::seconds(1));
  target = testing::ScriptedTarget();
  target.ack.granted.direct_load = false;
  options.wanted = {.direct_load = true};
  expect_refused("DIRECT_ALLOC and cannot be right: it was not asked for");
}

TEST_F(HelloAckLie, TheLargestRightValuesAreTaken) {
  constexpr std::uint64_t kAll = ~std::uint64_t{0};
  target.ack.ring_offset = kAll - 15 - (std::uint64_t{16} << 28);
  target.ack.ring_log2 = 28;
  target.ack.head_offset = kAll - 15;
  target.ack.table_offset = kAll - 15 - 16 * kHandles;
  target.ack.pool_offset = kAll - kBlocks * kBlockSize;
  target.ack.partition_offset = kAll - kBlocks * kBlockSize;
  ASSERT_TRUE(connect()) << error.text;
  EXPECT_TRUE(session->info().direct.load);
  EXPECT_TRUE(session->info().direct.alloc);
  EXPECT_EQ(session->info().direct.ring_log2, 28u);
  EXPECT_EQ(session->info().direct.ticket_timeout, std::chrono::seconds(1));
}

}  // namespace
}  // namespace kbtp::initiator
