// Several initiators at random over the fake fabric, with connections cut at random points, and one initiator
// whose connection is cut after each single event in turn. Afterwards every block and every unit of usage is
// accounted for, and no load ever returned octets of another store or of two.

#include <algorithm>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <string>
#include <utility>
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

/// What every store wrote: each word of a block names the store and the word's place.
class Content {
 public:
  void fill(std::span<std::byte> octets, std::uint64_t handle) {
    const std::uint64_t id = ++last_;
    handles_[id] = handle;
    for (std::size_t i = 0; i < octets.size(); ++i) octets[i] = octet(id, i);
  }
  /// The store that wrote all of `octets`, or 0.
  [[nodiscard]] std::uint64_t whole(std::span<const std::byte> octets, std::uint64_t handle) const {
    for (const auto& [id, of] : handles_) {
      if (of != handle) continue;
      bool same = true;
      for (std::size_t i = 0; same && i < octets.size(); ++i) same = octets[i] == octet(id, i);
      if (same) return id;
    }
    return 0;
  }
  /// A sealed block stays as it is until it is freed (6.6), and every FREE changes the Generation.
  [[nodiscard]] bool same_as_before(std::uint64_t handle, std::uint16_t generation, std::uint32_t length,
                                    std::uint64_t id) {
    const auto [at, first] = sealed_.try_emplace({handle, generation}, std::pair{length, id});
    return at->second.first == length && (length < 8 || at->second.second == id);
  }

 private:
  static std::byte octet(std::uint64_t id, std::size_t i) {
    return static_cast<std::byte>((id * 0x9E3779B97F4A7C15u + i * 0x2545F4914F6CDD1Du) >> 40);
  }
  std::uint64_t last_ = 0;
  std::map<std::uint64_t, std::uint64_t> handles_;
  std::map<std::pair<std::uint64_t, std::uint16_t>, std::pair<std::uint32_t, std::uint64_t>> sealed_;
};

class Actor {
 public:
  Actor(World& world, Content& content, std::size_t host, const Uuid& identity, int budget)
      : world_(world), content_(content), host_(host), identity_(identity), budget_(budget) {
    connect();
  }

  [[nodiscard]] bool done() const { return budget_ <= 0 && idle_; }
  [[nodiscard]] int answered() const { return answered_; }

 private:
  void connect() {
    idle_ = false;
    initiator::ConnectOptions options;
    options.address = world_.address();
    options.identity = identity_;
    options.quota = 4;
    options.handles = 10;
    initiator::connect(
        *world_.hosts[host_], options,
        [this](Expected<std::shared_ptr<initiator::Session>, initiator::ConnectError> session) {
          if (!session) {
            --budget_;  // a cut during set-up is an attempt too
            return again();
          }
          session_ = *session;
          session_->on_closed([this](const rdma::CloseReason&) {
            session_.reset();
            again();
          });
          for (int i = 0; i < 8; ++i) next();
        });
  }
  void again() {
    if (budget_ > 0) return connect();
    idle_ = true;
  }

  std::uint64_t random(std::uint64_t below) { return world_.fabric.random()() % below; }

