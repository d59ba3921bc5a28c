// The fake fabric keeps the rules of RFC 5040 5.5 and uses the freedom that they leave.

#include "proto/rdma/fake/fabric.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <optional>
#include <string>
#include <vector>

namespace kbtp::fake {
namespace {

struct Peer : rdma::StreamHandler {
  void on_open(rdma::Stream& opened, Octets) override { stream = &opened; }
  void on_received(const rdma::Received& received) override {
    messages.emplace_back(reinterpret_cast<const char*>(received.payload.data()), received.payload.size());
    if (on_message) on_message();
    if (received.immediate && on_immediate) on_immediate(received);
  }
  void on_completion(const rdma::Completion& completion) override { completions.push_back(completion); }
  void on_peer_finished() override { finished = true; }
  void on_closed(const rdma::CloseReason& reason) override { closed = reason; }
  void post(rdma::WorkRequest request) {
    std::vector<rdma::WorkRequest> list;
    list.push_back(std::move(request));
    stream->post(std::move(list));
  }
  void say(const std::string& text) {
    post(rdma::Send{next++, to_vector(as_octets(text)), false, std::nullopt});
  }

  rdma::Stream* stream = nullptr;
  std::vector<std::string> messages;
  std::vector<rdma::Completion> completions;
  std::optional<rdma::CloseReason> closed;
  std::function<void()> on_message;
  std::function<void(const rdma::Received&)> on_immediate;
  bool finished = false;
  std::uint64_t next = 0;
};

class Pair {
 public:
  explicit Pair(std::uint64_t seed, std::uint32_t ird = 16, const HostOptions& target = {})
      : fabric({.seed = seed}) {
    auto& server = fabric.add_host(target);
    auto& client = fabric.add_host();
    listener = std::move(*server.listen(fabric.address(0, 1), [this](const auto&, rdma::Loop&) {
      rdma::Accept accept{&b, {}};
      accept.options.initial_receives = 100;
      return accept;
    }));
    rdma::StreamOptions options;
    options.initial_receives = 100;
    options.ird = ird;
    client.connect(fabric.address(0, 1), 0, options, a);
    fabric.run_until([this] { return a.stream != nullptr && b.stream != nullptr; });
  }
  rdma::RemoteBuffer expose(Peer& peer, std::span<std::byte> memory, rdma::Access access) {
    rdma::RegionSpec spec;
    spec.memory = memory;
    spec.access = access;
    spec.tagged_offset = 0x5000;
    const auto region = peer.stream->register_region(spec);
    return {region->stag, region->tagged_offset};
  }
  Fabric fabric;
  Peer a, b;
  std::unique_ptr<rdma::Listener> listener;
};

TEST(Fabric, Rfc5040_5_5_05_WritesAreInPlaceWhenALaterSendIsDeliveredAndOftenNotBefore) {
  int late = 0, torn = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Pair pair(seed);
    std::vector<std::byte> sink(64), source(64, std::byte{1});
    const auto there = pair.expose(pair.b, sink, rdma::Access::remote_write);
    pair.b.on_message = [&] { EXPECT_EQ(sink, source); };
    pair.a.post(rdma::Write{pair.a.next++, source, there, nullptr});
    pair.a.say("done");
    bool was_late = false;
    while (pair.b.messages.empty()) {
      ASSERT_TRUE(pair.fabric.step());
      const auto placed = std::count(sink.begin(), sink.end(), std::byte{1});
      if (placed > 0 && placed < 64) ++torn;
      if (!pair.a.completions.empty() && placed < 64) was_late = true;  // rule 9
    }
    late += was_late ? 1 : 0;
  }
  EXPECT_GT(late, 20);
  EXPECT_GT(torn, 20);
}

TEST(Fabric, Rfc5040_5_5_10_15_SendsAndCompletionsKeepTheirOrder) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    Pair pair(seed);
    std::vector<std::byte> memory(64), sink(64);
    const auto there = pair.expose(pair.b, memory, rdma::Access::remote_read | rdma::Access::remote_write);
    for (int i = 0; i < 20; ++i) {
      if (i % 3 == 1) {
        pair.a.post(rdma::Read{pair.a.next++, sink, there});
      } else if (i % 3 == 2) {
        pair.a.post(rdma::Write{pair.a.next++, sink, there, nullptr});
      } else {
        pair.a.say(std::to_string(i));
      }
    }
    ASSERT_TRUE(pair.fabric.run_until([&] { return pair.a.completions.size() == 20; }));
    for (std::uint64_t i = 0; i < 20; ++i) EXPECT_EQ(pair.a.completions[i].id, i);
    ASSERT_TRUE(pair.fabric.run_until([&] { return pair.b.messages.size() == 7; }));
    EXPECT_EQ(pair.b.messages, (std::vector<std::string>{"0", "3", "6", "9", "12", "15", "18"}));
  }
}

