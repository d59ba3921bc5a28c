// Our target and our initiator where the capabilities are those that 9.1 permits, on the fake fabric under
// RDMAP's rules: each row of binding.h, as it shows between the two.

#include "rdmap_binding/binding.h"

#include <algorithm>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <optional>

#include "proto/initiator/initiator.h"
#include "proto/target/direct_testing.h"

namespace kbtp::rdmap_binding {
namespace {

using fake::Observed;
using rdma::Atomics;
using rdma::Capabilities;

static_assert(permitted(Capabilities{.atomics = Atomics::masked}).atomics == Atomics::masked);
static_assert(permitted(Capabilities{.atomics = Atomics::plain}).atomics == Atomics::none);
static_assert(!permitted(Capabilities{.write_immediate = true, .ordered_write_visibility = true})
                   .ordered_write_visibility);
static_assert(permitted(Capabilities{.invalidate_tx = true}).invalidate_tx);

/// An RNIC that boasts of an order of Writes which RDMAP does not promise.
fake::HostOptions rnic(Atomics atomics) {
  fake::HostOptions host;
  host.capabilities.write_immediate = true;
  host.capabilities.ordered_write_visibility = true;
  host.capabilities.atomics = atomics;
  host.capabilities = permitted(host.capabilities);
  return host;
}

/// What a session that asks for everything is granted, and what its operations put on the wire.
struct Pair {
  explicit Pair(Atomics atomics)
      : world(target::testing::direct_config(3, 3), 1, rnic(atomics), rnic(atomics), fake::Rules::rdmap) {
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
    sent.clear();
  }
  ~Pair() {
    session->close();
    world.fabric.run_until([this] { return !session->is_open(); });
    world.settle();
  }
  bool ok(const std::function<void(initiator::Done)>& start) {
    std::optional<initiator::Outcome> outcome;
    start([&](const initiator::Outcome& o) { outcome = o; });
    EXPECT_TRUE(world.fabric.run_until([&] { return outcome.has_value(); }));
    return outcome && outcome->ok();
  }
  [[nodiscard]] auto seen(Observed::Kind kind) const { return std::ranges::count(sent, kind); }

  target::testing::World world;
  std::vector<Observed::Kind> sent;
  std::shared_ptr<initiator::Session> session;
};

TEST(Kbtp91, CompletionsAreMessagesAndCountersMasked) {
  Pair run(Atomics::masked);
  EXPECT_EQ(run.session->info().features, (wire::Features{.direct_load = true, .direct_alloc = true}));
  EXPECT_EQ(run.session->info().direct.counters, wire::CounterFormat::Kind::masked);
  const auto data = target::testing::pattern(64, 1);
  EXPECT_TRUE(run.ok([&](auto done) { run.session->direct_alloc_store(0, data, {.seal = true}, done); }));
  EXPECT_TRUE(run.ok([&](auto done) { run.session->free(0, 0, done); }));
  EXPECT_EQ(run.seen(Observed::Kind::immediate), 0);
  EXPECT_EQ(run.seen(Observed::Kind::send), 4) << "two requests, two COMPLETIONs";
}

TEST(Kbtp91, NoDirectAllocationWithAtomicsThatTakeNoMask) {
  Pair run(Atomics::plain);
  EXPECT_EQ(run.session->info().features, (wire::Features{.direct_load = true}));
}

}  // namespace
}  // namespace kbtp::rdmap_binding
