// Target and initiators over the user-space RNIC on loopback: several loops on both sides, several sessions,
// real threads. Octets are checked, and everything is free at the end.

#include <algorithm>
#include <atomic>
#include <gtest/gtest.h>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "proto/initiator/initiator.h"
#include "proto/initiator/sync_initiator.h"
#include "proto/target/target.h"
#include "rdmap_binding/rnic/rnic.h"
#include "tests/integration/countdown.h"

namespace kbtp {
namespace {

using initiator::Outcome;
using initiator::Session;
using initiator::SyncInitiator;
using testing::Countdown;
using wire::Status;

constexpr std::uint32_t kBlockSize = 16384;

class Stack : public ::testing::Test {
 protected:
  Stack() {
    rnic::RnicOptions options;
    options.loops = 2;
    target_rnic = std::move(*rnic::Rnic::create(options));
    initiator_rnic = std::move(*rnic::Rnic::create(options));
    target::TargetConfig config;
    config.blocks = 80;
    config.block_size = kBlockSize;
    config.handles = 80;
    config.reserve = 16;
    config.max_requests = 16;
    config.deadlines.linger = std::chrono::milliseconds(200);
    target = std::move(*target::Target::create(config, *target_rnic));
    const auto addresses = resolve({"127.0.0.1", 0}, true);
    listener = std::move(*target_rnic->listen(addresses->front(), target->accept_function()));
  }
  ~Stack() override {
    listener.reset();
    const auto drained = std::make_shared<Countdown>(1);
    target->drain([drained] { drained->done(); });
    EXPECT_TRUE(drained->wait());
    EXPECT_EQ(target->free_blocks(), 80u);
    EXPECT_EQ(target->snapshot().usage, 0u);
    target.reset();
    initiator_rnic.reset();
    target_rnic.reset();
  }
  [[nodiscard]] initiator::ConnectOptions options(std::size_t loop, std::uint32_t quota) const {
    initiator::ConnectOptions o;
    o.address = listener->local();
    o.loop_index = loop;
    o.quota = quota;
    o.handles = quota;
    return o;
  }
  /// True once every block is free; sessions end in their own time.
  [[nodiscard]] bool all_free() const {
    const auto end = Clock::now() + std::chrono::seconds(30);
    while (target->free_blocks() != 80 || target->snapshot().sessions_open != 0) {
      if (Clock::now() > end) return false;
      std::this_thread::yield();
    }
    return true;
  }

  std::unique_ptr<rnic::Rnic> target_rnic;
  std::unique_ptr<rnic::Rnic> initiator_rnic;
  std::unique_ptr<target::Target> target;
  std::unique_ptr<rdma::Listener> listener;
};

std::vector<std::byte> content(std::size_t size, std::uint64_t id) {
  std::mt19937_64 random(id);
  std::vector<std::byte> octets(size);
  for (auto& octet : octets) octet = static_cast<std::byte>(random());
  return octets;
}

TEST_F(Stack, EveryOperationOnce) {
  auto one = SyncInitiator::connect(*initiator_rnic, options(0, 4));
  ASSERT_TRUE(one) << one.error().text;
  SyncInitiator& s = **one;
  EXPECT_EQ(s.info().quota, 4u);
  const std::uint64_t h = s.info().base_handle;
  auto first = content(kBlockSize, 1), second = content(1000, 2), third = content(100, 3);
  const auto bound = s.alloc_store(h, first);
  ASSERT_TRUE(bound.ok()) << bound.error;
  std::vector<std::byte> sink(kBlockSize);
  EXPECT_EQ(s.load(h, sink).status, Status::not_sealed);
  EXPECT_TRUE(s.load(h, sink, {.allow_unsealed = true}).ok());
  EXPECT_EQ(sink, first);
  EXPECT_TRUE(s.store(h, second, {.seal = true}).ok());
  const auto loaded = s.load(h, sink);
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ(loaded.data_length, 1000u);
  EXPECT_TRUE(std::equal(second.begin(), second.end(), sink.begin()));
  EXPECT_TRUE(s.alloc_store(h + 1, third, {.seal = true}, true).ok());
  EXPECT_TRUE(s.load(h + 1, sink).ok());
  EXPECT_TRUE(std::equal(third.begin(), third.end(), sink.begin()));
  EXPECT_EQ(s.probe(h).status, Status::length_error);
  EXPECT_TRUE(s.free(h).ok());
  EXPECT_EQ(s.free(h).status, Status::not_bound);
  one->reset();
  EXPECT_TRUE(all_free());
}

/// One session that stores, loads from everybody, and frees, 16 at a time, on its loop.
class Worker : public std::enable_shared_from_this<Worker> {
 public:
  Worker(std::uint64_t seed, Countdown& finished) : random_(seed), finished_(finished) {}

