// What we do, when asked, for a peer that cannot take all that RFC 5044 lets us send.

#include <gtest/gtest.h>

#include "rdmap_binding/rnic/engine_rig.h"

namespace kbtp::rnic::test {
namespace {

using std::chrono::milliseconds;

RnicOptions one_fpdu_a_segment() {
  RnicOptions options;
  options.one_fpdu_a_segment = true;
  return options;
}

std::size_t size_of(std::span<const iovec> plan) {
  std::size_t size = 0;
  for (const iovec& piece : plan) size += piece.iov_len;
  return size;
}

Octets first_octets(std::span<const iovec> plan) {
  return {static_cast<const std::byte*>(plan[0].iov_base), plan[0].iov_len};
}

TEST(EngineAllowances, OneFpduAtATimeIsOfferedToTcp) {
  Pair pair({}, {}, one_fpdu_a_segment());
  pair.run();
  Engine& engine = pair.a->engine;
  engine.post({rdma::Send{1, pattern(4000), false, {}}, rdma::Send{2, pattern(20), false, {}}});
  std::size_t fpdus = 0;
  for (auto plan = engine.send_plan(); !plan.empty(); plan = engine.send_plan()) {
    const auto octets = first_octets(plan);
    const std::size_t ulpdu =
        std::to_integer<std::size_t>(octets[0]) << 8 | std::to_integer<std::size_t>(octets[1]);
    EXPECT_EQ(size_of(plan), mpa::fpdu_size(ulpdu));
    EXPECT_LE(size_of(plan), kEmss);
    engine.sent(size_of(plan));
    ++fpdus;
  }
  EXPECT_EQ(fpdus, 4);
}

TEST(EngineAllowances, WhatTcpTookOfAnFpduIsNotOfferedAgain) {
  Pair pair({}, {}, one_fpdu_a_segment());
  pair.run();
  Engine& engine = pair.a->engine;
  engine.post({rdma::Send{1, pattern(2000), false, {}}});
  const std::size_t first = size_of(engine.send_plan());
  engine.sent(first - 3);
  EXPECT_EQ(size_of(engine.send_plan()), 3);
  engine.sent(3);
  EXPECT_GT(size_of(engine.send_plan()), 3);
}

TEST(EngineAllowances, MessagesArriveAsTheyWere) {
  rdma::StreamOptions large_receives;
  large_receives.receive_size = 8192;
  Pair pair({}, large_receives, one_fpdu_a_segment(), one_fpdu_a_segment());
  pair.run();
  pair.b->recorder.stream->post_receives(2);
  pair.a->engine.post({rdma::Send{1, pattern(5000), false, {}}, rdma::Send{2, pattern(1), false, {}}});
  pair.run();
  ASSERT_EQ(pair.b->recorder.received.size(), 2);
  EXPECT_EQ(pair.b->recorder.received[0].payload, pattern(5000));
  EXPECT_EQ(pair.b->recorder.received[1].payload, pattern(1));
}

TEST(EngineAllowances, FirstFpduWaitsAfterTheReply) {
  RnicOptions options;
  options.pause_after_reply = milliseconds(60);
  Pair pair({}, {}, options);
  pair.run();
  pair.b->recorder.stream->post_receives(1);
  pair.a->engine.post({rdma::Send{1, pattern(8), false, {}}});
  pair.run();
  EXPECT_TRUE(pair.b->recorder.received.empty());
  EXPECT_EQ(pair.a->engine.deadline(), pair.host_a.loop.now() + milliseconds(60));

  pair.a->advance(milliseconds(59));
  pair.run();
  EXPECT_TRUE(pair.b->recorder.received.empty());

  pair.a->advance(milliseconds(1));
  pair.run();
  EXPECT_EQ(pair.b->recorder.received.size(), 1);
  EXPECT_FALSE(pair.a->recorder.closed.has_value());
}

TEST(EngineAllowances, PauseEndsNoStreamAndHoldsNoClose) {
  RnicOptions options;
  options.pause_after_reply = milliseconds(60);
  Pair pair({}, {}, options);
  pair.run();
  pair.b->recorder.stream->post_receives(1);
  pair.a->engine.post({rdma::Send{1, pattern(8), false, {}}});
  pair.a->engine.close(std::chrono::seconds(5));
  pair.run();
  EXPECT_FALSE(pair.a->fin);
  pair.a->advance(milliseconds(60));
  pair.run();
  EXPECT_EQ(pair.b->recorder.received.size(), 1);
  EXPECT_TRUE(pair.a->fin);
}

}  // namespace
}  // namespace kbtp::rnic::test
