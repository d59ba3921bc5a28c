// KBTP-3.4-10 over the user-space RNIC: an initiator that never binds its ticket and never stops writing.
// Once its Partition STag is revoked the block gets another content, which none of its Writes may touch.

#include <algorithm>
#include <chrono>
#include <condition_variable>
#include <gtest/gtest.h>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "proto/initiator/sync_initiator.h"
#include "proto/target/target.h"
#include "proto/wire/completion.h"
#include "proto/wire/hello.h"
#include "proto/wire/request.h"
#include "proto/wire/structures.h"
#include "rdmap_binding/rnic/rnic.h"

namespace kbtp {
namespace {

using wire::Status;

constexpr std::uint32_t kBlockSize = 4096;
constexpr std::uint32_t kLanes = 4;
constexpr rdma::WorkId kTicket = 1;
const Uuid kRogue = *Uuid::parse("11111111-2222-3333-4444-555555555555");
const Uuid kWitness = *Uuid::parse("99999999-2222-3333-4444-555555555555");

/// Takes the only ticket of its ring, then sends Write, Write, ALLOC_STORE over and over, several at a time,
/// until the target's RNIC ends it. The ALLOC_STORE succeeds only when the ticket has been abandoned.
class Rogue final : public rdma::StreamHandler {
 public:
  void on_open(rdma::Stream& stream, Octets) override {
    stream_ = &stream;
    wire::Hello hello;
    hello.wanted.direct_alloc = true;
    hello.identity = kRogue;
    post(rdma::Send{0, wire::encode(hello), false, {}});
  }
  void on_received(const rdma::Received& received) override {
    stream_->post_receives(1);
    if (!ack_) {
      const auto ack = wire::decode_hello_ack(received.payload);
      ASSERT_TRUE(ack);
      ASSERT_TRUE(ack->granted.direct_alloc);
      ack_ = *ack;
      const wire::CounterFormat format(ack->ring_log2);
      post(rdma::FetchAdd{kTicket, {ack->head_stag, ack->head_offset}, format.add_data(), format.add_mask()});
      return;
    }
    const auto completion = wire::decode_completion(received.payload);
    ASSERT_TRUE(completion);
    stored_ = stored_ || completion->status == Status::success;
    write_and_store();
  }
  void on_completion(const rdma::Completion& completion) override {
    if (completion.id != kTicket || completion.status != rdma::WorkStatus::success) return;
    for (std::uint32_t lane = 0; lane < kLanes; ++lane) write_and_store();
  }
  void on_closed(const rdma::CloseReason& reason) override {
    const std::scoped_lock lock(mutex_);
    stream_ = nullptr;
    closed_ = reason;
    ended_.notify_all();
  }

  [[nodiscard]] std::optional<rdma::CloseReason> wait() {
    std::unique_lock lock(mutex_);
    ended_.wait_for(lock, std::chrono::seconds(60), [this] { return closed_.has_value(); });
    return closed_;
  }
  /// After wait(): whether an ALLOC_STORE was told to have succeeded.
  [[nodiscard]] bool stored() const { return stored_; }

  const std::vector<std::byte> rogue = std::vector<std::byte>(kBlockSize, std::byte{0xAA});
  const std::vector<std::byte> good = std::vector<std::byte>(kBlockSize, std::byte{0x5A});

 private:
  void post(rdma::WorkRequest request) {
    std::vector<rdma::WorkRequest> requests;
    requests.push_back(std::move(request));
    stream_->post(std::move(requests));
  }
  void write_and_store() {
    const rdma::RemoteBuffer block{ack_->partition_stag, ack_->partition_offset};
    wire::AllocStore store;
    store.head.request_id = ++next_id_;
    store.body.inline_data = Octets(good);
    store.body.seal = true;
    std::vector<rdma::WorkRequest> requests;
    requests.emplace_back(rdma::Write{0, rogue, block, {}});
    requests.emplace_back(rdma::Write{0, rogue, block, {}});
    requests.emplace_back(rdma::Send{0, wire::encode(store), false, {}});
    stream_->post(std::move(requests));
  }

