// Memory that peers and the host use at the same time (Content::shared, Read::shared_sink): under
// ThreadSanitizer every plain access to it is reported.

#include "base/shared_memory.h"

#include <atomic>
#include <condition_variable>
#include <gtest/gtest.h>
#include <mutex>
#include <thread>

#include "rdmap_binding/rnic/engine_rig.h"

namespace kbtp::rnic::test {
namespace {

using rdma::Access;
using rdma::Content;

constexpr auto kPatience = std::chrono::seconds(60);  // of a wait for something that must happen

/// Counts completions and runs an action at each, on the loop.
class Worker : public rdma::StreamHandler {
 public:
  void on_open(rdma::Stream& s, Octets) override {
    stream = &s;
    if (step) step();
  }
  void on_received(const rdma::Received&) override {}
  void on_completion(const rdma::Completion& c) override {
    if (c.status != rdma::WorkStatus::success) finish("a request did not succeed");
    if (step) step();
  }
  void on_closed(const rdma::CloseReason& reason) override { finish(reason.text); }
  void finish(const std::string& text) {
    const std::scoped_lock lock(mutex);
    if (!ended) result = text;
    ended = true;
    changed.notify_all();
  }
  /// What finish() was given first.
  [[nodiscard]] std::string wait() {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, kPatience, [&] { return ended; }) ? result : "nothing came";
  }

  rdma::Stream* stream = nullptr;
  std::function<void()> step;

