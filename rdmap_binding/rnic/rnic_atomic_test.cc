// Over real sockets: atomics of several streams and the host on one word, and a peer that goes on talking
// after its error and can still read why it was dropped.

#include <atomic>
#include <condition_variable>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <mutex>
#include <set>
#include <sys/socket.h>
#include <thread>
#include <unistd.h>

#include "rdmap_binding/rnic/engine_target_rig.h"

namespace kbtp::rnic::test {
namespace {

using rdma::Access;
using rdma::Content;

constexpr auto kPatience = std::chrono::seconds(60);  // of a wait for something that must happen

/// Keeps `kDepth` requests of one kind under way until `kEach` are done.
class Adder : public rdma::StreamHandler {
 public:
  static constexpr std::size_t kEach = 4000;
  static constexpr std::size_t kDepth = 8;

  void on_open(rdma::Stream& s, Octets) override {
    stream = &s;
    if (next) {
      for (std::size_t i = 0; i < kDepth; ++i) stream->post({next()});
    }
  }
  void on_received(const rdma::Received&) override {}
  void on_completion(const rdma::Completion& c) override {
    if (c.status == rdma::WorkStatus::success) {
      originals.push_back(c.original);
      if (originals.size() + kDepth <= kEach) stream->post({next()});
    }
    if (originals.size() == kEach || c.status != rdma::WorkStatus::success) finish();
  }
  void on_closed(const rdma::CloseReason&) override { finish(); }
  void finish() {
    const std::scoped_lock lock(mutex);
    ended = true;
    changed.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex);
    EXPECT_TRUE(changed.wait_for(lock, kPatience, [&] { return ended; }));
  }

  std::function<rdma::WorkRequest()> next;
  std::vector<std::uint64_t> originals;  // of the loop's thread until wait() returns