  rdma::Stream* stream_ = nullptr;
  std::optional<wire::HelloAck> ack_;
  std::uint64_t next_id_ = 0;
  bool stored_ = false;
  std::mutex mutex_;
  std::condition_variable ended_;
  std::optional<rdma::CloseReason> closed_;
};

class AbandonmentStack : public ::testing::TestWithParam<bool> {};

TEST_P(AbandonmentStack, AWriteAfterRevocationNeverLands) {
  rnic::RnicOptions options;
  options.crc = GetParam();
  const auto target_rnic = std::move(*rnic::Rnic::create(options));
  const auto initiator_rnic = std::move(*rnic::Rnic::create(options));
  target::TargetConfig config;
  config.blocks = 4;
  config.block_size = kBlockSize;
  config.handles = 4;
  config.reserve = 0;
  config.max_inline = kBlockSize;
  config.direct.ticket_timeout = std::chrono::milliseconds(20);
  config.direct.abandonment = target::Abandonment::invalidate_partition;
  config.initiators = {{.identity = kRogue,
                        .address = "127.0.0.1",
                        .quota = 1,
                        .handles = 1,
                        .base_handle = 0,
                        .direct_alloc = true},
                       {.identity = kWitness, .address = "127.0.0.1", .direct_load = true}};
  const auto target = std::move(*target::Target::create(config, *target_rnic));
  auto listener =
      std::move(*target_rnic->listen(resolve({"127.0.0.1", 0}, true)->front(), target->accept_function()));
  initiator::ConnectOptions witness_options;
  witness_options.address = listener->local();
  witness_options.identity = kWitness;
  witness_options.wanted.direct_load = true;
  auto witness = initiator::SyncInitiator::connect(*initiator_rnic, witness_options);
  ASSERT_TRUE(witness) << witness.error().text;

  constexpr int kRounds = 15;
  for (int round = 0; round < kRounds; ++round) {
    Rogue rogue;
    rdma::StreamOptions stream;
    stream.initial_receives = 2 + kLanes;
    initiator_rnic->connect(listener->local(), 0, stream, rogue);
    const auto closed = rogue.wait();
    ASSERT_TRUE(closed) << "the rogue goes on";
    EXPECT_EQ(closed->terminate, 0x1100) << closed->text;

    // Bound or not, as it came; but what is bound is what the ALLOC_STORE brought.
    std::vector<std::byte> sink(kBlockSize);
    const auto loaded = (*witness)->direct_load(0, sink);
    ASSERT_TRUE(loaded.answered) << loaded.error;
    if (loaded.ok()) {
      EXPECT_EQ(sink, rogue.good) << "round " << round;
    }
    if (rogue.stored()) {
      EXPECT_TRUE(loaded.ok());
    }
    if (loaded.ok()) {
      initiator::ConnectOptions again;
      again.address = listener->local();
      again.identity = kRogue;
      auto owner = initiator::SyncInitiator::connect(*initiator_rnic, again);
      ASSERT_TRUE(owner) << owner.error().text;
      EXPECT_TRUE((*owner)->free(0).ok());
    }
  }
  EXPECT_EQ(target->snapshot().tickets_abandoned, static_cast<std::uint64_t>(kRounds));
  EXPECT_EQ(target->free_blocks(), 4u);

  witness->reset();
  listener.reset();
  std::mutex mutex;
  std::condition_variable drained;
  bool done = false;
  target->drain([&] {
    const std::scoped_lock lock(mutex);
    done = true;
    drained.notify_all();
  });
  std::unique_lock lock(mutex);
  EXPECT_TRUE(drained.wait_for(lock, std::chrono::seconds(60), [&] { return done; }));
}

std::string crc_name(const ::testing::TestParamInfo<bool>& param) { return param.param ? "Crc" : "NoCrc"; }

INSTANTIATE_TEST_SUITE_P(With, AbandonmentStack, ::testing::Bool(), crc_name);

}  // namespace
}  // namespace kbtp
