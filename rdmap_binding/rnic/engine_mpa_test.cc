// MPA in full operation without markers: CRCs in all negotiations, damaged FPDUs, the ways a connection ends
// (RFC 5044 4.4, 6, 7.2, 8).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rdmap_binding/rnic/engine_setup_rig.h"

namespace kbtp::rnic::test {
namespace {

using rdma::Access;
using rdma::CloseReason;
using rdma::Content;

RnicOptions crc(bool on) {
  RnicOptions options;
  options.crc = on;
  return options;
}

std::vector<std::byte> damaged(std::vector<std::byte> fpdu) {
  fpdu.back() ^= std::byte{0x10};
  return fpdu;
}

rdma::Send send_of(std::size_t size) { return {1, pattern(size), false, std::nullopt}; }

// --- CRCs ------------------------------------------------------------------------------------------------

/// What `end` makes of a good FPDU, of a damaged one, and what it sends itself.
void expect_crcs(End& end, bool on) {
  end.feed(Untagged{.body = pattern(8)}.fpdu());
  end.recorder.stream->post({send_of(9)});  // 2 + 18 + 9 octets and 3 of padding
  const auto said = end.drain();
  ASSERT_EQ(said.size(), 36U) << "the CRC field is always there";
  EXPECT_EQ(ulpdus(said).size() == 1, on) << "right when it is in use";
  ASSERT_EQ(ulpdus(said, mpa::CrcUse::ignore).size(), 1U);
  end.feed(damaged(Untagged{.msn = 2, .body = pattern(8)}.fpdu()));
  EXPECT_EQ(end.recorder.received.size(), on ? 1U : 2U);
  const auto answer = ulpdus(end.drain());
  ASSERT_EQ(answer.size(), on ? 1U : 0U);
  if (on) {
    EXPECT_EQ(to_hex(Octets(answer[0]).subspan(18, 2)), "2002");
  }
}

// Rules: RFC5044-4.1-05, RFC5044-4.4-01, RFC5044-4.4-06, RFC5044-4.4-07, RFC5044-4.4-08, RFC5044-7.1.1-07
// Rules: RFC5044-7.1.1-08, RFC5044-7.1.1-09
TEST(EngineMpa, CrcsAreInUseUnlessBothSidesSaidNo) {
  for (const bool ours : {false, true}) {
    for (const bool theirs : {false, true}) {
      SCOPED_TRACE(ours * 2 + theirs);
      const std::string flags = theirs ? "5002000400100010" : "1002000400100010";
      Acceptor a(crc(ours));
      EXPECT_EQ(a.answer(kReq + flags), kRep + (ours ? "50" : "10") + "02000400100010");
      expect_crcs(*a.end, ours || theirs);
      Connector c({}, crc(ours));
      EXPECT_EQ(c.request, kReq + (ours ? "50" : "10") + "02000400100010");
      std::ignore = c.answer(kRep + flags);
      expect_crcs(*c.end, ours || theirs);
    }
  }
}

// Rules: RFC5044-4.4-11, RFC5044-6-01, RFC5044-8-01, RFC5044-8-02
TEST(EngineMpa, EveryFlippedBitIsACrcErrorAndNothingIsPlaced) {
  constexpr std::size_t kPayload = 41;  // with padding
  constexpr std::size_t kSize = 2 + 14 + kPayload + 3 + 4;
  for (std::size_t bit = 0; bit < kSize * 8; ++bit) {
    SCOPED_TRACE(bit);
    Responder target;
    target.end->feed(Untagged{.body = pattern(8)}.fpdu());
    std::vector<std::byte> sink(kPayload);
    const auto stag =
        target.stream().register_region({sink, Access::remote_write, Content::octets, 0, false})->stag;
    auto bad = Tagged{.stag = stag, .body = pattern(kPayload, 1)}.fpdu();
    ASSERT_EQ(bad.size(), kSize);
    bad[bit / 8] ^= std::byte{0x80} >> (bit % 8);
    target.end->feed(bad);
    const auto claimed = load_be<std::uint16_t>(bad.data());
    if (bit < 16 && mpa::fpdu_size(claimed) > kSize && claimed <= mpa::kMaxMulpdu) {
      // The length says more: no error is due before it has come; then it is one.
      ASSERT_TRUE(target.end->drain().empty());
      target.end->feed(std::vector<std::byte>(mpa::fpdu_size(claimed) - kSize));
    }
    const auto said = ulpdus(target.end->drain());
    ASSERT_EQ(said.size(), 1U);
    EXPECT_EQ(to_hex(Octets(said[0]).subspan(18, 2)), claimed <= mpa::kMaxMulpdu ? "2002" : "2003");
    EXPECT_EQ(sink, std::vector<std::byte>(kPayload));
    target.end->engine.peer_finished();
    target.end->settle();
    ASSERT_TRUE(target.recorder().closed.has_value());
    EXPECT_EQ(target.recorder().closed->terminate, claimed <= mpa::kMaxMulpdu ? 0x2002 : 0x2003);
  }
}

// Rules: RFC5044-8-06, RFC5044-8-07
TEST(EngineMpa, NothingBehindABadFpduIsDeliveredAndTheTerminateComesBeforeFin) {
  Responder target;
  target.end->feed(Untagged{.body = pattern(8)}.fpdu());
  target.end->feed(joined({damaged(Untagged{.msn = 2}.fpdu()), Untagged{.msn = 2, .body = pattern(4)}.fpdu(),
                           Untagged{.msn = 3, .body = pattern(4)}.fpdu()}));
  EXPECT_EQ(target.recorder().received.size(), 1U);
  EXPECT_FALSE(target.end->fin) << "the Terminate is not sent yet";
  EXPECT_EQ(ulpdus(target.end->drain()).size(), 1U);
  EXPECT_TRUE(target.end->fin);
  EXPECT_FALSE(target.end->engine.finished()) << "TCP stays until the peer has read it";
  target.end->feed(Untagged{.msn = 2, .body = pattern(4)}.fpdu());
  EXPECT_EQ(target.recorder().received.size(), 1U);
}

// --- Delivery --------------------------------------------------------------------------------------------

// Rules: RFC5044-3-06, RFC5044-5.2-01, RFC5044-6-02, RFC5044-6-03
TEST(EngineMpa, AnFpduIsDeliveredWithItsLastOctetAndItsLength) {
  for (const std::size_t size : {0U, 1U, 2U, 3U, 4U, 255U}) {
    Responder target;
    const auto fpdu = Untagged{.body = pattern(size)}.fpdu();
    for (const std::byte& octet : Octets(fpdu).first(fpdu.size() - 1)) {
      target.end->feed(Octets(&octet, 1));
      ASSERT_TRUE(target.recorder().received.empty());
    }
    target.end->feed(Octets(fpdu).last(1));
    ASSERT_EQ(target.recorder().received.size(), 1U);
    EXPECT_EQ(target.recorder().received[0].payload, pattern(size));
  }
}

// Rules: RFC5044-3-09
TEST(EngineMpa, TheLargestUlpduIsTakenAndNoLongerOne) {
  for (const bool on : {true, false}) {
    Responder target({}, crc(on));
    target.end->feed(Untagged{.body = pattern(8)}.fpdu());
    std::vector<std::byte> sink(mpa::kMaxMulpdu);
    const auto stag =
        target.stream().register_region({sink, Access::remote_write, Content::octets, 0, false})->stag;
    const auto body = pattern(mpa::kMaxMulpdu - 14);
    target.end->feed(Tagged{.stag = stag, .body = body}.fpdu());
    EXPECT_TRUE(std::ranges::equal(Octets(sink).first(body.size()), body));
    target.end->feed(hex("fd01"));
    EXPECT_EQ(target.drained().size(), 1U);
  }
  Responder empty;
  empty.end->feed(Untagged{.body = pattern(8)}.fpdu());
  empty.end->feed(hex("0000"));
  const auto said = ulpdus(empty.end->drain());
  ASSERT_EQ(said.size(), 1U);
  EXPECT_EQ(to_hex(Octets(said[0]).subspan(18, 2)), "2003");
}

// Rules: RFC5044-7.1-01, RFC5044-7.1-02
TEST(EngineMpa, TheUpperLayerIsThereBeforeTheFirstMessage) {
  // The Reply ends where FPDUs begin, in one run of octets; before it nothing is taken for one.
  Connector c;
  bool open = false;
  bool message_before = false;
  c.end->recorder.when_open = [&](rdma::Stream&) { open = true; };
  c.end->recorder.when_received = [&](const rdma::Received&) { message_before = !open; };
  c.end->feed(joined({hex(kRep + "5002000400100010"), Untagged{.body = pattern(8)}.fpdu()}));
  EXPECT_FALSE(message_before);
  ASSERT_EQ(c.end->recorder.received.size(), 1U);
  EXPECT_EQ(c.end->recorder.received[0].payload, pattern(8));
}

// --- Ends ------------------------------------------------------------------------------------------------

// Rules: RFC5044-7.2-01
TEST(EngineMpa, ThePeersFinIsToldAndAnswered) {
  Responder target;
  target.end->feed(Untagged{.body = pattern(8)}.fpdu());
  target.end->engine.peer_finished();
  target.end->settle();
  EXPECT_EQ(target.recorder().peer_finished, 1);
  EXPECT_FALSE(target.recorder().closed.has_value());
  target.stream().close();
  target.end->settle();
  EXPECT_TRUE(target.end->fin);
  ASSERT_TRUE(target.recorder().closed.has_value());
  EXPECT_EQ(target.recorder().closed->kind, CloseReason::Kind::graceful);
}

// Rules: RFC5044-8-01, RFC5044-8-02
TEST(EngineMpa, ALostConnectionIsTold) {
  Responder target;
  target.end->feed(Untagged{.body = pattern(8)}.fpdu());
  target.end->engine.transport_lost(CloseReason::Kind::transport_lost, "connection reset by peer");
  target.end->settle();
  ASSERT_TRUE(target.recorder().closed.has_value());
  EXPECT_EQ(target.recorder().closed->kind, CloseReason::Kind::transport_lost);
  EXPECT_EQ(target.recorder().closed->text, "connection reset by peer");
  EXPECT_FALSE(target.recorder().closed->terminate.has_value());

  Responder cut;
  cut.end->feed(Octets(Untagged{.body = pattern(8)}.fpdu()).first(11));
  cut.end->engine.peer_finished();
  cut.end->settle();
  EXPECT_EQ(cut.recorder().closed->kind, CloseReason::Kind::transport_lost) << "inside an FPDU";
}

}  // namespace
}  // namespace kbtp::rnic::test
