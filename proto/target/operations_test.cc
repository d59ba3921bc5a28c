// Sections 6.1 to 6.5: what the operations do, and what goes over the wire for it.

#include <algorithm>
#include <gtest/gtest.h>
#include <set>

#include "proto/target/core.h"
#include "proto/target/handlers.h"
#include "proto/target/testing.h"

namespace kbtp::target {
namespace {

using fake::Observed;
using testing::kAlice;
using testing::pattern;
using testing::RawInitiator;
using testing::small_config;
using testing::World;
using wire::Status;

class Operations : public ::testing::Test {
 protected:
  Operations() {
    one.hello(6, 8);
    sink = one.expose(memory);
    world.fabric.observe([this](const Observed& what) { wire.push_back(what); });
  }
  [[nodiscard]] std::size_t seen(Observed::Kind kind, fake::Side sender) const {
    return static_cast<std::size_t>(std::count_if(
        wire.begin(), wire.end(), [&](const Observed& o) { return o.kind == kind && o.sender == sender; }));
  }
  [[nodiscard]] Octets loaded(std::size_t length) const { return Octets(memory).first(length); }
  static bool equal(Octets a, Octets b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

  std::vector<std::byte> memory = std::vector<std::byte>(256, std::byte{0xEE});
  std::vector<Observed> wire;
  World world{small_config()};
  RawInitiator one{world};
  rdma::Region sink;
};

TEST_F(Operations, Kbtp_6_1_03_ExactlyDataLengthOctetsAreWritten) {
  const auto data = pattern(41, 5);
  const auto stored = one.answer(one.alloc_inline(3, data, true));
  const auto c = one.answer(one.load(3, sink, 256));
  EXPECT_EQ(c.status, Status::success);
  EXPECT_EQ(c.data_length, 41u);
  EXPECT_EQ(c.generation, stored.generation);
  EXPECT_EQ(c.block_offset, stored.block_offset);
  EXPECT_NE(c.block_offset, 0u);
  EXPECT_EQ(c.handle, 3u);
  EXPECT_TRUE(equal(loaded(41), data));
  EXPECT_EQ(memory[41], std::byte{0xEE}) << "guard octet";
}

TEST_F(Operations, Kbtp_6_1_06_WritePrecedesItsCompletion) {
  one.answer(one.alloc_inline(0, pattern(20, 1), true));
  wire.clear();
  one.answer(one.load(0, sink, 64));
  std::vector<Observed::Kind> kinds;
  for (const auto& o : wire) {
    if (o.sender == 1) kinds.push_back(o.kind);
  }
  EXPECT_EQ(kinds, (std::vector{Observed::Kind::write, Observed::Kind::send}));
}

TEST_F(Operations, G46_LoadOfNothingWritesNothing) {
  EXPECT_EQ(one.answer(one.alloc_inline(0, {}, true)).status, Status::success);
  const auto c = one.answer(one.load(0, sink, 64));
  EXPECT_EQ(c.status, Status::success);
  EXPECT_EQ(c.data_length, 0u);
  EXPECT_EQ(seen(Observed::Kind::write, 1), 0u);
}

TEST_F(Operations, Kbtp_6_2_01_RefusedStoreIssuesNoRead) {
  auto source = pattern(64, 1);
  const auto region = one.expose(source);
  wire::Store store;
  store.head = one.head(5);
  store.body.source = {region.stag, region.tagged_offset, 64};
  EXPECT_EQ(one.answer(store).status, Status::not_bound);
  EXPECT_EQ(seen(Observed::Kind::read_request, 1), 0u);
}

TEST_F(Operations, Kbtp_6_2_StoreReplacesLengthAndKeepsBlockAndGeneration) {
  const auto bound = one.answer(one.alloc_inline(0, pattern(60, 1)));
  auto source = pattern(64, 2);
  const auto region = one.expose(source);
  wire::Store store;
  store.head = one.head(0, bound.generation);
  store.body.source = {region.stag, region.tagged_offset, 33};
  store.body.seal = true;
  const auto stored = one.answer(store);
  EXPECT_EQ(stored.status, Status::success);
  EXPECT_EQ(stored.data_length, 33u);
  EXPECT_EQ(stored.block_offset, bound.block_offset);
  EXPECT_EQ(stored.generation, bound.generation);
  EXPECT_EQ(one.answer(one.load(0, sink, 256)).data_length, 33u);
  EXPECT_TRUE(equal(loaded(33), Octets(source).first(33)));
  EXPECT_EQ(one.answer(one.store_inline(0, source)).status, Status::sealed) << "5.1-09";
}

TEST_F(Operations, Kbtp_6_3_05_GenerationGoesUpWithEveryBindAndFree) {
  std::uint16_t last = one.answer(one.probe(0)).generation;
  EXPECT_EQ(last, 1);
  for (int i = 0; i < 3; ++i) {
    const auto bound = one.answer(one.alloc_inline(0, pattern(8, 1)));
    EXPECT_EQ(bound.generation, last + 1);
    const auto freed = one.answer(one.free(0));
    EXPECT_EQ(freed.generation, last + 2) << "6.4-02";
    EXPECT_EQ(freed.data_length, 0u) << "G-17";
    EXPECT_EQ(freed.block_offset, 0u);
    last = freed.generation;
  }
}

TEST_F(Operations, Kbtp_3_2_05_GenerationNeverBecomesZero) {
  const auto data = pattern(1, 1);
  std::uint16_t last = 1;
  for (int i = 0; i < 32768; ++i) {
    const auto bound = one.answer(one.alloc_inline(0, data));
    const auto freed = one.answer(one.free(0));
    ASSERT_NE(bound.generation, 0);
    ASSERT_NE(freed.generation, 0);
    last = freed.generation;
  }
  EXPECT_EQ(last, 2) << "65536 steps over 65535 values";
}

// Rules: RFC5042-6.3.3-01
TEST_F(Operations, Kbtp_5_1_11_InvalidateNamesTheDescriptorsStag) {
  one.answer(one.alloc_inline(0, pattern(8, 1), true));
  std::vector<std::byte> once(64);
  const auto region = one.expose(once, rdma::Access::remote_write, true);
  auto load = one.load(0, region, 64);
  load.invalidate = true;
  EXPECT_EQ(one.answer(load).status, Status::success);
  EXPECT_EQ(one.invalidated.back(), region.stag);
  EXPECT_EQ(one.answer(one.load(0, sink, 64)).status, Status::success);
  EXPECT_EQ(one.invalidated.back(), std::nullopt) << "never unless asked for";
}

TEST_F(Operations, G12_InvalidateOnWellFormedErrorsToo) {
  std::vector<std::byte> once(64);
  const auto region = one.expose(once, rdma::Access::remote_write, true);
  auto load = one.load(5, region, 64);
  load.invalidate = true;
  EXPECT_EQ(one.answer(load).status, Status::not_bound);
  EXPECT_EQ(one.invalidated.back(), region.stag);
}

TEST_F(Operations, G13_RecordEndsWithAPlainCompletion) {
  one.answer(one.alloc_inline(0, pattern(8, 1), true));
  auto load = one.load(0, sink, 64);
  load.record = wire::CompletionDescriptor{sink.stag, sink.tagged_offset + 128};
  EXPECT_EQ(one.answer(load).status, Status::success);
  EXPECT_EQ(memory[128], std::byte{0xEE});
}

TEST_F(Operations, G37_WrongSourceEndsTheConnectionAndRollsBack) {
  auto source = pattern(64, 1);
  auto region = one.expose(source);
  region.stag ^= 1;
  one.send(wire::encode(one.alloc_read(0, region, 64)));
  EXPECT_TRUE(one.ended());
  world.settle();
  EXPECT_EQ(world.target->free_blocks(), 8u);
  EXPECT_EQ(world.target->snapshot().usage, 0u);
}

TEST_F(Operations, G06_MoreThanTheCreditsEndsTheConnectionOrIsCopedWith) {
  for (int i = 0; i < 40; ++i) one.send(wire::encode(one.probe(0)));
  world.settle();
  EXPECT_TRUE(one.closed || one.messages.size() == 41);
  RawInitiator fresh(world);
  EXPECT_EQ(fresh.hello(1, 1).status, Status::success) << "others are served";
}

TEST_F(Operations, G22_OperationsOnOneHandleKeepTheirOrder) {
  auto first = pattern(64, 1), second = pattern(64, 2);
  const auto a = one.expose(first), b = one.expose(second);
  auto store = [&](const rdma::Region& region, std::uint32_t length) {
    wire::Store s;
    s.head = one.head(0);
    s.body.source = {region.stag, region.tagged_offset, length};
    return s;
  };
  one.send(wire::encode(one.alloc_read(0, a, 64)));
  one.send(wire::encode(store(b, 50)));
  auto load = one.load(0, sink, 64);
  load.allow_unsealed = true;
  one.send(wire::encode(load));
  one.send(wire::encode(one.free(0)));
  one.send(wire::encode(one.probe(0)));
  std::vector<wire::Completion> answers;
  for (int i = 0; i < 5; ++i) answers.push_back(one.completion());
  EXPECT_EQ(answers[0].data_length, 64u);
  EXPECT_EQ(answers[1].data_length, 50u);
  EXPECT_EQ(answers[2].data_length, 50u);
  EXPECT_TRUE(equal(loaded(50), Octets(second).first(50)));
  EXPECT_EQ(answers[3].status, Status::success);
  EXPECT_EQ(answers[4].status, Status::not_bound);
}

TEST_F(Operations, Kbtp_3_3_20_BlocksAreNeitherLostNorHandedOutTwice) {
  std::set<std::uint64_t> offsets;
  for (int round = 0; round < 50; ++round) {
    std::set<std::uint64_t> now;
    for (std::uint64_t h = 0; h < 6; ++h)
      now.insert(one.answer(one.alloc_inline(h, pattern(8, 1))).block_offset);
    EXPECT_EQ(now.size(), 6u);
    offsets.insert(now.begin(), now.end());
    for (std::uint64_t h = 0; h < 6; ++h) one.answer(one.free(h));
  }
  EXPECT_EQ(offsets.size(), 8u);
  EXPECT_EQ(world.target->free_blocks(), 8u);
}

// E-5: a LOAD that is being sent while its block is freed and given to somebody else.
TEST(Pins, E5_FreedBlockReturnsWhenTheLastLoadIsSent) {
  auto config = small_config();
  config.reserve = 2;
  config.block_size = 4096;
  config.max_inline = 4096;
  World world(config);
  RawInitiator reader(world), writer(world);
  writer.hello(6, 8);
  reader.hello(0, 0);
  const auto data = pattern(4096, 1);
  std::vector<std::byte> memory(4096);
  const auto sink = reader.expose(memory);
  writer.answer(writer.alloc_inline(0, data, true));
  world.fabric.stall(0, 0, true);  // the reader takes nothing: its Write stays in the provider
  reader.send(wire::encode(reader.load(0, sink, 4096)));
  ASSERT_TRUE(world.fabric.run_until([&] { return world.target->snapshot().pinned_blocks == 1; }));

  EXPECT_EQ(writer.answer(writer.free(0)).status, Status::success) << "FREE does not wait";
  EXPECT_EQ(world.target->free_blocks(), 7u);
  for (std::uint64_t h = 0; h < 6; ++h) {
    EXPECT_EQ(writer.answer(writer.alloc_inline(h, pattern(4096, 9))).status, Status::success)
        << "the reserve keeps an in-quota ALLOC_STORE from starving";
  }
  world.fabric.stall(0, 0, false);
  EXPECT_EQ(reader.completion().status, Status::success);
  EXPECT_EQ(memory, data) << "no octet of a later store";
  world.settle();
  EXPECT_EQ(world.target->free_blocks(), 2u);
}

TEST(Pins, E5_WithoutReserveLoadsAreSentFromCopies) {
  World world(small_config());
  RawInitiator one(world);
  one.hello(8, 8);
  std::vector<std::byte> memory(64);
  const auto sink = one.expose(memory);
  one.answer(one.alloc_inline(0, pattern(64, 1), true));
  one.answer(one.load(0, sink, 64));
  EXPECT_EQ(world.target->snapshot().copied_loads, 1u);
  EXPECT_EQ(memory, pattern(64, 1));
}

TEST(Pins, E5_UnsealedBlocksAndThosePastTheShareAreSentFromCopies) {
  auto config = small_config();
  config.reserve = 2;
  World world(config);
  RawInitiator reader(world), writer(world);
  writer.hello(6, 8);
  reader.hello(0, 0);
  const auto old = pattern(64, 1);
  std::vector<std::byte> memory(64);
  const auto sink = reader.expose(memory);
  writer.answer(writer.alloc_inline(0, old));
  writer.answer(writer.alloc_inline(1, old, true));
  world.fabric.stall(0, 0, true);
  auto load = reader.load(0, sink, 64);
  load.allow_unsealed = true;
  reader.send(wire::encode(load));
  ASSERT_TRUE(world.fabric.run_until([&] { return world.target->snapshot().copied_loads == 1; }));
  EXPECT_EQ(world.target->snapshot().pinned_blocks, 0u);
  EXPECT_EQ(writer.answer(writer.store_inline(0, pattern(64, 9))).status, Status::success);
  world.fabric.stall(0, 0, false);
  EXPECT_EQ(reader.completion().status, Status::success);
  EXPECT_EQ(memory, old) << "as it was when the LOAD was carried out";

  world.fabric.stall(0, 0, true);
  for (int i = 0; i < 3; ++i) reader.send(wire::encode(reader.load(1, sink, 64)));
  ASSERT_TRUE(world.fabric.run_until([&] { return world.target->snapshot().copied_loads == 3; }));
  EXPECT_EQ(world.target->snapshot().pinned_blocks, 1u) << "R / sessions is the share of each";
  world.fabric.stall(0, 0, false);
  for (int i = 0; i < 3; ++i) EXPECT_EQ(reader.completion().status, Status::success);
}

// White box: LOAD never shows more than Data Length octets, so that only the pool itself can tell.
// Rules: RFC5042-6.3.2-01, RFC5042-A-02
TEST(Scrub, G43_BlocksAreClearedWhenAnotherDomainMayGetThem) {
  for (const bool several : {false, true}) {
    auto config = small_config();
    if (several) config.initiators.push_back({.identity = kAlice, .address = "10.0.0.2", .domain = "red"});
    fake::Fabric fabric;
    const auto core = Core::create(config, fabric.add_host());
    ASSERT_TRUE(core);
    const auto taken = (*core)->ring->allocate({});
    const MutableOctets block = (*core)->pool.block(*taken.block_offset);
    std::fill(block.begin(), block.end(), std::byte{0x5A});
    const auto entry = (*core)->table.bind(0, *taken.block_offset, 64, true);
    unbind(**core, 0, entry, (*core)->several_domains);
    EXPECT_EQ(block[0], several ? std::byte{0} : std::byte{0x5A});
    EXPECT_EQ(block[63], block[0]);
  }
}

TEST(Allocation, QuotaCountsWhatIsInFlight) {
  World world(small_config());
  RawInitiator one(world);
  one.hello(1, 4);
  auto source = pattern(64, 1);
  const auto region = one.expose(source);
  one.send(wire::encode(one.alloc_read(0, region, 64)));
  const auto second = one.alloc_read(1, region, 64);
  one.send(wire::encode(second));
  auto c = one.completion();
  EXPECT_EQ(c.request_id, second.head.request_id) << "G-21: refused at once";
  EXPECT_EQ(c.status, Status::no_space);
  EXPECT_EQ(one.completion().status, Status::success);
}

}  // namespace
}  // namespace kbtp::target
