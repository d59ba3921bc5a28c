// The direct modes over the user-space RNIC on loopback: real threads, two sessions that allocate, free and
// load from each other at the same time. Every block says itself what its octets have to be.

#include <algorithm>
#include <atomic>
#include <cstring>
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

using initiator::DirectFailure;
using initiator::Outcome;
using initiator::Session;
using initiator::SyncInitiator;
using testing::Countdown;
using wire::Status;

constexpr std::uint32_t kBlockSize = 8192;
constexpr std::uint32_t kQuota = 6;

// Its own seed first, then what follows from it.
void fill(std::span<std::byte> octets, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  for (std::size_t at = 0; at < octets.size(); at += 8) {
    const std::uint64_t word = at == 0 ? seed : random();
    std::memcpy(octets.data() + at, &word, std::min<std::size_t>(8, octets.size() - at));
  }
}
bool is_whole(Octets octets) {
  std::uint64_t seed = 0;
  std::memcpy(&seed, octets.data(), sizeof seed);
  std::vector<std::byte> expected(octets.size());
  fill(expected, seed);
  return std::ranges::equal(expected, octets);
}

class DirectStack : public ::testing::Test {
 protected:
  DirectStack() {
    rnic::RnicOptions options;
    options.loops = 2;
    target_rnic = std::move(*rnic::Rnic::create(options));
    initiator_rnic = std::move(*rnic::Rnic::create(options));
    target::TargetConfig config;
    config.blocks = 32;
    config.block_size = kBlockSize;
    config.handles = 64;
    config.reserve = 8;
    for (std::size_t i = 0; i < 2; ++i) {
      target::NamedInitiator named;
      named.identity = identities[i];
      named.address = "127.0.0.1";
      named.quota = kQuota;
      named.handles = 8;
      named.base_handle = 8 * i;
      named.direct_load = true;
      named.direct_alloc = true;
      config.initiators.push_back(named);
    }
    auto created = target::Target::create(config, *target_rnic);
    EXPECT_TRUE(created) << (created ? "" : created.error().text);
    target = std::move(*created);
    const auto addresses = resolve({"127.0.0.1", 0}, true);
    listener = std::move(*target_rnic->listen(addresses->front(), target->accept_function()));
  }
  ~DirectStack() override {
    listener.reset();
    const auto drained = std::make_shared<Countdown>(1);
    target->drain([drained] { drained->done(); });
    EXPECT_TRUE(drained->wait());
    target.reset();
    initiator_rnic.reset();
    target_rnic.reset();
  }
  [[nodiscard]] initiator::ConnectOptions options(std::size_t who) const {
    initiator::ConnectOptions o;
    o.address = listener->local();
    o.loop_index = who;
    o.identity = identities[who];
    o.wanted = {.direct_load = true, .direct_alloc = true};
    return o;
  }

  const std::vector<Uuid> identities{*Uuid::parse("11111111-2222-3333-4444-555555555555"),
                                     *Uuid::parse("99999999-2222-3333-4444-555555555555")};
  std::unique_ptr<rnic::Rnic> target_rnic;
  std::unique_ptr<rnic::Rnic> initiator_rnic;
  std::unique_ptr<target::Target> target;
  std::unique_ptr<rdma::Listener> listener;
};

TEST_F(DirectStack, WhatIsAllocatedDirectlyIsLoadedEitherWay) {
  auto connected = SyncInitiator::connect(*initiator_rnic, options(0));
  ASSERT_TRUE(connected) << connected.error().text;
  SyncInitiator& s = **connected;
  ASSERT_TRUE(s.info().direct.load);
  ASSERT_TRUE(s.info().direct.alloc);
  std::vector<std::byte> data(kBlockSize), sink(kBlockSize);
  for (const std::size_t length : {kBlockSize, kBlockSize - 1, 1001U, 9U, 8U, 1U, 0U}) {
    fill(std::span(data).first(length), length);
    const Outcome stored = s.direct_alloc_store(3, std::span(data).first(length), {.seal = true});
    ASSERT_TRUE(stored.ok()) << length << ": " << stored.error << wire::to_string(stored.status);
    const Outcome direct = s.direct_load(3, sink);
    ASSERT_TRUE(direct.ok()) << length << ": " << direct.error << wire::to_string(direct.status);
    EXPECT_EQ(direct.data_length, length);
    EXPECT_EQ(direct.generation, stored.generation);
    EXPECT_EQ(direct.block_offset, stored.block_offset);
    EXPECT_TRUE(std::equal(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(length), sink.begin()));
    std::ranges::fill(sink, std::byte{});
    EXPECT_TRUE(s.load(3, sink).ok());
    EXPECT_TRUE(std::equal(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(length), sink.begin()));
    ASSERT_TRUE(s.free(3).ok());
    EXPECT_EQ(s.direct_load(3, sink).status, Status::not_bound);
  }
  EXPECT_EQ(s.direct_alloc_store(8, data).status, Status::not_owner);
  ASSERT_TRUE(s.alloc_store(4, data).ok());
  EXPECT_EQ(s.direct_load(4, sink).status, Status::not_sealed);
  EXPECT_EQ(s.direct_alloc_store(4, data).status, Status::already_bound);
  for (std::uint64_t h = 0; h < 4; ++h) EXPECT_TRUE(s.direct_alloc_store(h, data, {.seal = true}).ok());
  EXPECT_TRUE(s.direct_alloc_store(5, data).ok());
  EXPECT_EQ(s.direct_alloc_store(6, data).status, Status::no_space);
  for (std::uint64_t h = 0; h < 6; ++h) EXPECT_TRUE(s.free(h).ok());
  EXPECT_TRUE(s.direct_alloc_store(6, data).ok());
  EXPECT_TRUE(s.free(6).ok());
}

