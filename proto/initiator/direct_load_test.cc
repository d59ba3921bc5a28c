// DIRECT_LOAD over the fake fabric: a target that frees and binds between the Reads, entries that are torn,
// and a HELLO_ACK or table that lies.

#include "proto/initiator/direct_testing.h"

namespace kbtp::initiator {
namespace {

using testing::content;
using testing::kBlockSize;
using testing::kHandles;
using testing::kPoolOffset;
using testing::kTableBase;
using wire::Status;
using Kind = fake::Observed::Kind;

class DirectLoadTest : public testing::DirectTest {};

TEST_F(DirectLoadTest, BringsTheBlockByReadsAloneAndNoMessage) {
  ASSERT_TRUE(connect());
  target.store(2, 1, 50, 7);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> reads;
  observer = [&](const fake::Observed& seen) {
    EXPECT_NE(seen.kind, Kind::send);
    if (seen.kind == Kind::read_request) reads.emplace_back(seen.buffer.tagged_offset, seen.length);
  };
  const Outcome loaded = load(kTableBase + 2);
  EXPECT_TRUE(loaded.ok()) << loaded.error;
  EXPECT_EQ(loaded.data_length, 50u);
  EXPECT_EQ(loaded.generation, 2);
  EXPECT_EQ(loaded.block_offset, target.block(1));
  EXPECT_TRUE(sink_holds(7, 50));
  EXPECT_EQ(sink[50], std::byte{0xEE});
  const std::vector<std::pair<std::uint64_t, std::uint64_t>> expected{
      {32, 16}, {32, 16}, {target.block(1), 50}, {32, 16}};
  EXPECT_EQ(reads, expected);
}

// Rule 20 of RFC 5040 5.5: a Read may be fetched before one that was posted earlier, so never two at once.
TEST_F(DirectLoadTest, Kbtp_6_6_04_ReadsOfOneLoadAreSerialized) {
  ASSERT_TRUE(connect());
  target.store(0, 0, 64, 1);
  int under_way = 0, most = 0;
  observer = [&](const fake::Observed& seen) {
    if (seen.kind == Kind::read_request) most = std::max(most, ++under_way);
    if (seen.kind == Kind::read_response) --under_way;
  };
  EXPECT_TRUE(load(kTableBase).ok());
  EXPECT_EQ(most, 1);
}

TEST_F(DirectLoadTest, ManyLoadsAreUnderWayUpToOrd) {
  options.ord = 3;
  ASSERT_TRUE(connect());
  for (std::size_t h = 0; h < kHandles; ++h) target.store(h, h, 60, h);
  int under_way = 0, most = 0;
  std::size_t reads_before_the_first = 0;
  observer = [&](const fake::Observed& seen) {
    if (seen.kind == Kind::read_request) {
      most = std::max(most, ++under_way);
      if (outcomes.empty()) ++reads_before_the_first;
    }
    if (seen.kind == Kind::read_response) --under_way;
  };
  std::vector<std::vector<std::byte>> sinks(40, std::vector<std::byte>(kBlockSize));
  for (std::size_t i = 0; i < sinks.size(); ++i)
    session->direct_load(kTableBase + i % kHandles, sinks[i], {}, note());
  ASSERT_TRUE(wait(sinks.size()));
  EXPECT_EQ(most, 3);
  EXPECT_LE(reads_before_the_first, 12u) << "who has begun goes first";
  for (std::size_t i = 0; i < sinks.size(); ++i) {
    EXPECT_TRUE(outcomes[i].ok());
    EXPECT_TRUE(std::ranges::equal(content(60, i % kHandles), std::span(sinks[i]).first(60)));
  }
}

TEST_F(DirectLoadTest, WhatTheEntrySaysIsTheStatus) {
  ASSERT_TRUE(connect());
  target.store(1, 1, 20, 3, wire::kEntryValid);
  target.store(2, 2, 64, 4);
  EXPECT_EQ(load(kTableBase).status, Status::not_bound);
  EXPECT_EQ(load(kTableBase + 1).status, Status::not_sealed);
  EXPECT_EQ(load(kTableBase + 1).generation, 2);
  EXPECT_EQ(load(kTableBase + 2, {.generation = 9}).status, Status::generation_mismatch);
  EXPECT_TRUE(load(kTableBase + 2, {.generation = 2}).ok());
  EXPECT_EQ(load(kTableBase + kHandles).status, Status::no_such_handle);
  EXPECT_EQ(load(kTableBase - 1).status, Status::no_such_handle);
  sink.resize(63);
  const Outcome small = load(kTableBase + 2);
  EXPECT_EQ(small.status, Status::length_error);
  EXPECT_EQ(small.data_length, 64u);
  EXPECT_TRUE(small.answered);
}

TEST_F(DirectLoadTest, AnEmptyBlockNeedsNoReadOfIt) {
  ASSERT_TRUE(connect());
  target.store(0, 0, 0, 1);
  int reads = 0;
  observer = [&](const fake::Observed& seen) { reads += seen.kind == Kind::read_request; };
  const Outcome loaded = load(kTableBase);
  EXPECT_TRUE(loaded.ok());
  EXPECT_EQ(loaded.data_length, 0u);
  EXPECT_EQ(reads, 3);
}

// Whatever an entry names, nothing outside of the pool is read: that would end the session, or worse.
TEST_F(DirectLoadTest, AnEntryThatNamesWhatLiesOutsideIsALie) {
  ASSERT_TRUE(connect());
  constexpr std::uint16_t kFlags = wire::kEntryValid | wire::kEntrySealed;
  const std::uint64_t end = kPoolOffset + testing::kBlocks * kBlockSize;
  const wire::TableEntry lies[] = {{kFlags, 5, 8, 0},
                                   {kFlags, 5, 8, kPoolOffset - 1},
                                   {kFlags, 5, 8, end},
                                   {kFlags, 5, 1, end - kBlockSize + 1},
                                   {kFlags, 5, 8, ~std::uint64_t{0}},
                                   {kFlags, 5, 65, kPoolOffset},
                                   {kFlags, 5, 0xFFFF'FFFF, kPoolOffset},
                                   {kFlags, 0, 8, kPoolOffset}};
  for (const wire::TableEntry& entry : lies) {
    target.set_entry(0, entry);
    observer = [&](const fake::Observed& seen) {
      EXPECT_TRUE(seen.kind != Kind::read_request || seen.buffer.stag == target.ack.table_stag);
    };
    const Outcome loaded = load(kTableBase);
    EXPECT_FALSE(loaded.answered);
    EXPECT_FALSE(loaded.ok());
    EXPECT_EQ(loaded.direct, DirectFailure::target_lies) << loaded.error;
  }
  EXPECT_TRUE(session->is_open());
}

TEST_F(DirectLoadTest, ALieThatIsGoneWhenReadAgainWasATornRead) {
  ASSERT_TRUE(connect());
  target.store(0, 0, 64, 5);
  const wire::TableEntry right = target.entry(0);
  wire::TableEntry torn = right;
  torn.block_offset = 1;
  target.set_entry(0, torn);
  int reads = 0;
  observer = [&](const fake::Observed& seen) {
    if (seen.kind == Kind::read_request && ++reads == 2) target.set_entry(0, right);
  };
  EXPECT_TRUE(load(kTableBase).ok());
  EXPECT_TRUE(sink_holds(5, 64));
}

// E-2: the Generation and the flags of the first Read are new, Data Length or Block Offset are old. The
// draft's rule, which looks at the Generation alone, takes the wrong octets.
TEST_F(DirectLoadTest, E2_ATornFirstReadIsNoSuccess) {
  ASSERT_TRUE(connect());
  target.store(0, 0, 32, 1);
  const wire::TableEntry before = target.entry(0);
  target.store(0, 2, 64, 2);
  const wire::TableEntry after = target.entry(0);
  for (const bool old_length : {false, true}) {
    wire::TableEntry torn = after;
    if (old_length) {
      torn.data_length = before.data_length;
    } else {
      torn.block_offset = before.block_offset;
    }
    target.set_entry(0, torn);
    int reads = 0;
    observer = [&](const fake::Observed& seen) {
      if (seen.kind == Kind::read_request && ++reads == 2) target.set_entry(0, after);
    };
    const Outcome loaded = load(kTableBase);
    EXPECT_TRUE(loaded.ok());
    EXPECT_EQ(loaded.data_length, 64u);
    EXPECT_EQ(loaded.block_offset, target.block(2));
    EXPECT_TRUE(sink_holds(2, 64));
    EXPECT_EQ(reads, 5);
  }
}

// Torn twice, at both ends of the time in which handle 0 has block 2: it had block 1 before, and will again.
// The two Reads agree, octet for octet, on a block that the handle did not have between them.
TEST_F(DirectLoadTest, E2_TwoTornReadsThatAgreeAreNoSuccess) {
  ASSERT_TRUE(connect());
  target.store(0, 1, 64, 1);
  target.store(0, 2, 64, 2);
  const wire::TableEntry right = target.entry(0);
  wire::TableEntry torn = right;
  torn.block_offset = target.block(1);
  target.set_entry(0, torn);
  int reads = 0;
  observer = [&](const fake::Observed& seen) {
    if (seen.kind == Kind::read_request) target.set_entry(0, ++reads % 2 == 1 ? torn : right);
  };
  const Outcome loaded = load(kTableBase, {.give_up_after = std::chrono::milliseconds(5)});
  EXPECT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.direct, DirectFailure::changed);
}

TEST_F(DirectLoadTest, ABlockFreedUnderTheLoadIsNoSuccess) {
  for (const int before : {2, 3, 4}) {
    if (session == nullptr) {
      ASSERT_TRUE(connect());
    }
    target.store(0, 0, 64, 1);
    int reads = 0;
    observer = [&](const fake::Observed& seen) {
      if (seen.kind != Kind::read_request || ++reads != before) return;  // 2: entry, 3: block, 4: entry
      target.set_entry(0, {0, wire::next_generation(target.entry(0).generation), 0, target.block(0)});
      target.store(1, 0, 64, 99);
    };
    const Outcome loaded = load(kTableBase);
    EXPECT_EQ(loaded.status, Status::not_bound) << before;
  }
}

// G-34: after 65,535 cycles the entry is the same octet for octet, and only the time that this takes tells.
TEST_F(DirectLoadTest, G34_AnAttemptThatTookTooLongProvesNothing) {
  ASSERT_TRUE(connect());
  target.store(0, 0, 64, 1);
  const wire::TableEntry entry = target.entry(0);
  int reads = 0;
  observer = [&](const fake::Observed& seen) {
    if (seen.kind != Kind::read_request || ++reads != 4) return;
    fabric.stall(0, 1, true);  // the block has been read; its handle goes once through all Generations
    std::ranges::copy(content(64, 2), target.memory_of(entry.block_offset).begin());
    target.stream->loop().call_at(fabric.now() + std::chrono::milliseconds(1100),
                                  [this] { fabric.stall(0, 1, false); });
  };
  const Outcome loaded = load(kTableBase);
  EXPECT_TRUE(loaded.ok()) << loaded.error;
  EXPECT_TRUE(sink_holds(2, 64));
  EXPECT_EQ(reads, 8) << "the late entry is too old to begin an attempt, too";
  reads = 0;
  target.store(0, 0, 64, 1);
  EXPECT_TRUE(load(kTableBase, {.attempt_bound = std::chrono::seconds(2)}).ok());
  EXPECT_TRUE(sink_holds(1, 64)) << "an attempt within its bound is what G-34 allows";
}

TEST_F(DirectLoadTest, RetriesHaveABoundInTime) {
  ASSERT_TRUE(connect());
  target.store(0, 0, 64, 1);
  observer = [&](const fake::Observed& seen) {
    if (seen.kind == Kind::read_request && seen.length != wire::kTableEntrySize)
      target.set_entry(0, {3, wire::next_generation(target.entry(0).generation), 64, target.block(0)});
  };
  const TimePoint start = fabric.now();
  const Outcome loaded = load(kTableBase, {.give_up_after = std::chrono::milliseconds(20)});
  EXPECT_EQ(loaded.direct, DirectFailure::changed);
  EXPECT_FALSE(loaded.ok());
  EXPECT_GE(fabric.now() - start, std::chrono::milliseconds(20));
  EXPECT_LT(fabric.now() - start, std::chrono::milliseconds(30));
}

TEST_F(DirectLoadTest, ATargetThatStopsAnsweringEndsTheSession) {
  ASSERT_TRUE(connect());
  target.store(0, 0, 64, 1);
  fabric.stall(0, 1, true);
  session->direct_load(kTableBase, sink, {}, note());
  ASSERT_TRUE(wait(1));
  EXPECT_FALSE(outcomes[0].answered);
  EXPECT_NE(outcomes[0].error.find("in time"), std::string::npos) << outcomes[0].error;
  EXPECT_TRUE(fabric.run_until([&] { return reason.has_value(); }));
}

TEST_F(DirectLoadTest, ACutConnectionAnswersWhatIsUnderWayAndWhatWaits) {
  options.ord = 2;
  ASSERT_TRUE(connect());
  target.store(0, 0, 64, 1);
  std::vector<std::vector<std::byte>> sinks(5, std::vector<std::byte>(kBlockSize));
  for (auto& one : sinks) session->direct_load(kTableBase, one, {}, note());
  fabric.cut(0);
  ASSERT_TRUE(wait(5));
  for (const Outcome& o : outcomes) EXPECT_FALSE(o.answered);
}

TEST_F(DirectLoadTest, CloseWaitsForALoad) {
  ASSERT_TRUE(connect());
  target.store(0, 0, 64, 1);
  session->direct_load(kTableBase, sink, {}, note());
  session->close();
  EXPECT_TRUE(fabric.run_until([&] { return reason.has_value(); }));
  ASSERT_EQ(outcomes.size(), 1u);
  EXPECT_TRUE(outcomes[0].ok());
  EXPECT_EQ(reason->kind, rdma::CloseReason::Kind::graceful);
}

TEST_F(DirectLoadTest, WhatIsNotGrantedIsRefusedHere) {
  target.ack.granted = {};
  ASSERT_TRUE(connect());
  EXPECT_FALSE(session->info().direct.load);
  EXPECT_EQ(load(kTableBase).direct, DirectFailure::unavailable);
  session->close();
  EXPECT_TRUE(fabric.run_until([&] { return reason.has_value(); }));
  EXPECT_FALSE(load(kTableBase).answered);
}

// Frees, bindings and stores go on all the time, in single steps, while loads run; each load that succeeds
// must have brought one store whole. Generations start just below their wrap.
class DirectLoadAgainst : public testing::DirectTest, public ::testing::WithParamInterface<std::uint64_t> {
 protected:
  DirectLoadAgainst() : DirectTest(GetParam()) {}

