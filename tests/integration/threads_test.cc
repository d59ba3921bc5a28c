// Real threads: a target whose RNIC has four loops, and sessions on four loops of another that load, allocate
// and free the same few handles beside each other, by messages and by the direct modes, break off and come
// back. Most of what it is for a sanitizer sees (TSan); the rest is that no load mixes stores and that
// nothing is lost.

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <cstring>
#include <gtest/gtest.h>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <vector>

#include "proto/initiator/initiator.h"
#include "proto/target/target.h"
#include "rdmap_binding/rnic/rnic.h"

namespace kbtp {
namespace {

using initiator::Outcome;
using initiator::Session;
using wire::Status;

constexpr std::uint32_t kBlockSize = 1024;
constexpr std::size_t kLoops = 4;
constexpr std::uint64_t kHandlesEach = 4;
constexpr std::uint32_t kQuota = 3;
constexpr int kOperations = KBTP_STRESS_OPERATIONS;  // of each initiator

// The first word says which store it was, of how many octets and to which handle; each other one follows from
// it.
constexpr std::uint64_t word(std::uint64_t first, std::size_t i) {
  return i == 0 ? first : (first + i) * 0x9E37'79B9'7F4A'7C15u;
}
void fill(std::span<std::byte> octets, std::uint64_t handle, std::uint64_t number) {
  const std::uint64_t first = (number << 32) | (octets.size() << 16) | handle;
  for (std::size_t i = 0; i < octets.size() / 8; ++i) {
    const std::uint64_t w = word(first, i);
    std::memcpy(octets.data() + 8 * i, &w, 8);
  }
}
bool is_whole(std::span<const std::byte> octets, std::uint64_t handle) {
  std::uint64_t first = 0;
  std::memcpy(&first, octets.data(), 8);
  if ((first & 0xFFFF) != handle || ((first >> 16) & 0xFFFF) != octets.size()) return false;
  for (std::size_t i = 0; i < octets.size() / 8; ++i) {
    std::uint64_t w = 0;
    std::memcpy(&w, octets.data() + 8 * i, 8);
    if (w != word(first, i)) return false;
  }
  return true;
}

/// Counts down to nothing, from any thread.
class Latch {
 public:
  explicit Latch(int count) : count_(count) {}
  void arrive() {
    const std::scoped_lock lock(mutex_);
    if (--count_ == 0) zero_.notify_all();
  }
  [[nodiscard]] bool wait() {
    std::unique_lock lock(mutex_);
    return zero_.wait_for(lock, std::chrono::seconds(100), [this] { return count_ == 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable zero_;
  int count_;
};

struct Shared {
  rdma::Provider& provider;
  SocketAddress address;
  Latch finished;
  std::atomic<std::uint64_t> numbers{0};
  std::atomic<std::uint64_t> loads{0};
  std::atomic<std::uint64_t> torn{0};
};

/// One initiator; all of it runs on its loop.
class Worker {
 public:
  Worker(Shared& shared, std::size_t number, const Uuid& identity)
      : shared_(shared), number_(number), identity_(identity), random_(number + 1) {}

  void start() {
    initiator::ConnectOptions options;
    options.address = shared_.address;
    options.loop_index = number_ % kLoops;
    options.identity = identity_;
    options.wanted = {.direct_load = true, .direct_alloc = number_ % 2 == 0};
    initiator::connect(shared_.provider, options,
                       [this](Expected<std::shared_ptr<Session>, initiator::ConnectError> session) {
                         if (!session) {
                           ADD_FAILURE() << session.error().text;
                           return shared_.finished.arrive();
                         }
                         session_ = *session;
                         session_->on_closed([this](const rdma::CloseReason&) {
                           session_.reset();
                           if (left_ <= 0) return shared_.finished.arrive();
                           start();
                         });
                         for (std::uint64_t i = 0; i < kHandlesEach; ++i) next(i);
                         for (int i = 0; i < 2; ++i) look();
                       });
  }

 private:
  [[nodiscard]] bool goes_on() {
    if (session_ == nullptr || !session_->is_open()) return false;
    if (--left_ > 0) {
      if (random_() % 300 != 0) return true;
      session_->abort("broken off");
      return false;
    }
    session_->close();
    return false;
  }

  /// Allocates and frees handle `i` of the own range, in turn.
  void next(std::uint64_t i) {
    if (!goes_on()) return;
    const std::uint64_t handle = session_->info().base_handle + i;
    if (random_() % 2 == 0) return session_->free(handle, 0, [this, i](const Outcome&) { next(i); });
    const auto memory = std::make_shared<std::vector<std::byte>>(16 + random_() % (kBlockSize / 8 - 2) * 8);
    fill(*memory, handle, shared_.numbers.fetch_add(1));
    const auto done = [this, i, memory](const Outcome&) { next(i); };
    if (session_->info().direct.alloc && random_() % 2 == 0)
      return session_->direct_alloc_store(handle, *memory, {.seal = true}, done);
    if (memory->size() <= session_->info().max_inline && random_() % 2 == 0)
      return session_->alloc_store_inline(handle, *memory, {.seal = true}, done);
    const auto buffer = session_->register_buffer(*memory, initiator::BufferUse::store);
    if (!buffer) return;
    session_->alloc_store(handle, buffer->all(), {.seal = true},
                          [done, session = session_, buffer = *buffer](const Outcome& o) {
                            session->unregister_buffer(buffer);
                            done(o);
                          });
  }

  /// Loads whatever handle, of whomever.
  void look() {
    if (!goes_on()) return;
    const std::uint64_t handle = random_() % (kLoops * kHandlesEach);
    const auto memory = std::make_shared<std::vector<std::byte>>(kBlockSize);
    const auto judge = [this, handle, memory](const Outcome& o) {
      if (o.ok()) {
        shared_.loads.fetch_add(1);
        if (!is_whole(std::span(*memory).first(o.data_length), handle)) shared_.torn.fetch_add(1);
      }
      look();
    };
    if (session_->info().direct.load && random_() % 2 == 0)
      return session_->direct_load(handle, *memory, {}, judge);
    const auto buffer = session_->register_buffer(*memory, initiator::BufferUse::load);
    if (!buffer) return;
    session_->load(handle, buffer->all(), {},
                   [judge, session = session_, buffer = *buffer](const Outcome& o) {
                     session->unregister_buffer(buffer);
                     judge(o);
                   });
  }

  Shared& shared_;
  std::size_t number_;
  Uuid identity_;
  std::mt19937_64 random_;
  int left_ = kOperations;
  std::shared_ptr<Session> session_;
};

TEST(Threads, FourLoopsLoseNothingAndMixNothing) {
  rnic::RnicOptions options;
  options.loops = kLoops;
  auto target_rnic = rnic::Rnic::create(options);
  auto initiator_rnic = rnic::Rnic::create(options);
  ASSERT_TRUE(target_rnic) << target_rnic.error().text;
  ASSERT_TRUE(initiator_rnic) << initiator_rnic.error().text;
  target::TargetConfig config;
  config.block_size = kBlockSize;
  config.reserve = 4;
  config.blocks = 4 + kLoops * kQuota;
  config.handles = kLoops * kHandlesEach;
  config.max_inline = 256;
  std::vector<Uuid> identities;
  for (std::size_t i = 0; i < kLoops; ++i) {
    Uuid identity{};
    identity.octets[0] = static_cast<std::byte>(i + 1);
    identities.push_back(identity);
    // Two with a partition of their own, two on the shared ring.
    config.initiators.push_back({.identity = identity,
                                 .address = "127.0.0.1",
                                 .quota = kQuota,
                                 .handles = kHandlesEach,
                                 .base_handle = i * kHandlesEach,
                                 .direct_load = true,
                                 .direct_alloc = i % 2 == 0});
  }
  auto target = target::Target::create(config, **target_rnic);
  ASSERT_TRUE(target) << target.error().text;
  auto listener =
      (*target_rnic)->listen(resolve({"127.0.0.1", 0}, true)->front(), (*target)->accept_function());
  ASSERT_TRUE(listener);

  Shared shared{**initiator_rnic, (*listener)->local(), Latch(kLoops)};
  std::vector<std::unique_ptr<Worker>> workers;
  for (std::size_t i = 0; i < kLoops; ++i)
    workers.push_back(std::make_unique<Worker>(shared, i, identities[i]));
  for (const auto& worker : workers) worker->start();
  ASSERT_TRUE(shared.finished.wait()) << "somebody is stuck";
  EXPECT_EQ(shared.torn, 0u);
  EXPECT_GT(shared.loads, 100u);

  listener->reset();
  Latch drained(1);
  (*target)->drain([&] { drained.arrive(); });
  ASSERT_TRUE(drained.wait());
  const target::Snapshot s = (*target)->snapshot();
  EXPECT_EQ(s.free_blocks + s.bound_handles, s.blocks);
  EXPECT_EQ(s.usage, s.bound_handles);
  EXPECT_EQ(s.pinned_blocks, 0u);
  EXPECT_EQ(s.quota_granted, kLoops * kQuota);
  initiator_rnic->reset();
  target->reset();
}

}  // namespace
}  // namespace kbtp
