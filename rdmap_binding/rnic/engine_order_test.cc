// RFC 5040 5.5 and what goes with it: in which order messages leave, take effect, are delivered and complete.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/hex.h"
#include "rdmap_binding/rnic/engine_target_rig.h"

namespace kbtp::rnic::test {
namespace {

using rdma::Access;
using rdma::Content;
using rdma::WorkStatus;

/// "W", "S", "R" and so on for the ULPDUs that leave, one letter a segment.
std::string kinds(const std::vector<std::vector<std::byte>>& ulpdus) {
  constexpr std::string_view kLetters = "WRrSISITDDAa";
  std::string text;
  for (const auto& ulpdu : ulpdus) text += kLetters.at(std::to_integer<std::size_t>(ulpdu[1]) & 0x0F);
  return text;
}

/// A stream of ours that may send, in front of a peer that is nothing but octets.
class EngineOrder : public testing::Test {
 protected:
  EngineOrder() {
    t.answer(Untagged{.body = pattern(8)}.fpdu());  // a Responder may send from here on
    t.recorder().received.clear();
  }
  std::vector<std::vector<std::byte>> leaving() { return ulpdus(t.target.end->drain()); }
  const std::vector<rdma::Completion>& completions() { return t.recorder().completions; }
  static rdmap::ReadRequest read_in(const std::vector<std::byte>& ulpdu) {
    return rdmap::decode_read_request(Octets(ulpdu).subspan(18).first<28>());
  }
  static std::vector<std::byte> response(const rdmap::ReadRequest& to, Octets octets, std::uint32_t from = 0,
                                         bool last = true) {
    return Tagged{.ddp_control = static_cast<std::uint8_t>(last ? 0xC1 : 0x81),
                  .rdmap_control = 0x42,
                  .stag = to.sink_stag,
                  .to = to.sink_to + from,
                  .body = to_vector(octets)}
        .fpdu();
  }