  struct Stored {
    std::uint64_t seed = 0;
    std::uint32_t length = 0;
  };

  // One step of what a target does to handle `index`, as far apart in time as memory order allows.
  void step(std::size_t index) {
    const auto set_words = [&](bool first, const wire::TableEntry& entry) {
      const wire::Words words = wire::pack(entry);
      target.table[2 * index + (first ? 0 : 1)] = first ? words.first : words.second;
    };
    wire::TableEntry& entry = entries[index];
    switch (phase[index]++) {
      case 0:  // FREE: one store
        entry.flags = 0;
        entry.data_length = 0;
        entry.generation = wire::next_generation(entry.generation);
        set_words(true, entry);
        return;
      case 1:  // the data, into a block that the other handle may just have left
        do {
          entry.block_offset = target.block(fabric.random()() % testing::kBlocks);
        } while (entry.block_offset == entries[index == 0 ? kHandles - 1 : 0].block_offset);
        entry.data_length = static_cast<std::uint32_t>(1 + fabric.random()() % kBlockSize);
        std::ranges::copy(content(entry.data_length, ++seed), target.memory_of(entry.block_offset).begin());
        return;
      case 2:
        set_words(false, entry);
        return;
      case 3:
        entry.flags = wire::kEntryValid | wire::kEntrySealed;
        entry.generation = wire::next_generation(entry.generation);
        stored[{index, entry.generation}] = {seed, entry.data_length};
        set_words(true, entry);
        return;
      default:
        if (fabric.random()() % 4 == 0) phase[index] = 0;  // stays bound for a while
    }
  }
  void keep_stepping() {
    if (outcomes.size() >= kLoads) return;
    // One handle at a time is between its free and its store, so that no two share a block.
    step(turn);
    if (phase[turn] > 4) turn = fabric.random()() % 2 == 0 ? 0 : kHandles - 1;
    target.stream->loop().call_at(fabric.now() + std::chrono::microseconds(1 + fabric.random()() % 15),
                                  [this] { keep_stepping(); });
  }
  void keep_loading(std::size_t lane) {
    if (started++ >= kLoads) return;
    const std::size_t index = lane % 2 == 0 ? 0 : kHandles - 1;
    session->direct_load(kTableBase + index, sinks[lane], {}, [this, lane, index](const Outcome& outcome) {
      outcomes.push_back(outcome);
      judge(lane, index, outcome);
      keep_loading(lane);
    });
  }
  void judge(std::size_t lane, std::size_t index, const Outcome& outcome) {
    if (!outcome.answered) {
      EXPECT_EQ(outcome.direct, DirectFailure::changed) << outcome.error;
      return;
    }
    if (outcome.status == Status::not_bound) return;
    ASSERT_EQ(outcome.status, Status::success);
    ++successes;
    const auto found = stored.find({index, outcome.generation});
    ASSERT_NE(found, stored.end());
    ASSERT_EQ(outcome.data_length, found->second.length);
    ASSERT_TRUE(std::ranges::equal(content(outcome.data_length, found->second.seed),
                                   std::span(sinks[lane]).first(outcome.data_length)))
        << "octets of another store, or a mix";
  }