TEST(Fabric, Rfc5040_5_5_12_ReadSeesEarlierWritesAndMaySeeLaterOnes) {
  int later = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Pair pair(seed);
    std::vector<std::byte> memory(8), sink(8), one(8, std::byte{1}), two(8, std::byte{2});
    const auto there = pair.expose(pair.b, memory, rdma::Access::remote_read | rdma::Access::remote_write);
    pair.a.post(rdma::Write{0, one, there, nullptr});
    pair.a.post(rdma::Read{1, sink, there});
    pair.a.post(rdma::Write{2, two, there, nullptr});
    ASSERT_TRUE(pair.fabric.run_until([&] { return pair.a.completions.size() == 3; }));
    for (const std::byte octet : sink) {
      EXPECT_NE(octet, std::byte{0});
      later += octet == std::byte{2} ? 1 : 0;
    }
  }
  EXPECT_GT(later, 10);
}

TEST(Fabric, ChecksWhatAPeerMayReach) {
  struct Case {
    rdma::Access access;
    bool read;
    std::uint64_t offset;
    std::uint16_t triple;
  };
  for (const Case& c : {Case{rdma::Access::remote_read, false, 0, 0x1100},
                        {rdma::Access::remote_write, false, 1, 0x1101},
                        {rdma::Access::remote_write, true, 0, 0x0102},
                        {rdma::Access::remote_read, true, 1, 0x0101}}) {
    Pair pair(7);
    std::vector<std::byte> memory(8), own(8);
    auto there = pair.expose(pair.b, memory, c.access);
    there.tagged_offset += c.offset;
    if (c.read) {
      pair.a.post(rdma::Read{0, own, there});
    } else {
      pair.a.post(rdma::Write{0, own, there, nullptr});
      pair.a.say("x");
    }
    ASSERT_TRUE(pair.fabric.run_until([&] { return pair.a.closed && pair.b.closed; }));
    EXPECT_EQ(pair.b.closed->kind, rdma::CloseReason::Kind::local_error);
    EXPECT_EQ(pair.b.closed->terminate, c.triple);
    EXPECT_EQ(pair.a.closed->terminate, c.triple);
    EXPECT_TRUE(pair.b.messages.empty());
  }
}

TEST(Fabric, SendsWithoutReceiveOrTooLongAreRefused) {
  Pair pair(1);
  pair.a.say(std::string(257, 'x'));
  ASSERT_TRUE(pair.fabric.run_until([&] { return pair.b.closed.has_value(); }));
  EXPECT_EQ(pair.b.closed->terminate, 0x1205);
  Pair many(1);
  for (int i = 0; i < 101; ++i) many.a.say("x");
  ASSERT_TRUE(many.fabric.run_until([&] { return many.b.closed.has_value(); }));
  EXPECT_EQ(many.b.closed->terminate, 0x1202);
  EXPECT_EQ(many.b.messages.size(), 100u);
}

TEST(Fabric, ImmediatesTakeAReceiveInOrderWithSends) {
  Pair pair(1);
  std::vector<std::byte> memory(8), source(8, std::byte{1});
  const auto there = pair.expose(pair.b, memory, rdma::Access::remote_write);
  std::vector<std::pair<std::uint64_t, bool>> told;
  pair.b.on_immediate = [&](const rdma::Received& r) {
    told.emplace_back(*r.immediate, r.solicited);
    if (told.size() == 2) {
      EXPECT_EQ(memory, source) << "RFC 7306 6.4: ordered as a Send";
    }
  };
  pair.a.post(rdma::Immediate{0, 7, true});
  pair.a.post(rdma::WriteImmediate{{1, source, there, nullptr}, 8, false});
  pair.a.post(rdma::WriteImmediate{{2, source, there, nullptr}, 9, true});
  ASSERT_TRUE(pair.fabric.run_until([&] { return pair.b.messages.size() == 3; }));
  EXPECT_EQ(told, (std::vector<std::pair<std::uint64_t, bool>>{{7, true}, {8, false}, {9, true}}));
}

