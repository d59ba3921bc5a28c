// The fake fabric under InfiniBand's rules, as 6.5 and 9.2 take them, and what sets them apart from RDMAP's.

#include <algorithm>
#include <array>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <optional>
#include <vector>

#include "proto/rdma/fake/fabric.h"

namespace kbtp::fake {
namespace {

struct Peer : rdma::StreamHandler {
  void on_open(rdma::Stream& opened, Octets) override { stream = &opened; }
  void on_received(const rdma::Received& message) override {
    received.push_back(message);
    received.back().payload = {};
    if (on_message) on_message();
  }
  void on_completion(const rdma::Completion& completion) override { completions.push_back(completion); }
  void on_closed(const rdma::CloseReason& reason) override { closed = reason; }
  void post(rdma::WorkRequest request) {
    std::vector<rdma::WorkRequest> list;
    list.push_back(std::move(request));
    stream->post(std::move(list));
  }
  rdma::RemoteBuffer expose(std::span<std::byte> memory, rdma::Access access,
                            rdma::Content content = rdma::Content::octets,
                            bool remote_invalidate = false) const {
    const auto region = stream->register_region({memory, access, content, 0x5000, remote_invalidate});
    return {region->stag, region->tagged_offset};
  }

  rdma::Stream* stream = nullptr;
  std::vector<rdma::Received> received;
  std::vector<rdma::Completion> completions;
  std::optional<rdma::CloseReason> closed;
  std::function<void()> on_message;
};

struct Pair {
  Pair(Rules rules, std::uint64_t seed) : fabric({.seed = seed, .rules = rules}) {
    const HostOptions options = rules == Rules::infiniband ? infiniband_host() : HostOptions{};
    auto& server = fabric.add_host(options);
    auto& client = fabric.add_host(options);
    listener = std::move(*server.listen(fabric.address(0, 1), [this](const auto&, rdma::Loop&) {
      rdma::Accept accept{&b, {}};
      accept.options.initial_receives = 4;
      return accept;
    }));
    client.connect(fabric.address(0, 1), 0, {}, a);
    fabric.run_until([this] { return a.stream != nullptr && b.stream != nullptr; });
  }
  Fabric fabric;
  Peer a, b;
  std::unique_ptr<rdma::Listener> listener;
};

/// In how many of 300 seeds somebody who polls memory sees the last octet of the second Write before all of
/// the first.
int seeds_with_stale_data(Rules rules) {
  int stale = 0;
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    Pair pair(rules, seed);
    std::vector<std::byte> data(64), record(24);
    const std::vector<std::byte> ones(64, std::byte{1});
    const auto data_there = pair.b.expose(data, rdma::Access::remote_write);
    const auto record_there = pair.b.expose(record, rdma::Access::remote_write);
    pair.a.post(rdma::Write{0, ones, data_there, nullptr});
    pair.a.post(rdma::Write{1, Octets(ones).first(24), record_there, nullptr});
    bool early = false;
    while (std::ranges::count(record, std::byte{1}) < 24 && pair.fabric.step()) {
      if (std::ranges::count(record, std::byte{1}) > 0) early = early || data != ones;
    }
    stale += early ? 1 : 0;
  }
  return stale;
}

TEST(InfiniBandRules, Kbtp_6_5_AWriteIsNotVisibleBeforeTheDataOfEarlierOnes) {
  EXPECT_EQ(seeds_with_stale_data(Rules::infiniband), 0);
}

TEST(InfiniBandRules, Kbtp_6_5_UnderRdmapsItIs) { EXPECT_GT(seeds_with_stale_data(Rules::rdmap), 30); }

TEST(InfiniBandRules, OneWriteIsStillTornAndLate) {
  int torn = 0;
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    Pair pair(Rules::infiniband, seed);
    std::vector<std::byte> sink(64);
    const std::vector<std::byte> ones(64, std::byte{1});
    const auto there = pair.b.expose(sink, rdma::Access::remote_write);
    pair.a.post(rdma::WriteImmediate{{0, ones, there, nullptr}, 5, false});
    pair.b.on_message = [&] { EXPECT_EQ(sink, ones); };
    bool partly = false;
    while (pair.b.received.empty()) {
      ASSERT_TRUE(pair.fabric.step());
      const auto placed = std::ranges::count(sink, std::byte{1});
      partly = partly || (placed > 0 && placed < 64 && sink.front() == std::byte{0});
    }
    torn += partly ? 1 : 0;
  }
  EXPECT_GT(torn, 20) << "from its end, too";
}

