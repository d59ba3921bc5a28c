// Untagged messages as DDP wants them (RFC 5041 4.3, 5.2 to 5.4): segments of one message, Message Offsets,
// Message Sequence Numbers, messages without payload, and what the upper layer is told.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rdmap_binding/rnic/engine_target_rig.h"

namespace kbtp::rnic::test {
namespace {

using rdma::CloseReason;

/// One segment of the Send with this MSN.
std::vector<std::byte> segment(std::uint32_t msn, std::uint32_t mo, Octets whole, std::size_t size,
                               std::uint8_t rdmap_control = 0x43, rdma::STag invalidate = 0) {
  const bool last = mo + size == whole.size();
  return Untagged{.ddp_control = static_cast<std::uint8_t>(last ? 0x41 : 0x01),
                  .rdmap_control = rdmap_control,
                  .invalidate = invalidate,
                  .msn = msn,
                  .mo = mo,
                  .body = to_vector(whole.subspan(mo, size))}
      .fpdu();
}

// Rules: RFC5041-5.4-01, RFC5041-4.1-04, RFC5041-5.2-04, RFC5041-4.1-01, RFC5041-3-04, RFC5041-5.4-02
TEST(EngineUntagged, SegmentsMakeOneMessageWhateverGoesBetweenThem) {
  for (const std::size_t step : {1U, 7U, 333U, 999U, 1000U}) {
    SCOPED_TRACE(step);
    MemoryTarget t;
    const auto message = pattern(1000, 5);
    std::uint32_t reads = 0;
    for (std::uint32_t mo = 0; mo < message.size(); mo += static_cast<std::uint32_t>(step)) {
      EXPECT_TRUE(t.recorder().received.empty()) << "not before the last segment";
      const std::size_t size = std::min(step, message.size() - mo);
      EXPECT_TRUE(t.answer(segment(1, mo, message, size)).empty());
      if (step == 1) continue;
      // Tagged segments, and messages of other queues.
      EXPECT_TRUE(
          t.answer(Tagged{.stag = t.writable, .to = kBase + mo, .body = {std::byte{0xA5}}}.fpdu()).empty());
      EXPECT_TRUE(t.answer(Tagged{.stag = 0xDEAD}.fpdu()).empty());
      const auto answers = t.answer(read_request(++reads, reading(t.readable, kBase + mo, 1)).fpdu());
      ASSERT_EQ(answers.size(), 1U);
      EXPECT_EQ(answers[0].back(), std::byte{0xA5});
    }
    ASSERT_EQ(t.recorder().received.size(), 1U);
    EXPECT_EQ(t.recorder().received[0].payload, message);
    // And the next one begins anew.
    EXPECT_TRUE(t.answer(segment(2, 0, pattern(3), 3)).empty());
    ASSERT_EQ(t.recorder().received.size(), 2U);
    EXPECT_EQ(t.recorder().received[1].payload, pattern(3));
  }
}

// Rules: RFC5041-7.1-03, RFC5041-5.3-04, RFC5041-3-11
TEST(EngineUntagged, GapsAndOverlapsDeliverNothing) {
  struct Case {
    std::uint32_t second;
    std::uint32_t third;
  };
  for (const Case& c : {Case{9, 18}, Case{11, 21}, Case{0, 10}, Case{10, 10}, Case{10, 19}, Case{10, 0},
                        Case{10, 30}, Case{~0U, 20}}) {
    SCOPED_TRACE(testing::Message() << c.second << " " << c.third);
    MemoryTarget t;
    const auto of = [](std::uint32_t mo, bool last) {
      return Untagged{
          .ddp_control = static_cast<std::uint8_t>(last ? 0x41 : 0x01), .mo = mo, .body = pattern(10)}
          .fpdu();
    };
    const auto told = t.told(joined({of(0, false), of(c.second, false), of(c.third, true)}));
    ASSERT_TRUE(told);
    EXPECT_EQ(to_string(told->code), to_string(terminate::kDdpUntaggedInvalidMo));
    EXPECT_TRUE(t.recorder().received.empty());
  }
}

// Rules: RFC5041-7.1-04
TEST(EngineUntagged, AMessageMayFillItsReceiveToTheLastOctet) {
  for (const std::size_t size : {63U, 64U, 65U}) {
    for (const std::size_t first : {0U, 1U, 63U, 64U}) {
      if (first >= size) continue;
      SCOPED_TRACE(testing::Message() << size << " " << first);
      auto options = MemoryTarget::options();
      options.receive_size = 64;
      MemoryTarget t(options);
      const auto message = pattern(size, 1);
      std::vector<std::byte> octets;
      if (first != 0) octets = segment(1, 0, message, first);
      octets = joined({octets, segment(1, static_cast<std::uint32_t>(first), message, size - first)});
      const auto told = t.told(octets);
      if (size <= 64) {
        EXPECT_FALSE(told);
        ASSERT_EQ(t.recorder().received.size(), 1U);
        EXPECT_EQ(t.recorder().received[0].payload, message);
      } else {
        ASSERT_TRUE(told);
        EXPECT_EQ(to_string(told->code), to_string(terminate::kDdpUntaggedTooLong));
        EXPECT_TRUE(t.recorder().received.empty());
      }
    }
  }
}

// Rules: RFC5041-5.2-08, RFC5041-5.4-02
TEST(EngineUntagged, MessagesOfNothingAreOneSegmentAndTakeAReceive) {
  auto options = MemoryTarget::options();
  options.initial_receives = 4;
  MemoryTarget t(options);
  for (const std::uint8_t control : {0x43, 0x45, 0x44, 0x46}) {
    const std::uint32_t msn = static_cast<std::uint32_t>(t.recorder().received.size()) + 1;
    const auto stag =
        t.stream()
            .register_region({t.memory, rdma::Access::remote_write, rdma::Content::octets, 0, true})
            ->stag;
    EXPECT_TRUE(t.answer(Untagged{.rdmap_control = control, .invalidate = stag, .msn = msn}.fpdu()).empty());
    ASSERT_EQ(t.recorder().received.size(), msn);
    EXPECT_TRUE(t.recorder().received.back().payload.empty());
    EXPECT_FALSE(t.recorder().received.back().immediate.has_value());
  }
  const auto told = t.told(Untagged{.msn = 5, .body = pattern(1)}.fpdu());
  ASSERT_TRUE(told);
  EXPECT_EQ(to_string(told->code), to_string(terminate::kDdpUntaggedNoBuffer));
}

// Rules: RFC5041-5.2-08
TEST(EngineUntagged, OursOfNothingAreOneSegmentToo) {
  Pair pair;
  pair.run();
  pair.a->recorder.stream->post({rdma::Send{1, {}, false, std::nullopt}, rdma::Write{2, {}, {0, 0}, nullptr},
                                 rdma::Read{3, {}, {0, 0}}});
  const auto out = ulpdus(pair.a->drain());
  ASSERT_EQ(out.size(), 3U);
  EXPECT_EQ(out[0].size(), 18U);
  EXPECT_EQ(out[0][0], std::byte{0x41});
  EXPECT_EQ(out[1].size(), 14U);
  EXPECT_EQ(out[1][0], std::byte{0xC1});
}

// Rules: RFC5041-4.3-05, RFC5041-7.1-05
TEST(EngineUntagged, SequenceNumbersWrapToZero) {
  Pair pair;
  pair.run();
  constexpr std::uint32_t kNearlyAll = ~std::uint32_t{0} - 2;
  SequenceNumbers::preset(pair.a->engine, kNearlyAll, kNearlyAll);
  SequenceNumbers::preset(pair.b->engine, kNearlyAll, kNearlyAll);
  std::vector<std::uint64_t> words(1);
  auto& b = *pair.b->recorder.stream;
  b.post_receives(10);
  const auto stag = b.register_region({std::as_writable_bytes(std::span(words)),
                                       rdma::Access::remote_atomic | rdma::Access::remote_read,
                                       rdma::Content::words, 0, false})
                        ->stag;
  std::vector<std::byte> into(8);
  std::vector<rdma::WorkRequest> requests;
  for (std::uint64_t i = 0; i < 6; ++i) {
    requests.emplace_back(rdma::Send{i, pattern(i + 1), false, std::nullopt});
    requests.emplace_back(rdma::FetchAdd{i, {stag, 0}, 1, 0});
    requests.emplace_back(rdma::Read{i, into, {stag, 0}});
  }
  pair.a->recorder.stream->post(std::move(requests));
  const auto octets = pair.a->drain();
  std::vector<std::uint32_t> msns;
  std::vector<std::uint32_t> request_msns;
  for (const auto& out : ulpdus(octets)) {
    const auto qn = load_be<std::uint32_t>(out.data() + 6);
    (qn == 0 ? msns : request_msns).push_back(load_be<std::uint32_t>(out.data() + 10));
  }
  EXPECT_THAT(msns, testing::ElementsAre(~0U - 2, ~0U - 1, ~0U, 0U, 1U, 2U));
  ASSERT_EQ(request_msns.size(), 12U);
  for (std::uint32_t i = 0; i < 12; ++i) EXPECT_EQ(request_msns[i], kNearlyAll + i);
  pair.b->feed(octets);
  pair.run();
  EXPECT_FALSE(pair.a->recorder.closed.has_value());
  EXPECT_EQ(pair.a->recorder.completions.size(), 18U);
  EXPECT_EQ(pair.b->recorder.received.size(), 6U);
  EXPECT_EQ(words[0], 6U);
}

// Rules: RFC5041-4.3-05, RFC5041-5.3-04
TEST(EngineUntagged, AroundTheWrapTooOnlyTheNextNumberIsInRange) {
  for (const std::uint32_t msn : {~0U - 1, 1U, 0x8000'0000U, 0U, ~0U}) {
    SCOPED_TRACE(msn);
    MemoryTarget t;
    SequenceNumbers::preset(t.target.end->engine, ~0U, 1);
    EXPECT_TRUE(t.answer(Untagged{.msn = ~0U, .body = pattern(4)}.fpdu()).empty());
    const auto told = t.told(Untagged{.msn = msn, .body = pattern(5)}.fpdu());
    EXPECT_EQ(t.recorder().received.size(), msn == 0 ? 2U : 1U);
    ASSERT_EQ(told.has_value(), msn != 0);
    if (told) {
      EXPECT_EQ(to_string(told->code), to_string(terminate::kDdpUntaggedMsnRange));
    }
  }
}

// Rules: RFC5041-5.3-05, RFC5041-3-04
TEST(EngineUntagged, MessagesOfAllSizesArriveInTheOrderOfTheirSender) {
  auto options = MemoryTarget::options();
  options.initial_receives = 200;
  MemoryTarget t(options);
  std::vector<std::byte> octets;
  std::vector<std::vector<std::byte>> sent;
  for (std::uint32_t msn = 1; msn <= 100; ++msn) {
    const auto message = pattern(msn * 37 % 1500, msn);
    sent.push_back(message);
    const std::size_t step = msn % 3 == 0 ? 100 : 1500;
    std::uint32_t mo = 0;
    do {
      const std::size_t size = std::min(step, message.size() - mo);
      octets = joined({octets, segment(msn, mo, message, size, msn % 2 == 0 ? 0x45 : 0x43)});
      mo += static_cast<std::uint32_t>(size);
    } while (mo < message.size());
  }
  t.target.end->feed(octets, 1000);
  ASSERT_EQ(t.recorder().received.size(), sent.size());
  for (std::size_t i = 0; i < sent.size(); ++i) {
    EXPECT_EQ(t.recorder().received[i].payload, sent[i]);
    EXPECT_EQ(t.recorder().received[i].solicited, i % 2 == 1);
  }
}

// Rules: RFC5041-4.3-08, RFC5041-5.4-03
TEST(EngineUntagged, ControlOctetAndInvalidateStagReachTheUpperLayer) {
  for (const std::uint8_t control : {0x43, 0x44, 0x45, 0x46}) {
    SCOPED_TRACE(int{control});
    MemoryTarget t;
    const auto message = pattern(20);
    // A Send that does not invalidate may carry anything in these octets.
    t.answer(
        joined({segment(1, 0, message, 12, control, t.open), segment(1, 12, message, 8, control, t.open)}));
    ASSERT_EQ(t.recorder().received.size(), 1U);
    const Message& received = t.recorder().received[0];
    EXPECT_EQ(received.solicited, control >= 0x45);
    EXPECT_EQ(received.invalidated, control % 2 == 0 ? std::optional(t.open) : std::nullopt);
    EXPECT_EQ(t.target.host.stags.exists(t.open), control % 2 != 0);
  }
}

// Rules: RFC5041-7.1-02, RFC5041-7.1-15
TEST(EngineUntagged, AReceiveThatIsPostedInTimeIsFound) {
  auto options = MemoryTarget::options();
  options.initial_receives = 1;
  MemoryTarget t(options);
  t.recorder().when_received = [&t](const rdma::Received&) { t.stream().post_receives(1); };
  std::vector<std::byte> octets;
  for (std::uint32_t msn = 1; msn <= 50; ++msn) {
    octets = joined({octets, Untagged{.msn = msn, .body = pattern(8)}.fpdu()});
  }
  EXPECT_TRUE(t.answer(octets).empty());
  EXPECT_EQ(t.recorder().received.size(), 50U);
  t.recorder().when_received = {};
  EXPECT_TRUE(t.answer(Untagged{.msn = 51, .body = pattern(8)}.fpdu()).empty());
  const auto told = t.told(Untagged{.msn = 52, .body = pattern(8)}.fpdu());
  ASSERT_TRUE(told);
  EXPECT_EQ(to_string(told->code), to_string(terminate::kDdpUntaggedNoBuffer));
}

// Rules: RFC5041-6.2.2-01
TEST(EngineUntagged, TheEndInsideAMessageIsALoss) {
  for (const std::size_t size : {0U, 12U}) {  // so far
    MemoryTarget t;
    const auto begun = Untagged{.ddp_control = 0x01, .body = pattern(size)};
    EXPECT_TRUE(t.answer(begun.fpdu()).empty());
    t.target.end->engine.peer_finished();
    t.target.end->settle();
    ASSERT_TRUE(t.recorder().closed.has_value());
    EXPECT_EQ(t.recorder().closed->kind, CloseReason::Kind::transport_lost);
    EXPECT_TRUE(t.recorder().received.empty());
  }
}

/// Each segment of nothing adds nothing: however many there are, they cost nothing and end nothing.
TEST(EngineUntagged, SegmentsOfNothingInsideAMessageAreHarmless) {
  MemoryTarget t;
  const auto nothing = Untagged{.ddp_control = 0x01}.fpdu();
  for (int i = 0; i < 1000; ++i) EXPECT_TRUE(t.answer(nothing).empty());
  EXPECT_TRUE(t.answer(Untagged{.body = pattern(9)}.fpdu()).empty());
  ASSERT_EQ(t.recorder().received.size(), 1U);
  EXPECT_EQ(t.recorder().received[0].payload, pattern(9));
}

}  // namespace
}  // namespace kbtp::rnic::test