TEST(Fabric, AHostWithoutAtomicsRefusesThem) {
  HostOptions without;
  without.capabilities.atomics = rdma::Atomics::none;
  Pair pair(1, 16, without);
  alignas(8) std::array<std::byte, 8> memory{};
  const auto there = pair.expose(pair.b, memory, rdma::Access::remote_read);
  pair.a.post(rdma::FetchAdd{0, there, 0, 0});
  ASSERT_TRUE(pair.fabric.run_until([&] { return pair.a.closed && pair.b.closed; }));
  EXPECT_EQ(pair.a.closed->kind, rdma::CloseReason::Kind::remote_error);
  EXPECT_EQ(pair.a.closed->terminate, 0x0206);
}

TEST(Fabric, RegionsThatNoProviderTakesAreRefused) {
  Pair pair(1);
  alignas(8) std::array<std::byte, 16> memory{};
  const auto registers = [&](std::size_t at, std::size_t size, rdma::Access access, rdma::Content content) {
    return pair.b.stream->register_region({std::span(memory).subspan(at, size), access, content, 0, false})
        .has_value();
  };
  EXPECT_TRUE(registers(0, 16, rdma::Access::remote_atomic, rdma::Content::words));
  EXPECT_FALSE(registers(0, 16, rdma::Access::remote_atomic, rdma::Content::octets));
  EXPECT_FALSE(registers(0, 16, rdma::Access::remote_write, rdma::Content::words));
  EXPECT_FALSE(registers(4, 8, rdma::Access::remote_atomic, rdma::Content::words));
  EXPECT_FALSE(registers(0, 12, rdma::Access::remote_read, rdma::Content::words));
  EXPECT_TRUE(registers(3, 9, rdma::Access::remote_write, rdma::Content::shared));
}

TEST(Fabric, CutFlushesWhatIsPosted) {
  Pair pair(3);
  std::vector<std::byte> memory(8), sink(8);
  const auto there = pair.expose(pair.b, memory, rdma::Access::remote_read);
  for (int i = 0; i < 30; ++i) pair.a.post(rdma::Read{pair.a.next++, sink, there});
  pair.fabric.step();
  pair.fabric.cut(0);
  ASSERT_TRUE(pair.fabric.run_until([&] { return pair.a.closed && pair.b.closed; }));
  EXPECT_EQ(pair.a.completions.size(), 30u) << "each ends exactly once, before on_closed()";
  EXPECT_EQ(pair.a.completions.back().status, rdma::WorkStatus::flushed);
}

TEST(Fabric, CloseSendsWhatWasPostedFirst) {
  Pair pair(4);
  for (int i = 0; i < 5; ++i) pair.a.say("x");
  pair.a.stream->close(std::chrono::seconds(1));
  ASSERT_TRUE(pair.fabric.run_until([&] { return pair.b.finished; }));
  EXPECT_EQ(pair.b.messages.size(), 5u);
  pair.b.stream->close(std::chrono::seconds(1));
  ASSERT_TRUE(pair.fabric.run_until([&] { return pair.a.closed && pair.b.closed; }));
  EXPECT_EQ(pair.a.closed->kind, rdma::CloseReason::Kind::graceful);
  EXPECT_EQ(pair.b.closed->kind, rdma::CloseReason::Kind::graceful);
}

TEST(Fabric, StalledReceiverRunsIntoTheSendDeadline) {
  Pair pair(5);
  pair.fabric.stall(0, 1, true);
  pair.a.say("x");
  const TimePoint start = pair.fabric.now();
  ASSERT_TRUE(pair.fabric.run_until([&] { return pair.a.closed.has_value(); }));
  EXPECT_EQ(pair.a.closed->kind, rdma::CloseReason::Kind::deadline);
  EXPECT_GE(pair.fabric.now() - start, std::chrono::seconds(30));
}

}  // namespace
}  // namespace kbtp::fake
