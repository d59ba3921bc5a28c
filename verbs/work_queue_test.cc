#include "verbs/work_queue.h"

#include <cstring>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <memory>
#include <numeric>

namespace kbtp::verbs {
namespace {

using rdma::WorkStatus;

std::vector<std::byte> pattern(std::size_t size, unsigned seed = 0) {
  std::vector<std::byte> octets(size);
  for (std::size_t i = 0; i < size; ++i) octets[i] = static_cast<std::byte>((i * 131 + seed) >> 2);
  return octets;
}

/// A queue with memory of its own; what it orders is played by the test.
class WorkQueueTest : public testing::Test {
 protected:
  static constexpr std::size_t kRing = 4096;

  static QueueLimits limits() {
    QueueLimits limits;
    limits.depth = 8;
    limits.ord = 2;
    limits.inline_limit = 64;
    limits.max_message = 1 << 20;
    return limits;
  }
  WorkQueue make(const QueueLimits& with) {
    return {
        with, out, in, [this](Octets octets) -> std::optional<WorkQueue::InRegion> {
          if (octets.data() < region.data() || octets.data() + octets.size() > region.data() + region.size())
            return std::nullopt;
          return WorkQueue::InRegion{77, 5000 + static_cast<std::uint64_t>(octets.data() - region.data())};
        }};
  }
  static std::vector<Order> orders(WorkQueue& queue) {
    std::vector<Order> all;
    while (auto order = queue.next()) all.push_back(*order);
    return all;
  }
  static std::vector<rdma::Completion> told(WorkQueue& queue) {
    std::vector<rdma::Completion> all;
    while (const auto ended = queue.take()) {
      if (ended->completion) all.push_back(*ended->completion);
    }
    return all;
  }
  /// What the device would read into an order's place.
  static void answer(const Order& order, Octets octets) {
    std::memcpy(const_cast<std::byte*>(order.local.data()), octets.data(), octets.size());
  }

