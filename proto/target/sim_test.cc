// One initiator, each operation once, whose connection is cut after each single event in turn. Afterwards
// every block and every unit of usage is accounted for. Many initiators at random: tests/sim.

#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <vector>

#include "proto/initiator/initiator.h"
#include "proto/target/testing.h"

namespace kbtp::target {
namespace {

using initiator::Outcome;
using testing::kAlice;
using testing::kBob;
using testing::World;
using wire::Status;

constexpr std::uint32_t kBlockSize = 512;
constexpr std::uint64_t kHandles = 48;

TargetConfig sim_config() {
  TargetConfig config;
  config.blocks = 24;
  config.block_size = kBlockSize;
  config.handles = kHandles;
  config.reserve = 4;
  config.max_inline = 128;
  config.max_requests = 6;
  config.initiators.push_back({.identity = kAlice, .address = "10.0.0.2", .quota = 7, .handles = 12});
  config.initiators.push_back({.identity = kBob, .address = "10.0.0.3", .quota = 7, .handles = 12});
  return config;
}

/// Connects as a configured initiator, compares usage with what is bound, and frees it all.
void settle_accounts(World& world, std::size_t host, const Uuid& identity) {
  testing::RawInitiator one(world, host);
  const auto ack = one.hello(0, 0, identity);
  ASSERT_EQ(ack.status, Status::success);
  std::uint32_t bound = 0;
  for (std::uint64_t h = ack.base_handle; h < ack.base_handle + ack.handle_count; ++h) {
    if (one.answer(one.probe(h)).status == Status::not_bound) continue;
    ++bound;
    EXPECT_EQ(one.answer(one.free(h)).status, Status::success) << h;
  }
  EXPECT_EQ(ack.usage, bound) << "usage is what is bound (G-24)";
}

void expect_all_free(World& world) {
  world.settle();
  settle_accounts(world, 0, kAlice);
  settle_accounts(world, 1, kBob);
  EXPECT_TRUE(world.fabric.run_until([&] { return world.target->snapshot().sessions_open == 0; }));
  const auto s = world.target->snapshot();
  EXPECT_EQ(s.free_blocks, s.blocks);
  EXPECT_EQ(s.usage, 0u);
  EXPECT_EQ(s.bound_handles, 0u);
  EXPECT_EQ(s.pinned_blocks, 0u);
  EXPECT_EQ(s.quota_granted, 14u) << "only the configured ones are left";
}

// Each operation once, the connection cut after the k-th event, for every k.
TEST(Killed, AtEachStepNothingIsLost) {
  std::size_t steps = 1;
  bool finished = false;
  for (std::size_t k = 0; !finished; ++k, ++steps) {
    SCOPED_TRACE("cut after event " + std::to_string(k));
    World world(sim_config(), 42);
    std::vector<std::byte> memory(kBlockSize, std::byte{7});
    bool closed = false;
    initiator::ConnectOptions options;
    options.address = world.address();
    options.identity = kAlice;
    std::shared_ptr<initiator::Session> session;
    int left = 6;
    initiator::connect(*world.hosts[0], options,
                       [&](Expected<std::shared_ptr<initiator::Session>, initiator::ConnectError> connected) {
                         if (!connected) {
                           closed = true;
                           return;
                         }
                         session = *connected;
                         session->on_closed([&](const rdma::CloseReason&) { closed = true; });
                         const auto buffer =
                             session->register_buffer(memory, initiator::BufferUse::load_and_store);
                         if (!buffer) return;  // cut just now
                         const auto next = [&](const Outcome&) { --left; };
                         session->alloc_store(0, buffer->all(), {}, next);
                         session->store(0, buffer->slice(0, 100), {.seal = true}, next);
                         session->alloc_store(1, buffer->all(), {}, next);
                         session->load(0, buffer->slice(100, 200), {}, next);
                         session->free(0, 0, next);
                         session->alloc_store(0, buffer->all(), {.seal = true}, next);
                       });
    for (std::size_t i = 0; i < k && left > 0 && !closed; ++i) ASSERT_TRUE(world.fabric.step());
    finished = left == 0;
    // Before there is a connection there is nothing to cut: that session ends as soon as it is open.
    world.fabric.run_until([&] { return world.fabric.connection_count() > 0; });
    world.fabric.cut(0);
    ASSERT_TRUE(world.fabric.run_until([&] { return closed; }));
    session.reset();
    expect_all_free(world);
    if (::testing::Test::HasFailure()) return;
  }
  EXPECT_GT(steps, 50u);
}

}  // namespace
}  // namespace kbtp::target