  static constexpr std::size_t kLoads = 2000;
  std::vector<wire::TableEntry> entries =
      std::vector<wire::TableEntry>(kHandles, wire::TableEntry{.generation = 0xFFF0});
  std::vector<int> phase = std::vector<int>(kHandles);
  std::size_t turn = 0;
  std::uint64_t seed = 0;
  std::map<std::pair<std::size_t, std::uint16_t>, Stored> stored;
  std::vector<std::vector<std::byte>> sinks =
      std::vector<std::vector<std::byte>>(6, std::vector<std::byte>(kBlockSize));
  std::size_t started = 0;
  std::size_t successes = 0;
};

INSTANTIATE_TEST_SUITE_P(Seeds, DirectLoadAgainst, ::testing::Range<std::uint64_t>(1, 31));

TEST_P(DirectLoadAgainst, ATargetThatFreesAndBindsNoTornOrStaleReadIsASuccess) {
  ASSERT_TRUE(connect());
  keep_stepping();
  for (std::size_t lane = 0; lane < sinks.size(); ++lane) keep_loading(lane);
  ASSERT_TRUE(wait(kLoads));
  EXPECT_GT(successes, kLoads / 100);
  EXPECT_LT(entries[0].generation, 0xFFF0) << "the Generation has wrapped";
}

}  // namespace
}  // namespace kbtp::initiator
