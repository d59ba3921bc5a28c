// Messages and memory on a real device: Sends, Writes, Reads, rights, revocation, atomics.

#include "verbs/live_rig.h"

namespace kbtp::verbs::test {
namespace {

using rdma::Access;
using rdma::Content;
using rdma::WorkStatus;
using Kind = rdma::CloseReason::Kind;

class LiveMemory : public LiveTest {};

TEST_F(LiveMemory, SendsOfAllSizesComeBack) {
  Pair pair(provider(), provider());
  constexpr std::uint32_t kLongest = 60'000;
  pair.a_options.receive_size = pair.b_options.receive_size = kLongest;
  pair.b.echo = true;
  ASSERT_TRUE(pair.open(address()));
  const std::vector<std::size_t> sizes{1, 40, 80, 81, 256, 257, 4096, 30'001, kLongest};
  for (unsigned i = 0; i < sizes.size(); ++i) {
    on_loop(pair.a.stream->loop(), [&] { pair.a.stream->post_receives(1); });
    pair.post(rdma::Send{i, pattern(sizes[i], i), false, {}});
    ASSERT_TRUE(pair.a.wait([&] { return pair.a.received.size() == i + 1 || pair.a.closed; }));
    ASSERT_EQ(pair.a.received.size(), i + 1) << (pair.a.closed ? pair.a.closed->text : "");
    EXPECT_EQ(pair.a.received[i], pattern(sizes[i], i));
  }
}

TEST_F(LiveMemory, MoreSendsThanTheQueueHoldsCompleteInOrder) {
  VerbsOptions options;
  options.send_depth = 16;
  options.receive_depth = 500;  // iWARP has no other flow control: a Send without a receive ends the stream
  Pair pair(provider(options), provider(options));
  pair.b_options.initial_receives = 500;
  ASSERT_TRUE(pair.open(address()));
  on_loop(pair.a.stream->loop(), [&] {
    std::vector<rdma::WorkRequest> sends;
    for (std::uint64_t i = 0; i < 500; ++i)
      sends.emplace_back(rdma::Send{i, pattern(i % 256, static_cast<unsigned>(i)), false, {}});
    pair.a.stream->post(std::move(sends));
  });
  ASSERT_TRUE(pair.completed(500));
  ASSERT_TRUE(pair.b.wait([&] { return pair.b.received.size() == 500 || pair.b.closed; }));
  ASSERT_EQ(pair.b.received.size(), 500U);
  for (std::size_t i = 0; i < 500; ++i) {
    EXPECT_EQ(pair.a.completions[i].id, i);
    EXPECT_EQ(pair.b.received[i], pattern(i % 256, static_cast<unsigned>(i)));
  }
}

TEST_F(LiveMemory, WritesFromStagingAndFromARegionArePlaced) {
  Pair pair(provider(), provider());
  ASSERT_TRUE(pair.open(address()));
  std::vector<std::byte> memory(3'000'000);
  const auto region = pair.expose({memory, Access::remote_write});
  for (const bool registered : {false, true}) {
    auto source = pattern(3'000'000, registered ? 1 : 2);
    if (registered) {
      on_loop(pair.a.stream->loop(), [&] {
        const auto own = pair.a.stream->register_region({source, Access::none, Content::stable});
        EXPECT_TRUE(own) << own.error().text;
      });
    }
    const std::size_t before = pair.b.received.size();
    pair.post(rdma::Write{1, source, {region.stag, region.tagged_offset}, nullptr});
    pair.post(rdma::Send{2, pattern(8), false, {}});
    // RFC 5040 5.5 rule 5: the Send's arrival says that the Write is in place.
    ASSERT_TRUE(pair.b.wait([&] { return pair.b.received.size() == before + 1 || pair.b.closed; }));
    ASSERT_TRUE(pair.completed(2 * (before + 1))) << (pair.a.closed ? pair.a.closed->text : "");
    ASSERT_FALSE(pair.b.closed) << pair.b.closed->text;
    EXPECT_EQ(memory, source);
  }
}

TEST_F(LiveMemory, ReadsBeyondTheirDepthArrive) {
  Pair pair(provider(), provider());
  pair.a_options.ord = 2;
  ASSERT_TRUE(pair.open(address()));
  EXPECT_EQ(pair.a.stream->capabilities().ord, 2U);
  auto memory = pattern(3'000'000, 5);
  const auto region = pair.expose({memory, Access::remote_read});
  std::vector<std::byte> whole(3'000'000);
  std::vector<std::vector<std::byte>> parts(20, std::vector<std::byte>(1000));
  on_loop(pair.a.stream->loop(), [&] {
    std::vector<rdma::WorkRequest> reads;
    reads.emplace_back(rdma::Read{0, whole, {region.stag, region.tagged_offset}});
    for (std::size_t i = 0; i < parts.size(); ++i)
      reads.emplace_back(rdma::Read{i + 1, parts[i], {region.stag, region.tagged_offset + i * 1000}});
    reads.emplace_back(rdma::Read{99, {}, {region.stag, region.tagged_offset}});
    pair.a.stream->post(std::move(reads));
  });
  ASSERT_TRUE(pair.completed(22)) << (pair.a.closed ? pair.a.closed->text : "");
  EXPECT_EQ(whole, memory);
  for (std::size_t i = 0; i < parts.size(); ++i)
    EXPECT_EQ(parts[i], to_vector(Octets(memory).subspan(i * 1000, 1000))) << i;
}

/// The smaller of what one side asks and the other has.
TEST_F(LiveMemory, DepthsAreAgreedOn) {
  Pair pair(provider(), provider());
  pair.a_options.ord = 50;
  pair.a_options.ird = 7;
  pair.b_options.ird = 20;
  pair.b_options.ord = 30;
  ASSERT_TRUE(pair.open(address()));
  // A kernel's soft iWARP takes as many Reads as its peer wants, if that is more than was asked for here.
  EXPECT_EQ(pair.a.stream->capabilities().ord, quirks_of(facts).swaps_depths ? 50U : 20U);
  EXPECT_EQ(pair.a.stream->capabilities().ird, 7U);
  EXPECT_EQ(pair.b.stream->capabilities().ord, 7U);
}

TEST_F(LiveMemory, WriteWithoutTheRightEndsTheStreamAndChangesNothing) {
  Pair pair(provider(), provider());
  ASSERT_TRUE(pair.open(address()));
  auto memory = pattern(4096, 1);
  const auto region = pair.expose({memory, Access::remote_read});
  const auto source = pattern(4096, 2);
  pair.post(rdma::Write{1, source, {region.stag, region.tagged_offset}, nullptr});
  ASSERT_TRUE(pair.a.wait_closed());
  ASSERT_TRUE(pair.b.wait_closed());
  EXPECT_NE(pair.a.closed->text, "");
  EXPECT_EQ(memory, pattern(4096, 1));
}

TEST_F(LiveMemory, ReadWithoutTheRight) {
  Pair pair(provider(), provider());
  ASSERT_TRUE(pair.open(address()));
  auto memory = pattern(4096, 1);
  const auto region = pair.expose({memory, Access::remote_write});
  std::vector<std::byte> sink(4096);
  pair.post(rdma::Read{1, sink, {region.stag, region.tagged_offset}});
  ASSERT_TRUE(pair.completed(1));
  if (quirks_of(facts).reads_without_right) {
    EXPECT_EQ(pair.a.completions[0].status, WorkStatus::success)
        << "the defect is gone: docs/peers.md, quirks_of()";
    return;
  }
  EXPECT_EQ(pair.a.completions[0].status, WorkStatus::flushed);
  ASSERT_TRUE(pair.a.wait_closed());
  EXPECT_EQ(pair.a.closed->kind, Kind::remote_error) << pair.a.closed->text;
  EXPECT_EQ(sink, std::vector<std::byte>(4096));
}

TEST_F(LiveMemory, WriteBeyondTheEndEndsTheStream) {
  Pair pair(provider(), provider());
  ASSERT_TRUE(pair.open(address()));
  auto memory = pattern(8192, 1);
  const auto region = pair.expose({std::span(memory).first(4096), Access::remote_write});
  const auto source = pattern(100, 2);
  pair.post(rdma::Write{1, source, {region.stag, region.tagged_offset + 4090}, nullptr});
  ASSERT_TRUE(pair.b.wait_closed());
  EXPECT_EQ(to_vector(Octets(memory).subspan(4096)), to_vector(Octets(pattern(8192, 1)).subspan(4096)));
}

TEST_F(LiveMemory, RevokedRegionIsOutOfReach) {
  Pair pair(provider(), provider());
  ASSERT_TRUE(pair.open(address()));
  std::vector<std::byte> memory(4096);
  const auto region = pair.expose({memory, Access::remote_write});
  on_loop(pair.b.stream->loop(), [&] { pair.b.stream->revoke(region.stag); });
  const auto source = pattern(4096, 2);
  pair.post(rdma::Write{1, source, {region.stag, region.tagged_offset}, nullptr});
  ASSERT_TRUE(pair.a.wait_closed());
  ASSERT_TRUE(pair.b.wait_closed());
  EXPECT_EQ(memory, std::vector<std::byte>(4096));
}

TEST_F(LiveMemory, RegionOfAnotherStreamIsOutOfReach) {
  Pair one(provider(), provider());
  ASSERT_TRUE(one.open(address()));
  Pair other(provider(), provider());
  ASSERT_TRUE(other.open(address()));
  std::vector<std::byte> memory(4096);
  const auto region = one.expose({memory, Access::remote_write});
  const auto source = pattern(4096, 2);
  other.post(rdma::Write{1, source, {region.stag, region.tagged_offset}, nullptr});
  ASSERT_TRUE(other.a.wait_closed());
  EXPECT_EQ(memory, std::vector<std::byte>(4096));
  EXPECT_FALSE(one.b.closed);
}

TEST_F(LiveMemory, RegionOfADomainServesItsStreams) {
  Pair pair(provider(), provider());
  std::vector<std::byte> memory(4096);
  pair.b_options.domain = pair.target->create_domain();
  const auto region = pair.target->register_region(pair.b_options.domain, {memory, Access::remote_write});
  ASSERT_TRUE(region) << region.error().text;
  ASSERT_TRUE(pair.open(address()));
  const auto source = pattern(4096, 2);
  pair.post(rdma::Write{1, source, {region->stag, region->tagged_offset}, nullptr});
  pair.post(rdma::Send{2, pattern(8), false, {}});
  ASSERT_TRUE(pair.b.wait([&] { return pair.b.received.size() == 1 || pair.b.closed; }));
  EXPECT_EQ(memory, source);
}

TEST_F(LiveMemory, SendWithInvalidateRevokesWhatItNames) {
  Pair pair(provider(), provider());
  pair.b_options.initial_receives = 4;
  ASSERT_TRUE(pair.open(address()));
  std::vector<std::byte> memory(4096);
  const auto region = pair.expose({memory, Access::remote_write, Content::octets, 0, true});
  // The STag is good once a later message of its owner has arrived.
  pair.post(rdma::Send{0, pattern(8), false, {}});
  ASSERT_TRUE(pair.b.wait([&] { return pair.b.received.size() == 1 || pair.b.closed; }));
  on_loop(pair.target->loop(0), [&] {
    std::vector<rdma::WorkRequest> requests;
    requests.emplace_back(rdma::Send{0, pattern(8), false, {}});
    pair.b.stream->post(std::move(requests));
  });
  ASSERT_TRUE(pair.a.wait([&] { return pair.a.received.size() == 1 || pair.a.closed; }));
  const auto source = pattern(4096, 2);
  pair.post(rdma::Write{1, source, {region.stag, region.tagged_offset}, nullptr});
  pair.post(rdma::Send{2, pattern(8), false, region.stag});
  if (!capabilities_of(facts).invalidate_tx) {
    ASSERT_TRUE(pair.completed(3));
    EXPECT_EQ(pair.a.completions[2].status, WorkStatus::bad_request);
    return;
  }
  ASSERT_TRUE(pair.b.wait([&] { return pair.b.received.size() == 2 || pair.b.closed; }));
  ASSERT_FALSE(pair.b.closed) << pair.b.closed->text;
  EXPECT_EQ(memory, source);
  const auto again = pattern(4096, 3);
  pair.post(rdma::Write{3, again, {region.stag, region.tagged_offset}, nullptr});
  ASSERT_TRUE(pair.a.wait_closed());
  EXPECT_EQ(memory, source);
}

// rxe waits 50 s for a queue pair that a window is still bound to.
TEST_F(LiveMemory, AStreamEndsAtOnceWithAWindowThatNobodyHasInvalidated) {
  Pair pair(provider(), provider());
  ASSERT_TRUE(pair.open(address()));
  std::vector<std::byte> memory(4096);
  EXPECT_NE(pair.expose({memory, Access::remote_write, Content::octets, 0, true}).stag, 0U);
  on_loop(pair.target->loop(0), [&] {
    std::vector<rdma::WorkRequest> requests;
    requests.emplace_back(rdma::Send{0, pattern(8), false, {}});
    pair.b.stream->post(std::move(requests));
  });
  ASSERT_TRUE(pair.a.wait([&] { return pair.a.received.size() == 1 || pair.a.closed; }));
  ASSERT_FALSE(pair.b.closed);
  const TimePoint start = Clock::now();
  on_loop(pair.target->loop(0), [&] { pair.b.stream->close(); });
  ASSERT_TRUE(pair.b.wait_closed());
  EXPECT_LT(Clock::now() - start, std::chrono::seconds(30));
}

TEST_F(LiveMemory, WriteWithImmediateTakesOneReceive) {
  Pair pair(provider(), provider());
  ASSERT_TRUE(pair.open(address()));
  std::vector<std::byte> memory(24);
  const auto region = pair.expose({memory, Access::remote_write});
  const auto source = pattern(24, 2);
  pair.post(
      rdma::WriteImmediate{{1, source, {region.stag, region.tagged_offset}, nullptr}, 0xA1B2C3D4, false});
  if (!capabilities_of(facts).write_immediate) {
    ASSERT_TRUE(pair.completed(1));
    EXPECT_EQ(pair.a.completions[0].status, WorkStatus::bad_request);
    return;
  }
  ASSERT_TRUE(pair.b.wait([&] { return !pair.b.immediates.empty() || pair.b.closed; }));
  ASSERT_FALSE(pair.b.immediates.empty());
  EXPECT_EQ(pair.b.immediates[0], 0xA1B2C3D4U);
  EXPECT_EQ(memory, source);
}

TEST_F(LiveMemory, MessageLongerThanTheReceiveEndsTheStream) {
  Pair pair(provider(), provider());
  ASSERT_TRUE(pair.open(address()));
  pair.post(rdma::Send{1, pattern(300), false, {}});  // into 256
  ASSERT_TRUE(pair.b.wait_closed());
  EXPECT_NE(pair.b.closed->kind, Kind::graceful) << pair.b.closed->text;
  EXPECT_TRUE(pair.b.received.empty());
  ASSERT_TRUE(pair.a.wait_closed());
}

/// What the peers add by the device and what the host adds through the loopback sum up.
TEST_F(LiveMemory, HostAndPeersCountTogether) {
  Pair pair(provider(), provider());
  ASSERT_TRUE(pair.open(address()));
  alignas(64) std::array<std::uint64_t, 8> words{};
  if (!facts.atomics) {
    EXPECT_EQ(pair.target->fetch_add_local(words[0], 5, 0), 0U);
    EXPECT_EQ(words[0], 5U);
    Result<rdma::Region> region;
    on_loop(pair.b.stream->loop(), [&] {
      region = pair.b.stream->register_region(
          {std::as_writable_bytes(std::span(words)), Access::remote_atomic, Content::words});
    });
    EXPECT_FALSE(region);
    return;
  }
  const auto region =
      pair.expose({std::as_writable_bytes(std::span(words)), Access::remote_atomic, Content::words});
  constexpr std::uint64_t kEach = 300;
  on_loop(pair.a.stream->loop(), [&] {
    std::vector<rdma::WorkRequest> adds;
    for (std::uint64_t i = 0; i < kEach; ++i)
      adds.emplace_back(rdma::FetchAdd{i, {region.stag, region.tagged_offset}, 1, 0});
    pair.a.stream->post(std::move(adds));
  });
  std::uint64_t last = 0;
  for (std::uint64_t i = 0; i < kEach; ++i) {
    const std::uint64_t before = pair.target->fetch_add_local(words[0], 1, 0);
    EXPECT_GE(before, last);
    last = before;
  }
  ASSERT_TRUE(pair.completed(kEach)) << (pair.a.closed ? pair.a.closed->text : "");
  EXPECT_EQ(words[0], 2 * kEach);
  EXPECT_EQ(pair.target->fetch_add_local(words[1], 0xFFFF'FFFF, 0x8000'0000), 0U);
  EXPECT_EQ(pair.target->fetch_add_local(words[1], 1, 0x8000'0000), 0xFFFF'FFFFU);
  EXPECT_EQ(words[1], 0U) << "the carry out of a masked field is dropped (RFC 7306 5.1.1)";
  pair.post(rdma::CompareSwap{
      1000, {region.stag, region.tagged_offset + 8}, 0, ~std::uint64_t{0}, 77, ~std::uint64_t{0}});
  ASSERT_TRUE(pair.completed(kEach + 1));
  EXPECT_EQ(words[1], 77U);
}

}  // namespace
}  // namespace kbtp::verbs::test