  MemoryTarget t;
};

// --- What leaves -----------------------------------------------------------------------------------------

// Rules: RFC5040-5.1-04, RFC5040-5.2.1-04, RFC5040-5.3-06, RFC5040-5.5-13, RFC7306-5.2.1-09, RFC7306-6.3-04
TEST_F(EngineOrder, RequestsLeaveInTheOrderPosted) {
  const auto source = pattern(3000);
  std::vector<std::byte> sink(64);
  t.stream().post({rdma::Write{1, source, {0xA1, 0x500}, nullptr}, rdma::Send{2, pattern(4), false, {}},
                   rdma::Read{3, MutableOctets(sink).first(10), {0xA2, 1}},
                   rdma::FetchAdd{4, {0xA3, 8}, 1, 0}});
  t.stream().post({rdma::Read{5, MutableOctets(sink).subspan(10, 20), {0xA4, 2}},
                   rdma::WriteImmediate{{6, Octets(source).first(5), {0xA5, 7}, nullptr}, 42},
                   rdma::Send{7, {}, true, {}}, rdma::Write{8, source, {0xA6, 0}, nullptr}});
  const auto out = leaving();
  EXPECT_EQ(kinds(out), "WWWSRARWDSWWW");
  const auto offset = [&out](std::size_t i) { return load_be<std::uint64_t>(out.at(i).data() + 6); };
  EXPECT_EQ(offset(0), 0x500U);
  EXPECT_EQ(offset(1), 0x500U + 1440);
  EXPECT_EQ(offset(2), 0x500U + 2880);
  EXPECT_EQ(read_in(out.at(4)).source_stag, 0xA2U);
  EXPECT_EQ(read_in(out.at(6)).source_stag, 0xA4U);
  const auto msn = [&out](std::size_t i) { return load_be<std::uint32_t>(out.at(i).data() + 10); };
  EXPECT_EQ(msn(4), 1U);
  EXPECT_EQ(msn(5), 2U) << "the Atomic counts on the queue of the Reads";
  EXPECT_EQ(msn(6), 3U);
  EXPECT_EQ(msn(3), 1U);
  EXPECT_EQ(msn(8), 2U) << "the Immediate counts on the queue of the Sends";
  EXPECT_EQ(msn(9), 3U);
}

// An upper layer tells by it a peer that takes nothing from one that only owes an answer.
TEST_F(EngineOrder, TheBacklogIsWhatHasNotBegunToLeave) {
  const auto source = std::make_shared<std::vector<std::byte>>(std::size_t{1} << 20);
  std::vector<std::byte> sink(10);
  t.stream().post({rdma::Read{1, sink, {0xA1, 1}}, rdma::Write{2, *source, {0xA2, 0}, source}});
  for (rdma::WorkId id = 3; id < 10; ++id) t.stream().post({rdma::Send{id, pattern(4), false, {}}});
  EXPECT_EQ(t.stream().backlog(), 9U);
  t.target.end->drain(1000);
  EXPECT_EQ(t.stream().backlog(), 8U) << "the Write is too long for what TCP takes";
  EXPECT_EQ(source.use_count(), 2);
  t.target.end->drain();
  EXPECT_EQ(t.stream().backlog(), 0U);
  EXPECT_EQ(source.use_count(), 1) << "let go when it has left";
  EXPECT_TRUE(completions().empty()) << "told in order, and the Read is not answered yet";
}

// Rules: RFC5040-3.1-02, RFC5040-5.2-01, RFC5040-6.1-01
TEST_F(EngineOrder, NoMessageIsBegunInsideAnother) {
  const auto source = pattern(3000);
  t.stream().post({rdma::Send{1, pattern(4000), false, {}}, rdma::Write{2, source, {0xA1, 0}, nullptr}});
  t.target.end->feed(joined({read_request(1, reading(t.readable, kBase, 5000)).fpdu(),
                             read_request(2, reading(t.readable, kBase, 0)).fpdu()}));
  const auto out = leaving();
  std::string messages;
  for (std::size_t i = 0; i < out.size(); ++i) {
    const bool last = (out[i][0] & std::byte{0x40}) != std::byte{0};
    if (!last) {
      ASSERT_LT(i + 1, out.size());
      EXPECT_EQ(out[i][1], out[i + 1][1]) << "the next segment belongs to the same message";
    } else {
      messages += kinds({out[i]});
    }
  }
  EXPECT_EQ(messages.size(), 4U) << messages;
  EXPECT_THAT(messages, testing::UnorderedElementsAre('S', 'W', 'r', 'r'));
}

// Rules: RFC5040-6.1-03, RFC5040-6.1-02, RFC5040-5.5-13
TEST_F(EngineOrder, ReadPastTheLimitHoldsUpWhatIsPostedBehindIt) {
  std::vector<std::byte> sink(8);
  for (std::uint64_t id = 1; id <= 5; ++id) t.stream().post({rdma::Read{id, sink, {0xA1, id}}});
  t.stream().post({rdma::Send{6, pattern(4), false, {}}});
  const auto out = leaving();
  EXPECT_EQ(kinds(out), "RRRR");
  t.target.end->feed(response(read_in(out[0]), pattern(8)));
  EXPECT_EQ(kinds(leaving()), "RS");
}

// --- What completes --------------------------------------------------------------------------------------

// Rules: RFC5040-5.5-14, RFC5040-5.5-15
TEST_F(EngineOrder, NothingCompletesBeforeItsLastOctetIsHandedOver) {
  const auto source = pattern(2000);
  t.stream().post({rdma::Write{1, source, {0xA1, 0}, nullptr}, rdma::Send{2, pattern(8), false, {}}});
  constexpr std::size_t kWrite = (2 + 14 + 1440 + 4) + (2 + 14 + 560 + 4);
  constexpr std::size_t kSend = 2 + 18 + 8 + 4;
  EXPECT_EQ(t.target.end->drain(kWrite - 1).size(), kWrite - 1);
  EXPECT_TRUE(completions().empty());
  t.target.end->drain(1);
  ASSERT_EQ(completions().size(), 1U);
  EXPECT_EQ(completions()[0].id, 1U);
  t.target.end->drain(kSend - 1);
  EXPECT_EQ(completions().size(), 1U);
  t.target.end->drain(1);
  ASSERT_EQ(completions().size(), 2U);
  EXPECT_EQ(completions()[1].id, 2U);
}

// Rules: RFC5040-5.2.2-03, RFC5040-5.5-06, RFC5040-5.5-19
TEST_F(EngineOrder, ReadCompletesWithTheLastSegmentOfItsResponse) {
  std::vector<std::byte> sink(100);
  t.stream().post({rdma::Read{9, sink, {0xA1, 0}}});
  const auto request = read_in(leaving().at(0));
  t.target.end->feed(response(request, pattern(60), 0, false));
  EXPECT_TRUE(completions().empty());
  t.target.end->feed(response(request, pattern(40), 60, false));
  EXPECT_TRUE(completions().empty()) << "all octets are there, but the message has not ended";
  t.target.end->feed(response(request, {}, 100));
  ASSERT_EQ(completions().size(), 1U);
  EXPECT_EQ(completions()[0].id, 9U);
  EXPECT_EQ(completions()[0].status, WorkStatus::success);
  EXPECT_EQ(sink, joined({pattern(60), pattern(40)}));
}

// Rules: RFC5040-5.5-11, RFC5040-5.5-15, RFC5040-5.5-20
TEST_F(EngineOrder, ReadsCompleteInTheOrderPostedEachOnItsOwnResponse) {
  std::vector<std::byte> sink(48);
  for (std::uint64_t id = 1; id <= 3; ++id) {
    t.stream().post({rdma::Read{id, MutableOctets(sink).subspan(16 * (id - 1), 16), {0xA1, 0}}});
  }
  const auto out = leaving();
  ASSERT_EQ(out.size(), 3U);
  for (std::uint64_t id = 1; id <= 3; ++id) {
    t.target.end->feed(response(read_in(out[id - 1]), pattern(16, static_cast<unsigned>(id))));
    ASSERT_EQ(completions().size(), id);
    EXPECT_EQ(completions()[id - 1].id, id);
  }
  EXPECT_EQ(sink, joined({pattern(16, 1), pattern(16, 2), pattern(16, 3)}));
}

// Rules: RFC5040-5.5-11, RFC5040-5.2.2-04
TEST_F(EngineOrder, ResponseToTheSecondReadBeforeTheFirstIsAnError) {
  std::vector<std::byte> sink(32);
  t.stream().post({rdma::Read{1, MutableOctets(sink).first(16), {0xA1, 0}},
                   rdma::Read{2, MutableOctets(sink).last(16), {0xA1, 16}}});
  const auto out = leaving();
  const auto told = t.told(response(read_in(out.at(1)), pattern(16, 5)));
  ASSERT_TRUE(told);
  EXPECT_EQ(told->control.rdma_header, false);
  EXPECT_EQ(sink, std::vector<std::byte>(32));
  ASSERT_EQ(completions().size(), 2U);
  EXPECT_EQ(completions()[0].status, WorkStatus::flushed);
  EXPECT_EQ(completions()[1].status, WorkStatus::flushed);
}

// --- What is delivered, and when -------------------------------------------------------------------------

// Rules: RFC5040-5.5-04, RFC5040-5.5-16
TEST_F(EngineOrder, SendIsDeliveredWithItsLastSegmentOnly) {
  t.target.end->feed(Untagged{.ddp_control = 0x01, .msn = 2, .body = pattern(8)}.fpdu());
  t.target.end->feed(Untagged{.ddp_control = 0x01, .msn = 2, .mo = 8, .body = pattern(8)}.fpdu());
  const auto last = Untagged{.msn = 2, .mo = 16, .body = pattern(8)}.fpdu();
  t.target.end->feed(Octets(last).first(last.size() - 1));
  EXPECT_TRUE(t.recorder().received.empty());
  t.target.end->feed(Octets(last).last(1));
  ASSERT_EQ(t.recorder().received.size(), 1U);
  EXPECT_EQ(t.recorder().received[0].payload, joined({pattern(8), pattern(8), pattern(8)}));
}

// Rules: RFC5040-5.1-02, RFC5040-5.1-05
TEST_F(EngineOrder, WritesAreNotShownToTheUpperLayer) {
  for (int i = 0; i < 20; ++i) {
    const auto size = static_cast<std::size_t>(i % 4) * 100;
    t.target.end->feed(Tagged{.stag = t.writable, .to = kBase, .body = pattern(size, 50)}.fpdu());
  }
  EXPECT_TRUE(t.recorder().received.empty());
  EXPECT_TRUE(completions().empty());
  EXPECT_FALSE(t.stopped());
  EXPECT_EQ(to_hex(Octets(t.memory).first(300)), to_hex(pattern(300, 50)));
}

// Rules: RFC5040-5.5-05, RFC5040-5.5-10
TEST_F(EngineOrder, SendBehindWritesFindsTheirDataInPlace) {
  std::vector<std::vector<std::byte>> seen;
  t.recorder().when_received = [&](const rdma::Received&) {
    seen.emplace_back(t.memory.begin(), t.memory.begin() + 2000);
  };
  t.target.end->feed(
      joined({Tagged{.ddp_control = 0x81, .stag = t.writable, .to = kBase, .body = pattern(1000, 1)}.fpdu(),
              Tagged{.stag = t.writable, .to = kBase + 1000, .body = pattern(1000, 2)}.fpdu(),
              Untagged{.msn = 2, .body = pattern(4)}.fpdu(),
              Tagged{.stag = t.writable, .to = kBase + 500, .body = pattern(1000, 3)}.fpdu(),
              Untagged{.msn = 3, .body = pattern(4)}.fpdu()}));
  auto expected = joined({pattern(1000, 1), pattern(1000, 2)});
  ASSERT_EQ(seen.size(), 2U);
  EXPECT_EQ(seen[0], expected);
  const auto third = pattern(1000, 3);
  std::copy(third.begin(), third.end(), expected.begin() + 500);
  EXPECT_EQ(seen[1], expected);
}

// Rules: RFC5040-5.5-12, RFC5040-5.5-17
TEST_F(EngineOrder, ReadBehindAWriteReadsWhatWasWritten) {
  t.target.end->feed(joined({Tagged{.stag = t.both, .to = kBase + 8, .body = pattern(500, 77)}.fpdu(),
                             read_request(1, reading(t.both, kBase, 516)).fpdu()}));
  const auto out = leaving();
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(to_hex(Octets(out[0]).subspan(14 + 8, 500)), to_hex(pattern(500, 77)));
  EXPECT_EQ(to_hex(Octets(out[0]).subspan(14 + 508)), to_hex(Octets(pattern(516)).last(8)));
}

// Rules: RFC5040-5.5-12, RFC5040-5.5-17
TEST_F(EngineOrder, EmptyReadBehindAWriteIsAnsweredWhenTheWriteIsPlaced) {
  const auto write = Tagged{.stag = t.both, .to = kBase, .body = pattern(500, 77)}.fpdu();
  const auto read = read_request(1, reading(0, 0, 0)).fpdu();
  const auto all = joined({write, read});
  for (std::size_t n = 1; n <= all.size(); ++n) {
    const auto answers = [&] {
      t.target.end->feed(Octets(all).subspan(n - 1, 1));
      return leaving();
    }();
    ASSERT_EQ(answers.size(), n == all.size() ? 1U : 0U);
  }
  EXPECT_EQ(to_hex(Octets(t.memory).first(500)), to_hex(pattern(500, 77)));
}

// --- Ends ------------------------------------------------------------------------------------------------

// Rules: RFC5040-5.4-07, RFC5040-6.2.1-02, RFC5040-7.1-01
TEST_F(EngineOrder, ErrorFlushesEverythingThatIsOutstanding) {
  std::vector<std::byte> sink(8);
  const auto source = pattern(5000);
  t.stream().post({rdma::Read{1, sink, {0xA1, 0}}});
  EXPECT_EQ(kinds(leaving()), "R");
  t.stream().post({rdma::Write{2, source, {0xA1, 0}, nullptr}, rdma::FetchAdd{3, {0xA1, 0}, 1, 0},
                   rdma::Send{4, pattern(8), false, {}}, rdma::LocalInvalidate{5, t.writable}});
  t.target.end->feed(Untagged{.qn = 9}.fpdu());
  ASSERT_EQ(completions().size(), 5U);
  for (std::size_t i = 0; i < 5; ++i) {
    EXPECT_EQ(completions()[i].id, i + 1);
    EXPECT_EQ(completions()[i].status, WorkStatus::flushed);
  }
  EXPECT_EQ(kinds(leaving()), "T") << "and of what was not handed to DDP nothing is sent";
  t.stream().post({rdma::Send{6, pattern(8), false, {}}});
  t.target.end->settle();
  EXPECT_EQ(completions().size(), 6U);
  EXPECT_TRUE(leaving().empty());
  t.target.end->engine.peer_finished();
  t.target.end->settle();
  ASSERT_TRUE(t.recorder().closed);
  EXPECT_EQ(t.recorder().closed->kind, rdma::CloseReason::Kind::local_error);
  EXPECT_EQ(t.recorder().closed->terminate, terminate::kDdpUntaggedInvalidQn.packed());
}

// Rules: RFC5040-5.4-07, RFC5040-6.2.1-02, RFC5040-7.1-01
TEST_F(EngineOrder, TerminateOfThePeerFlushesEverythingThatIsOutstanding) {
  std::vector<std::byte> sink(8);
  t.stream().post({rdma::Read{1, sink, {0xA1, 0}}, rdma::Send{2, pattern(8), false, {}}});
  t.target.end->drain(30);  // half a Read Request is on its way
  t.target.end->feed(
      Untagged{.rdmap_control = 0x47, .qn = 2, .body = {std::byte{0x01}, std::byte{0x02}, {}, {}}}.fpdu());
  ASSERT_EQ(completions().size(), 2U);
  EXPECT_EQ(completions()[0].status, WorkStatus::flushed);
  EXPECT_EQ(completions()[1].status, WorkStatus::flushed);
  t.target.end->engine.peer_finished();
  t.target.end->settle();
  ASSERT_TRUE(t.recorder().closed);
  EXPECT_EQ(t.recorder().closed->kind, rdma::CloseReason::Kind::remote_error);
  EXPECT_EQ(t.recorder().closed->terminate, 0x0102);
}

}  // namespace
}  // namespace kbtp::rnic::test
