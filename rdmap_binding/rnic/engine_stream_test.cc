// The stream that DDP lives on (RFC 5041 3, 5.3, 6): segments as large as the transport says, everything that
// was accepted ends one way or the other, and nobody but the upper layers ends a stream.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rdmap_binding/rnic/engine_target_rig.h"

namespace kbtp::rnic::test {
namespace {

using rdma::Access;
using rdma::CloseReason;
using rdma::Content;
using rdma::WorkStatus;

std::vector<std::size_t> sizes(Octets octets) {
  std::vector<std::size_t> all;
  for (const auto& out : ulpdus(octets)) all.push_back(out.size());
  return all;
}

// Rules: RFC5041-3-01
TEST(EngineStream, SegmentsFollowTheMulpdu) {
  Pair pair;
  pair.run();
  const auto source = pattern(3000);
  for (const std::size_t emss :
       {std::size_t{1460}, std::size_t{536}, std::size_t{8948}, std::size_t{65'483}, std::size_t{1460}}) {
    SCOPED_TRACE(emss);
    pair.a->engine.set_emss(emss);
    pair.a->recorder.stream->post({rdma::Write{1, source, {1, 0}, nullptr}});
    const std::size_t mulpdu = mpa::mulpdu(emss, false);
    const auto out = sizes(pair.a->drain());
    ASSERT_FALSE(out.empty());
    EXPECT_EQ(out.size(), (source.size() + mulpdu - 15) / (mulpdu - 14));
    EXPECT_EQ(out.front(), std::min(mulpdu, source.size() + 14));
  }
}

// Rules: RFC5041-3-02
TEST(EngineStream, SegmentsThatAreHandedDownStayAsTheyAre) {
  rdma::StreamOptions large;
  large.receive_size = 10'000;
  Pair pair({}, large);
  pair.run();
  const auto whole = pattern(10'000);
  pair.a->recorder.stream->post({rdma::Send{1, whole, false, std::nullopt}});
  auto octets = pair.a->drain(10);
  pair.a->engine.set_emss(536);
  const auto rest = pair.a->drain();
  octets.insert(octets.end(), rest.begin(), rest.end());
  const auto out = sizes(octets);
  EXPECT_EQ(out.front(), mpa::mulpdu(kEmss, false));
  EXPECT_EQ(out.size(), (whole.size() + 1435) / 1436);
  pair.b->feed(octets);
  ASSERT_EQ(pair.b->recorder.received.size(), 1U);
  EXPECT_EQ(pair.b->recorder.received[0].payload, whole);
}

// Rules: RFC5041-3-03, RFC5041-6.2.2-04, RFC5041-7-01, RFC5041-6.2.2-01
TEST(EngineStream, WhatWasAcceptedArrivesOrFailsAudibly) {
  for (const std::size_t taken : {0U, 1U, 30U, 64U, 65U, 1000U, 5000U}) {
    SCOPED_TRACE(taken);
    Pair pair;
    pair.run();
    const auto source = pattern(8000);
    std::vector<std::byte> into(8);
    pair.a->recorder.stream->post({rdma::Send{1, pattern(40), false, std::nullopt},
                                   rdma::Write{2, source, {1, 0}, nullptr}, rdma::Read{3, into, {1, 0}},
                                   rdma::FetchAdd{4, {1, 0}, 1, 0}, rdma::Immediate{5, 1}});
    EXPECT_EQ(pair.a->drain(taken).size(), taken);
    pair.a->engine.transport_lost(CloseReason::Kind::transport_lost, "the connection was reset");
    pair.a->settle();
    ASSERT_EQ(pair.a->recorder.completions.size(), 5U);
    for (std::uint64_t i = 0; i < 5; ++i) {
      EXPECT_EQ(pair.a->recorder.completions[i].id, i + 1);
      const bool gone = i == 0 && taken >= 64;  // 2 + 18 + 40 + 4 octets
      EXPECT_EQ(pair.a->recorder.completions[i].status, gone ? WorkStatus::success : WorkStatus::flushed);
    }
    ASSERT_EQ(pair.a->recorder.closed_count, 1);
    EXPECT_EQ(pair.a->recorder.closed->kind, CloseReason::Kind::transport_lost);
    EXPECT_EQ(pair.a->recorder.closed->text, "the connection was reset");
  }
}

// Rules: RFC5041-3-06
TEST(EngineStream, EveryChangedBitOfASegmentIsFound) {
  constexpr std::size_t kFpdu = 2 + 14 + 24 + 4;
  for (std::size_t bit = 16; bit < 8 * kFpdu; ++bit) {  // the length field cuts another FPDU out
    MemoryTarget t;
    auto fpdu = Tagged{.stag = t.writable, .to = kBase, .body = pattern(24, 9)}.fpdu();
    fpdu[bit / 8] ^= static_cast<std::byte>(1U << bit % 8);
    t.answer(Untagged{}.fpdu());
    const auto told = t.told(fpdu);
    ASSERT_TRUE(told) << bit;
    EXPECT_EQ(to_string(told->code), to_string(terminate::kMpaCrcError));
    ASSERT_EQ(t.memory, pattern(8192));
  }
}

// Rules: RFC5041-3-07, RFC5041-4.2-03, RFC5041-4.2-06
TEST(EngineStream, OfEachSegmentItsLengthStagAndControlOctetAreKnown) {
  std::vector<FpduEvent> events;
  RnicOptions rnic;
  rnic.fpdu_observer = [&events](const FpduEvent& event) {
    if (event.direction == Direction::received) events.push_back(event);
  };
  MemoryTarget t(MemoryTarget::options(), rnic);
  for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{100}, std::size_t{1400}}) {
    t.answer(Tagged{.stag = t.writable, .to = kBase + 3, .body = pattern(size)}.fpdu());
    ASSERT_FALSE(events.empty());
    EXPECT_EQ(events.back().payload_length, size);
    EXPECT_EQ(events.back().stag, t.writable);
    EXPECT_EQ(events.back().tagged_offset, kBase + 3);
    EXPECT_EQ(events.back().rdmap_control, 0x40);
  }
  // And RDMAP goes by them: the same octets as a Response end the Read whose STag they name.
  std::vector<std::byte> sink(8);
  t.stream().post({rdma::Read{1, sink, {0x99, 0}}});
  const auto request = rdmap::decode_read_request(Octets(t.target.drained().at(0)).subspan(18).first<28>());
  t.answer(Tagged{.rdmap_control = 0x42, .stag = request.sink_stag, .body = pattern(8, 2)}.fpdu());
  EXPECT_EQ(events.back().rdmap_control, 0x42);
  EXPECT_EQ(events.back().stag, request.sink_stag);
  ASSERT_EQ(t.recorder().completions.size(), 1U);
  EXPECT_EQ(sink, pattern(8, 2));
}

// Rules: RFC5041-5.3-01
TEST(EngineStream, MessagesLeaveInTheOrderPosted) {
  Pair pair;
  pair.run();
  std::vector<std::byte> octets = pattern(5000);
  std::vector<rdma::WorkRequest> requests;
  for (std::uint32_t i = 1; i <= 30; ++i) {
    const std::size_t size = i * 157 % 5000;
    if (i % 3 == 0) {
      requests.emplace_back(rdma::Write{i, Octets(octets).first(size), {i, 0}, nullptr});
    } else {
      requests.emplace_back(rdma::Send{i, to_vector(Octets(octets).first(size)), false, i});  // names i
    }
  }
  pair.a->recorder.stream->post(std::move(requests));
  std::uint32_t due = 1;
  for (const auto& out : ulpdus(pair.a->drain())) {
    EXPECT_EQ(load_be<std::uint32_t>(out.data() + 2), due);
    if ((out[0] & std::byte{0x40}) != std::byte{0}) ++due;
  }
  EXPECT_EQ(due, 31U);
}

// Rules: RFC5041-6.1-01
TEST(EngineStream, BothDirectionsBeginAtOnce) {
  Pair pair;
  pair.a->recorder.when_open = [](rdma::Stream& s) { s.post({rdma::Send{1, pattern(5), false, {}}}); };
  pair.b->recorder.when_open = [](rdma::Stream& s) { s.post({rdma::Send{1, pattern(6), false, {}}}); };
  pair.run();
  ASSERT_EQ(pair.a->recorder.received.size(), 1U);
  ASSERT_EQ(pair.b->recorder.received.size(), 1U);
  EXPECT_EQ(pair.a->recorder.received[0].payload, pattern(6));
  EXPECT_EQ(pair.b->recorder.received[0].payload, pattern(5));
}

// Rules: RFC5041-6.2-01, RFC5041-6.2.2-03, RFC5041-3-09
TEST(EngineStream, AnOpenOrHalfClosedStreamStaysUntilItsUpperLayerEndsIt) {
  Pair pair;
  pair.run();
  pair.a->advance(std::chrono::hours(10'000));
  pair.b->advance(std::chrono::hours(10'000));
  EXPECT_FALSE(pair.a->recorder.closed || pair.b->recorder.closed);
  pair.a->recorder.stream->close(std::chrono::hours(100'000));
  pair.run();
  EXPECT_EQ(pair.b->recorder.peer_finished, 1) << "the peer's end is told";
  pair.b->advance(std::chrono::hours(10'000));
  EXPECT_FALSE(pair.b->recorder.closed.has_value());
  EXPECT_FALSE(pair.b->fin);
  pair.b->recorder.stream->close();
  pair.run();
  EXPECT_EQ(pair.a->recorder.closed->kind, CloseReason::Kind::graceful);
  EXPECT_EQ(pair.b->recorder.closed->kind, CloseReason::Kind::graceful);
}

// Rules: RFC5041-6.2.2-03
TEST(EngineStream, AfterAnErrorTheStreamIsThereUntilItsEndIsTold) {
  MemoryTarget t;
  t.answer(Untagged{}.fpdu());
  EXPECT_TRUE(t.told(Untagged{.msn = 9, .body = pattern(8)}.fpdu()));
  EXPECT_FALSE(t.recorder().closed.has_value());
  t.stream().post({rdma::Send{1, pattern(4), false, std::nullopt}});
  t.stream().revoke(t.writable);
  EXPECT_EQ(t.stream().capabilities().ird, 4U);
  t.target.end->settle();
  ASSERT_EQ(t.recorder().completions.size(), 1U);
  EXPECT_EQ(t.recorder().completions[0].status, WorkStatus::flushed);
  t.target.end->engine.peer_finished();
  t.target.end->settle();
  EXPECT_EQ(t.recorder().closed_count, 1);
}

}  // namespace
}  // namespace kbtp::rnic::test
