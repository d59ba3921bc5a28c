// Nodes that are target and initiator at once over one provider (KBTP 1.1): both directions at the same time,
// and every order of ending. Nothing here may wait for a peer that waits for it.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <future>
#include <gtest/gtest.h>
#include <memory>
#include <mutex>
#include <vector>

#include "proto/initiator/initiator.h"
#include "proto/target/target.h"
#include "rdmap_binding/rnic/rnic.h"

namespace kbtp {
namespace {

using initiator::Outcome;
using initiator::Session;

constexpr std::uint32_t kBlockSize = 16384;
constexpr std::uint32_t kBlocks = 16;  // of each session
constexpr std::chrono::seconds kDeadline{30};

class Node {
 public:
  explicit Node(unsigned loops = 1) {
    rnic::RnicOptions options;
    options.loops = loops;
    provider = std::move(*rnic::Rnic::create(options));
    target::TargetConfig config;
    config.blocks = 64;
    config.block_size = kBlockSize;
    config.handles = 64;
    config.reserve = 16;
    target = std::move(*target::Target::create(config, *provider));
    listener =
        std::move(*provider->listen(resolve({"127.0.0.1", 0}, true)->front(), target->accept_function()));
  }
  ~Node() {
    if (target == nullptr) return;
    EXPECT_EQ(drain().wait_for(kDeadline), std::future_status::ready);
  }
  Node(const Node&) = delete;
  Node& operator=(const Node&) = delete;

  std::future<void> drain() {
    listener.reset();
    auto drained = std::make_shared<std::promise<void>>();
    target->drain([drained] { drained->set_value(); });
    return drained->get_future();
  }

  std::unique_ptr<rnic::Rnic> provider;
  std::unique_ptr<target::Target> target;
  std::unique_ptr<rdma::Listener> listener;
};

/// A session of `node` with `to` that keeps ALLOC_STORE, LOAD and FREE under way on each of its blocks until
/// it is told to stop or its session ends. Loaded octets are checked.
class Worker {
 public:
  Worker(Node& node, const Node& to, std::byte octet)
      : octet_(octet), source_(kBlockSize, octet), sinks_(std::size_t{kBlocks} * kBlockSize) {
    initiator::ConnectOptions options;
    options.address = to.listener->local();
    options.quota = kBlocks;
    options.handles = kBlocks;
    std::promise<std::shared_ptr<Session>> connected;
    initiator::connect(*node.provider, options,
                       [&](auto session) { connected.set_value(session ? *session : nullptr); });
    session_ = connected.get_future().get();
    ended_ = over_.get_future();
    if (session_ == nullptr) {
      over_.set_value();
      return;
    }
    session_->loop().post([this] {
      session_->on_closed([this](const rdma::CloseReason&) { over_.set_value(); });
      from_ = *session_->register_buffer(source_, initiator::BufferUse::store);
      to_ = *session_->register_buffer(sinks_, initiator::BufferUse::load);
      for (std::uint32_t block = 0; block < kBlocks; ++block) store(block);
    });
  }
  ~Worker() { EXPECT_TRUE(ended()); }
  Worker(const Worker&) = delete;
  Worker& operator=(const Worker&) = delete;

  /// Ends the session gracefully, once what is under way has been answered.
  void close() {
    session_->loop().post([this] {
      stopping_ = true;
      session_->close();
    });
  }
  /// Whether the session has ended, and every operation before it.
  [[nodiscard]] bool ended() {
    const bool over = ended_.wait_for(kDeadline) == std::future_status::ready;
    return over && under_way_.load() == 0;
  }
  /// Waits until so many LOADs have been checked.
  [[nodiscard]] bool has_loaded(std::uint64_t count) {
    std::unique_lock lock(mutex_);
    return more_.wait_for(lock, kDeadline, [&] { return loads_ >= count; });
  }

