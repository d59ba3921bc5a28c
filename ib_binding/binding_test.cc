// Our target and our initiator where the capabilities are those that 9.2 permits, on the fake fabric under
// InfiniBand's rules: each row of binding.h, as it shows between the two.

#include "ib_binding/binding.h"

#include <algorithm>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <vector>

#include "proto/initiator/initiator.h"
#include "proto/target/direct_testing.h"

namespace kbtp::ib_binding {
namespace {

using fake::Observed;
using initiator::BufferUse;
using initiator::Outcome;
using rdma::Atomics;
using rdma::Capabilities;

static_assert(permitted(Capabilities{.atomics = Atomics::masked}).atomics == Atomics::plain);
static_assert(permitted(Capabilities{.atomics = Atomics::plain}).atomics == Atomics::plain);
static_assert(permitted(Capabilities{.atomics = Atomics::none}).atomics == Atomics::none);
static_assert(permitted(Capabilities{.write_immediate = true}).ordered_write_visibility);
static_assert(!permitted(Capabilities{.ordered_write_visibility = true}).ordered_write_visibility);
static_assert(permitted(Capabilities{.invalidate_tx = true}).invalidate_tx);

/// As an rxe or mlx5 device says of itself: nothing about the order of Writes.
fake::HostOptions device(Atomics atomics = Atomics::plain) {
  fake::HostOptions host = fake::infiniband_host();
  host.capabilities.ordered_write_visibility = false;
  host.capabilities.atomics = atomics;
  host.capabilities = permitted(host.capabilities);
  return host;
}

class Kbtp92 : public ::testing::Test {
 protected:
  explicit Kbtp92(Atomics atomics = Atomics::plain)
      : world(target::testing::direct_config(3, 3), 1, device(atomics), device(atomics),
              fake::Rules::infiniband) {
    world.fabric.observe([this](const Observed& seen) { sent.push_back(seen.kind); });
    initiator::ConnectOptions options;
    options.address = world.address();
    options.identity = target::testing::kAlice;
    options.wanted = {.record_completion = true, .direct_load = true, .direct_alloc = true};
    bool told = false;
    initiator::connect(*world.hosts[0], options, [&](auto connected) {
      told = true;
      if (connected) session = *connected;
    });
    EXPECT_TRUE(world.fabric.run_until([&] { return told; }));
    buffer = *session->register_buffer(memory, BufferUse::load_and_store);
    sent.clear();
  }
  ~Kbtp92() override {
    session->close();
    world.fabric.run_until([this] { return !session->is_open(); });
    world.settle();
  }
  Outcome run(const std::function<void(initiator::Done)>& start) {
    std::optional<Outcome> outcome;
    start([&](const Outcome& o) { outcome = o; });
    EXPECT_TRUE(world.fabric.run_until([&] { return outcome.has_value(); }));
    return outcome.value_or(Outcome{});
  }
  [[nodiscard]] auto seen(Observed::Kind kind) const { return std::ranges::count(sent, kind); }

  target::testing::World world;
  std::vector<Observed::Kind> sent;
  std::shared_ptr<initiator::Session> session;
  std::vector<std::byte> memory = target::testing::pattern(192, 5);
  initiator::Buffer buffer;
};

TEST_F(Kbtp92, EveryOperationIsCompletedByARecord) {
  EXPECT_TRUE(session->info().features.record_completion);
  auto& s = *session;
  const auto data = target::testing::pattern(64, 5);
  EXPECT_TRUE(run([&](auto done) { s.alloc_store(0, buffer.slice(0, 64), {}, done); }).ok());
  EXPECT_TRUE(run([&](auto done) { s.store_inline(0, data, {.seal = true}, done); }).ok());
  EXPECT_TRUE(run([&](auto done) { s.load(0, buffer.slice(128, 64), {}, done); }).ok());
  EXPECT_TRUE(std::ranges::equal(data, std::span(memory).subspan(128)));
  EXPECT_EQ(run([&](auto done) { s.free(0, 9, done); }).status, wire::Status::generation_mismatch);
  EXPECT_TRUE(run([&](auto done) { s.free(0, 0, done); }).ok());
  EXPECT_EQ(seen(Observed::Kind::write_immediate), 5);
  EXPECT_EQ(seen(Observed::Kind::send), 5) << "the requests, and no COMPLETION";
}

TEST_F(Kbtp92, InvalidateIsCompletedBySendWithInvalidate) {
  auto& s = *session;
  EXPECT_TRUE(run([&](auto done) { s.alloc_store(0, buffer.slice(0, 64), {.seal = true}, done); }).ok());
  std::vector<std::byte> sink(64);
  const auto once = s.register_buffer(sink, BufferUse::load, true);
  const auto outcome = run([&](auto done) { s.load(0, once->all(), {.invalidate = true}, done); });
  EXPECT_TRUE(outcome.ok());
  EXPECT_TRUE(outcome.invalidated);
  EXPECT_EQ(seen(Observed::Kind::write_immediate), 1);
}

TEST_F(Kbtp92, DirectAllocationCountsWithoutMask) {
  EXPECT_EQ(session->info().direct.counters, wire::CounterFormat::Kind::unmasked);
  auto& s = *session;
  for (unsigned i = 0; i < 11; ++i) {  // laps of a ring of four slots
    const auto data = target::testing::pattern(64, i);
    const auto stored = run([&](auto done) { s.direct_alloc_store(i % 3, data, {.seal = true}, done); });
    ASSERT_TRUE(stored.ok()) << stored.error;
    std::vector<std::byte> sink(64);
    ASSERT_TRUE(run([&](auto done) { s.direct_load(i % 3, sink, {}, done); }).ok());
    ASSERT_EQ(sink, data);
    ASSERT_TRUE(run([&](auto done) { s.free(i % 3, 0, done); }).ok());
  }
}

class Kbtp92WithoutAtomics : public Kbtp92 {
 protected:
  Kbtp92WithoutAtomics() : Kbtp92(Atomics::none) {}
};

TEST_F(Kbtp92WithoutAtomics, NoDirectAllocation) {
  EXPECT_TRUE(session->info().features.direct_load);
  EXPECT_FALSE(session->info().features.direct_alloc);
  EXPECT_FALSE(session->info().features.atomic_unmasked);
}

}  // namespace
}  // namespace kbtp::ib_binding
