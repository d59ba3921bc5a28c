// The peer-to-peer model of RFC 6581 in both roles: RTR indications of each kind, agreed, sent and taken.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rdmap_binding/rnic/engine_setup_rig.h"

namespace kbtp::rnic::test {
namespace {

using rdma::WorkStatus;

// --- Responder -------------------------------------------------------------------------------------------

struct Rtr {
  const char* request;
  const char* reply;
  mpa::RtrSet taken;
};

// Rules: RFC6581-9.2-03, RFC6581-9.2-04, RFC6581-9.2-05, RFC6581-9.2-06, RFC6581-9.2-11
TEST(EngineRtr, ResponderMirrorsTheRtrsThatItTakes) {
  constexpr mpa::RtrSet kAll{true, true, true};
  for (const Rtr& row : {
           Rtr{"c008c008", "c010c008", kAll},                  // A B C D
           Rtr{"c0080008", "c0100008", kAll},                  // A B
           Rtr{"80088008", "80108008", kAll},                  // A C
           Rtr{"80084008", "80104008", kAll},                  // A D
           Rtr{"80080008", "c010c008", kAll},                  // A alone: all that we take
           Rtr{"c008c008", "80108008", {false, true, false}},  // one of three
           Rtr{"c0080008", "80108008", {false, true, false}},  // none in common: what we take
           Rtr{"00080008", "00100008", kAll},                  // A=0
           Rtr{"4008c008", "00100008", kAll},                  // A=0 with B C D: ignored
       }) {
    SCOPED_TRACE(row.request);
    Acceptor a(taking(row.taken));
    EXPECT_EQ(a.answer(kReq + "50020004" + row.request), kRep + "50020004" + row.reply);
  }
}

// Rules: RFC6581-5-02, RFC6581-9.2-04
TEST(EngineRtr, ASendRtrIsTheRnicsOwn) {
  Acceptor a;
  a.answer(kReq + "50020004c0080008");
  a.end->recorder.stream->post({rdma::Send{1, pattern(8), false, std::nullopt}});
  EXPECT_TRUE(a.end->drain().empty());
  a.end->feed(Untagged{}.fpdu());
  EXPECT_TRUE(a.end->recorder.received.empty());
  EXPECT_EQ(ulpdus(a.end->drain()).size(), 1U) << "now it may send";
  // Both receives that the upper layer has posted are still there, and no third one.
  a.end->feed(joined({Untagged{.msn = 2}.fpdu(), Untagged{.msn = 3}.fpdu()}));
  EXPECT_EQ(a.end->recorder.received.size(), 2U) << "only the first message is an RTR";
  a.end->feed(Untagged{.msn = 4}.fpdu());
  const auto said = ulpdus(a.end->drain());
  ASSERT_EQ(said.size(), 1U);
  EXPECT_EQ(to_hex(Octets(said[0]).subspan(18, 2)), "1202");
}

TEST(EngineRtr, AWriteRtrLetsTheResponderSend) {
  Acceptor a;
  a.answer(kReq + "5002000480088008");
  a.end->recorder.stream->post({rdma::Send{1, pattern(8), false, std::nullopt}});
  a.end->feed(Tagged{.stag = 1}.fpdu());
  EXPECT_EQ(ulpdus(a.end->drain()).size(), 1U);
  EXPECT_TRUE(a.end->recorder.received.empty());
}

TEST(EngineRtr, AReadRtrIsAnsweredAndTakesMsn1) {
  Acceptor a;
  a.end->accept_options.ird = 0;
  a.answer(kReq + "5002000480084000");  // ORD 0: room for it is made all the same
  EXPECT_EQ(a.agreed().ird, 1U);
  a.end->feed(read_request(1, {0x77, 9, 0, 1, 0}).fpdu());
  const auto said = ulpdus(a.end->drain());
  ASSERT_EQ(said.size(), 1U);
  EXPECT_EQ(to_hex(said[0]), "c142000000770000000000000009");
  a.end->feed(read_request(2, {0x78, 9, 0, 1, 0}).fpdu());
  EXPECT_EQ(ulpdus(a.end->drain()).size(), 1U);
}

// Rules: RFC6581-9.2-13
TEST(EngineRtr, WithoutAAZeroLengthSendIsAMessage) {
  Acceptor a;
  a.answer(kReq + "500200044008c008");
  a.end->feed(Untagged{}.fpdu());
  EXPECT_EQ(a.end->recorder.received.size(), 1U);
}

TEST(EngineRtr, AZeroLengthSendThatIsNoAgreedRtrIsAMessage) {
  Acceptor a;
  a.answer(kReq + "5002000480088008");
  a.end->feed(Untagged{}.fpdu());
  EXPECT_EQ(a.end->recorder.received.size(), 1U);
}

// --- Initiator -------------------------------------------------------------------------------------------

// Rules: RFC6581-5-02
TEST(EngineRtr, TheUpperLayerAsksForPeerToPeerPerConnection) {
  EXPECT_EQ(Connector(peer_to_peer()).request, kReq + "50020004c010c010");
  EXPECT_EQ(Connector(peer_to_peer(), taking({false, true, false})).request, kReq + "5002000480108010");
  EXPECT_EQ(Connector().request, kReq + "5002000400100010");
}

// Rules: RFC6581-9.2-08
TEST(EngineRtr, InitiatorSendsTheAgreedRtrInFrontOfAllElse) {
  struct Row {
    const char* reply;
    mpa::RtrSet can;
    const char* rtr;  // how its ULPDU begins
  };
  constexpr mpa::RtrSet kAll{true, true, true};
  for (const Row& row : {
           Row{"c0100010", kAll, "414300000000000000000000000100000000"},
           Row{"80108010", kAll, "c140000000010000000000000000"},
           Row{"80104010", kAll, "414100000000000000010000000100000000"},
           Row{"c010c010", {true, false, false}, "414300000000000000000000000100000000"},
           Row{"c0004010", kAll, "414300000000000000000000000100000000"},  // IRD 0: no Read RTR
       }) {
    SCOPED_TRACE(row.reply);
    Connector c(peer_to_peer(), taking(row.can));
    c.end->recorder.when_open = [](rdma::Stream& s) {
      s.post({rdma::Send{1, pattern(8), false, std::nullopt}});
    };
    const auto said = c.answer(kRep + "50020004" + row.reply);
    ASSERT_EQ(said.size(), 2U);
    EXPECT_EQ(to_hex(said[0]).substr(0, std::string(row.rtr).size()), row.rtr);
    EXPECT_EQ(said[1][1], std::byte{0x43});
    const bool sent_before = said[0][1] == std::byte{0x43};
    EXPECT_EQ(to_hex(Octets(said[1]).subspan(10, 4)), sent_before ? "00000002" : "00000001");
    ASSERT_EQ(c.end->recorder.completions.size(), 1U) << "of what was posted alone";
  }
}

TEST(EngineRtr, AReadRtrTakesASlotUntilItsEmptyResponse) {
  Connector c(peer_to_peer(), taking({false, false, true}));
  const auto said = c.answer(kRep + "5002000480014010");
  ASSERT_EQ(said.size(), 1U);
  std::vector<std::byte> sink(4);
  auto& stream = *c.end->recorder.stream;
  stream.post({rdma::Read{7, sink, {5, 0}}});
  EXPECT_TRUE(c.end->drain().empty()) << "ORD is 1";
  Tagged response{.rdmap_control = 0x42};
  response.stag = load_be<std::uint32_t>(said[0].data() + 18);
  c.end->feed(response.fpdu());
  EXPECT_TRUE(c.end->recorder.completions.empty());
  const auto read = ulpdus(c.end->drain());
  ASSERT_EQ(read.size(), 1U);
  EXPECT_EQ(to_hex(Octets(read[0]).subspan(10, 4)), "00000002");
  response.stag = load_be<std::uint32_t>(read[0].data() + 18);
  response.body = pattern(4);
  c.end->feed(response.fpdu());
  ASSERT_EQ(c.end->recorder.completions.size(), 1U);
  EXPECT_EQ(c.end->recorder.completions[0].id, 7U);
  EXPECT_EQ(sink, pattern(4));
}

TEST(EngineRtr, CloseComesBehindTheRtr) {
  Connector c(peer_to_peer());
  c.end->recorder.when_open = [](rdma::Stream& s) { s.close(); };
  EXPECT_EQ(c.answer(kRep + "50020004c010c010").size(), 1U);
  EXPECT_TRUE(c.end->fin);
}

// Rules: RFC6581-8-01, RFC6581-9.2-09
TEST(EngineRtr, NoRtrInCommonIs2_0_07) {
  for (const std::string reply : {"80104010",     // D, which we do not send
                                  "80100010",     // A alone
                                  "00100010"}) {  // not peer-to-peer
    SCOPED_TRACE(reply);
    Connector c(peer_to_peer(), taking({true, true, false}));
    const auto said = c.answer(kRep + "50020004" + reply);
    ASSERT_EQ(said.size(), 1U);
    EXPECT_EQ(to_hex(said[0]), "41470000000000000002000000010000000020070000");
    EXPECT_TRUE(c.end->fin);
    EXPECT_EQ(c.end->recorder.stream, nullptr);
    EXPECT_EQ(c.closed().terminate, 0x2007);
  }
}

// Rules: RFC6581-9.2-13
TEST(EngineRtr, RtrsOfAReplyWithoutAAreIgnored) {
  Connector c;
  EXPECT_TRUE(c.answer(kRep + "500200044010c010").empty());
  EXPECT_NE(c.end->recorder.stream, nullptr);
}

// Rules: RFC6581-10-07
TEST(EngineRtr, APlainReplyToAnEnhancedRequestIsTakenUnlessAnRtrIsOwed) {
  for (const std::string reply : {"40020000", "40010000"}) {
    Connector c(depths(8, 4));
    EXPECT_TRUE(c.answer(kRep + reply).empty());
    ASSERT_NE(c.end->recorder.stream, nullptr);
    EXPECT_EQ(c.agreed().ord, 4U);
    Connector owing(peer_to_peer());
    EXPECT_EQ(owing.answer(kRep + reply).size(), 1U);
    EXPECT_EQ(owing.closed().terminate, 0x2007);
  }
}

// Rules: RFC6581-9.2-08
TEST(EngineRtr, BothRolesTogetherWithEveryKindAndMarkers) {
  for (const mpa::RtrSet kind :
       {mpa::RtrSet{true, false, false}, mpa::RtrSet{false, true, false}, mpa::RtrSet{false, false, true}}) {
    for (const bool markers : {false, true}) {
      RnicOptions rnic = taking(kind);
      rnic.markers = markers;
      Pair pair(peer_to_peer(), {}, rnic, rnic);
      pair.b->recorder.when_open = [](rdma::Stream& s) {
        s.post({rdma::Send{1, pattern(50), false, std::nullopt}});
      };
      pair.run([] { return std::size_t{3}; });
      ASSERT_EQ(pair.a->recorder.received.size(), 1U) << "the responder speaks first";
      EXPECT_EQ(pair.a->recorder.received[0].payload, pattern(50));
      EXPECT_TRUE(pair.b->recorder.received.empty());
      std::vector<std::byte> memory = pattern(900);
      const auto stag =
          pair.b->recorder.stream
              ->register_region({memory, rdma::Access::remote_read, rdma::Content::octets, 0, false})
              ->stag;
      std::vector<std::byte> sink(900);
      pair.a->recorder.stream->post(
          {rdma::Read{5, sink, {stag, 0}}, rdma::Send{6, pattern(10), false, std::nullopt}});
      pair.run();
      EXPECT_EQ(sink, memory);
      ASSERT_EQ(pair.b->recorder.received.size(), 1U);
      ASSERT_EQ(pair.a->recorder.completions.size(), 2U);
      EXPECT_EQ(pair.a->recorder.completions[0].status, WorkStatus::success);
    }
  }
}

}  // namespace
}  // namespace kbtp::rnic::test
