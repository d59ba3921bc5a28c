// Judges of set-up, Terminates and ends of streams.

#include <gtest/gtest.h>

#include "conformance/case_errors.h"
#include "conformance/session.h"
#include "conformance/synthetic.h"
#include "proto/wire/hello.h"

namespace kbtp::conformance {
namespace {

using rdmap::Opcode;

constexpr TerminateCode kBadStag{1, 1, 0};
constexpr TerminateCode kBounds{1, 1, 1};

std::vector<std::byte> reply(bool reject = false, std::uint8_t revision = 2, std::uint16_t ord = 8) {
  mpa::StartupFrame frame;
  frame.kind = mpa::StartupKind::reply;
  frame.crc = true;
  frame.reject = reject;
  frame.revision = revision;
  if (revision >= 2) frame.enhanced = mpa::Enhanced{.ird = 8, .ord = ord};
  return mpa::encode_startup(frame);
}
Synthetic replied(const std::vector<std::byte>& octets) {
  return Synthetic().add(Side::target, Event::Kind::setup_frame, octets);
}

TEST(JudgeAccepts, LooksAtEachField) {
  EXPECT_EQ(replied(reply()).grade(accepts("r", 0)), Grade::exact);
  EXPECT_EQ(replied(reply(true)).grade(accepts("r", 0)), Grade::wrong);
  EXPECT_EQ(Synthetic().fin(Side::target).grade(accepts("r", 0)), Grade::wrong);
  EXPECT_EQ(replied(reply()).grade(accepts("r", 0, {.enhanced = true, .min_revision = 2})), Grade::exact);
  EXPECT_EQ(replied(reply(false, 1)).grade(accepts("r", 0, {.enhanced = true})), Grade::wrong);
  EXPECT_EQ(replied(reply(false, 1)).grade(accepts("r", 0, {.min_revision = 2})), Grade::wrong);
  EXPECT_EQ(replied(reply()).grade(accepts("r", 0, {.max_revision = 1})), Grade::weak);
  EXPECT_EQ(replied(reply(false, 2, 1)).grade(accepts("r", 0, {.max_ord = 1})), Grade::exact);
  EXPECT_EQ(replied(reply(false, 2, 2)).grade(accepts("r", 0, {.max_ord = 1})), Grade::wrong);
}

TEST(JudgeAccepts, LooksAtWhatTheReplyGives) {
  mpa::StartupFrame frame;
  frame.kind = mpa::StartupKind::reply;
  frame.enhanced = mpa::Enhanced{.ird = mpa::kNoNegotiation, .ord = 8};
  EXPECT_EQ(replied(mpa::encode_startup(frame)).grade(accepts("r", 0, {.ird = mpa::kNoNegotiation})),
            Grade::exact);
  EXPECT_EQ(replied(reply()).grade(accepts("r", 0, {.ird = mpa::kNoNegotiation})), Grade::wrong);
  EXPECT_EQ(replied(reply()).grade(accepts("r", 0, {.reserved = 0})), Grade::exact);
  EXPECT_EQ(replied(reply()).grade(accepts("r", 0, {.peer_to_peer = true})), Grade::wrong);
  frame.enhanced->peer_to_peer = true;
  EXPECT_EQ(replied(mpa::encode_startup(frame)).grade(accepts("r", 0, {.peer_to_peer = true})), Grade::wrong)
      << "no kind of RTR";
  frame.enhanced->rtr_write = true;
  EXPECT_EQ(replied(mpa::encode_startup(frame)).grade(accepts("r", 0, {.peer_to_peer = true})), Grade::exact);
  frame.reserved = 1;
  EXPECT_EQ(replied(mpa::encode_startup(frame)).grade(accepts("r", 0, {.reserved = 0})), Grade::wrong);
}

TEST(JudgeRefusesSession, WantsTheStatus) {
  const auto due = refuses_session("r", 0, wire::Status::access_denied);
  wire::HelloAck ack;
  EXPECT_EQ(Synthetic().send(Side::target, wire::encode(ack)).grade(due), Grade::wrong);
  ack.status = wire::Status::no_resources;
  EXPECT_EQ(Synthetic().send(Side::target, wire::encode(ack)).grade(due), Grade::weak);
  ack.status = wire::Status::access_denied;
  EXPECT_EQ(Synthetic().send(Side::target, wire::encode(ack)).grade(due), Grade::exact);
  EXPECT_EQ(Synthetic().fin(Side::target).grade(due), Grade::weak);
  EXPECT_EQ(Synthetic().grade(due), Grade::wrong);
}

TEST(JudgeTerminates, KnowsHowAPeerRefusesWhatItLacks) {
  constexpr TerminateCode kUnexpectedOpcode{0, 2, 6};
  const auto due = terminates("r", 0, {{0, 1, 0}}, {}, {{0, 2, 6}});
  EXPECT_EQ(Synthetic().terminate(kUnexpectedOpcode).fin(Side::target).grade(due), Grade::unsupported);
  EXPECT_EQ(Synthetic().terminate(kUnexpectedOpcode).grade(due), Grade::wrong) << "it stays open";
  EXPECT_EQ(Synthetic().terminate(kBounds).fin(Side::target).grade(due), Grade::wrong);
}

TEST(JudgeTerminates, LooksAtTheOctets) {
  const auto due = terminates_with_octets("r", 0, 0x1101'0000);
  EXPECT_EQ(Synthetic().terminate(kBounds).grade(due), Grade::exact);
  EXPECT_EQ(Synthetic().terminate(kBadStag).grade(due), Grade::wrong);
  EXPECT_EQ(Synthetic().fin(Side::target).grade(due), Grade::weak);
}

TEST(JudgeRevealsNothing, LooksForTheOctets) {
  const auto secret = pattern(5, 16);
  const auto due = reveals_nothing_of("r", 0, secret);
  EXPECT_EQ(Synthetic().tagged(Side::target, Opcode::read_response, 1, 0, secret).grade(due), Grade::wrong);
  EXPECT_EQ(Synthetic().tagged(Side::target, Opcode::read_response, 1, 0, pattern(6, 16)).grade(due),
            Grade::exact);
  EXPECT_EQ(Synthetic().tagged(Side::suite, Opcode::read_response, 1, 0, secret).grade(due), Grade::exact);
}

TEST(JudgeClosesInSetup, WantsACloseWithoutAWord) {
  const auto due = closes_in_setup("r", 0);
  EXPECT_EQ(Synthetic().fin(Side::target).grade(due), Grade::exact);
  EXPECT_EQ(Synthetic().add(Side::target, Event::Kind::reset).grade(due), Grade::exact);
  EXPECT_EQ(Synthetic().grade(due), Grade::wrong);
  EXPECT_EQ(replied(reply()).fin(Side::target).grade(due), Grade::wrong);
  EXPECT_EQ(replied(reply(true)).fin(Side::target).grade(due), Grade::wrong);
  EXPECT_EQ(replied(reply(true)).fin(Side::target).grade(closes_in_setup("r", 0, true)), Grade::weak);
  EXPECT_EQ(Synthetic().terminate(kBadStag).fin(Side::target).grade(due), Grade::wrong);
  EXPECT_EQ(Synthetic().add(Side::target, Event::Kind::unframed, pattern(1, 4)).fin(Side::target).grade(due),
            Grade::wrong);
}

TEST(JudgeHello, OpensAndWithholds) {
  wire::HelloAck ack;
  EXPECT_EQ(Synthetic().send(Side::target, wire::encode(ack)).grade(opens_session("r", 0)), Grade::exact);
  EXPECT_EQ(Synthetic().grade(opens_session("r", 0)), Grade::wrong);
  const auto due = withholds("r", 0, wire::Feature::record_completion);
  EXPECT_EQ(Synthetic().send(Side::target, wire::encode(ack)).grade(due), Grade::exact);
  ack.granted.record_completion = true;
  EXPECT_EQ(Synthetic().send(Side::target, wire::encode(ack)).grade(due), Grade::wrong);
  ack.status = wire::Status::access_denied;
  EXPECT_EQ(Synthetic().send(Side::target, wire::encode(ack)).grade(opens_session("r", 0)), Grade::wrong);
}

TEST(JudgeKeepsRange, ComparesRangeAndUsage) {
  const auto pair = [](std::uint64_t base, std::uint32_t usage) {
    wire::HelloAck ack{.base_handle = 64, .handle_count = 8};
    Synthetic trace;
    trace.send(Side::target, wire::encode(ack));
    ack.base_handle = base;
    ack.usage = usage;
    return trace.next_connection().send(Side::target, wire::encode(ack)).grade(keeps_range("r", 0, 1, 1));
  };
  EXPECT_EQ(pair(64, 1), Grade::exact);
  EXPECT_EQ(pair(64, 0), Grade::wrong);
  EXPECT_EQ(pair(72, 1), Grade::wrong);
  EXPECT_EQ(Synthetic().grade(keeps_range("r", 0, 1, 1)), Grade::wrong);
}

TEST(JudgeTerminates, KnowsDueToleratedWrongAndAbsent) {
  const auto due = terminates("r", 0, {{1, 1, 0}}, {{1, 1, 2}});
  EXPECT_EQ(Synthetic().terminate(kBadStag).fin(Side::target).grade(due), Grade::exact);
  EXPECT_EQ(Synthetic().terminate({1, 1, 2}).fin(Side::target).grade(due), Grade::weak);
  EXPECT_EQ(Synthetic().terminate(kBounds).fin(Side::target).grade(due), Grade::wrong);
  EXPECT_EQ(Synthetic().fin(Side::target).grade(due), Grade::weak) << "5040 6.2.1 only SHOULDs the Terminate";
  EXPECT_EQ(Synthetic().grade(due), Grade::wrong);
  EXPECT_EQ(Synthetic().fin(Side::suite).fin(Side::target).grade(due), Grade::wrong) << "it only followed us";
  EXPECT_EQ(Synthetic().terminate(kBadStag).grade(due), Grade::wrong) << "and then it must close";
}

TEST(JudgeCopiesHeaders, ComparesOctets) {
  const auto bad = tagged_ulpdu(Opcode::rdma_write, 0xDEADBEEF, 0x1000, pattern(1, 16));
  const auto other = tagged_ulpdu(Opcode::rdma_write, 0xDEADBEEE, 0x1000, pattern(1, 16));
  const auto due = copies_headers("r", 0, header_of(bad));
  EXPECT_EQ(Synthetic().terminate(kBadStag, bad).grade(due), Grade::exact);
  EXPECT_EQ(Synthetic().terminate(kBadStag, other).grade(due), Grade::wrong);
  EXPECT_EQ(Synthetic().terminate(kBadStag).grade(due), Grade::wrong) << "M=D=0";
  EXPECT_EQ(Synthetic().fin(Side::target).grade(due), Grade::weak);
}

TEST(JudgeCopiesHeaders, WantsTheReadRequestToo) {
  const rdmap::ReadRequest request{1, 2, 3, 4, 5};
  const auto bad = ulpdu(rdmap::make_untagged(Opcode::read_request, 1), rdmap::encode(request));
  const auto due = copies_headers("r", 0, header_of(bad), to_vector(rdmap::encode(request)));
  EXPECT_EQ(Synthetic().terminate({0, 1, 0}, bad).grade(due), Grade::exact);
  EXPECT_EQ(Synthetic().terminate({0, 2, 6}, bad).grade(due), Grade::wrong) << "R=0";
  const auto another =
      ulpdu(rdmap::make_untagged(Opcode::read_request, 1), rdmap::encode(rdmap::ReadRequest{1, 2, 9, 4, 5}));
  EXPECT_EQ(Synthetic().terminate({0, 1, 0}, another).grade(due), Grade::wrong);
}

TEST(JudgeFallsSilent, FailsOnAnythingBehindTheTerminate) {
  const auto due = falls_silent("r", 0);
  EXPECT_EQ(Synthetic().completion(1).terminate(kBadStag).fin(Side::target).grade(due), Grade::exact);
  EXPECT_EQ(Synthetic().terminate(kBadStag).completion(1).grade(due), Grade::wrong);
  EXPECT_EQ(Synthetic().terminate(kBadStag).terminate(kBadStag).grade(due), Grade::wrong);
  EXPECT_EQ(Synthetic().terminate(kBadStag).request(1).grade(due), Grade::exact) << "the suite may go on";
  EXPECT_EQ(Synthetic().fin(Side::target).grade(due), Grade::weak);
}

TEST(JudgeTerminateReserved, FailsOnABit) {
  const auto due = keeps_terminate_reserved_zero("r", 0);
  EXPECT_EQ(Synthetic().terminate(kBadStag).grade(due), Grade::exact);
  EXPECT_EQ(Synthetic().terminate(kBadStag, {}, 1).grade(due), Grade::wrong);
}

TEST(JudgeDisconnects, WantsTheTargetToEndIt) {
  EXPECT_EQ(Synthetic().fin(Side::target).grade(disconnects("r", 0)), Grade::exact);
  EXPECT_EQ(Synthetic().terminate(kBadStag).fin(Side::target).grade(disconnects("r", 0)), Grade::exact);
  EXPECT_EQ(Synthetic().terminate(kBadStag).fin(Side::target).grade(disconnects("r", 0, true)), Grade::wrong);
  EXPECT_EQ(Synthetic().fin(Side::suite).fin(Side::target).grade(disconnects("r", 0)), Grade::wrong);
  EXPECT_EQ(Synthetic().grade(disconnects("r", 0)), Grade::wrong);
}

TEST(JudgeStaysOpen, FailsWhenTheTargetEndsIt) {
  EXPECT_EQ(Synthetic().fin(Side::suite).fin(Side::target).grade(stays_open("r", 0)), Grade::exact);
  EXPECT_EQ(Synthetic().fin(Side::target).grade(stays_open("r", 0)), Grade::wrong);
  EXPECT_EQ(Synthetic().terminate(kBadStag).grade(stays_open("r", 0)), Grade::wrong);
}

TEST(JudgeNoFpdu, FailsOnOne) {
  EXPECT_EQ(replied(reply()).fin(Side::target).grade(sends_no_fpdu("r", 0)), Grade::exact);
  EXPECT_EQ(replied(reply()).terminate(kBadStag).grade(sends_no_fpdu("r", 0)), Grade::wrong);
}

TEST(JudgeReadResponses, CountsAndForbids) {
  const auto response = [](std::size_t size) {
    return Synthetic().tagged(Side::target, Opcode::read_response, 1, 0, pattern(1, size));
  };
  EXPECT_EQ(response(0).grade(answers_empty_reads("r", 0, 1)), Grade::exact);
  EXPECT_EQ(response(1).grade(answers_empty_reads("r", 0, 1)), Grade::wrong);
  EXPECT_EQ(Synthetic().grade(answers_empty_reads("r", 0, 1)), Grade::wrong);
  EXPECT_EQ(response(0).grade(answers_no_read("r", 0)), Grade::wrong);
  EXPECT_EQ(Synthetic().completion(1).grade(answers_no_read("r", 0)), Grade::exact);
}

}  // namespace
}  // namespace kbtp::conformance