 private:
  std::mutex mutex;
  std::condition_variable changed;
  bool ended = false;
  std::string result;
};

/// Every writer writes one of these throughout.
constexpr int kRounds = 60;
bool known_octets_only(Octets octets) {
  return std::ranges::all_of(octets, [](std::byte o) { return std::to_integer<int>(o) <= kRounds; });
}

class SharedMemory : public testing::TestWithParam<bool> {};

/// One stream writes into the pool, another reads it, a third has its sink in it, and the host does all
/// three.
TEST_P(SharedMemory, WritersReadersAndTheHostMeet) {
  constexpr std::size_t kPool = 64 * 1024;
  RnicOptions options;
  options.crc = GetParam();
  options.loops = 3;
  std::vector<std::byte> pool(kPool);
  std::array<std::vector<std::byte>, 3> own;
  for (auto& memory : own) memory.resize(kPool);
  std::vector<std::byte> remote(kPool, std::byte{9});  // what the target's own Reads fetch, into the pool
  std::array<Worker, 3> served;
  std::array<Worker, 3> used;
  std::atomic<std::size_t> next{0};
  auto target = std::move(*Rnic::create(options));
  auto initiator = std::move(*Rnic::create(options));
  const auto stag = target
                        ->register_region(rdma::DomainId{}, {pool, Access::remote_read | Access::remote_write,
                                                             Content::shared, 0, false})
                        ->stag;
  const auto remote_stag =
      initiator->register_region(rdma::DomainId{}, {remote, Access::remote_read, Content::stable, 0, false})
          ->stag;
  auto listener =
      target->listen(resolve({"127.0.0.1", 0})->front(), [&](const rdma::ConnectionRequest&, rdma::Loop&) {
        Worker& worker = served.at(next++);
        worker.step = [&worker, &pool, remote_stag, rounds = 0]() mutable {
          if (rounds++ == kRounds) return worker.finish("done");
          rdma::Read read{1, pool, {remote_stag, 0}};
          read.shared_sink = true;
          worker.stream->post({read});
        };
        return rdma::AcceptDecision(rdma::Accept{&worker, {}});
      });
  ASSERT_TRUE(listener.has_value());
  for (std::size_t i = 0; i < used.size(); ++i) {
    Worker& worker = used[i];
    worker.step = [&worker, &memory = own[i], i, stag, rounds = 0]() mutable {
      if (i == 1 && !known_octets_only(memory)) return worker.finish("octets that nobody wrote");
      if (rounds++ == kRounds) return worker.finish("done");
      if (i == 1) {
        worker.stream->post({rdma::Read{1, memory, {stag, 0}}});
      } else {
        std::ranges::fill(memory, static_cast<std::byte>(rounds));
        worker.stream->post({rdma::Write{1, memory, {stag, 0}, nullptr}});
      }
    };
    initiator->connect((*listener)->local(), i, {}, worker);
  }
  std::vector<std::byte> host(kPool);
  for (int i = 0; i < kRounds; ++i) {
    copy_from_shared(host, pool);
    EXPECT_TRUE(known_octets_only(host));
    fill_shared(pool, static_cast<std::byte>(i));
    copy_to_shared(pool, std::vector<std::byte>(kPool, std::byte{3}));
  }
  for (auto& worker : used) EXPECT_EQ(worker.wait(), "done");
  for (auto& worker : served) EXPECT_EQ(worker.wait(), "done");
}

bool lies_in(const iovec& piece, Octets region) {
  const auto* at = static_cast<const std::byte*>(piece.iov_base);
  return at < region.data() + region.size() && at + piece.iov_len > region.data();
}

/// The kernel is never given shared memory to read or write: it would do so with accesses of its own.
TEST_P(SharedMemory, IsNeitherReadIntoNorSentFromWhereItLies) {
  constexpr std::size_t kSize = 50'000;
  for (const Content content : {Content::octets, Content::shared}) {
    const bool plain = content == Content::octets && !GetParam();  // what the test would see
    rdma::StreamOptions options;
    options.initial_receives = 8;
    RnicOptions rnic;
    rnic.crc = GetParam();
    Responder target(options, rnic);
    std::vector<std::byte> memory = pattern(kSize);
    const auto stag =
        target.stream()
            .register_region({memory, Access::remote_write | Access::remote_read, content, 0, false})
            ->stag;
    target.end->feed(Untagged{}.fpdu());
    // Received: a Write of the peer, then the Response to a Read whose sink is here.
    const auto feed = [&](Octets fpdu) {
      bool seen = false;
      while (!fpdu.empty()) {
        std::size_t taken = 0;
        for (const iovec& piece : target.end->engine.receive_plan()) {
          seen = seen || lies_in(piece, memory);
          const std::size_t n = std::min({piece.iov_len, fpdu.size() - taken, std::size_t{3000} - taken});
          if (n != 0) std::memcpy(piece.iov_base, fpdu.data() + taken, n);
          taken += n;
        }
        target.end->engine.received(taken);
        fpdu = fpdu.subspan(taken);
        target.end->settle();
      }
      return seen;
    };
    EXPECT_EQ(feed(Tagged{.stag = stag, .body = pattern(kSize, 1)}.fpdu()), plain);
    EXPECT_EQ(memory, pattern(kSize, 1));
    rdma::Read read{1, memory, {0x99, 0}};
    read.shared_sink = content == Content::shared;
    target.stream().post({read});
    const auto request = rdmap::decode_read_request(Octets(target.drained().at(0)).subspan(18).first<28>());
    EXPECT_EQ(
        feed(Tagged{.rdmap_control = 0x42, .stag = request.sink_stag, .body = pattern(kSize, 2)}.fpdu()),
        plain);
    EXPECT_EQ(memory, pattern(kSize, 2));
    ASSERT_EQ(target.recorder().completions.size(), 1U);
    // Sent: the answer to a Read of it.
    feed(read_request(1, {0xABCD, 0, kSize, stag, 0}).fpdu());
    bool seen = false;
    for (const iovec& piece : target.end->engine.send_plan()) seen = seen || lies_in(piece, memory);
    EXPECT_EQ(seen, plain);
    std::vector<std::byte> answered;
    for (const auto& answer : target.drained()) {
      answered.insert(answered.end(), answer.begin() + 14, answer.end());
    }
    EXPECT_EQ(answered, pattern(kSize, 2));
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, SharedMemory, testing::Values(true, false),
                         [](const auto& param) { return std::string(param.param ? "Crc" : "NoCrc"); });

}  // namespace
}  // namespace kbtp::rnic::test
