// Connections on a real device: set-up, refusals, the end.

#include <csignal>
#include <netinet/in.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "verbs/live_rig.h"

extern char** environ;

namespace kbtp::verbs::test {
namespace {

using Kind = rdma::CloseReason::Kind;

class LiveConnection : public LiveTest {};

TEST_F(LiveConnection, PrivateDataGoesBothWays) {
  Pair pair(provider(), provider());
  const auto limit = pair.target->capabilities().max_private_data;
  pair.a_options.private_data = pattern(limit, 1);
  pair.b_options.private_data = pattern(limit, 2);
  ASSERT_TRUE(pair.open(address()));
  EXPECT_EQ(pair.asked, pattern(limit, 1));
  ASSERT_GE(pair.a.private_data.size(), limit);  // InfiniBand fills it up with zeros
  pair.a.private_data.resize(limit);
  EXPECT_EQ(pair.a.private_data, pattern(limit, 2));
}

TEST_F(LiveConnection, TooMuchPrivateDataIsRefusedHere) {
  auto target = provider();
  auto initiator = provider();
  auto listener = target->listen(address(), [](const rdma::ConnectionRequest&, rdma::Loop&) {
    return rdma::AcceptDecision(rdma::Reject{});
  });
  ASSERT_TRUE(listener) << listener.error().text;
  Waiter a;
  rdma::StreamOptions options;
  options.private_data = pattern(initiator->capabilities().max_private_data + 1);
  initiator->connect((*listener)->local(), 0, options, a);
  ASSERT_TRUE(a.wait_closed());
  EXPECT_EQ(a.closed->kind, Kind::local_error);
}

TEST_F(LiveConnection, Ipv6) {
  if (address(0, true).length() == 0) GTEST_SKIP() << "the device has no IPv6 address";
  Pair pair(provider(), provider());
  ASSERT_TRUE(pair.open(address(0, true)));
  EXPECT_NE(pair.listener->local().port(), 0);
  EXPECT_EQ(pair.a.stream->peer().to_string(), pair.listener->local().to_string());
}

TEST_F(LiveConnection, RejectionBringsItsPrivateData) {
  auto target = provider();
  auto initiator = provider();
  auto listener = target->listen(address(), [](const rdma::ConnectionRequest&, rdma::Loop&) {
    return rdma::AcceptDecision(rdma::Reject{to_vector(as_octets("no"))});
  });
  ASSERT_TRUE(listener) << listener.error().text;
  Waiter a;
  initiator->connect((*listener)->local(), 0, {}, a);
  ASSERT_TRUE(a.wait_closed());
  EXPECT_EQ(a.closed->kind, Kind::refused);
  EXPECT_EQ(a.closed->phase, rdma::Phase::mpa);
  ASSERT_GE(a.closed->private_data.size(), 2U);
  a.closed->private_data.resize(2);
  EXPECT_EQ(a.closed->private_data, to_vector(as_octets("no")));
}

TEST_F(LiveConnection, NobodyListens) {
  auto target = provider();
  auto initiator = provider();
  SocketAddress nowhere;
  {
    auto listener = target->listen(address(), [](const rdma::ConnectionRequest&, rdma::Loop&) {
      return rdma::AcceptDecision(rdma::Reject{});
    });
    ASSERT_TRUE(listener) << listener.error().text;
    nowhere = (*listener)->local();
  }
  Waiter a;
  initiator->connect(nowhere, 0, {}, a);
  ASSERT_TRUE(a.wait_closed());
  EXPECT_EQ(a.closed->kind, Kind::refused) << a.closed->text;
  EXPECT_EQ(a.closed->phase, rdma::Phase::tcp);
}

TEST_F(LiveConnection, PortThatIsTakenCannotBeListenedOn) {
  auto first = provider();
  auto second = provider();
  const auto reject = [](const rdma::ConnectionRequest&, rdma::Loop&) {
    return rdma::AcceptDecision(rdma::Reject{});
  };
  auto listener = first->listen(address(), reject);
  ASSERT_TRUE(listener) << listener.error().text;
  EXPECT_FALSE(second->listen((*listener)->local(), reject));
}

TEST_F(LiveConnection, PeerThatNeverAnswersMeetsOurDeadline) {
  if (!iwarp()) GTEST_SKIP() << "only iWARP connects by TCP, which a test can listen with";
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  SocketAddress silent = address();
  ASSERT_EQ(::bind(fd, silent.get(), silent.length()), 0);
  ASSERT_EQ(::listen(fd, 4), 0);
  socklen_t length = SocketAddress::capacity();
  ASSERT_EQ(::getsockname(fd, silent.get(), &length), 0);
  Waiter a;
  auto initiator = provider();
  rdma::StreamOptions options;
  options.setup_deadline = std::chrono::milliseconds(800);
  initiator->connect(silent, 0, options, a);
  ASSERT_TRUE(a.wait_closed());
  EXPECT_EQ(a.closed->kind, Kind::deadline) << a.closed->text;
  EXPECT_EQ(a.closed->phase, rdma::Phase::mpa);
  initiator.reset();
  ::close(fd);
}

TEST_F(LiveConnection, WhatWasPostedBeforeCloseArrives) {
  Pair pair(provider(), provider());
  pair.b_options.initial_receives = 20;
  ASSERT_TRUE(pair.open(address()));
  on_loop(pair.a.stream->loop(), [&] {
    std::vector<rdma::WorkRequest> sends;
    for (std::uint64_t i = 0; i < 20; ++i) sends.emplace_back(rdma::Send{i, pattern(200), false, {}});
    pair.a.stream->post(std::move(sends));
    pair.a.stream->close();
    std::vector<rdma::WorkRequest> late;
    late.emplace_back(rdma::Send{99, pattern(1), false, {}});
    pair.a.stream->post(std::move(late));
  });
  ASSERT_TRUE(pair.a.wait_closed());
  ASSERT_TRUE(pair.b.wait_closed());
  EXPECT_EQ(pair.a.closed->kind, Kind::graceful) << pair.a.closed->text;
  EXPECT_EQ(pair.b.closed->kind, Kind::graceful) << pair.b.closed->text;
  EXPECT_EQ(pair.b.received.size(), 20U);
  ASSERT_EQ(pair.a.completions.size(), 21U);
  EXPECT_EQ(pair.a.completions[19].status, rdma::WorkStatus::success);
  EXPECT_EQ(pair.a.completions[20].status, rdma::WorkStatus::flushed);
}

TEST_F(LiveConnection, AbortFlushesAndThePeerLearnsOfIt) {
  Pair pair(provider(), provider());
  ASSERT_TRUE(pair.open(address()));
  std::vector<std::byte> memory(4096);
  const auto region = pair.expose({memory, rdma::Access::remote_read});
  std::vector<std::byte> sink(4096);
  on_loop(pair.a.stream->loop(), [&] {
    std::vector<rdma::WorkRequest> reads;
    for (std::uint64_t i = 0; i < 100; ++i)
      reads.emplace_back(rdma::Read{i, sink, {region.stag, region.tagged_offset}});
    pair.a.stream->post(std::move(reads));
    pair.a.stream->abort("enough");
  });
  ASSERT_TRUE(pair.a.wait_closed());
  EXPECT_EQ(pair.a.completions.size(), 100U);
  EXPECT_EQ(pair.a.completions.back().status, rdma::WorkStatus::flushed);
  EXPECT_EQ(pair.a.closed->text, "enough");
  ASSERT_TRUE(pair.b.wait_closed());
}

TEST_F(LiveConnection, ProviderThatGoesAwayEndsItsStreams) {
  Pair pair(provider(), provider());
  ASSERT_TRUE(pair.open(address()));
  pair.initiator.reset();
  EXPECT_TRUE(pair.a.closed.has_value());
  ASSERT_TRUE(pair.b.wait_closed());
}

TEST_F(LiveConnection, SeveralLoopsEachSpinningOrNot) {
  for (const bool spin : {false, true}) {
    VerbsOptions options;
    options.loops = 2;
    options.spin = spin;
    auto target = provider(options);
    auto initiator = provider(options);
    std::array<Waiter, 4> theirs;
    std::array<Waiter, 4> ours;
    std::size_t next = 0;
    std::mutex mutex;
    auto listener = target->listen(address(), [&](const rdma::ConnectionRequest&, rdma::Loop&) {
      const std::scoped_lock lock(mutex);
      Waiter& handler = theirs.at(next++);
      handler.echo = true;
      return rdma::AcceptDecision(rdma::Accept{&handler, {}});
    });
    ASSERT_TRUE(listener) << listener.error().text;
    for (std::size_t i = 0; i < ours.size(); ++i)
      initiator->connect((*listener)->local(), i % 2, {}, ours[i]);
    for (unsigned i = 0; i < ours.size(); ++i) {
      ASSERT_TRUE(ours[i].wait_open());
      on_loop(ours[i].stream->loop(), [&] {
        std::vector<rdma::WorkRequest> requests;
        requests.emplace_back(rdma::Send{1, pattern(100, i), false, {}});
        ours[i].stream->post(std::move(requests));
      });
    }
    for (unsigned i = 0; i < ours.size(); ++i) {
      ASSERT_TRUE(ours[i].wait([&] { return ours[i].received.size() == 1; })) << i;
      EXPECT_EQ(ours[i].received[0], pattern(100, i));
    }
    initiator.reset();
    listener->reset();
    target.reset();
  }
}

/// A peer process that is killed while it reads, writes and sends: this side's stream ends, each time, and
/// the next one is served.
TEST_F(LiveConnection, PeerKilledAtAnyMoment) {
  auto target = provider();
  std::vector<std::unique_ptr<Waiter>> handlers;
  std::mutex mutex;
  std::vector<std::byte> memory(1 << 20);
  struct Serving : Waiter {
    explicit Serving(std::span<std::byte> of) : memory(of) {}
    void on_open(rdma::Stream& s, Octets data) override {
      const auto region = s.register_region(
          {memory, rdma::Access::remote_read | rdma::Access::remote_write, rdma::Content::octets, 0, false});
      std::vector<std::byte> message(20);
      if (region) {
        store_be(message.data(), region->stag);
        store_be(message.data() + 4, region->tagged_offset);
      }
      std::vector<rdma::WorkRequest> requests;
      requests.emplace_back(rdma::Send{1, message, false, {}});
      Waiter::on_open(s, data);
      echo = true;
      first = std::move(requests);
    }
    void on_received(const rdma::Received& r) override {
      // iWARP: the Initiator speaks first (RFC 5044 7.1.2).
      if (!first.empty()) stream->post(std::exchange(first, {}));
      Waiter::on_received(r);
    }
    std::span<std::byte> memory;
    std::vector<rdma::WorkRequest> first;
  };
  auto listener = target->listen(address(), [&](const rdma::ConnectionRequest&, rdma::Loop&) {
    const std::scoped_lock lock(mutex);
    handlers.push_back(std::make_unique<Serving>(memory));
    return rdma::AcceptDecision(rdma::Accept{handlers.back().get(), {}});
  });
  ASSERT_TRUE(listener) << listener.error().text;
  const std::string where = (*listener)->local().to_string();
  for (unsigned round = 0; round < 12; ++round) {
    std::string program = "/proc/self/exe";
    std::string word = "--peer";
    std::string to = where;
    std::string device = facts.name;
    std::array<char*, 5> arguments{program.data(), word.data(), to.data(), device.data(), nullptr};
    pid_t pid = 0;
    ASSERT_EQ(posix_spawn(&pid, program.c_str(), nullptr, nullptr, arguments.data(), environ), 0);
    Waiter* handler = nullptr;
    const auto deadline = Clock::now() + rdma::test::kPatience;
    while (handler == nullptr && Clock::now() < deadline) {
      const std::scoped_lock lock(mutex);
      if (handlers.size() > round) handler = handlers[round].get();
    }
    ASSERT_NE(handler, nullptr);
    // A different amount of work each time, none at all at first.
    EXPECT_TRUE(handler->wait([&] { return handler->received.size() >= round * 3 || handler->closed; }));
    ::kill(pid, SIGKILL);
    int status = 0;
    ASSERT_EQ(::waitpid(pid, &status, 0), pid);
    ASSERT_TRUE(handler->wait_closed()) << "round " << round;
  }
  listener->reset();
  target.reset();
}

}  // namespace

/// The process that is killed: reads, writes and sends for ever.
int run_peer(const SocketAddress& address, const std::string& device) {
  VerbsOptions options;
  options.device = device;
  auto provider = Verbs::create(options);
  if (!provider) return 3;
  struct Busy : Waiter {
    void on_open(rdma::Stream& s, Octets data) override {
      Waiter::on_open(s, data);
      std::vector<rdma::WorkRequest> requests;
      requests.emplace_back(rdma::Send{1, std::vector<std::byte>(8), false, {}});
      s.post(std::move(requests));
    }
    void on_received(const rdma::Received& r) override {
      if (remote.stag == 0)
        remote = {load_be<rdma::STag>(r.payload.data()), load_be<std::uint64_t>(r.payload.data() + 4)};
      stream->post_receives(1);
      std::vector<rdma::WorkRequest> requests;
      requests.emplace_back(rdma::Read{2, sink, remote});
      requests.emplace_back(rdma::Write{3, source, remote, nullptr});
      requests.emplace_back(rdma::Send{4, std::vector<std::byte>(8), false, {}});
      stream->post(std::move(requests));
    }
    rdma::RemoteBuffer remote;
    std::vector<std::byte> sink = std::vector<std::byte>(300'000);
    std::vector<std::byte> source = std::vector<std::byte>(300'000);
  } busy;
  (*provider)->connect(address, 0, {}, busy);
  std::ignore = busy.wait_closed();
  return 0;
}

}  // namespace kbtp::verbs::test

int main(int argc, char** argv) {
  if (argc == 4 && std::string_view(argv[1]) == "--peer") {
    const auto endpoint = kbtp::Endpoint::parse(argv[2]);
    const auto addresses = kbtp::resolve(*endpoint);
    return kbtp::verbs::test::run_peer(addresses->front(), argv[3]);
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