TEST_F(DirectStack, WithoutTheModesNothingIsGranted) {
  auto plain = options(0);
  plain.wanted = {};
  auto connected = SyncInitiator::connect(*initiator_rnic, plain);
  ASSERT_TRUE(connected) << connected.error().text;
  std::vector<std::byte> sink(kBlockSize);
  EXPECT_EQ((*connected)->direct_load(0, sink).direct, DirectFailure::unavailable);
  auto anonymous = options(1);
  anonymous.identity = {};
  auto other = SyncInitiator::connect(*initiator_rnic, anonymous);
  ASSERT_TRUE(other) << other.error().text;
  EXPECT_FALSE((*other)->info().direct.load);
  EXPECT_EQ((*other)->direct_alloc_store(0, sink).direct, DirectFailure::unavailable);
}

// Allocates, frees and loads on its session's loop, several at a time.
class Churn : public std::enable_shared_from_this<Churn> {
 public:
  Churn(std::size_t who, int operations, Countdown& finished)
      : base_(8 * who), left_(operations), random_(who + 1), finished_(finished) {}

  void start(rdma::Provider& provider, const initiator::ConnectOptions& options) {
    initiator::connect(provider, options, [self = shared_from_this()](auto session) {
      ASSERT_TRUE(session) << session.error().text;
      self->session_ = *session;
      self->session_->on_closed([self](const rdma::CloseReason&) {
        self->session_.reset();
        self->finished_.done();
      });
      for (std::size_t handle = 0; handle < kQuota; ++handle) self->store(handle);
      for (std::size_t lane = 0; lane < self->sinks_.size(); ++lane) self->load(lane);
    });
  }
  std::atomic<int> loaded = 0;
  std::atomic<int> wrong = 0;

 private:
  void store(std::size_t handle) {
    if (left_-- <= 0) return finish_lane();
    auto& source = sources_[handle];
    source.resize(8 + random_() % (kBlockSize - 7));
    fill(source, random_());
    session_->direct_alloc_store(
        base_ + handle, source, {.seal = true}, [self = shared_from_this(), handle](const Outcome& outcome) {
          EXPECT_TRUE(outcome.ok()) << outcome.error << wire::to_string(outcome.status);
          self->load_own(handle);
        });
  }
  // Nobody else frees it, so this load succeeds, and gives those of others their time.
  void load_own(std::size_t handle) {
    session_->direct_load(base_ + handle, own_sinks_[handle], {},
                          [self = shared_from_this(), handle](const Outcome& outcome) {
                            EXPECT_TRUE(outcome.ok()) << outcome.error << wire::to_string(outcome.status);
                            self->count(self->own_sinks_[handle], outcome);
                            self->session_->free(self->base_ + handle, 0, [self, handle](const Outcome& o) {
                              EXPECT_TRUE(o.ok()) << o.error << wire::to_string(o.status);
                              self->store(handle);
                            });
                          });
  }
  void count(const std::vector<std::byte>& sink, const Outcome& outcome) {
    ++loaded;
    if (!is_whole(Octets(sink).first(outcome.data_length))) ++wrong;
  }
  void load(std::size_t lane) {
    if (left_ <= 0) return finish_lane();
    const std::uint64_t handle = (random_() % 2) * 8 + random_() % kQuota;
    session_->direct_load(
        handle, sinks_[lane], {}, [self = shared_from_this(), lane](const Outcome& outcome) {
          if (outcome.ok()) {
            self->count(self->sinks_[lane], outcome);
          } else {
            EXPECT_TRUE(outcome.status == Status::not_bound || outcome.direct == DirectFailure::changed)
                << outcome.error << wire::to_string(outcome.status);
          }
          self->load(lane);
        });
  }
  void finish_lane() {
    if (++ended_ == kQuota + sinks_.size()) session_->close();
  }

  std::uint64_t base_;
  int left_;
  std::mt19937_64 random_;
  Countdown& finished_;
  std::shared_ptr<Session> session_;
  std::size_t ended_ = 0;
  std::vector<std::vector<std::byte>> sources_ = std::vector<std::vector<std::byte>>(kQuota);
  std::vector<std::vector<std::byte>> own_sinks_ =
      std::vector<std::vector<std::byte>>(kQuota, std::vector<std::byte>(kBlockSize));
  std::vector<std::vector<std::byte>> sinks_ =
      std::vector<std::vector<std::byte>>(4, std::vector<std::byte>(kBlockSize));
};

TEST_F(DirectStack, LoadsBesideAllocationsAndFreesBringWholeStoresOnly) {
  Countdown finished(2);
  const auto a = std::make_shared<Churn>(0, 1500, finished);
  const auto b = std::make_shared<Churn>(1, 1500, finished);
  a->start(*initiator_rnic, options(0));
  b->start(*initiator_rnic, options(1));
  ASSERT_TRUE(finished.wait());
  EXPECT_EQ(a->wrong + b->wrong, 0);
  EXPECT_GE(a->loaded + b->loaded, 3000);
}

}  // namespace
}  // namespace kbtp
