// RFC 6581 at the engine: depths in all cases, rejections and private data, peers of revision 1.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rdmap_binding/rnic/engine_setup_rig.h"

namespace kbtp::rnic::test {
namespace {

using rdma::CloseReason;
using rdma::PeerDepths;

// --- Depths ----------------------------------------------------------------------------------------------

struct Depths {
  const char* request;  ///< IRD and ORD of the Request
  const char* reply;    ///< of our Reply, wanting 16 and 16, at most 128
  std::uint32_t ird;    ///< what we go on with
  std::uint32_t ord;
};

// Rules: RFC6581-9.1-02, RFC6581-9.1-03, RFC6581-9.1-10, RFC6581-9.1-12, RFC6581-10-01
TEST(EngineSetup, ResponderAnswersDepthsInAllCases) {
  for (const Depths& row : {
           Depths{"00100010", "00100010", 16, 16},  // as wanted
           Depths{"00040002", "00100004", 16, 4},   // lower: our ORD follows, our IRD stays
           Depths{"00300020", "00200010", 32, 16},  // higher: our IRD follows
           Depths{"00013ffe", "00800001", 128, 1},  // as far as we can
           Depths{"00000000", "00100000", 16, 0},   // no Reads of ours
           Depths{"00043fff", "3fff0004", 16, 4},   // ORD left to the upper layers: our IRD as it was
           Depths{"3fff0020", "00203fff", 32, 16},  // IRD likewise: our ORD as it was
           Depths{"3fff3fff", "3fff3fff", 16, 16},
       }) {
    SCOPED_TRACE(row.request);
    Acceptor a;
    EXPECT_EQ(a.answer(kReq + "50020004" + row.request), kRep + "50020004" + row.reply);
    EXPECT_EQ(a.agreed().ird, row.ird);
    EXPECT_EQ(a.agreed().ord, row.ord);
  }
}

// Rules: RFC6581-9.1-07, RFC6581-9.1-11, RFC6581-9.1-13
TEST(EngineSetup, InitiatorTakesDepthsInAllCases) {
  // Wanted: IRD 8, ORD 4, at most 128. `reply` is what is tried.
  for (const Depths& row : {
           Depths{"", "00040008", 8, 4},    // as wanted
           Depths{"", "00010002", 8, 1},    // a lower IRD lowers our ORD; it is no error
           Depths{"", "00000008", 8, 0},    // none
           Depths{"", "00400020", 32, 4},   // a higher ORD raises our IRD; a higher IRD changes nothing
           Depths{"", "00040080", 128, 4},  // to the brim
           Depths{"", "3fff0008", 8, 4},    // IRD left to the upper layers: our ORD as it was
           Depths{"", "00043fff", 8, 4},    // ORD likewise: our IRD as it was, and no 2/0/06
       }) {
    SCOPED_TRACE(row.reply);
    Connector c(depths(8, 4));
    EXPECT_EQ(c.request, kReq + "5002000400080004");
    EXPECT_TRUE(c.answer(kRep + "50020004" + row.reply).empty());
    ASSERT_NE(c.end->recorder.stream, nullptr);
    EXPECT_EQ(c.agreed().ird, row.ird);
    EXPECT_EQ(c.agreed().ord, row.ord);
  }
}

// Rules: RFC6581-9.1-03, RFC6581-9.1-07
TEST(EngineSetup, NoMoreReadsAreOutstandingThanThePeersIrd) {
  for (const std::size_t ird : {0U, 1U, 3U}) {
    SCOPED_TRACE(ird);
    const std::string word = "000" + std::to_string(ird);
    const auto post = [](rdma::Stream& stream, std::vector<std::byte>& sink) {
      for (rdma::WorkId id = 0; id < 5; ++id) stream.post({rdma::Read{id, sink, {1, 0}}});
    };
    std::vector<std::byte> sink(8);
    Connector c(depths(8, 4));
    std::ignore = c.answer(kRep + "50020004" + word + "0008");
    post(*c.end->recorder.stream, sink);
    EXPECT_EQ(ulpdus(c.end->drain()).size(), ird);
    EXPECT_EQ(c.end->recorder.completions.size(), ird == 0 ? 5U : 0U);

    Acceptor a;
    a.answer(kReq + "50020004" + word + "0004");
    a.end->feed(Untagged{.body = pattern(8)}.fpdu());
    post(*a.end->recorder.stream, sink);
    EXPECT_EQ(ulpdus(a.end->drain()).size(), ird);
  }
}

// Rules: RFC6581-8-01, RFC6581-9.1-06, RFC6581-9.1-08
TEST(EngineSetup, AReplyThatNeedsMoreIrdThanThereIsGets2_0_06) {
  for (const std::string ord : {"0081", "3ffe"}) {
    Connector c(depths(8, 4));
    const auto said = c.answer(kRep + "500200040004" + ord);
    ASSERT_EQ(said.size(), 1U);
    EXPECT_EQ(to_hex(said[0]), "41470000000000000002000000010000000020060000");
    EXPECT_TRUE(c.end->fin);
    EXPECT_EQ(c.end->recorder.stream, nullptr);
    EXPECT_EQ(c.closed().terminate, 0x2006);
  }
}

// Rules: RFC6581-9.1-01, RFC6581-9.1-09
TEST(EngineSetup, UpperLayersAreToldThePeersDepths) {
  Acceptor a;
  a.answer(kReq + "5002000400053fff");
  EXPECT_EQ(a.end->request_depths, (PeerDepths{5, 0x3FFF}));
  EXPECT_EQ(a.agreed().peer_depths, (PeerDepths{5, 0x3FFF}));
  Connector c;
  std::ignore = c.answer(kRep + "5002000400200001");
  EXPECT_EQ(c.agreed().peer_depths, (PeerDepths{32, 1}));
  Connector rejected;
  std::ignore = rejected.answer(kRep + "7002000600200001abcd");
  EXPECT_EQ(rejected.closed().peer_depths, (PeerDepths{32, 1}));
  Acceptor plain;
  plain.answer(kReq + "40010000");
  EXPECT_EQ(plain.end->request_depths, std::nullopt);
  EXPECT_EQ(plain.agreed().peer_depths, std::nullopt);
}

// Rules: RFC6581-9.1-05, RFC6581-9.1-06
TEST(EngineSetup, ARejectionMayNameTheOrdThatIsNeeded) {
  Acceptor a;
  a.end->rejection = rdma::Reject{hex("0102"), 12};
  EXPECT_EQ(a.answer(kReq + "5002000400040008"), kRep + "700200060010000c0102");
  Acceptor endless;
  endless.end->rejection = rdma::Reject{{}, 1'000'000};
  EXPECT_EQ(endless.answer(kReq + "5002000400040008"), kRep + "7002000400103ffe");
}

// Rules: RFC6581-12-01
TEST(EngineSetup, NoDepthsAndFlagsAPeerCanNameLeadAstray) {
  const std::array<std::uint16_t, 6> named{0, 1, 16, 129, 0x3FFE, 0x3FFF};
  for (unsigned flags = 0; flags < 16; ++flags) {
    for (const std::uint16_t ird : named) {
      for (const std::uint16_t ord : named) {
        mpa::StartupFrame frame;
        frame.crc = true;
        frame.enhanced =
            mpa::Enhanced{(flags & 8) != 0, (flags & 4) != 0, ird, (flags & 2) != 0, (flags & 1) != 0, ord};
        SCOPED_TRACE(to_hex(mpa::encode_enhanced(*frame.enhanced)));
        Acceptor a;
        a.end->feed(mpa::encode_startup(frame));
        ASSERT_NE(a.end->recorder.stream, nullptr);
        EXPECT_LE(a.agreed().ird, 128U);
        EXPECT_LE(a.agreed().ord, std::min<std::uint32_t>(16, ird));
        const auto reply = mpa::decode_startup(a.end->drain(), mpa::StartupKind::reply);
        const mpa::Enhanced& said = *std::get<mpa::StartupComplete>(reply).frame.enhanced;
        EXPECT_EQ(said.peer_to_peer, frame.enhanced->peer_to_peer);
        EXPECT_EQ(said.rtr_send || said.rtr_write || said.rtr_read, said.peer_to_peer);

        frame.kind = mpa::StartupKind::reply;
        for (const bool asked : {false, true}) {
          rdma::StreamOptions options = depths(8, 4);
          options.peer_to_peer = asked;
          Connector c(options);
          c.end->feed(mpa::encode_startup(frame));
          const bool too_deep = ord > 128 && ord != 0x3FFF;
          // A Reply with A=1 is owed an RTR, even by an initiator that did not ask for that.
          const bool none_usable = (flags & 7) == 0 || ((flags & 7) == 1 && ird == 0);
          const bool no_rtr = flags < 8 ? asked : none_usable;
          const auto out = ulpdus(c.end->drain());
          ASSERT_EQ(c.end->recorder.stream == nullptr, too_deep || no_rtr);
          if (c.end->recorder.stream != nullptr) {
            EXPECT_LE(c.agreed().ird, 128U);
            EXPECT_LE(c.agreed().ord, std::min<std::uint32_t>(4, ird));
          } else {
            ASSERT_EQ(out.size(), 1U);
            EXPECT_EQ(to_hex(Octets(out[0]).subspan(18, 2)), too_deep ? "2006" : "2007");
          }
        }
      }
    }
  }
}

// --- Rejections and private data -------------------------------------------------------------------------

// Rules: RFC5044-7.1.2-09
TEST(EngineSetup, ARejectionsPrivateDataReachesTheInitiatorsUpperLayer) {
  for (const std::size_t size : {0U, 1U, 508U}) {
    Pair pair;
    pair.b->rejection = rdma::Reject{pattern(size), std::nullopt};
    pair.run();
    ASSERT_TRUE(pair.a->recorder.closed.has_value());
    EXPECT_EQ(pair.a->recorder.closed->kind, CloseReason::Kind::refused);
    EXPECT_EQ(pair.a->recorder.closed->private_data, pattern(size));
    EXPECT_EQ(pair.a->recorder.stream, nullptr);
  }
  RnicOptions rev1;
  rev1.mpa_revision = 1;
  Pair plain({}, {}, rev1, {});
  plain.b->rejection = rdma::Reject{pattern(512), std::nullopt};
  plain.run();
  EXPECT_EQ(plain.a->recorder.closed->private_data, pattern(512));
  EXPECT_EQ(plain.a->recorder.closed->peer_depths, std::nullopt);
}

// Rules: RFC5044-7.1.2-17, RFC6581-9-02
TEST(EngineSetup, PrivateDataUpTo512OctetsGoesBothWays) {
  for (const unsigned revision : {1U, 2U}) {
    const std::size_t most = revision == 1 ? 512 : 508;
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, most}) {
      RnicOptions rnic;
      rnic.mpa_revision = revision;
      rdma::StreamOptions to_b;
      to_b.private_data = pattern(size, 1);
      rdma::StreamOptions to_a;
      to_a.private_data = pattern(size, 2);
      Pair pair(to_b, to_a, rnic, {});
      pair.run();
      ASSERT_NE(pair.a->recorder.stream, nullptr);
      EXPECT_EQ(pair.b->request_private_data, pattern(size, 1));
      EXPECT_EQ(pair.a->recorder.private_data, pattern(size, 2));
    }
    RnicOptions rnic;
    rnic.mpa_revision = revision;
    rdma::StreamOptions more;
    more.private_data = pattern(most + 1);
    Pair pair(more, {}, rnic, {});
    pair.run();
    EXPECT_EQ(pair.a->recorder.closed->kind, CloseReason::Kind::refused);
    EXPECT_EQ(pair.a_octets, 0U);
  }
}