  std::vector<std::byte> out = std::vector<std::byte>(kRing);
  std::vector<std::byte> in = std::vector<std::byte>(kRing);
  std::vector<std::byte> region = pattern(20'000, 3);
};

TEST_F(WorkQueueTest, ShortSendsGoInlineAndLongOnesThroughStaging) {
  WorkQueue queue = make(limits());
  queue.post(rdma::Send{1, pattern(64), true, {}});
  queue.post(rdma::Send{2, pattern(65), false, {}});
  queue.post(rdma::Send{3, {}, false, {}});
  const auto all = orders(queue);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].place, Place::inlined);
  EXPECT_TRUE(all[0].solicited);
  EXPECT_EQ(all[1].place, Place::out_staging);
  EXPECT_EQ(to_vector(all[1].local), pattern(65));
  EXPECT_EQ(all[2].place, Place::nowhere);
}

TEST_F(WorkQueueTest, WriteOutOfStagingIsCutIntoPiecesAndCompletesOnce) {
  WorkQueue queue = make(limits());
  const auto source = pattern(3000);
  queue.post(rdma::Write{9, source, {5, 1000}, nullptr});
  const auto all = orders(queue);
  ASSERT_EQ(all.size(), 3U);  // a quarter of the ring each
  std::vector<std::byte> sent;
  for (const Order& order : all) {
    EXPECT_EQ(order.place, Place::out_staging);
    EXPECT_EQ(order.remote.tagged_offset, 1000 + sent.size());
    sent.insert(sent.end(), order.local.begin(), order.local.end());
  }
  EXPECT_EQ(sent, source);
  queue.ended();
  queue.ended();
  EXPECT_THAT(told(queue), testing::IsEmpty());
  queue.ended();
  const auto completions = told(queue);
  ASSERT_EQ(completions.size(), 1U);
  EXPECT_EQ(completions[0].id, 9U);
  EXPECT_TRUE(queue.idle());
}

TEST_F(WorkQueueTest, WriteFromARegionIsUsedWhereItLies) {
  WorkQueue queue = make(limits());
  queue.post(rdma::Write{1, Octets(region).first(10'000), {5, 0}, nullptr});
  const auto all = orders(queue);
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].place, Place::region);
  EXPECT_EQ(all[0].local_key, 77U);
  EXPECT_EQ(all[0].local_address, 5000U);
  EXPECT_EQ(all[0].local.data(), region.data());
  EXPECT_EQ(all[0].local.size(), 10'000U);
}

TEST_F(WorkQueueTest, WritesLongerThanTheDeviceTakesAreCut) {
  QueueLimits small = limits();
  small.max_message = 4000;
  WorkQueue queue = make(small);
  queue.post(rdma::Write{1, Octets(region).first(10'000), {5, 0}, nullptr});
  std::vector<std::size_t> sizes;
  std::uint64_t address = 5000;
  for (const Order& order : orders(queue)) {
    EXPECT_EQ(order.local_address, address);
    address += order.local.size();
    sizes.push_back(order.local.size());
  }
  EXPECT_THAT(sizes, testing::ElementsAre(4000U, 4000U, 2000U));
}

TEST_F(WorkQueueTest, StagingThatIsFullMakesRequestsWait) {
  WorkQueue queue = make(limits());
  const auto source = pattern(6000);
  queue.post(rdma::Write{1, source, {5, 0}, nullptr});
  std::vector<std::byte> sent;
  std::size_t rounds = 0;
  for (; sent.size() < source.size() && rounds < 100; ++rounds) {
    for (const Order& order : orders(queue)) sent.insert(sent.end(), order.local.begin(), order.local.end());
    if (rounds == 0) {
      EXPECT_EQ(sent.size(), kRing);
    }
    queue.ended();
  }
  EXPECT_EQ(sent, source);
}

TEST_F(WorkQueueTest, DepthBoundsWhatTheDeviceHolds) {
  WorkQueue queue = make(limits());
  for (std::uint64_t i = 0; i < 20; ++i) queue.post(rdma::Send{i, pattern(8), false, {}});
  EXPECT_EQ(queue.waiting(), 20U);
  EXPECT_EQ(orders(queue).size(), 8U);
  EXPECT_EQ(queue.waiting(), 12U);
  queue.ended();
  EXPECT_EQ(orders(queue).size(), 1U);
  EXPECT_EQ(queue.waiting(), 11U);
  EXPECT_EQ(told(queue).size(), 1U);
}

TEST_F(WorkQueueTest, ReadsPastTheOrdWaitAndLandInTheirSinks) {
  WorkQueue queue = make(limits());
  std::vector<std::vector<std::byte>> sinks(4, std::vector<std::byte>(100));
  for (std::uint64_t i = 0; i < 4; ++i) queue.post(rdma::Read{i, sinks[i], {7, i * 100}});
  auto all = orders(queue);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_FALSE(queue.sending());  // the peer's answers are due, nothing else
  for (unsigned i = 0; i < 4; ++i) {
    answer(all.at(0), pattern(100, i));
    all.erase(all.begin());
    queue.ended();
    for (const Order& order : orders(queue)) all.push_back(order);
    EXPECT_EQ(sinks[i], pattern(100, i)) << i;
    EXPECT_EQ(told(queue).size(), 1U);
  }
  EXPECT_TRUE(queue.idle());
}

TEST_F(WorkQueueTest, LongReadsAreCutAndKeepToTheOrd) {
  WorkQueue queue = make(limits());
  const auto answers = pattern(3000, 9);
  std::vector<std::byte> sink(3000);
  queue.post(rdma::Read{1, sink, {7, 50}});
  std::size_t done = 0;
  while (done < 3000) {
    const auto all = orders(queue);
    ASSERT_FALSE(all.empty());
    ASSERT_LE(all.size(), 2U);
    for (const Order& order : all) {
      EXPECT_EQ(order.remote.tagged_offset, 50 + done);
      answer(order, Octets(answers).subspan(done, order.local.size()));
      done += order.local.size();
    }
    for (std::size_t i = 0; i < all.size(); ++i) queue.ended();
  }
  EXPECT_EQ(sink, answers);
  EXPECT_EQ(told(queue).size(), 1U);
}

TEST_F(WorkQueueTest, SinkIsUntouchedUntilTheReadHasEnded) {
  WorkQueue queue = make(limits());
  std::vector<std::byte> sink(64);
  queue.post(rdma::Read{1, sink, {7, 0}});
  const auto all = orders(queue);
  answer(all.at(0), pattern(64, 1));
  EXPECT_EQ(sink, std::vector<std::byte>(64));  // G-52: it is not what the peer could write into
  queue.ended();
  EXPECT_EQ(sink, pattern(64, 1));
}

// Siw completes a Send while a Read in front of it still waits for its Response.
TEST_F(WorkQueueTest, SendThatEndsBeforeAReadIsToldBehindItAndBringsItNothing) {
  WorkQueue queue = make(limits());
  std::vector<std::byte> sink(64, std::byte{0xEE});
  const auto untouched = sink;
  queue.post(rdma::Read{1, sink, {5, 0}});
  queue.post(rdma::Send{2, pattern(8), false, {}});
  const auto all = orders(queue);
  ASSERT_EQ(all.size(), 2U);
  queue.ended(1);
  queue.ended(1);
  EXPECT_THAT(told(queue), testing::IsEmpty());
  EXPECT_EQ(sink, untouched);

  const auto data = pattern(64);
  std::memcpy(const_cast<std::byte*>(all[0].local.data()), data.data(), data.size());
  queue.ended(0);
  const auto completions = told(queue);
  ASSERT_EQ(completions.size(), 2U);
  EXPECT_EQ(completions[0].id, 1U);
  EXPECT_EQ(completions[1].id, 2U);
  EXPECT_EQ(sink, data);
  EXPECT_EQ(queue.orders_ended(), 2U);
  EXPECT_TRUE(queue.idle());
}

TEST_F(WorkQueueTest, WhatTheDeviceCannotDoEndsInItsTurn) {
  WorkQueue queue = make(limits());
  std::byte source{1};
  queue.post(rdma::Send{1, pattern(4), false, {}});
  queue.post(rdma::WriteImmediate{{2, Octets(&source, 1), {5, 0}, nullptr}, 7, false});
  queue.post(rdma::FetchAdd{3, {5, 0}, 1, 0});
  queue.post(rdma::Send{4, pattern(4), false, 0x1234});
  queue.post(rdma::Send{5, pattern(kRing + 1), false, {}});
  queue.post(rdma::Send{6, pattern(4), false, {}});
  EXPECT_EQ(orders(queue).size(), 2U);
  EXPECT_THAT(told(queue), testing::IsEmpty());  // behind the first
  queue.ended();
  queue.ended();
  std::vector<std::pair<rdma::WorkId, WorkStatus>> ends;
  for (const auto& completion : told(queue)) ends.emplace_back(completion.id, completion.status);
  EXPECT_THAT(ends, testing::ElementsAre(
                        std::pair{1U, WorkStatus::success}, std::pair{2U, WorkStatus::bad_request},
                        std::pair{3U, WorkStatus::bad_request}, std::pair{4U, WorkStatus::bad_request},
                        std::pair{5U, WorkStatus::bad_request}, std::pair{6U, WorkStatus::success}));
}

TEST_F(WorkQueueTest, ReadWithoutDepthIsRefused) {
  QueueLimits none = limits();
  none.ord = 0;
  WorkQueue queue = make(none);
  std::vector<std::byte> sink(8);
  queue.post(rdma::Read{1, sink, {7, 0}});
  EXPECT_THAT(orders(queue), testing::IsEmpty());
  const auto completions = told(queue);
  ASSERT_EQ(completions.size(), 1U);
  EXPECT_EQ(completions[0].status, WorkStatus::bad_request);
}

TEST_F(WorkQueueTest, AtomicsBringTheWordBefore) {
  QueueLimits with = limits();
  with.plain_atomics = true;
  WorkQueue queue = make(with);
  queue.post(rdma::Send{1, pattern(65), false, {}});  // leaves the rings at an odd place
  std::vector<std::byte> sink(3);
  queue.post(rdma::Read{2, sink, {7, 0}});
  queue.post(rdma::FetchAdd{3, {5, 8}, 1, 0});
  queue.post(rdma::FetchAdd{4, {5, 8}, 1, 0xFF});  // masked
  const auto all = orders(queue);
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(all[2].local.data()) % 8, 0U);
  ASSERT_EQ(all[2].local.size(), 8U);
  const std::uint64_t before = 0x0102030405060708;
  answer(all[2], std::as_bytes(std::span(&before, 1)));
  for (int i = 0; i < 3; ++i) queue.ended();
  const auto completions = told(queue);
  ASSERT_EQ(completions.size(), 4U);
  EXPECT_EQ(completions[2].original, before);
  EXPECT_EQ(completions[3].status, WorkStatus::bad_request);
}

TEST_F(WorkQueueTest, LocalInvalidateWaitsForWhatIsBeforeAndHoldsBackWhatIsBehind) {
  WorkQueue queue = make(limits());
  queue.post(rdma::Send{1, pattern(4), false, {}});
  queue.post(rdma::LocalInvalidate{2, 0xABC});
  queue.post(rdma::Send{3, pattern(4), false, {}});
  EXPECT_EQ(orders(queue).size(), 1U);
  EXPECT_FALSE(queue.take());
  queue.ended();
  EXPECT_EQ(queue.take()->completion->id, 1U);
  const auto revoked = queue.take();
  ASSERT_TRUE(revoked);
  EXPECT_EQ(revoked->revoke, 0xABCU);
  EXPECT_EQ(revoked->completion->id, 2U);
  EXPECT_EQ(orders(queue).size(), 1U);
}

TEST_F(WorkQueueTest, WindowsAreBoundInOrderAndNotTold) {
  WorkQueue queue = make(limits());
  queue.bind(42);
  queue.post(rdma::Send{1, pattern(4), false, {}});
  const auto all = orders(queue);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].kind, Order::Kind::bind_window);
  EXPECT_EQ(all[0].window, 42U);
  queue.ended();
  queue.ended();
  EXPECT_EQ(told(queue).size(), 1U);
}

TEST_F(WorkQueueTest, WhatIsPostedAfterCloseIsFlushedInItsTurn) {
  WorkQueue queue = make(limits());
  queue.post(rdma::Send{1, pattern(4), false, {}});
  queue.close();
  queue.post(rdma::Send{2, pattern(4), false, {}});
  EXPECT_EQ(orders(queue).size(), 1U);
  EXPECT_THAT(told(queue), testing::IsEmpty());
  queue.ended();
  const auto completions = told(queue);
  ASSERT_EQ(completions.size(), 2U);
  EXPECT_EQ(completions[0].status, WorkStatus::success);
  EXPECT_EQ(completions[1].status, WorkStatus::flushed);
}

TEST_F(WorkQueueTest, FlushTellsEverythingOnceAndInOrder) {
  WorkQueue queue = make(limits());
  std::vector<std::byte> sink(5000);
  queue.post(rdma::Send{1, pattern(4), false, {}});
  queue.post(rdma::Read{2, sink, {7, 0}});
  queue.post(rdma::Send{3, pattern(4), false, {}});
  queue.post(rdma::LocalInvalidate{4, 9});
  std::ignore = orders(queue);
  queue.ended();  // the Send was done, only not told yet
  queue.flush();
  queue.post(rdma::Send{5, pattern(4), false, {}});
  std::vector<std::pair<rdma::WorkId, WorkStatus>> ends;
  for (const auto& completion : told(queue)) ends.emplace_back(completion.id, completion.status);
  EXPECT_THAT(ends,
              testing::ElementsAre(std::pair{1U, WorkStatus::success}, std::pair{2U, WorkStatus::flushed},
                                   std::pair{3U, WorkStatus::flushed}, std::pair{4U, WorkStatus::flushed},
                                   std::pair{5U, WorkStatus::flushed}));
  EXPECT_TRUE(queue.idle());
  EXPECT_EQ(sink, std::vector<std::byte>(5000));
}

TEST_F(WorkQueueTest, KeepAliveIsHeldUntilTheWriteHasEnded) {
  WorkQueue queue = make(limits());
  auto copy = std::make_shared<std::vector<std::byte>>(pattern(100));
  const std::weak_ptr<std::vector<std::byte>> watch = copy;
  queue.post(rdma::Write{1, *copy, {5, 0}, std::move(copy)});
  EXPECT_EQ(orders(queue).size(), 1U);
  EXPECT_FALSE(watch.expired());
  queue.ended();
  EXPECT_EQ(told(queue).size(), 1U);
  EXPECT_TRUE(watch.expired());
}

}  // namespace
}  // namespace kbtp::verbs
