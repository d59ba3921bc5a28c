// MPA start-up of both roles against hand-made frames (RFC 5044 7.1, RFC 6581).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/hex.h"
#include "rdmap_binding/rnic/engine_rig.h"

namespace kbtp::rnic::test {
namespace {

using rdma::CloseReason;

const std::string kReq = "4d504120494420526571204672616d65";
const std::string kRep = "4d504120494420526570204672616d65";
std::vector<std::byte> hex(const std::string& text) { return *from_hex(text); }

/// A responder that has heard nothing yet.
struct Fresh {
  explicit Fresh(RnicOptions rnic = {}) {
    host.options = std::move(rnic);
    end.emplace(host);
    end->engine.start(kEmss);
  }
  std::string answer(const std::string& frame) {
    end->feed(hex(frame));
    return to_hex(end->drain());
  }
  void expect_closed_silently(const std::string& frame) {
    EXPECT_EQ(answer(frame), "");
    EXPECT_TRUE(end->engine.finished());
    EXPECT_EQ(end->recorder.stream, nullptr);
  }
  Host host;
  std::optional<End> end;
};

// --- Responder -------------------------------------------------------------------------------------------

// Rules: RFC6581-10-01
TEST(EngineStartup, Rfc6581_10_01_EnhancedRequestGetsEnhancedReply) {
  Fresh f;
  EXPECT_EQ(f.answer(kReq + "5002000400080008"), kRep + "5002000400100008");
  EXPECT_EQ(f.end->recorder.stream->capabilities().ird, 16U);
  EXPECT_EQ(f.end->recorder.stream->capabilities().ord, 8U);
}
// Rules: RFC6581-6-03, RFC6581-10-02, RFC6581-10-04
TEST(EngineStartup, Rfc6581_6_03_Rev1RequestGetsRev1Reply) {
  Fresh f;
  EXPECT_EQ(f.answer(kReq + "40010000"), kRep + "40010000");
  EXPECT_NE(f.end->recorder.stream, nullptr);
}
// Rules: RFC6581-10-02
TEST(EngineStartup, Rfc6581_10_02_UnenhancedRev2RequestGetsUnenhancedReply) {
  Fresh f;
  EXPECT_EQ(f.answer(kReq + "40020000"), kRep + "40020000");
}
// Rules: RFC5044-7.1.1-10, RFC5044-7.1.1-11, RFC6581-6-05
TEST(EngineStartup, Rfc5044_7_1_1_10_RejectAndReservedBitsOfARequestAreIgnored) {
  Fresh f;
  EXPECT_EQ(f.answer(kReq + "7f02000400080008"), kRep + "5002000400100008");
}
// Rules: RFC5044-4.4-06, RFC5044-7.1.1-08
TEST(EngineStartup, Rfc5044_4_4_06_PeersCrcOffIsNotEnough) {
  Fresh f;
  EXPECT_EQ(f.answer(kReq + "00010000"), kRep + "40010000");
  auto fpdu = Untagged{.body = pattern(8)}.fpdu();
  fpdu.back() ^= std::byte{1};
  f.end->feed(fpdu);
  EXPECT_TRUE(f.end->recorder.received.empty());
}
// Rules: RFC5044-4.1-05, RFC5044-4.4-07, RFC5044-7.1.1-07, RFC5044-7.1.1-09
TEST(EngineStartup, Rfc5044_4_4_07_BothCrcOffIsNotChecked) {
  RnicOptions off;
  off.crc = false;
  Fresh f(off);
  EXPECT_EQ(f.answer(kReq + "00010000"), kRep + "00010000");
  auto fpdu = Untagged{.body = pattern(8)}.fpdu();
  fpdu.back() ^= std::byte{1};
  f.end->feed(fpdu);
  EXPECT_EQ(f.end->recorder.received.size(), 1U);
}
// Rules: RFC6581-9.1-10
TEST(EngineStartup, Rfc6581_9_1_10_RequestOrd3fffLeavesIrd) {
  Fresh f;
  EXPECT_EQ(f.answer(kReq + "5002000400043fff"), kRep + "500200043fff0004");
  EXPECT_EQ(f.end->recorder.stream->capabilities().ird, 16U);
}
// Rules: RFC6581-9.1-12
TEST(EngineStartup, Rfc6581_9_1_12_RequestIrd3fffLeavesOrd) {
  Fresh f;
  EXPECT_EQ(f.answer(kReq + "500200043fff0004"), kRep + "5002000400103fff");
  EXPECT_EQ(f.end->recorder.stream->capabilities().ord, 16U);
}
// Rules: RFC6581-9.1-02, RFC6581-9.1-03
TEST(EngineStartup, Rfc6581_9_1_03_RequestIrd0MeansNoReadsOfOurs) {
  Fresh f;
  EXPECT_EQ(f.answer(kReq + "5002000400000004"), kRep + "5002000400100000");
  EXPECT_EQ(f.end->recorder.stream->capabilities().ord, 0U);
}
// Rules: RFC6581-9.2-03, RFC6581-9.2-04, RFC6581-9.2-05, RFC6581-9.2-06
TEST(EngineStartup, Rfc6581_9_2_06_PeerToPeerNamesAnRtrAndTakesIt) {
  Fresh f;
  EXPECT_EQ(f.answer(kReq + "50020004c0080008"), kRep + "50020004c0100008");
  // The RTR Send is not the upper layer's, and does not use up one of its receives.
  f.end->feed(Untagged{}.fpdu());
  EXPECT_TRUE(f.end->recorder.received.empty());
  f.end->feed(Untagged{.msn = 2, .body = pattern(8)}.fpdu());
  f.end->feed(Untagged{.msn = 3, .body = pattern(8)}.fpdu());
  EXPECT_EQ(f.end->recorder.received.size(), 2U);
}
TEST(EngineStartup, P21_PeerToPeerAndTheFirstFpduIsNoRtr) {
  Fresh f;
  f.answer(kReq + "50020004c0080008");
  f.end->feed(Untagged{.body = pattern(8)}.fpdu());
  EXPECT_EQ(f.end->recorder.received.size(), 1U);
}
// Rules: RFC6581-9-02
TEST(EngineStartup, Rfc6581_9_02_PrivateDataOf508OctetsReachesTheUpperLayer) {
  Fresh f;
  const auto data = pattern(508);
  f.end->feed(joined({hex(kReq + "5002020000080008"), data}));
  EXPECT_EQ(f.end->request_private_data, data);
  EXPECT_EQ(f.end->recorder.private_data, data);
}
TEST(EngineStartup, PrivateDataOfTheReplyIsTheUpperLayers) {
  Fresh f;
  f.end->accept_options.private_data = hex("aabbcc");
  EXPECT_EQ(f.answer(kReq + "40010000"), kRep + "40010003aabbcc");
}
// Rules: RFC5044-7.1.2-04, RFC5044-7.1.2-05, RFC5044-7.1.2-13, RFC6581-10-01
TEST(EngineStartup, Rfc5044_7_1_2_04_RejectionCarriesPrivateData) {
  Fresh f;
  f.end->rejection = rdma::Reject{hex("0102")};
  EXPECT_EQ(f.answer(kReq + "5002000400080008"), kRep + "70020006001000080102");
  EXPECT_TRUE(f.end->fin);
  EXPECT_FALSE(f.end->engine.finished());  // TCP is closed when the peer has closed, or after a deadline
  f.end->engine.peer_finished();
  f.end->settle();
  EXPECT_TRUE(f.end->engine.finished());
}
// Rules: RFC5044-7.1.1-06
TEST(EngineStartup, MarkersWantedByEitherSideIsSaidInItsOwnFrame) {
  EXPECT_EQ(Fresh().answer(kReq + "c0010000"), kRep + "40010000");
  RnicOptions markers;
  markers.markers = true;
  EXPECT_EQ(Fresh(markers).answer(kReq + "40010000"), kRep + "c0010000");
}

// Rules: RFC5044-7.1.1-02, RFC5044-7.1.2-03, RFC5044-7.1.2-12, RFC5044-8-01, RFC5044-8-04
TEST(EngineStartup, Rfc5044_7_1_1_02_AnotherKeyCloses) {
  for (int i = 0; i < 16; ++i) {
    SCOPED_TRACE(i);
    Fresh f;
    auto frame = hex(kReq + "40010000");
    frame[static_cast<std::size_t>(i)] ^= std::byte{0x20};
    f.expect_closed_silently(to_hex(frame));
  }
}
// Rules: RFC5044-7.1.1-02
TEST(EngineStartup, Rfc5044_7_1_1_02_AReplyWhereARequestIsDueCloses) {
  Fresh().expect_closed_silently(kRep + "40010000");
}
// Rules: RFC5044-7.1.1-13
TEST(EngineStartup, Rfc5044_7_1_1_13_UnknownRevisionsClose) {
  for (const char* revision : {"00", "03", "09", "ff"}) {
    Fresh().expect_closed_silently(kReq + "40" + revision + "0000");
  }
}
// Rules: RFC6581-10-05, RFC5044-7.1.1-13
TEST(EngineStartup, Rfc6581_10_05_Rfc5044AloneClosesOnRevision2) {
  RnicOptions plain;
  plain.mpa_revision = 1;
  Fresh(plain).expect_closed_silently(kReq + "5002000400080008");
}
// Rules: RFC5044-7.1.1-15, RFC5044-7.1.2-17, RFC5044-8-04
TEST(EngineStartup, Rfc5044_7_1_1_15_PdLengthAbove512Closes) {
  Fresh().expect_closed_silently(kReq + "40010201");
  Fresh().expect_closed_silently(kReq + "4001ffff");
}
// Rules: RFC6581-6-04
TEST(EngineStartup, Rfc6581_6_04_EnhancedWithoutTheFourOctetsCloses) {
  Fresh().expect_closed_silently(kReq + "50020003616263");
}
// Rules: RFC5044-7.1.1-15
TEST(EngineStartup, Rfc5044_7_1_1_15_OctetsBehindTheRequestClose) {
  Fresh().expect_closed_silently(kReq + "40010000" + std::string(80, '0'));
}
// Rules: RFC5044-7.1.1-15, RFC5044-7.1.2-03
TEST(EngineStartup, Rfc5044_7_1_1_15_TruncatedRequestThenFinCloses) {
  const std::string whole = kReq + "5002000800080008aabbccdd";
  for (std::size_t n = 0; n < whole.size(); n += 2) {
    Fresh f;
    EXPECT_EQ(f.answer(whole.substr(0, n)), "");
    EXPECT_FALSE(f.end->engine.finished());
    f.end->engine.peer_finished();
    f.end->settle();
    EXPECT_TRUE(f.end->engine.finished());
  }
}
TEST(EngineStartup, Rfc5044_7_1_2_18_RequestInSingleOctetsWorks) {
  Fresh f;
  f.end->feed(hex(kReq + "5002000400080008"), 1);
  EXPECT_EQ(to_hex(f.end->drain()), kRep + "5002000400100008");
}
// Rules: RFC5044-7.1.2-02, RFC5044-7.1.2-16, RFC5044-7.1.2-18
TEST(EngineStartup, Rfc5044_7_1_2_16_SilentPeerIsClosedInTime) {
  Fresh f;
  EXPECT_TRUE(f.end->drain().empty()) << "nothing is said before the Request";
  f.end->advance(std::chrono::milliseconds(9'999));
  EXPECT_FALSE(f.end->engine.finished());
  f.end->advance(std::chrono::milliseconds(2));
  EXPECT_TRUE(f.end->engine.finished());
  EXPECT_EQ(f.end->engine.reason().kind, CloseReason::Kind::deadline);
}
// Rules: RFC5044-7.1.2-18
TEST(EngineStartup, Rfc5044_7_1_2_18_DrippingPeerIsClosedInTime) {
  Fresh f;
  for (const std::byte octet : hex(kReq + "40010000")) {
    f.end->feed(Octets(&octet, 1));
    f.end->advance(std::chrono::seconds(1));
    if (f.end->engine.finished()) return;
  }
  FAIL() << "still waiting";
}

// Rules: RFC5044-7.1.2-11
TEST(EngineStartup, Rfc5044_7_1_2_11_ResponderIsSilentBeforeTheFirstFpdu) {
  Responder target;
  target.stream().post({rdma::Send{1, pattern(8), false, std::nullopt}});
  EXPECT_TRUE(target.end->drain().empty());
  target.end->feed(Untagged{.body = pattern(8)}.fpdu());
  EXPECT_EQ(ulpdus(target.end->drain()).size(), 1U);
}
// Rules: RFC5044-7.1.2-11
TEST(EngineStartup, Rfc5044_7_1_2_11_BadFirstFpduIsClosedWithoutTerminate) {
  Responder target;
  auto fpdu = Untagged{.body = pattern(8)}.fpdu();
  fpdu.back() ^= std::byte{1};
  EXPECT_TRUE(target.answer(fpdu).empty());
  EXPECT_TRUE(target.end->engine.finished());
  EXPECT_EQ(target.recorder().closed->kind, CloseReason::Kind::local_error);
  EXPECT_FALSE(target.recorder().closed->terminate.has_value());
}

// --- Initiator -------------------------------------------------------------------------------------------

struct Initiator {
  explicit Initiator(rdma::StreamOptions options = {}, RnicOptions rnic = {}) {
    host.options = std::move(rnic);
    end.emplace(host, std::move(options));
    end->engine.start(kEmss);
    request = to_hex(end->drain());
  }
  void answer(const std::string& frame) {
    end->feed(hex(frame));
    out = end->drain();
  }
  void expect_refused(const std::string& frame) {
    answer(frame);
    if (!end->engine.finished()) {
      end->engine.peer_finished();
      end->settle();
    }
    ASSERT_TRUE(end->recorder.closed.has_value());
    EXPECT_EQ(end->recorder.closed->kind, CloseReason::Kind::refused);
    EXPECT_EQ(end->recorder.closed->phase, rdma::Phase::mpa);
    EXPECT_EQ(end->recorder.stream, nullptr);
    EXPECT_TRUE(out.empty());
  }
  Host host;
  std::optional<End> end;
  std::string request;
  std::vector<std::byte> out;
};

// Rules: RFC5044-1.2-02, RFC5044-4.4-02, RFC5044-4.4-03, RFC5044-7.1-01
TEST(EngineStartup, Rfc5044_4_4_03_RequestAsWritten) {
  rdma::StreamOptions options;
  options.private_data = hex("cafe");
  options.ord = 5;
  EXPECT_EQ(Initiator(options).request, kReq + "5002000600100005cafe");
  RnicOptions plain;
  plain.mpa_revision = 1;
  EXPECT_EQ(Initiator({}, plain).request, kReq + "40010000");
}
// Rules: RFC6581-9.1-07
TEST(EngineStartup, Rfc6581_9_1_07_OrdIsLoweredToTheReplysIrd) {
  Initiator i;
  i.answer(kRep + "5002000600030002abcd");
  ASSERT_NE(i.end->recorder.stream, nullptr);
  EXPECT_EQ(i.end->recorder.stream->capabilities().ord, 3U);
  EXPECT_EQ(to_hex(i.end->recorder.private_data), "abcd");
}
// Rules: RFC6581-9.1-11, RFC6581-9.1-13
TEST(EngineStartup, Rfc6581_9_1_11_Reply3fffLeavesBoth) {
  Initiator i;
  i.answer(kRep + "500200043fff3fff");
  ASSERT_NE(i.end->recorder.stream, nullptr);
  EXPECT_EQ(i.end->recorder.stream->capabilities().ord, 16U);
  EXPECT_EQ(i.end->recorder.stream->capabilities().ird, 16U);
}
// Rules: RFC6581-8-01, RFC6581-9.1-06, RFC6581-9.1-08
TEST(EngineStartup, Rfc6581_9_1_08_ReplyOrdBeyondTheCeilingIs2_0_06) {
  Initiator i;
  i.answer(kRep + "5002000400103ffe");
  const auto out = ulpdus(i.out);
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(to_hex(out[0]),
            "4147000000000000000200000001000000002006"
            "0000");
  EXPECT_TRUE(i.end->fin);
  i.end->engine.peer_finished();
  i.end->settle();
  ASSERT_TRUE(i.end->recorder.closed.has_value());
  EXPECT_EQ(i.end->recorder.closed->terminate, 0x2006);
  EXPECT_EQ(i.end->recorder.stream, nullptr);
}
// Rules: RFC5044-7.1.2-09
TEST(EngineStartup, Rfc5044_7_1_2_09_RejectionIsRefused) {
  Initiator().expect_refused(kRep + "7002000400100010");
}
// Rules: RFC5044-7.1.2-07, RFC5044-7.1.2-08
TEST(EngineStartup, AnFpduInsteadOfTheReplyIsRefused) {
  Initiator().expect_refused(to_hex(Untagged{.body = pattern(8)}.fpdu()));
}
// Rules: RFC5044-7.1.1-04, RFC5044-7.1.2-08, RFC5044-7.1.2-12, RFC5044-7.1.2-15
TEST(EngineStartup, Rfc5044_7_1_1_04_AnotherKeyIsRefused) { Initiator().expect_refused(kReq + "40010000"); }
// Rules: RFC5044-7.1.2-08, RFC5044-8-04
TEST(EngineStartup, Rfc5044_7_1_2_08_ReplysPdLengthAbove512IsRefused) {
  Initiator().expect_refused(kRep + "40010201");
}
TEST(EngineStartup, PeerThatClosesInsteadOfReplyingIsRefused) {
  Initiator i;
  i.end->engine.peer_finished();
  i.end->settle();
  EXPECT_EQ(i.end->recorder.closed->kind, CloseReason::Kind::refused);
}
// Rules: RFC5044-7.1.2-18
TEST(EngineStartup, ReplyThatNeverComesEndsAtTheDeadline) {
  Initiator i;
  i.end->advance(std::chrono::seconds(11));
  ASSERT_TRUE(i.end->recorder.closed.has_value());
  EXPECT_EQ(i.end->recorder.closed->kind, CloseReason::Kind::deadline);
  EXPECT_EQ(i.end->recorder.closed->phase, rdma::Phase::mpa);
}
// Rules: RFC5044-7.1.2-19
TEST(EngineStartup, Rfc5044_7_1_2_19_NoFpduBeforeTheReply) {
  rdma::StreamOptions options;
  Initiator i(options);
  i.end->recorder.when_open = [](rdma::Stream& s) {
    s.post({rdma::Send{1, pattern(8), false, std::nullopt}});
  };
  EXPECT_TRUE(i.end->drain().empty());
  i.answer(kRep + "5002000400100010");
  EXPECT_EQ(ulpdus(i.out).size(), 1U);
}

}  // namespace
}  // namespace kbtp::rnic::test