 private:
  rdma::Stream* stream = nullptr;
  std::mutex mutex;
  std::condition_variable changed;
  bool ended = false;
};

// Rules: RFC7306-5-01, RFC7306-5.3-01, RFC7306-5.4-02
TEST(RnicAtomic, StreamsOnTwoLoopsAndTheHostNeverLoseAnUpdate) {
  constexpr std::size_t kStreams = 4;
  constexpr std::uint64_t kHalf = std::uint64_t{1} << 32;
  constexpr std::uint64_t kMask = std::uint64_t{1} << 31;  // two numbers in one word
  std::array<Adder, kStreams> served;
  std::array<Adder, kStreams> used;
  std::vector<std::uint64_t> words(2);
  std::atomic<std::size_t> accepted{0};
  RnicOptions options;
  options.loops = 2;
  auto target = std::move(*Rnic::create(options));
  auto initiator = std::move(*Rnic::create(options));
  const auto stag = target
                        ->register_region(rdma::DomainId{}, {std::as_writable_bytes(std::span(words)),
                                                             Access::remote_atomic, Content::words, 0, false})
                        ->stag;
  auto listener =
      target->listen(resolve({"127.0.0.1", 0})->front(), [&](const rdma::ConnectionRequest&, rdma::Loop&) {
        return rdma::AcceptDecision(rdma::Accept{&served.at(accepted++), {}});
      });
  ASSERT_TRUE(listener.has_value());
  for (std::size_t i = 0; i < kStreams; ++i) {
    // Half of them count in the lower number, half in the upper one, all in one word.
    used[i].next = [stag, i]() -> rdma::WorkRequest {
      return rdma::FetchAdd{1, {stag, 0}, i % 2 == 0 ? 1 : kHalf, kMask};
    };
    initiator->connect((*listener)->local(), i % 2, {}, used[i]);
  }
  std::vector<std::uint64_t> own;
  for (std::size_t i = 0; i < Adder::kEach; ++i) {
    own.push_back(target->fetch_add_local(words[0], 1, kMask));
    // Another word, by compare and swap, on behalf of this thread alone.
    std::ignore = target->fetch_add_local(words[1], 1, 0);
  }
  for (Adder& adder : used) adder.wait();
  std::set<std::uint64_t> lower;
  std::set<std::uint64_t> upper;
  for (std::size_t i = 0; i < kStreams; ++i) {
    ASSERT_EQ(used[i].originals.size(), Adder::kEach);
    for (const std::uint64_t original : used[i].originals) {
      EXPECT_TRUE(i % 2 == 0 ? lower.insert(original % kHalf).second : upper.insert(original / kHalf).second);
    }
  }
  for (const std::uint64_t original : own) EXPECT_TRUE(lower.insert(original % kHalf).second);
  EXPECT_EQ(lower.size(), 3 * Adder::kEach);
  EXPECT_EQ(*lower.rbegin(), 3 * Adder::kEach - 1);
  EXPECT_EQ(*upper.rbegin(), 2 * Adder::kEach - 1);
  EXPECT_EQ(std::atomic_ref(words[0]).load(), 2 * Adder::kEach * kHalf + 3 * Adder::kEach);
  EXPECT_EQ(words[1], Adder::kEach);
}

/// A stream that is told about by its end only.
class Silent : public rdma::StreamHandler {
 public:
  void on_open(rdma::Stream&, Octets) override {}
  void on_received(const rdma::Received&) override {}
  void on_completion(const rdma::Completion&) override {}
  void on_closed(const rdma::CloseReason& reason) override {
    const std::scoped_lock lock(mutex);
    closed = reason;
    changed.notify_all();
  }
  std::mutex mutex;
  std::condition_variable changed;
  std::optional<rdma::CloseReason> closed;
};

// Rules: RFC5041-6.2.2-02, RFC5041-7.1-14, RFC5041-3-10
TEST(RnicAtomic, APeerThatGoesOnTalkingCanStillReadTheTerminate) {
  Silent served;
  auto rnic = std::move(*Rnic::create({}));
  auto listener =
      rnic->listen(resolve({"127.0.0.1", 0})->front(), [&](const rdma::ConnectionRequest&, rdma::Loop&) {
        return rdma::AcceptDecision(rdma::Accept{&served, {}});
      });
  ASSERT_TRUE(listener.has_value());
  const SocketAddress address = (*listener)->local();
  const int fd = ::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval patience{60, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  ASSERT_EQ(::connect(fd, address.get(), address.length()), 0);
  mpa::StartupFrame frame;
  frame.revision = 1;
  frame.crc = true;
  const auto request = mpa::encode_startup(frame);
  ASSERT_EQ(::send(fd, request.data(), request.size(), MSG_NOSIGNAL), static_cast<ssize_t>(request.size()));
  std::array<std::byte, 20> reply{};
  ASSERT_EQ(::recv(fd, reply.data(), reply.size(), MSG_WAITALL), 20);
  // An error, then far more than the socket buffers hold: all of it goes, since the peer keeps taking it.
  const auto bad = joined({Untagged{}.fpdu(), Untagged{.msn = 7, .body = pattern(8)}.fpdu()});
  const auto more = Tagged{.stag = 5, .body = pattern(60'000)}.fpdu();
  ASSERT_EQ(::send(fd, bad.data(), bad.size(), MSG_NOSIGNAL), static_cast<ssize_t>(bad.size()));
  for (int i = 0; i < 300; ++i) {
    ASSERT_EQ(::send(fd, more.data(), more.size(), MSG_NOSIGNAL), static_cast<ssize_t>(more.size())) << i;
  }
  std::vector<std::byte> heard(200);
  const ssize_t n = ::recv(fd, heard.data(), heard.size(), MSG_WAITALL);  // ends with the peer's FIN
  ASSERT_GT(n, 0);
  heard.resize(static_cast<std::size_t>(n));
  const auto answers = ulpdus(heard);
  ASSERT_EQ(answers.size(), 1U);
  const auto told = terminate_in(answers);
  ASSERT_TRUE(told);
  EXPECT_EQ(to_string(told->code), to_string(terminate::kDdpUntaggedMsnRange));
  ::close(fd);
  std::unique_lock lock(served.mutex);
  ASSERT_TRUE(served.changed.wait_for(lock, kPatience, [&] { return served.closed.has_value(); }));
  EXPECT_EQ(served.closed->terminate, terminate::kDdpUntaggedMsnRange.packed());
}

}  // namespace
}  // namespace kbtp::rnic::test