// Rules: RFC6581-9.3-01
TEST(EngineSetup, ALocalErrorOfTheResponderIsAPlainClose) {
  // Before the first FPDU a Terminate 2/0/05 may not be sent (RFC 5044 7.1.2).
  Acceptor a;
  a.end->accept_options.private_data = pattern(509);
  EXPECT_EQ(a.answer(kReq + "5002000400080008"), "");
  EXPECT_TRUE(a.end->engine.finished());
}

// --- Revision 1 ------------------------------------------------------------------------------------------

RnicOptions legacy() {
  RnicOptions options;
  options.legacy_peers = true;
  return options;
}

// Rules: RFC6581-10-06
TEST(EngineSetup, APeerThatClosesOnAnEnhancedRequestIsTriedWithRevision1) {
  for (const bool reset : {false, true}) {
    rdma::StreamOptions options;
    options.private_data = hex("cafe");
    Connector c(options, legacy());
    EXPECT_EQ(c.request, kReq + "5002000600100010cafe");
    if (reset) {
      c.end->engine.transport_lost(CloseReason::Kind::transport_lost, "reset");
    } else {
      c.end->engine.peer_finished();
    }
    c.end->settle();
    EXPECT_FALSE(c.end->recorder.closed.has_value());
    EXPECT_TRUE(c.end->drain().empty()) << "there is no connection yet";
    ASSERT_TRUE(c.end->engine.take_restart());
    EXPECT_FALSE(c.end->engine.take_restart());
    c.end->engine.start(kEmss);
    EXPECT_EQ(to_hex(c.end->drain()), kReq + "40010002cafe");
    std::ignore = c.answer(kRep + "40010000");
    ASSERT_NE(c.end->recorder.stream, nullptr);
    EXPECT_EQ(c.agreed().ord, 16U);
  }
}