  void start(rdma::Provider& provider, const initiator::ConnectOptions& options) {
    initiator::connect(provider, options, [self = shared_from_this()](auto session) {
      ASSERT_TRUE(session) << session.error().text;
      self->session_ = *session;
      self->session_->on_closed([self](const rdma::CloseReason&) {
        self->session_.reset();
        self->finished_.done();
      });
      for (int i = 0; i < 16; ++i) self->next();
    });
  }
  std::atomic<int> checked = 0;
  std::atomic<int> wrong = 0;

 private:
  void next() {
    if (!session_->is_open()) return;
    if (left_-- <= 0) return session_->close();
    auto memory = std::make_shared<std::vector<std::byte>>(kBlockSize);
    const auto buffer = session_->register_buffer(*memory, initiator::BufferUse::load_and_store);
    if (!buffer) return;
    const std::uint64_t own = session_->info().base_handle + random_() % session_->info().handles;
    const auto done = [self = shared_from_this(), memory, buffer = *buffer](const Outcome&) {
      if (self->session_ == nullptr) return;
      self->session_->unregister_buffer(buffer);
      self->next();
    };
    switch (random_() % 4) {
      case 0: {
        // The first octets name the content, so that whoever loads it can check all of it.
        const std::uint64_t id = random_();
        fill(*memory, id);
        return session_->alloc_store(own, buffer->all(), {.seal = true}, done);
      }
      case 1:
        return session_->free(own, 0, done);
      default:
        return session_->load(random_() % 64, buffer->all(), {},
                              [self = shared_from_this(), memory, done](const Outcome& o) {
                                if (o.ok()) self->check(*memory);
                                done(o);
                              });
    }
  }
  static void fill(std::vector<std::byte>& memory, std::uint64_t id) {
    for (std::size_t i = 0; i + 8 <= memory.size(); i += 8)
      store_be<std::uint64_t>(memory.data() + i, id + i);
  }
  void check(const std::vector<std::byte>& memory) {
    std::vector<std::byte> expected(memory.size());
    fill(expected, load_be<std::uint64_t>(memory.data()));
    ++checked;
    if (memory != expected) ++wrong;
  }

  std::mt19937_64 random_;
  Countdown& finished_;
  std::shared_ptr<Session> session_;
  int left_ = 400;
};

TEST_F(Stack, ManySessionsOnSeveralLoopsLoseNothing) {
  Countdown finished(4);
  std::vector<std::shared_ptr<Worker>> workers;
  for (std::size_t i = 0; i < 4; ++i) {
    workers.push_back(std::make_shared<Worker>(i, finished));
    workers.back()->start(*initiator_rnic, options(i % 2, 16));
  }
  ASSERT_TRUE(finished.wait());
  int checked = 0;
  for (const auto& worker : workers) {
    EXPECT_EQ(worker->wrong, 0);
    checked += worker->checked;
  }
  EXPECT_GT(checked, 50);
  EXPECT_TRUE(all_free());
}

TEST_F(Stack, AbortedSessionsGiveEverythingBack) {
  for (int round = 0; round < 10; ++round) {
    const auto closed = std::make_shared<Countdown>(1);
    auto memory = std::make_shared<std::vector<std::byte>>(content(kBlockSize, 7));
    initiator::connect(*initiator_rnic, options(0, 16), [closed, memory](auto session) {
      ASSERT_TRUE(session) << session.error().text;
      auto& s = **session;
      s.on_closed([closed, memory](const rdma::CloseReason&) { closed->done(); });
      const auto buffer = s.register_buffer(*memory, initiator::BufferUse::load_and_store);
      const auto count = std::make_shared<int>(0);
      for (std::uint64_t h = 0; h < 16; ++h) {
        s.alloc_store(s.info().base_handle + h, buffer->all(), {.seal = true},
                      [count, session = *session](const Outcome&) {
                        if (++*count == 5) session->abort("killed in the middle");
                      });
      }
    });
    ASSERT_TRUE(closed->wait());
    ASSERT_TRUE(all_free()) << round;
  }
}

}  // namespace
}  // namespace kbtp