TEST(InfiniBandRules, WriteWithImmediateIsOneOperationAndTakesAReceive) {
  Pair pair(Rules::infiniband, 1);
  std::vector<Observed::Kind> kinds;
  pair.fabric.observe([&](const Observed& seen) { kinds.push_back(seen.kind); });
  std::vector<std::byte> sink(8);
  const std::vector<std::byte> ones(8, std::byte{1});
  const auto there = pair.b.expose(sink, rdma::Access::remote_write);
  for (std::uint64_t i = 0; i < 4; ++i) {
    pair.a.post(rdma::WriteImmediate{{i, ones, there, nullptr}, 0xFFFF'FFF0 + i, i == 3});
  }
  ASSERT_TRUE(pair.fabric.run_until([&] { return pair.b.received.size() == 4; }));
  EXPECT_EQ(pair.b.received[0].immediate, 0xFFFF'FFF0u);
  EXPECT_EQ(pair.b.received[3].immediate, 0xFFFF'FFF3u);
  EXPECT_FALSE(pair.b.received[0].solicited);
  EXPECT_TRUE(pair.b.received[3].solicited);
  EXPECT_EQ(kinds, std::vector(4, Observed::Kind::write_immediate));
  pair.a.post(rdma::WriteImmediate{{4, ones, there, nullptr}, 1, false});
  ASSERT_TRUE(pair.fabric.run_until([&] { return pair.a.closed && pair.b.closed; })) << "no receive is left";
}

TEST(InfiniBandRules, WhatInfiniBandHasNotIsABadRequest) {
  Pair pair(Rules::infiniband, 1);
  alignas(8) std::array<std::byte, 8> word{};
  const auto there = pair.b.expose(word, rdma::Access::remote_atomic, rdma::Content::words);
  pair.a.post(rdma::FetchAdd{0, there, 5, 0});
  pair.a.post(rdma::FetchAdd{1, there, 5, std::uint64_t{1} << 63});
  pair.a.post(rdma::CompareSwap{.id = 2, .word = there, .compare = 5, .swap = 9});
  pair.a.post(rdma::CompareSwap{.id = 3, .word = there, .compare = 5, .compare_mask = 1, .swap = 9});
  pair.a.post(rdma::Immediate{4, 1, false});
  pair.a.post(rdma::WriteImmediate{{5, {}, there, nullptr}, std::uint64_t{1} << 32, false});
  pair.a.post(rdma::FetchAdd{6, there, 0, 0});
  ASSERT_TRUE(pair.fabric.run_until([&] { return pair.a.completions.size() == 7; }));
  for (const rdma::WorkId bad : {1, 3, 4, 5}) {
    EXPECT_EQ(pair.a.completions[bad].status, rdma::WorkStatus::bad_request) << bad;
  }
  for (const rdma::WorkId good : {0, 2, 6}) {
    EXPECT_EQ(pair.a.completions[good].status, rdma::WorkStatus::success) << good;
  }
  EXPECT_EQ(pair.a.completions[2].original, 5u);
  EXPECT_EQ(pair.a.completions[6].original, 9u);
}

TEST(InfiniBandRules, ARefusalIsANakAndEndsBothSides) {
  Pair pair(Rules::infiniband, 1);
  std::vector<std::byte> memory(8), own(8);
  const auto there = pair.b.expose(memory, rdma::Access::remote_read);
  pair.a.post(rdma::WriteImmediate{{0, own, there, nullptr}, 1, false});
  ASSERT_TRUE(pair.fabric.run_until([&] { return pair.a.closed && pair.b.closed; }));
  EXPECT_EQ(pair.b.closed->kind, rdma::CloseReason::Kind::local_error);
  EXPECT_EQ(pair.a.closed->kind, rdma::CloseReason::Kind::remote_error);
  EXPECT_EQ(pair.a.closed->terminate, std::nullopt);
  EXPECT_EQ(pair.b.closed->terminate, std::nullopt);
  EXPECT_TRUE(pair.b.received.empty());
}

TEST(InfiniBandRules, SendWithInvalidateRevokes) {
  Pair pair(Rules::infiniband, 1);
  std::vector<std::byte> memory(8), own(8);
  const auto there = pair.b.expose(memory, rdma::Access::remote_write, rdma::Content::octets, true);
  pair.a.post(rdma::Send{0, {}, false, there.stag});
  ASSERT_TRUE(pair.fabric.run_until([&] { return pair.b.received.size() == 1; }));
  EXPECT_EQ(pair.b.received[0].invalidated, there.stag);
  pair.a.post(rdma::Write{1, own, there, nullptr});
  pair.a.post(rdma::Send{2, {}, false, {}});
  EXPECT_TRUE(pair.fabric.run_until([&] { return pair.a.closed && pair.b.closed; }));
}

}  // namespace
}  // namespace kbtp::fake
