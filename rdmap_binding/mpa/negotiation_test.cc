#include "rdmap_binding/mpa/negotiation.h"

#include <gtest/gtest.h>

namespace kbtp::mpa {
namespace {

constexpr RtrSet kAllRtr{true, true, true};
constexpr LocalLimits kLocal{{8, 4}, 16, kAllRtr};

Enhanced client_server(std::uint16_t ird, std::uint16_t ord) {
  return {false, false, ird, false, false, ord};
}

// Rules: RFC6581-9.1-02, RFC6581-9.1-03
TEST(MpaNegotiation, Rfc6581_9_1_03_ResponderOrdIsAtMostTheRequestsIrd) {
  for (std::uint16_t ird = 0; ird <= kMaxReadDepth; ird = static_cast<std::uint16_t>(ird * 2 + 1)) {
    const auto outcome = negotiate_as_responder(client_server(ird, 1), kLocal);
    EXPECT_EQ(outcome.reply.ord, std::min<std::uint16_t>(ird, 4));
    EXPECT_EQ(outcome.depths.ord, outcome.reply.ord);
  }
}

TEST(MpaNegotiation, ResponderRaisesItsIrdToTheRequestsOrdAsFarAsItCan) {
  EXPECT_EQ(negotiate_as_responder(client_server(1, 2), kLocal).reply.ird, 8) << "it keeps what it wanted";
  EXPECT_EQ(negotiate_as_responder(client_server(1, 12), kLocal).reply.ird, 12);
  EXPECT_EQ(negotiate_as_responder(client_server(1, 100), kLocal).reply.ird, 16);
  EXPECT_EQ(negotiate_as_responder(client_server(1, 100), kLocal).depths.ird, 16);
}

// Rules: RFC6581-9.1-10
TEST(MpaNegotiation, Rfc6581_9_1_10_RequestOrd3fffLeavesTheRespondersIrd) {
  const auto outcome = negotiate_as_responder(client_server(4, kNoNegotiation), kLocal);
  EXPECT_EQ(outcome.reply, client_server(kNoNegotiation, 4));
  EXPECT_EQ(outcome.depths, (ReadDepths{8, 4}));
}

// Rules: RFC6581-9.1-12
TEST(MpaNegotiation, Rfc6581_9_1_12_RequestIrd3fffLeavesTheRespondersOrd) {
  const auto outcome = negotiate_as_responder(client_server(kNoNegotiation, 4), kLocal);
  EXPECT_EQ(outcome.reply, client_server(8, kNoNegotiation));
  EXPECT_EQ(outcome.depths, (ReadDepths{8, 4}));
}

// Rules: RFC6581-9.2-04, RFC6581-9.2-11, RFC6581-9.2-13
TEST(MpaNegotiation, Rfc6581_9_2_04_ReplyRepeatsPeerToPeer) {
  Enhanced request = client_server(1, 1);
  request.rtr_send = request.rtr_write = request.rtr_read = true;  // ignored with A=0 (9.2-13)
  EXPECT_EQ(negotiate_as_responder(request, kLocal).reply, client_server(8, 1));
  request.peer_to_peer = true;
  EXPECT_EQ(negotiate_as_responder(request, kLocal).reply, (Enhanced{true, true, 8, true, true, 1}));
}

// Rules: RFC6581-9.2-03, RFC6581-9.2-05, RFC6581-9.2-06
TEST(MpaNegotiation, Rfc6581_9_2_06_ReplyAlwaysNamesAnRtr) {
  for (unsigned offered = 0; offered < 8; ++offered) {
    for (unsigned supported = 1; supported < 8; ++supported) {
      LocalLimits local = kLocal;
      local.rtr = {(supported & 1) != 0, (supported & 2) != 0, (supported & 4) != 0};
      const Enhanced request{true, (offered & 1) != 0, 1, (offered & 2) != 0, (offered & 4) != 0, 1};
      const Enhanced reply = negotiate_as_responder(request, local).reply;
      const unsigned named =
          (reply.rtr_send ? 1u : 0u) | (reply.rtr_write ? 2u : 0u) | (reply.rtr_read ? 4u : 0u);
      EXPECT_EQ(named, (offered & supported) != 0 ? offered & supported : supported);
    }
  }
}

TEST(MpaNegotiation, Rfc6581_9_1_04_ReadRtrGetsASlotThoughNoneWasAskedFor) {
  LocalLimits local = kLocal;
  local.wanted = {0, 0};
  const Enhanced request{true, false, 0, false, true, 0};
  EXPECT_EQ(negotiate_as_responder(request, local).reply.ird, 1);
  EXPECT_EQ(negotiate_as_responder(client_server(0, 0), local).reply.ird, 0);
}

TEST(MpaNegotiation, ReadRtrIsNotTakenWithoutASlot) {
  LocalLimits none = kLocal;
  none.wanted = {0, 0};
  const Enhanced left_alone{true, true, 1, false, true, kNoNegotiation};
  EXPECT_EQ(negotiate_as_responder(left_alone, none).reply,
            (Enhanced{true, true, kNoNegotiation, false, false, 0}));
  none.max_ird = 0;
  const Enhanced read_alone{true, false, 0, false, true, 0};
  EXPECT_EQ(negotiate_as_responder(read_alone, none).reply, (Enhanced{true, true, 0, true, false, 0}));
}

TEST(MpaNegotiation, RequestNamesRtrsOnlyForPeerToPeer) {
  EXPECT_EQ(make_request(kLocal, false), client_server(8, 4));
  EXPECT_EQ(make_request(kLocal, true), (Enhanced{true, true, 8, true, true, 4}));
  LocalLimits wide = kLocal;
  wide.wanted = {0xFFFF, 0xFFFF};
  EXPECT_EQ(make_request(wide, false), client_server(kMaxReadDepth, kMaxReadDepth));
}

// Rules: RFC6581-9.1-07
TEST(MpaNegotiation, Rfc6581_9_1_07_InitiatorLowersItsOrdAndRaisesItsIrd) {
  const Enhanced request = make_request(kLocal, false);
  EXPECT_EQ(negotiate_as_initiator(request, client_server(1, 3), kLocal)->depths, (ReadDepths{8, 1}));
  EXPECT_EQ(negotiate_as_initiator(request, client_server(0, 12), kLocal)->depths, (ReadDepths{12, 0}));
  EXPECT_EQ(negotiate_as_initiator(request, client_server(100, 16), kLocal)->depths, (ReadDepths{16, 4}));
}

// Rules: RFC6581-9.1-06, RFC6581-9.1-08
TEST(MpaNegotiation, Rfc6581_9_1_08_TooLargeAReplyOrdIsInsufficientIrd) {
  const Enhanced request = make_request(kLocal, false);
  for (const std::uint16_t ord : {std::uint16_t{17}, kMaxReadDepth}) {
    const auto outcome = negotiate_as_initiator(request, client_server(8, ord), kLocal);
    ASSERT_FALSE(outcome.has_value());
    EXPECT_EQ(outcome.error(), terminate::kMpaInsufficientIrd);
  }
}

// Rules: RFC6581-9.1-11, RFC6581-9.1-13
TEST(MpaNegotiation, Rfc6581_9_1_11_13_Reply3fffLeavesTheInitiatorsValues) {
  const auto outcome = negotiate_as_initiator(make_request(kLocal, false),
                                              client_server(kNoNegotiation, kNoNegotiation), kLocal);
  EXPECT_EQ(outcome->depths, (ReadDepths{8, 4}));
}

// Rules: RFC6581-9.2-08
TEST(MpaNegotiation, Rfc6581_9_2_08_InitiatorSendsACommonRtr) {
  const Enhanced request = make_request(kLocal, true);
  const auto rtr = [&](Enhanced reply, RtrSet can) {
    LocalLimits local = kLocal;
    local.rtr = can;
    return negotiate_as_initiator(request, reply, local)->rtr;
  };
  EXPECT_EQ(rtr({true, true, 1, true, true, 1}, kAllRtr), RtrKind::write);
  EXPECT_EQ(rtr({true, true, 1, false, true, 1}, kAllRtr), RtrKind::read);
  EXPECT_EQ(rtr({true, true, 0, false, true, 1}, kAllRtr), RtrKind::send) << "a Read needs a slot";
  EXPECT_EQ(rtr({true, true, 1, true, true, 1}, {true, false, false}), RtrKind::send);
}

// Rules: RFC6581-9.2-09
TEST(MpaNegotiation, Rfc6581_9_2_09_NoCommonRtrIsAnError) {
  LocalLimits local = kLocal;
  local.rtr = {true, false, false};
  const Enhanced request = make_request(local, true);
  for (const Enhanced& reply : {Enhanced{true, false, 1, true, true, 1},
                                Enhanced{true, false, 1, false, false, 1}, client_server(1, 1)}) {
    const auto outcome = negotiate_as_initiator(request, reply, local);
    ASSERT_FALSE(outcome.has_value());
    EXPECT_EQ(outcome.error(), terminate::kMpaNoMatchingRtr);
  }
}

// Rules: RFC6581-9.2-13
TEST(MpaNegotiation, Rfc6581_9_2_13_RtrFlagsOfAClientServerReplyAreIgnored) {
  const Enhanced reply{false, true, 4, true, true, 4};
  EXPECT_EQ(negotiate_as_initiator(make_request(kLocal, false), reply, kLocal)->rtr, std::nullopt);
}

TEST(MpaNegotiation, BothSidesAgree) {
  for (const std::uint16_t ird : {0, 1, 5, 0x3FFE, 0x3FFF}) {
    for (const std::uint16_t ord : {0, 1, 5, 0x3FFE, 0x3FFF}) {
      const LocalLimits initiator{{ird, ord}, kMaxReadDepth, kAllRtr};
      Enhanced request = make_request(initiator, true);
      const auto responder = negotiate_as_responder(request, kLocal);
      const auto outcome = negotiate_as_initiator(request, responder.reply, initiator);
      ASSERT_TRUE(outcome.has_value());
      EXPECT_LE(outcome->depths.ord, responder.depths.ird);
      EXPECT_LE(responder.depths.ord, outcome->depths.ird);
    }
  }
}

}  // namespace
}  // namespace kbtp::mpa
