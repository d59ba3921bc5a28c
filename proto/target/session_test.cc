// Sessions: HELLO and its refusals, identity, trust domains, quotas, the end of a session.

#include <gtest/gtest.h>

#include "proto/target/testing.h"

namespace kbtp::target {
namespace {

using testing::kAlice;
using testing::kBob;
using testing::pattern;
using testing::RawInitiator;
using testing::small_config;
using testing::World;
using wire::Status;

TargetConfig config_with_alice() {
  auto config = small_config();
  config.initiators.push_back({.identity = kAlice, .address = "10.0.0.2", .quota = 3, .handles = 4});
  return config;
}

TEST(Hello, AckTellsWhatIsGranted) {
  World world(small_config());
  RawInitiator one(world);
  const auto ack = one.hello(4, 8);
  EXPECT_EQ(ack.status, Status::success);
  EXPECT_EQ(ack.request_id, 77u);
  EXPECT_EQ(ack.version, 1);
  EXPECT_EQ(ack.granted, wire::Features{}) << "P-05, 6.5";
  EXPECT_EQ(ack.quota, 4u);
  EXPECT_EQ(ack.handle_count, 8u);
  EXPECT_EQ(ack.pool_blocks, 8u);
  EXPECT_EQ(ack.block_size, 64u);
  EXPECT_EQ(ack.max_requests, 8u) << "P-18: 0 wanted";
  EXPECT_EQ(ack.max_inline, 96u);
  EXPECT_EQ(ack.table_handle_count, 0u) << "P-16";
}

TEST(Hello, P04_FirstMessageThatIsNoHelloDisconnects) {
  World world(small_config());
  for (const std::size_t size : {std::size_t{0}, std::size_t{10}, std::size_t{63}}) {
    RawInitiator one(world);
    auto hello = wire::encode(wire::Hello{});
    hello.resize(size);
    one.send(std::move(hello));
    EXPECT_TRUE(one.ended()) << size;
    EXPECT_TRUE(one.messages.empty());
  }
  RawInitiator one(world);
  one.send(wire::encode(one.free(0)));
  EXPECT_TRUE(one.ended());
  EXPECT_TRUE(one.messages.empty());
}

TEST(Hello, G05_SecondHelloDisconnects) {
  World world(small_config());
  RawInitiator one(world);
  one.hello();
  one.send(wire::encode(wire::Hello{}));
  EXPECT_TRUE(one.ended());
  EXPECT_EQ(one.messages.size(), 1u);
}

TEST(Hello, G39_OtherVersionsAreRefusedWithTheTargetsOwn) {
  World world(small_config());
  RawInitiator one(world);
  wire::Hello hello;
  hello.min_version = 2;
  hello.max_version = 3;
  const auto ack = one.hello(hello);
  EXPECT_EQ(ack.status, Status::unsupported_version);
  EXPECT_EQ(ack.min_version, 1);
  EXPECT_EQ(ack.max_version, 1);
  EXPECT_EQ(ack.max_requests, 0u);
  EXPECT_TRUE(one.ended()) << "P-09";
}

TEST(Hello, P18_ReceiveSizeBelow64IsNoResources) {
  World world(small_config());
  RawInitiator one(world);
  wire::Hello hello;
  hello.receive_size = 63;
  EXPECT_EQ(one.hello(hello).status, Status::no_resources);
  EXPECT_TRUE(one.ended());
}

TEST(Hello, P09_SmallerGrantThenNoResources) {
  World world(small_config());
  RawInitiator one(world), two(world), three(world), loader(world);
  EXPECT_EQ(one.hello(6, 30).quota, 6u);
  const auto rest = two.hello(6, 6);
  EXPECT_EQ(rest.status, Status::success);
  EXPECT_EQ(rest.quota, 2u) << "3.4-02: quotas sum to at most F - R";
  EXPECT_EQ(rest.handle_count, 2u);
  EXPECT_EQ(three.hello(1, 1).status, Status::no_resources);
  EXPECT_TRUE(three.ended());
  EXPECT_EQ(loader.hello(0, 0).status, Status::success) << "G-54";
  EXPECT_EQ(world.target->snapshot().quota_granted, 8u);
}

TEST(Hello, SessionsBeyondTheMaximumAreRefused) {
  auto config = small_config();
  config.max_sessions = 1;
  World world(config);
  RawInitiator one(world), two(world);
  EXPECT_EQ(one.hello(1, 1).status, Status::success);
  EXPECT_EQ(two.hello(1, 1).status, Status::no_resources);
}

TEST(Hello, SilentConnectionsDoNotKeepAGoodPeerOut) {
  auto config = small_config();
  config.max_sessions = 2;
  World world(config);
  std::vector<std::unique_ptr<RawInitiator>> silent;
  for (int i = 0; i < 10; ++i) silent.push_back(std::make_unique<RawInitiator>(world));
  RawInitiator good(world);
  EXPECT_EQ(good.hello(1, 1).status, Status::success);
  EXPECT_EQ(good.answer(good.probe(0)).status, Status::not_bound);
  EXPECT_TRUE(silent.front()->ended());
}

TEST(Hello, ConnectionsThatWereRefusedAndLingerDoNotKeepAGoodPeerOut) {
  auto config = small_config();
  config.max_sessions = 2;
  World world(config);
  std::vector<std::unique_ptr<RawInitiator>> refused;
  for (std::size_t i = 0; i < 10; ++i) {
    refused.push_back(std::make_unique<RawInitiator>(world));
    ASSERT_NE(refused.back()->stream, nullptr) << i;
    refused.back()->send(pattern(64, 1));  // no HELLO
    world.fabric.stall(i, 0, true);        // and it takes no FIN
    world.settle();
  }
  EXPECT_LE(world.target->snapshot().sessions_open, 4u);
  RawInitiator good(world);
  EXPECT_EQ(good.hello(1, 1).status, Status::success);
}

TEST(Identity, G51_NamedInitiatorHasASessionThatOthersCannotTake) {
  auto config = config_with_alice();
  config.max_sessions = 1;
  World world(config);
  RawInitiator one(world), two(world), alice(world);
  EXPECT_EQ(one.hello(0, 0).status, Status::success);
  EXPECT_EQ(two.hello(0, 0).status, Status::no_resources);
  EXPECT_EQ(alice.hello(0, 0, kAlice).status, Status::success);
}

TEST(Hello, DeadlineEndsASilentSession) {
  World world(small_config());
  RawInitiator one(world);
  world.fabric.run_for(std::chrono::seconds(4));
  EXPECT_FALSE(one.peer_finished);
  EXPECT_TRUE(one.ended());
}

TEST(Hello, WantedBaseHandleIsHonouredWhenFree) {
  World world(small_config());
  RawInitiator one(world), two(world);
  wire::Hello hello;
  hello.quota = 1;
  hello.handle_count = 4;
  hello.base_handle = 10;
  EXPECT_EQ(one.hello(hello).base_handle, 10u);
  const auto other = two.hello(hello);
  EXPECT_EQ(other.status, Status::success);
  EXPECT_TRUE(other.base_handle + other.handle_count <= 10 || other.base_handle >= 14) << other.base_handle;
}

TEST(Identity, G51_CountsOnlyFromTheConfiguredAddress) {
  World world(config_with_alice());
  RawInitiator impostor(world, 1);
  EXPECT_EQ(impostor.hello(1, 1, kAlice).status, Status::access_denied);
  EXPECT_TRUE(impostor.ended());
  RawInitiator alice(world, 0);
  EXPECT_EQ(alice.hello(1, 1, kAlice).quota, 3u) << "P-10: the configured values, not the wished ones";
}

TEST(Identity, G51_UnknownIsAnonymousOrRefused) {
  World lenient(small_config());
  RawInitiator one(lenient);
  EXPECT_EQ(one.hello(1, 1, kBob).status, Status::success);
  auto config = small_config();
  config.anonymous.accept_unknown_identity = false;
  World strict(config);
  RawInitiator two(strict);
  EXPECT_EQ(two.hello(1, 1, kBob).status, Status::access_denied);
  RawInitiator three(strict);
  EXPECT_EQ(three.hello(1, 1).status, Status::success);
}

TEST(Identity, G24_PersistentRangeKeepsBlocksAndUsage) {
  World world(config_with_alice());
  const auto data = pattern(50, 3);
  {
    RawInitiator alice(world);
    EXPECT_EQ(alice.hello(3, 4, kAlice).usage, 0u);
    EXPECT_EQ(alice.answer(alice.alloc_inline(2, data, true)).status, Status::success);
  }
  world.settle();
  EXPECT_EQ(world.target->free_blocks(), 7u);
  RawInitiator alice(world);
  EXPECT_EQ(alice.hello(3, 4, kAlice).usage, 1u);
  std::vector<std::byte> memory(64);
  const auto sink = alice.expose(memory);
  EXPECT_EQ(alice.answer(alice.load(2, sink, 64)).data_length, 50u);
  EXPECT_TRUE(std::equal(data.begin(), data.end(), memory.begin()));
  EXPECT_EQ(alice.answer(alice.free(2)).status, Status::success);
  world.settle();
  EXPECT_EQ(world.target->free_blocks(), 8u);
}

TEST(Identity, G51_NewSessionDrainsTheOlderOne) {
  World world(config_with_alice());
  RawInitiator older(world);
  EXPECT_EQ(older.hello(3, 4, kAlice).status, Status::success);
  EXPECT_EQ(older.answer(older.alloc_inline(0, pattern(8, 1))).status, Status::success);
  RawInitiator newer(world);
  const auto ack = newer.hello(3, 4, kAlice);
  EXPECT_EQ(ack.status, Status::success);
  EXPECT_EQ(ack.usage, 1u);
  EXPECT_TRUE(older.peer_finished || older.closed) << "the older one ended first";
  EXPECT_EQ(newer.answer(newer.alloc_inline(1, pattern(8, 1))).status, Status::success);
}

TEST(Identity, G51_OlderSessionThatDoesNotAnswerReadsIsNotWaitedForLong) {
  World world(config_with_alice());
  RawInitiator older(world);
  older.hello(3, 4, kAlice);
  auto memory = pattern(64, 1);
  const auto region = older.expose(memory);
  older.send(wire::encode(older.alloc_read(0, region, 64)));
  world.fabric.stall(0, 0, true);  // the older initiator takes nothing any more
  RawInitiator newer(world);
  const auto ack = newer.hello(3, 4, kAlice);
  EXPECT_EQ(ack.status, Status::success);
  EXPECT_EQ(ack.usage, 0u) << "what was in flight is rolled back (G-20)";
  EXPECT_EQ(newer.answer(newer.probe(0)).status, Status::not_bound);
}

TEST(Session, G24_AnonymousRangeIsFreedAndClearedAtItsEnd) {
  World world(small_config());
  {
    RawInitiator one(world);
    one.hello(5, 8);
    for (std::uint64_t h = 0; h < 5; ++h) {
      EXPECT_EQ(one.answer(one.alloc_inline(h, pattern(64, 1), h % 2 == 0)).status, Status::success);
    }
    EXPECT_EQ(world.target->free_blocks(), 3u);
  }
  world.settle();
  EXPECT_EQ(world.target->free_blocks(), 8u);
  const auto s = world.target->snapshot();
  EXPECT_EQ(s.usage, 0u);
  EXPECT_EQ(s.quota_granted, 0u);
  EXPECT_EQ(s.bound_handles, 0u);
  EXPECT_EQ(s.sessions_open, 0u);
}

// Rules: RFC5042-2.1-02, RFC5040-8.1.2-03
TEST(Session, G25_RangesOfOtherDomainsAreInvisible) {
  auto config = config_with_alice();
  config.initiators.front().domain = "red";
  World world(config);
  RawInitiator alice(world), other(world, 1);
  alice.hello(3, 4, kAlice);
  const auto own = other.hello(2, 2);
  EXPECT_EQ(alice.answer(alice.alloc_inline(0, pattern(8, 1), true)).status, Status::success);
  const auto c = other.answer(other.probe(0));
  EXPECT_EQ(c.status, Status::no_such_handle);
  EXPECT_EQ(c.generation, 0);
  EXPECT_EQ(other.answer(other.free(0)).status, Status::no_such_handle);
  EXPECT_EQ(other.answer(other.probe(own.base_handle)).status, Status::not_bound);
}

TEST(Session, RequestsAlreadyAcceptedAreAnsweredBeforeTheEnd) {
  World world(small_config());
  RawInitiator one(world);
  one.hello();
  auto memory = pattern(64, 1);
  const auto region = one.expose(memory);
  one.send(wire::encode(one.alloc_read(0, region, 64)));
  one.send(std::vector<std::byte>(3));  // a violation right behind it
  EXPECT_EQ(one.completion().status, Status::success);
  EXPECT_TRUE(one.ended());
}

TEST(Session, DrainEndsEverySessionAndRefusesNewOnes) {
  World world(small_config());
  RawInitiator one(world);
  one.hello();
  one.answer(one.alloc_inline(0, pattern(8, 1)));
  bool drained = false;
  world.target->drain([&] { drained = true; });
  RawInitiator late(world);
  EXPECT_TRUE(late.closed);
  EXPECT_TRUE(world.fabric.run_until([&] { return drained; }));
  EXPECT_EQ(world.target->free_blocks(), 8u);
  EXPECT_TRUE(one.peer_finished || one.closed);
}

TEST(Session, UnansweredReadEndsTheSessionAndRollsBack) {
  World world(small_config());
  RawInitiator one(world);
  one.hello();
  auto memory = pattern(64, 1);
  const auto region = one.expose(memory);
  one.send(wire::encode(one.alloc_read(0, region, 64)));
  world.fabric.run_until([&] { return world.target->free_blocks() == 7; });
  world.fabric.stall(0, 0, true);
  EXPECT_TRUE(world.fabric.run_until([&] { return world.target->snapshot().sessions_open == 0; }));
  EXPECT_EQ(world.target->free_blocks(), 8u);
  EXPECT_EQ(world.target->snapshot().usage, 0u);
}

TEST(Session, E5_PeerThatTakesNoOctetIsDroppedAtTheSendDeadline) {
  auto config = small_config();
  config.deadlines.send = std::chrono::seconds(2);
  World world(config);
  RawInitiator one(world);
  one.hello();
  world.fabric.stall(0, 0, true);
  one.send(wire::encode(one.probe(0)));
  world.fabric.run_for(std::chrono::seconds(1));
  EXPECT_EQ(world.target->snapshot().sessions_open, 1u);
  world.fabric.run_for(std::chrono::seconds(4));
  EXPECT_EQ(world.target->snapshot().sessions_open, 0u);
}

TargetConfig with_credits(std::uint32_t credits) {
  TargetConfig config = small_config();
  config.max_requests = credits;
  return config;
}

// G-06, P-06: each LOAD of an unsealed block costs the target a copy of it, until the copy has left.
TEST(Session, InitiatorThatTakesNothingHasNoMoreRequestsServedThanCreditsAllow) {
  World world(with_credits(4));
  RawInitiator one(world);
  one.hello();
  ASSERT_EQ(one.answer(one.alloc_inline(0, pattern(64, 1))).status, Status::success);
  std::vector<std::byte> sink(64);
  const auto region = one.expose(sink);
  const auto load_unsealed = [&] {
    auto load = one.load(0, region, 64);
    load.allow_unsealed = true;
    one.send(wire::encode(load));
  };

  // As many as there are credits are served again and again.
  for (int round = 0; round < 5; ++round) {
    for (int i = 0; i < 4; ++i) load_unsealed();
    for (int i = 0; i < 4; ++i) ASSERT_EQ(one.completion().status, Status::success) << round;
  }
  EXPECT_EQ(world.target->snapshot().copied_loads, 20u);

  // An initiator that goes on when its completions are still to come has broken G-06.
  world.fabric.stall(0, 0, true);
  for (int i = 0; i < 100; ++i) {
    load_unsealed();
    world.settle();
  }
  // Two work requests for each, till 2 * 4 + 32 wait; and then the credits that are left.
  EXPECT_LE(world.target->snapshot().copied_loads, 20u + 20 + 4 + 2);
  world.fabric.stall(0, 0, false);
  EXPECT_TRUE(one.ended());
}

// The same without a breach.
TEST(Session, CreditsSurviveAPauseOfTheInitiator) {
  World world(with_credits(4));
  RawInitiator one(world);
  one.hello();
  for (int round = 0; round < 5; ++round) {
    world.fabric.stall(0, 0, true);
    for (int i = 0; i < 4; ++i) one.send(wire::encode(one.probe(0)));
    world.settle();
    world.fabric.stall(0, 0, false);
    for (int i = 0; i < 4; ++i) ASSERT_EQ(one.completion().status, Status::not_bound) << round;
  }
}

TEST(Create, SaysWhatIsWrong) {
  fake::Fabric fabric;
  auto& host = fabric.add_host();
  const auto text = [&](auto change) {
    auto config = config_with_alice();
    change(config);
    const auto target = Target::create(config, host);
    return target ? std::string("accepted") : target.error().text;
  };
  EXPECT_NE(text([](auto& c) { c.initiators[0].quota = 9; }).find("left for quotas"), std::string::npos);
  EXPECT_NE(text([](auto& c) { c.initiators[0].handles = 33; }).find("no room"), std::string::npos);
  EXPECT_NE(text([](auto& c) { c.initiators[0].address = ""; }).find("no address"), std::string::npos);
  EXPECT_NE(text([](auto& c) { c.initiators.push_back(c.initiators[0]); }).find("twice"), std::string::npos);
  EXPECT_NE(text([](auto& c) { c.reserve = 9; }).find("reserve"), std::string::npos);
  EXPECT_NE(text([](auto& c) { c.block_size = 12; }), "accepted");
  EXPECT_EQ(text([](auto&) {}), "accepted");
}

}  // namespace
}  // namespace kbtp::target