 private:
  using Then = void (Worker::*)(std::uint32_t);
  initiator::Done then(std::uint32_t block, Then next) {
    ++under_way_;
    return [this, block, next](const Outcome& outcome) {
      --under_way_;
      if (!outcome.answered) return;  // the session has ended, which a test may have wanted
      EXPECT_EQ(outcome.status, wire::Status::success);
      if (!stopping_) (this->*next)(block);
    };
  }
  void store(std::uint32_t block) {
    session_->alloc_store(session_->info().base_handle + block, from_.all(), {.seal = true},
                          then(block, &Worker::load));
  }
  void load(std::uint32_t block) {
    const auto sink = to_.slice(std::size_t{block} * kBlockSize, kBlockSize);
    std::fill(sink.memory.begin(), sink.memory.end(), std::byte{0});
    session_->load(session_->info().base_handle + block, sink, {}, then(block, &Worker::loaded));
  }
  void loaded(std::uint32_t block) {
    const auto got = to_.slice(std::size_t{block} * kBlockSize, kBlockSize).memory;
    EXPECT_TRUE(std::all_of(got.begin(), got.end(), [this](std::byte octet) { return octet == octet_; }));
    {
      const std::scoped_lock lock(mutex_);
      ++loads_;
    }
    more_.notify_all();
    session_->free(session_->info().base_handle + block, 0, then(block, &Worker::store));
  }

  std::byte octet_;
  std::vector<std::byte> source_;
  std::vector<std::byte> sinks_;
  std::shared_ptr<Session> session_;
  initiator::Buffer from_;
  initiator::Buffer to_;
  std::atomic<bool> stopping_ = false;
  std::atomic<int> under_way_ = 0;
  std::promise<void> over_;
  std::future<void> ended_;
  std::mutex mutex_;
  std::condition_variable more_;
  std::uint64_t loads_ = 0;
};

TEST(Peer, BothDirectionsAtOnce) {
  for (const unsigned loops : {1U, 2U}) {
    Node a(loops);
    Node b(loops);
    {
      Worker ab(a, b, std::byte{1});
      Worker ba(b, a, std::byte{2});
      Worker aa(a, a, std::byte{3});
      for (Worker* worker : {&ab, &ba, &aa}) EXPECT_TRUE(worker->has_loaded(200));
      for (Worker* worker : {&ab, &ba, &aa}) worker->close();
    }
    for (Node* node : {&a, &b}) {
      EXPECT_EQ(node->drain().wait_for(kDeadline), std::future_status::ready);
      EXPECT_EQ(node->target->free_blocks(), node->target->config().blocks);
    }
  }
}

TEST(Peer, NodesThatDrainAtTheSameTimeDoNotWaitForEachOther) {
  for (int round = 0; round < 20; ++round) {
    Node a;
    Node b;
    Worker ab(a, b, std::byte{1});
    Worker ba(b, a, std::byte{2});
    Worker bb(b, b, std::byte{3});
    ASSERT_TRUE(ab.has_loaded(1) && ba.has_loaded(1) && bb.has_loaded(1));
    // With operations under way in all directions.
    const auto a_drained = a.drain();
    const auto b_drained = b.drain();
    ASSERT_EQ(a_drained.wait_for(kDeadline), std::future_status::ready);
    ASSERT_EQ(b_drained.wait_for(kDeadline), std::future_status::ready);
    ASSERT_TRUE(ab.ended() && ba.ended() && bb.ended());
    EXPECT_EQ(a.target->free_blocks(), a.target->config().blocks);
    EXPECT_EQ(b.target->free_blocks(), b.target->config().blocks);
  }
}

TEST(Peer, ANodeThatDrainsGoesOnAsInitiator) {
  Node a;
  Node b;
  Worker ab(a, b, std::byte{1});
  Worker ba(b, a, std::byte{2});
  ASSERT_TRUE(ab.has_loaded(1) && ba.has_loaded(1));
  ASSERT_EQ(a.drain().wait_for(kDeadline), std::future_status::ready);
  EXPECT_TRUE(ba.ended());
  Worker later(a, b, std::byte{4});
  EXPECT_TRUE(later.has_loaded(50));
  EXPECT_TRUE(ab.has_loaded(50));
  later.close();
  ab.close();
}

TEST(Peer, ANodeThatGoesAwayWithOperationsUnderWayLosesNoBlockOfTheOther) {
  Node b;
  {
    auto a = std::make_unique<Node>();
    Worker ab(*a, b, std::byte{1});
    Worker ba(b, *a, std::byte{2});
    ASSERT_TRUE(ab.has_loaded(1) && ba.has_loaded(1));
    ASSERT_EQ(a->drain().wait_for(kDeadline), std::future_status::ready);
    a->target.reset();
    a->provider.reset();  // its session with b is cut, whatever is under way
    EXPECT_TRUE(ab.ended());
    EXPECT_TRUE(ba.ended());
  }
  ASSERT_EQ(b.drain().wait_for(kDeadline), std::future_status::ready);
  EXPECT_EQ(b.target->free_blocks(), b.target->config().blocks);
}

}  // namespace
}  // namespace kbtp
