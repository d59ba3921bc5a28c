// How streams end: half close, linger, stalled peers, peers that vanish at any octet.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rdmap_binding/rnic/engine_rig.h"

namespace kbtp::rnic::test {
namespace {

using rdma::Access;
using rdma::CloseReason;
using rdma::Content;
using rdma::WorkStatus;

// Rules: RFC5041-6.2.1-02, RFC5041-6.2.1-05
TEST(EngineEnd, Rfc5041_6_2_1_01_WhatWasPostedGoesOutBeforeFin) {
  Pair pair;
  pair.run();
  auto& a = *pair.a->recorder.stream;
  a.post({rdma::Send{1, pattern(8), false, {}}, rdma::Send{2, pattern(8), false, {}}});
  a.close();
  a.post({rdma::Send{3, pattern(8), false, {}}});
  pair.run();
  EXPECT_EQ(pair.b->recorder.received.size(), 2U);
  EXPECT_EQ(pair.b->recorder.peer_finished, 1);
  ASSERT_EQ(pair.a->recorder.completions.size(), 3U);
  EXPECT_EQ(pair.a->recorder.completions[1].status, WorkStatus::success);
  EXPECT_EQ(pair.a->recorder.completions[2].status, WorkStatus::flushed);
  EXPECT_FALSE(pair.a->recorder.closed.has_value());  // the peer has not finished
  pair.b->recorder.stream->close();
  pair.run();
  EXPECT_EQ(pair.a->recorder.closed->kind, CloseReason::Kind::graceful);
  EXPECT_EQ(pair.b->recorder.closed->kind, CloseReason::Kind::graceful);
}

// Rules: RFC5041-6.2.1-04, RFC5041-6.2.1-06
TEST(EngineEnd, Rfc5041_6_2_1_04_SendingGoesOnAfterThePeersFin) {
  Pair pair;
  pair.run();
  pair.a->recorder.stream->post({rdma::Send{1, pattern(8), false, {}}});
  pair.a->recorder.stream->close();
  pair.run();
  pair.b->recorder.stream->post({rdma::Send{1, pattern(9), false, {}}});
  pair.run();
  ASSERT_EQ(pair.a->recorder.received.size(), 1U);  // Rfc5041_6_2_1_06: our half close leaves reception on
  EXPECT_FALSE(pair.b->recorder.closed.has_value());
}

TEST(EngineEnd, ReadsAreAnsweredBeforeFin) {
  Pair pair;
  pair.run();
  std::vector<std::byte> source = pattern(5000);
  const auto stag =
      pair.b->recorder.stream->register_region({source, Access::remote_read, Content::octets, 0, false})
          ->stag;
  std::vector<std::byte> into(5000);
  pair.a->recorder.stream->post({rdma::Read{1, into, {stag, 0}}});
  pair.a->recorder.stream->close();
  pair.run();
  EXPECT_EQ(into, source);
  EXPECT_EQ(pair.a->recorder.completions.at(0).status, WorkStatus::success);
}

TEST(EngineEnd, APeerThatFinishedAnswersNothingSoThatReadsAndAtomicsAreFlushed) {
  Pair pair;
  pair.run();
  auto& a = *pair.a;
  std::vector<std::byte> into(8);
  const rdma::RemoteBuffer there{5, 0};
  a.recorder.stream->post(
      {rdma::Read{1, into, there}, rdma::Send{2, pattern(8), false, {}}, rdma::FetchAdd{3, there, 1, 0}});
  a.drain();  // what left reaches nobody
  EXPECT_TRUE(a.recorder.completions.empty());
  a.engine.peer_finished();
  a.drain();
  a.recorder.stream->post({rdma::Read{4, into, there}, rdma::Send{5, pattern(8), false, {}}});
  a.drain();
  ASSERT_EQ(a.recorder.completions.size(), 5U);
  for (const std::size_t answered : {0U, 2U, 3U})
    EXPECT_EQ(a.recorder.completions[answered].status, WorkStatus::flushed) << answered;
  for (const std::size_t sent : {1U, 4U})
    EXPECT_EQ(a.recorder.completions[sent].status, WorkStatus::success) << sent;
  a.recorder.stream->close();
  a.drain();
  EXPECT_EQ(a.recorder.closed->kind, CloseReason::Kind::graceful);
}

TEST(EngineEnd, LingerEndsAWaitForThePeersFin) {
  Pair pair;
  pair.run();
  pair.a->recorder.stream->close(std::chrono::seconds(2));
  pair.run();
  pair.a->advance(std::chrono::milliseconds(1'999));
  EXPECT_FALSE(pair.a->recorder.closed.has_value());
  pair.a->advance(std::chrono::milliseconds(2));
  ASSERT_TRUE(pair.a->recorder.closed.has_value());
  EXPECT_EQ(pair.a->recorder.closed->kind, CloseReason::Kind::graceful);
}

TEST(EngineEnd, E5_StalledPeerEndsAtTheSendDeadline) {
  rdma::StreamOptions options;
  options.send_deadline = std::chrono::seconds(3);
  Pair pair(options, {});
  pair.run();
  const auto source = pattern(100'000);
  pair.a->recorder.stream->post({rdma::Write{1, source, {1, 0}, nullptr}});
  EXPECT_EQ(pair.a->drain(500).size(), 500U);
  pair.a->advance(std::chrono::milliseconds(2'999));
  EXPECT_EQ(pair.a->drain(1).size(), 1U);  // progress, however little, starts the time again
  pair.a->advance(std::chrono::milliseconds(2'999));
  EXPECT_FALSE(pair.a->recorder.closed.has_value());
  pair.a->advance(std::chrono::milliseconds(2));
  ASSERT_TRUE(pair.a->recorder.closed.has_value());
  EXPECT_EQ(pair.a->recorder.closed->kind, CloseReason::Kind::deadline);
  EXPECT_TRUE(pair.a->engine.abortive());
  EXPECT_EQ(pair.a->recorder.completions.at(0).status, WorkStatus::flushed);
}

TEST(EngineEnd, IdleStreamHasNoDeadline) {
  Pair pair;
  pair.run();
  EXPECT_EQ(pair.a->engine.deadline(), kNever);
  EXPECT_EQ(pair.b->engine.deadline(), kNever);
}

// Rules: RFC5040-7-02
TEST(EngineEnd, TerminatedStreamEndsWithoutThePeersFin) {
  Responder target;
  target.answer(Untagged{.body = pattern(8)}.fpdu());
  EXPECT_EQ(target.answer(Untagged{.msn = 9, .body = pattern(8)}.fpdu()).size(), 1U);
  EXPECT_FALSE(target.recorder().closed.has_value());
  target.end->advance(kTeardownDeadline);
  ASSERT_TRUE(target.recorder().closed.has_value());
  EXPECT_EQ(target.recorder().closed->terminate, terminate::kDdpUntaggedMsnRange.packed());
}

TEST(EngineEnd, AbortFlushesAndTellsOnceFromThePump) {
  Pair pair;
  pair.run();
  std::vector<std::byte> into(8);
  pair.a->recorder.stream->post({rdma::Read{1, into, {1, 0}}, rdma::Send{2, pattern(8), false, {}}});
  pair.a->recorder.stream->abort("enough");
  EXPECT_TRUE(pair.a->recorder.completions.empty());
  EXPECT_FALSE(pair.a->recorder.closed.has_value());
  pair.a->settle();
  ASSERT_EQ(pair.a->recorder.completions.size(), 2U);
  EXPECT_EQ(pair.a->recorder.completions[0].status, WorkStatus::flushed);
  EXPECT_EQ(pair.a->recorder.closed->text, "enough");
  EXPECT_EQ(pair.a->recorder.closed_count, 1);
}

TEST(EngineEnd, AbortInsideACallbackStopsDelivery) {
  Pair pair;
  pair.run();
  pair.b->recorder.when_received = [&](const rdma::Received&) { pair.b->recorder.stream->abort("no more"); };
  pair.a->recorder.stream->post({rdma::Send{1, pattern(8), false, {}}, rdma::Send{2, pattern(8), false, {}}});
  pair.run();
  EXPECT_EQ(pair.b->recorder.received.size(), 1U);
  EXPECT_EQ(pair.b->recorder.closed_count, 1);
}

TEST(EngineEnd, FlushedSourceIsTheOwnersAgain) {
  // The stream fails while a Write is half sent: what TCP still takes must not come from the freed source.
  Pair pair;
  pair.run();
  auto source = std::make_unique<std::vector<std::byte>>(pattern(1400));
  pair.a->recorder.stream->post({rdma::Write{1, *source, {1, 0}, nullptr}});
  const auto first = pair.a->drain(100);
  pair.a->feed(Untagged{.msn = 9, .body = pattern(8)}.fpdu());  // an error of the peer
  ASSERT_EQ(pair.a->recorder.completions.size(), 1U);
  source.reset();
  auto all = first;
  const auto rest = pair.a->drain();
  all.insert(all.end(), rest.begin(), rest.end());
  const auto out = ulpdus(all);
  ASSERT_EQ(out.size(), 2U);  // the Write's FPDU, whole, then the Terminate
  EXPECT_EQ(to_vector(Octets(out[0]).subspan(14)), pattern(1400));
}

TEST(EngineEnd, StreamScopedStagsEndWithTheStream) {
  Pair pair;
  pair.run();
  std::vector<std::byte> memory(16);
  const auto stag =
      pair.a->recorder.stream->register_region({memory, Access::remote_write, Content::octets, 0, false})
          ->stag;
  pair.a->recorder.stream->abort("over");
  EXPECT_FALSE(pair.host_a.stags.exists(stag));
  EXPECT_FALSE(
      pair.a->recorder.stream->register_region({memory, Access::remote_write, Content::octets, 0, false}));
}

/// A peer that is cut off behind every octet of a conversation leaves nothing behind.
TEST(EngineEnd, PeerThatVanishesAtAnyOctet) {
  const auto conversation = [] {
    Pair pair;
    pair.run();
    const auto source = pattern(3000);
    pair.a->recorder.stream->post(
        {rdma::Send{1, pattern(24), false, {}}, rdma::Write{2, source, {1, 0}, nullptr}});
    return pair.a->drain();
  }();
  for (const bool reset : {false, true}) {
    for (std::size_t n = 0; n <= conversation.size(); ++n) {
      SCOPED_TRACE(n);
      Responder target;
      std::vector<std::byte> memory(64);
      std::vector<std::byte> into(64);
      auto& stream = target.stream();
      std::ignore = stream.register_region({memory, Access::remote_write, Content::octets, 0, false});
      stream.post({rdma::Read{1, into, {5, 0}}, rdma::Send{2, pattern(8), false, {}}});
      target.end->feed(Octets(conversation).first(n));
      if (!target.end->engine.finished()) {
        if (reset) {
          target.end->engine.transport_lost(CloseReason::Kind::transport_lost, "reset");
        } else {
          target.end->engine.peer_finished();
        }
        target.end->drain();
        if (!target.end->engine.finished() && target.recorder().peer_finished == 1) stream.close();
        target.end->drain();
        target.end->advance(kTeardownDeadline);
      }
      ASSERT_TRUE(target.end->engine.finished());
      EXPECT_EQ(target.recorder().closed_count, 1);
      EXPECT_EQ(target.recorder().completions.size(), 2U);
      EXPECT_EQ(target.host.stags.size(), 0U);
    }
  }
}

}  // namespace
}  // namespace kbtp::rnic::test