  void next() {
    if (session_ == nullptr || !session_->is_open()) return;
    if (budget_-- <= 0) return session_->close();
    const std::uint64_t own = session_->info().base_handle + random(session_->info().handles);
    auto memory = std::make_shared<std::vector<std::byte>>(kBlockSize, std::byte{0xEE});
    const bool once = random(4) == 0;  // INVALIDATE
    const auto buffer = session_->register_buffer(*memory, initiator::BufferUse::load_and_store, true);
    if (!buffer) return;
    const auto slice = buffer->slice(0, 1 + random(kBlockSize));
    const bool seal = random(2) == 0;
    const auto finished = [this, memory, once, session = session_, buffer = *buffer](const Outcome& o) {
      answered_ += o.answered ? 1 : 0;
      if (!once) session->unregister_buffer(buffer);
      next();
    };
    switch (random(8)) {
      case 0:
      case 1:
        content_.fill(slice.memory, own);
        return session_->alloc_store(own, slice, {.seal = seal, .invalidate = once}, finished);
      case 2:
        content_.fill(slice.memory, own);
        return session_->store(own, slice, {.seal = seal, .invalidate = once}, finished);
      case 3: {
        const auto data = slice.memory.first(std::min<std::size_t>(slice.memory.size(), 100));
        content_.fill(data, own);
        return session_->alloc_store_inline(own, data, {.seal = seal}, finished);
      }
      case 4:
      case 5:
        return session_->free(own, 0, finished);
      default: {
        const std::uint64_t any = random(kHandles);
        return session_->load(any, buffer->all(), {.invalidate = once},
                              [this, any, memory, finished](const Outcome& o) {
                                if (o.ok()) check(any, *memory, o);
                                finished(o);
                              });
      }
    }
  }

  void check(std::uint64_t handle, const std::vector<std::byte>& memory, const Outcome& outcome) {
    const auto data = std::span(memory).first(outcome.data_length);
    const std::uint64_t id = content_.whole(data, handle);
    EXPECT_NE(id, 0u) << "handle " << handle << ", " << outcome.data_length
                      << " octets: not what any one store wrote";
    EXPECT_TRUE(std::all_of(memory.begin() + outcome.data_length, memory.end(), [](std::byte b) {
      return b == std::byte{0xEE};
    })) << "octets behind Data Length were written";
    EXPECT_TRUE(content_.same_as_before(handle, outcome.generation, outcome.data_length, id))
        << "the sealed data of one binding changed";
  }

  World& world_;
  Content& content_;
  std::size_t host_;
  Uuid identity_;
  int budget_;
  int answered_ = 0;
  bool idle_ = false;
  std::shared_ptr<initiator::Session> session_;
};

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

class Random : public ::testing::TestWithParam<int> {};

TEST_P(Random, NoBlockIsLostAndNoLoadMixesStores) {
  for (int i = 0; i < 8; ++i) {
    const auto seed = static_cast<std::uint64_t>(GetParam() * 8 + i);
    SCOPED_TRACE("seed " + std::to_string(seed));
    fake::HostOptions two_loops;
    two_loops.loops = 2;
    World world(sim_config(), seed, two_loops);
    Content content;
    std::vector<std::unique_ptr<Actor>> actors;
    actors.push_back(std::make_unique<Actor>(world, content, 0, kAlice, 150));
    actors.push_back(std::make_unique<Actor>(world, content, 1, kBob, 150));
    actors.push_back(std::make_unique<Actor>(world, content, 0, Uuid{}, 100));
    const auto done = [&] {
      return std::all_of(actors.begin(), actors.end(), [](const auto& a) { return a->done(); });
    };
    const std::uint64_t cut_every = 200 + seed % 7 * 400;
    while (!done()) {
      ASSERT_TRUE(world.fabric.step());
      if (world.fabric.random()() % cut_every != 0) continue;
      const std::size_t connections = world.fabric.connection_count();
      const std::size_t latest = std::min<std::size_t>(connections, 4);
      if (connections > 0) world.fabric.cut(connections - 1 - world.fabric.random()() % latest);
    }
    int answered = 0;
    for (const auto& actor : actors) answered += actor->answered();
    EXPECT_GT(answered, 100) << "something happened";
    expect_all_free(world);
    if (::testing::Test::HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, Random, ::testing::Range(0, 25));

TEST(Fabric, SameSeedSameRun) {
  const auto run = [](std::uint64_t seed) {
    World world(sim_config(), seed);
    Content content;
    Actor actor(world, content, 0, kAlice, 60);
    while (!actor.done() && world.fabric.step()) {
    }
    return std::pair{world.fabric.now(), actor.answered()};
  };
  EXPECT_EQ(run(5), run(5));
  EXPECT_NE(run(5), run(6));
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
