// The initiator where its provider can do what 9.2 asks for: completion records, and rings whose counters
// hold nothing but the ticket. The target is scripted.

#include <algorithm>
#include <gtest/gtest.h>
#include <set>

#include "proto/initiator/direct_testing.h"

namespace kbtp::initiator {
namespace {

using testing::content;
using testing::DirectTest;
using testing::kBlockSize;
using testing::kTableBase;
using wire::Status;

class InfiniBand : public DirectTest {
 protected:
  InfiniBand() : DirectTest(1, fake::infiniband_host(), fake::Rules::infiniband) {
    options.wanted = {.record_completion = true, .direct_load = true, .direct_alloc = true};
    target.ack.granted = {
        .record_completion = true, .direct_load = true, .direct_alloc = true, .atomic_unmasked = true};
  }
  static const std::optional<wire::CompletionDescriptor>& slot_of(const wire::Request& request) {
    return wire::record_of(request);
  }
  void write_record(const wire::CompletionDescriptor& slot, const wire::CompletionRecord& record,
                    std::uint64_t immediate) {
    const auto octets =
        std::make_shared<std::array<std::byte, wire::kCompletionRecordSize>>(wire::encode(record));
    std::vector<rdma::WorkRequest> list;
    list.emplace_back(
        rdma::WriteImmediate{{0, *octets, {slot.stag, slot.tagged_offset}, octets}, immediate, false});
    target.stream->post(std::move(list));
  }
  /// Answers each request by a record whose immediate is `immediate` of its Request ID.
  void answer_by_records(const std::function<std::uint64_t(std::uint64_t)>& immediate) {
    target.on_request = [this, immediate](const wire::Request& request) {
      const std::uint64_t id = wire::head(request).request_id;
      slots.insert(slot_of(request)->tagged_offset);
      write_record(*slot_of(request),
                   {.request_id = id, .generation = 7, .data_length = 3, .block_offset = 0xAB00},
                   immediate(id));
      return true;
    };
  }
  std::set<std::uint64_t> slots;
};

TEST_F(InfiniBand, RecordsEndOperationsAndSlotsServeAgain) {
  answer_by_records([](std::uint64_t id) { return id & 0xFFFF'FFFFu; });
  ASSERT_TRUE(connect());
  EXPECT_TRUE(session->info().features.record_completion);
  for (int i = 0; i < 40; ++i)
    session->load(kTableBase, {{1, 0}, sink}, {}, note());  // ten times the credits
  ASSERT_TRUE(wait(40));
  for (const Outcome& outcome : outcomes) {
    EXPECT_TRUE(outcome.ok());
    EXPECT_EQ(outcome.generation, 7u);
    EXPECT_EQ(outcome.data_length, 3u);
    EXPECT_EQ(outcome.block_offset, 0xAB00u);
  }
  EXPECT_LE(slots.size(), 4u) << "one for each credit";
  for (const std::uint64_t slot : slots) EXPECT_EQ(slot % 8, *slots.begin() % 8);
}

TEST_F(InfiniBand, SlotsAreNotTheTargetsToCount) {
  target.ack.max_requests = 0xFFFF'FFFF;
  ASSERT_TRUE(connect());
  EXPECT_EQ(session->info().max_requests, 4096u);
}

TEST_F(InfiniBand, G42_TheRecordDecidesAndNotTheImmediate) {
  answer_by_records([](std::uint64_t id) { return (id >> 32) & 0xFFFF'FFFFu; });
  ASSERT_TRUE(connect());
  for (int i = 0; i < 10; ++i) session->load(kTableBase, {{1, 0}, sink}, {}, note());
  ASSERT_TRUE(wait(10));
  EXPECT_TRUE(std::ranges::all_of(outcomes, [](const Outcome& o) { return o.ok(); }));
}

TEST_F(InfiniBand, AnImmediateWithoutARecordEndsTheSession) {
  target.on_request = [this](const wire::Request& request) {
    const std::uint64_t id = wire::head(request).request_id;
    write_record(*slot_of(request), {.request_id = id ^ (std::uint64_t{1} << 63)}, id & 0xFFFF'FFFFu);
    return true;
  };
  ASSERT_TRUE(connect());
  session->probe(kTableBase, note());
  ASSERT_TRUE(wait(1));
  EXPECT_FALSE(outcomes[0].answered);
  EXPECT_NE(outcomes[0].error.find("no completion record"), std::string::npos) << outcomes[0].error;
}

TEST_F(InfiniBand, AMessageEndsARequestThatAskedForARecordToo) {
  target.on_request = [](const wire::Request&) { return false; };  // by COMPLETION
  ASSERT_TRUE(connect());
  for (int i = 0; i < 10; ++i) session->probe(kTableBase, note());
  ASSERT_TRUE(wait(10)) << "and gives its slot back";
  EXPECT_TRUE(std::ranges::all_of(outcomes, [](const Outcome& o) { return o.ok(); }));
}

TEST_F(InfiniBand, E11_NoRecordIsAskedForWithInvalidate) {
  ASSERT_TRUE(connect());
  const auto buffer = session->register_buffer(sink, BufferUse::load, true);
  ASSERT_TRUE(buffer);
  session->load(kTableBase, buffer->all(), {.invalidate = true}, note());
  session->load(kTableBase, {}, {}, note());
  ASSERT_TRUE(wait(2));
  EXPECT_FALSE(slot_of(target.requests.at(0)));
  EXPECT_TRUE(slot_of(target.requests.at(1)));
}

TEST_F(InfiniBand, ARecordThatWasNotGrantedEndsTheSession) {
  target.ack.granted.record_completion = false;
  target.on_request = [this](const wire::Request& request) {
    EXPECT_FALSE(slot_of(request));
    std::vector<rdma::WorkRequest> list;
    list.emplace_back(rdma::WriteImmediate{{0, {}, {0, 0}, nullptr}, 1, false});
    target.stream->post(std::move(list));
    return true;
  };
  ASSERT_TRUE(connect());
  session->probe(kTableBase, note());
  ASSERT_TRUE(wait(1));
  EXPECT_FALSE(outcomes[0].answered);
}

// 9.2: Head holds ticket << 32; four laps of the ring of four slots.
TEST_F(InfiniBand, Kbtp_9_2_02_TheSlotIsComputedFromTheTicket) {
  constexpr std::uint32_t first = 2;
  target.head[0] = std::uint64_t{first} << 32;
  for (std::uint32_t t = first; t < first + 4; ++t)
    target.set_slot(t % 4, {t, testing::ScriptedTarget::block(t % 4)});
  target.tail = first + 4;
  options.wanted.record_completion = false;
  target.ack.granted.record_completion = false;
  ASSERT_TRUE(connect());
  EXPECT_EQ(session->info().direct.counters, wire::CounterFormat::Kind::unmasked);
  for (std::uint64_t i = 0; i < 16; ++i) {
    const auto stored = alloc(kTableBase + i % 4, content(kBlockSize, i));
    ASSERT_TRUE(stored.ok()) << stored.error;
    ASSERT_TRUE(std::ranges::equal(target.memory_of(stored.block_offset), content(kBlockSize, i)));
    ASSERT_TRUE(free(kTableBase + i % 4).ok());
  }
  EXPECT_EQ(target.head[0], std::uint64_t{first + 16} << 32);
}

TEST_F(InfiniBand, Kbtp_9_2_02_ALowHalfThatIsNotZeroIsALie) {
  target.head[0] = 0x10;
  target.ack.granted.record_completion = options.wanted.record_completion = false;
  ASSERT_TRUE(connect());
  const auto outcome = alloc(kTableBase, content(8, 1));
  EXPECT_FALSE(outcome.answered);
  EXPECT_EQ(target.head[0], 0x10u) << "found before a ticket was taken (G-36)";
}

TEST_F(InfiniBand, CountersThatNeedAMaskAreLeftAlone) {
  target.ack.granted.atomic_unmasked = false;
  target.ack.granted.record_completion = options.wanted.record_completion = false;
  ASSERT_TRUE(connect());
  const auto outcome = alloc(kTableBase, content(8, 1));
  EXPECT_EQ(outcome.direct, DirectFailure::unavailable);
  EXPECT_NE(outcome.error.find("masked"), std::string::npos) << outcome.error;
  EXPECT_EQ(target.head[0], 0u);
}

class Asked : public DirectTest, public ::testing::WithParamInterface<bool> {
 protected:
  Asked()
      : DirectTest(1, GetParam() ? fake::infiniband_host() : fake::HostOptions{},
                   GetParam() ? fake::Rules::infiniband : fake::Rules::rdmap) {}
};

TEST_P(Asked, ForWhatItsOwnProviderCanDo) {
  options.wanted = {.record_completion = true, .direct_load = true, .direct_alloc = true};
  std::optional<wire::Features> wanted;
  observer = [&](const fake::Observed& seen) {
    if (seen.kind == fake::Observed::Kind::send && seen.sender == 0 && !wanted)
      wanted = wire::decode_hello(seen.payload)->wanted;
  };
  target.ack.granted = {};
  ASSERT_TRUE(connect());
  EXPECT_EQ(wanted, (wire::Features{.record_completion = GetParam(),
                                    .direct_load = true,
                                    .direct_alloc = true,
                                    .atomic_unmasked = GetParam()}));
}

INSTANTIATE_TEST_SUITE_P(InfiniBand, Asked, ::testing::Bool());

TEST_F(InfiniBand, WhatWasNotAskedForIsRefused) {
  options.wanted = {.direct_load = true};
  ASSERT_FALSE(connect());
  EXPECT_NE(error.text.find("RECORD_COMPLETION"), std::string::npos) << error.text;
}

}  // namespace
}  // namespace kbtp::initiator