TEST(EngineSetup, RevisionIsLoweredOnceAndOnlyWhenNothingWasAnswered) {
  Connector twice({}, legacy());
  twice.end->engine.peer_finished();
  ASSERT_TRUE(twice.end->engine.take_restart());
  twice.end->engine.start(kEmss);
  std::ignore = twice.end->drain();
  EXPECT_EQ(twice.closed().kind, CloseReason::Kind::refused);
  EXPECT_FALSE(twice.end->engine.take_restart());

  Connector begun({}, legacy());
  begun.end->feed(hex(kRep.substr(0, 8)));
  EXPECT_EQ(begun.closed().kind, CloseReason::Kind::refused);
  Connector not_wanted;
  EXPECT_EQ(not_wanted.closed().kind, CloseReason::Kind::refused);
  Connector needs_revision_2(peer_to_peer(), legacy());
  EXPECT_EQ(needs_revision_2.closed().kind, CloseReason::Kind::refused);
}

TEST(EngineSetup, PeerToPeerIsNotHadWithRevision1) {
  RnicOptions rev1;
  rev1.mpa_revision = 1;
  Connector c(peer_to_peer(), rev1);
  EXPECT_EQ(c.request, "");
  ASSERT_TRUE(c.end->recorder.closed.has_value());
  EXPECT_EQ(c.end->recorder.closed->kind, CloseReason::Kind::refused);
}

// Rules: RFC5044-3-08
TEST(EngineSetup, DdpAndRdmapVersionsAreOneWhateverTheRevision) {
  for (const std::string request : {"40010000", "40020000", "5002000400100010"}) {
    Acceptor a;
    a.answer(kReq + request);
    a.end->feed(Untagged{.body = pattern(8)}.fpdu());
    a.end->recorder.stream->post({rdma::Send{1, pattern(8), false, std::nullopt}});
    const auto said = ulpdus(a.end->drain());
    ASSERT_EQ(said.size(), 1U);
    EXPECT_EQ(to_hex(Octets(said[0]).first(2)), "4143");
    a.end->feed(Untagged{.ddp_control = 0x40, .msn = 2}.fpdu());
    EXPECT_EQ(ulpdus(a.end->drain()).size(), 1U) << "DV 0 is refused";
  }
}

}  // namespace
}  // namespace kbtp::rnic::test
