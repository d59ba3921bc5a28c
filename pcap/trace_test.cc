#include "pcap/trace.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/crc32c.h"
#include "pcap/test_frames.h"
#include "proto/wire/completion.h"
#include "proto/wire/hello.h"
#include "proto/wire/request.h"
#include "rdmap_binding/rdmap/headers.h"

namespace kbtp::trace {
namespace {

using namespace test;
using rdmap::Opcode;
using ::testing::HasSubstr;

template <class T>
std::vector<const Event*> all(const Connection& connection) {
  std::vector<const Event*> found;
  for (const Event& event : connection.events) {
    if (event.as<T>() != nullptr) found.push_back(&event);
  }
  return found;
}
template <class T>
const T& get(const Connection& connection, std::size_t i = 0) {
  return *all<T>(connection).at(i)->template as<T>();
}
Connection only(const std::vector<Frame>& frames, const DecodeOptions& options = {}) {
  Trace trace = decode_trace(frames, options);
  EXPECT_EQ(trace.connections.size(), 1U);
  return std::move(trace.connections.at(0));
}

/// Request and Reply, then what the test says.
Conversation opened(bool crc = true) {
  Conversation talk;
  talk.open();
  talk.say(true, request(crc));
  talk.say(false, reply(crc));
  return talk;
}

Bytes load() {
  wire::Load load;
  load.head = {0x1122334455667788, 5, 0, 0};
  load.destination = {0xABCD, 0x1000, 4096};
  return wire::encode(wire::Request(load));
}

TEST(Trace, StartupFramesAndEnds) {
  Conversation talk = opened();
  talk.fin(true);
  talk.fin(false);
  const Connection connection = only(talk.frames);
  EXPECT_TRUE(connection.opening_seen);
  EXPECT_EQ(connection.client.port, 40000);
  ASSERT_EQ(connection.events.size(), 4U);
  const auto& startup = get<Startup>(connection).frame;
  EXPECT_EQ(startup.kind, mpa::StartupKind::request);
  EXPECT_TRUE(startup.crc);
  EXPECT_EQ(startup.enhanced->ord, 8);
  EXPECT_EQ(connection.events[0].frame.number, 3U);
  EXPECT_EQ(get<Startup>(connection, 1).frame.kind, mpa::StartupKind::reply);
  EXPECT_EQ(connection.events[1].from, Side::server);
  EXPECT_EQ(get<TcpEnd>(connection).kind, TcpEnd::Kind::fin);
  EXPECT_EQ(connection.events[2].from, Side::client);
  EXPECT_EQ(connection.events[2].offset, request().size());
}

TEST(Trace, WhoHasSentItsFinStillReceives) {
  Conversation talk = opened();
  talk.fin(true);
  for (std::uint32_t i = 0; i < 3; ++i)
    talk.say(false, tagged(Opcode::rdma_write, 0x99, i, true, pattern(9)));
  talk.fin(false);
  const Connection connection = only(talk.frames);
  ASSERT_EQ(connection.events.size(), 7U);
  EXPECT_NE(connection.events[2].as<TcpEnd>(), nullptr);
  for (std::size_t i = 3; i < 6; ++i) EXPECT_EQ(connection.events[i].as<Fpdu>()->crc, CrcState::good);
  EXPECT_EQ(connection.events[6].from, Side::server);
}

TEST(Trace, EveryChopGivesTheSameEvents) {
  const Bytes client = request() + untagged(Opcode::send, 0, 1, 0, true, load()) +
                       tagged(Opcode::rdma_write, 0x77, 0x2000, true, pattern(50));
  const Bytes server = reply() + untagged(Opcode::send_invalidate, 0, 1, 0, true, pattern(7), 0xABCD);
  std::vector<std::string> expected;
  for (std::size_t chop = 1; chop <= client.size(); ++chop) {
    Conversation talk;
    talk.open();
    talk.say_chopped(true, Octets(client).first(request().size()), chop);
    talk.say_chopped(false, server, chop);
    talk.say_chopped(true, Octets(client).subspan(request().size()), chop);
    std::vector<std::string> lines;
    for (const Event& event : only(talk.frames).events) {
      lines.push_back(describe(event));
      if (const auto* fpdu = event.as<Fpdu>()) {
        EXPECT_EQ(fpdu->crc, CrcState::good);
        EXPECT_LE(event.first.number, event.frame.number);
      }
    }
    if (expected.empty()) expected = lines;
    EXPECT_EQ(lines, expected) << chop;
  }
  EXPECT_EQ(expected.size(), 7U);
}

TEST(Trace, FpduFieldsAsOnTheWire) {
  Conversation talk = opened();
  talk.say(true, tagged(Opcode::rdma_write, 0x01020304, 0x1122334455667788, false, pattern(10)));
  talk.say(true, untagged(Opcode::send_se_invalidate, 0, 1, 0, true, pattern(3), 0xCAFE));
  const Connection connection = only(talk.frames);
  const auto& write = get<Fpdu>(connection);
  ASSERT_NE(write.tagged(), nullptr);
  EXPECT_EQ(write.tagged()->stag, 0x01020304U);
  EXPECT_EQ(write.tagged()->tagged_offset, 0x1122334455667788U);
  EXPECT_FALSE(write.tagged()->last);
  EXPECT_TRUE(write.is(Opcode::rdma_write));
  EXPECT_EQ(write.payload_length, 10U);
  EXPECT_EQ(to_vector(write.payload()), pattern(10));
  EXPECT_EQ(all<Fpdu>(connection)[0]->offset, request().size());
  const auto& send = get<Fpdu>(connection, 1);
  ASSERT_NE(send.untagged(), nullptr);
  EXPECT_EQ(send.untagged()->rsvdulp_stag, 0xCAFEU);
  EXPECT_EQ(get<Message>(connection).invalidate_stag, 0xCAFEU);
}

TEST(Trace, RdmapHeadersAreDecoded) {
  Conversation talk = opened();
  talk.say(false,
           untagged(Opcode::read_request, 1, 1, 0, true, rdmap::encode(rdmap::ReadRequest{1, 2, 3, 4, 5})));
  talk.say(true,
           untagged(Opcode::atomic_request, 1, 1, 0, true,
                    rdmap::encode(rdmap::AtomicRequest{rdmap::AtomicOpcode::fetch_add, 9, 8, 7, 6, 5})));
  talk.say(false,
           untagged(Opcode::atomic_response, 3, 1, 0, true, rdmap::encode(rdmap::AtomicResponse{9, 42})));
  talk.say(true, untagged(Opcode::immediate, 0, 1, 0, true, rdmap::encode(rdmap::Immediate{99})));
  const rdmap::TerminateOctets terminate = rdmap::make_terminate(
      terminate::kDdpUntaggedInvalidQn, rdmap::Offender{Bytes(18, std::byte{0x41}), 60, std::nullopt});
  talk.say(false, untagged(Opcode::terminate, 2, 1, 0, true, terminate.octets()));
  const Connection connection = only(talk.frames);
  ASSERT_EQ(all<Fpdu>(connection).size(), 5U);
  EXPECT_EQ(std::get<rdmap::ReadRequest>(get<Fpdu>(connection, 0).header),
            (rdmap::ReadRequest{1, 2, 3, 4, 5}));
  EXPECT_EQ(std::get<rdmap::AtomicRequest>(get<Fpdu>(connection, 1).header).remote_stag, 8U);
  EXPECT_EQ(std::get<rdmap::AtomicResponse>(get<Fpdu>(connection, 2).header).original_value, 42U);
  EXPECT_EQ(std::get<rdmap::Immediate>(get<Fpdu>(connection, 3).header).data, 99U);
  ASSERT_NE(get<Fpdu>(connection, 4).terminate(), nullptr);
  EXPECT_EQ(get<Fpdu>(connection, 4).terminate()->code(), terminate::kDdpUntaggedInvalidQn);
  EXPECT_EQ(get<Fpdu>(connection, 4).terminate()->ddp_header.size(), 18U);
  EXPECT_THAT(describe(*all<Fpdu>(connection)[4]), HasSubstr("1/2/01 DDP/Untagged/invalid QN"));
  EXPECT_TRUE(all<Message>(connection).empty());
}

TEST(Trace, KbtpMessagesAreDecoded) {
  Conversation talk = opened();
  talk.say(true, untagged(Opcode::send, 0, 1, 0, true, wire::encode(wire::Hello{})));
  talk.say(true, untagged(Opcode::send, 0, 2, 0, true, load()));
  talk.say(false, untagged(Opcode::send, 0, 1, 0, true,
                           wire::encode(wire::Completion{1, 2, wire::Status::no_space})));
  talk.say(false, untagged(Opcode::send, 0, 2, 0, true, pattern(5)));
  const Connection connection = only(talk.frames);
  ASSERT_EQ(all<Message>(connection).size(), 4U);
  EXPECT_TRUE(std::holds_alternative<wire::Hello>(*get<Message>(connection, 0).kbtp));
  EXPECT_EQ(std::get<wire::Load>(*get<Message>(connection, 1).kbtp).destination.stag, 0xABCDU);
  EXPECT_EQ(std::get<wire::Completion>(*get<Message>(connection, 2).kbtp).status, wire::Status::no_space);
  EXPECT_FALSE(get<Message>(connection, 3).kbtp);
  EXPECT_THAT(describe(*all<Message>(connection)[2]), HasSubstr("NO_SPACE"));
}

TEST(Trace, SendOfSeveralSegmentsIsPutTogether) {
  const Bytes message = load();
  Conversation talk = opened();
  talk.say(true, untagged(Opcode::send, 0, 1, 0, false, Octets(message).first(16)));
  talk.say(true, tagged(Opcode::rdma_write, 7, 0, true, pattern(3)));  // may come between
  talk.say(true, untagged(Opcode::send, 0, 1, 16, true, Octets(message).subspan(16)));
  const Connection connection = only(talk.frames);
  ASSERT_EQ(all<Message>(connection).size(), 1U);
  EXPECT_EQ(to_vector(get<Message>(connection).octets), message);
  EXPECT_EQ(all<Message>(connection)[0]->first.number, 5U);
  EXPECT_EQ(all<Message>(connection)[0]->frame.number, 7U);
}

TEST(Trace, SendWithAGapOrABadCrcIsNoMessage) {
  const Bytes message = load();
  Conversation gap = opened();
  gap.say(true, untagged(Opcode::send, 0, 1, 0, false, Octets(message).first(16)));
  gap.say(true, untagged(Opcode::send, 0, 1, 20, true, Octets(message).subspan(20)));
  EXPECT_TRUE(all<Message>(only(gap.frames)).empty());

  Conversation spoiled = opened();
  Bytes fpdu = untagged(Opcode::send, 0, 1, 0, true, message);
  fpdu.back() ^= std::byte{1};
  spoiled.say(true, fpdu);
  const Connection connection = only(spoiled.frames);
  EXPECT_EQ(get<Fpdu>(connection).crc, CrcState::bad);
  EXPECT_TRUE(all<Message>(connection).empty());

  DecodeOptions bounded;
  bounded.max_message = 39;
  Conversation large = opened();
  large.say(true, untagged(Opcode::send, 0, 1, 0, true, message));
  EXPECT_TRUE(all<Message>(only(large.frames, bounded)).empty());
  bounded.max_message = 40;
  EXPECT_EQ(all<Message>(only(large.frames, bounded)).size(), 1U);
}

TEST(Trace, CrcOffIsNotLookedAt) {
  Conversation talk = opened(false);
  Bytes fpdu = untagged(Opcode::send, 0, 1, 0, true, load());
  fpdu.back() ^= std::byte{1};
  talk.say(true, fpdu);
  const Connection connection = only(talk.frames);
  EXPECT_EQ(get<Fpdu>(connection).crc, CrcState::off);
  EXPECT_EQ(all<Message>(connection).size(), 1U);
}

TEST(Trace, CrcBeforeTheReplyIsJudgedByItself) {
  Conversation talk;
  talk.open();
  talk.say(true, request(false));
  talk.say(true, untagged(Opcode::send, 0, 1, 0, true, load()));
  Bytes wrong = untagged(Opcode::send, 0, 2, 0, true, load());
  wrong.back() ^= std::byte{1};
  talk.say(true, wrong);
  const Connection connection = only(talk.frames);
  EXPECT_EQ(get<Fpdu>(connection, 0).crc, CrcState::good);
  EXPECT_EQ(get<Fpdu>(connection, 1).crc, CrcState::unknown);
}

TEST(Trace, WrongHeadersAreEventsWithTheirError) {
  Conversation talk = opened();
  talk.say(true, untagged(Opcode::send, 7, 1, 0, true, load()));             // QN 7
  talk.say(true, tagged(static_cast<Opcode>(0xC), 1, 0, true, pattern(1)));  // no such opcode
  talk.say(true, mpa::encode_fpdu(pattern(5)));                              // shorter than a header
  const Connection connection = only(talk.frames);
  ASSERT_EQ(all<Fpdu>(connection).size(), 3U);
  EXPECT_EQ(get<Fpdu>(connection, 0).error->code, terminate::kDdpUntaggedInvalidQn);
  EXPECT_EQ(get<Fpdu>(connection, 0).untagged()->queue_number, 7U);
  EXPECT_EQ(get<Fpdu>(connection, 1).error->code, terminate::kRdmapUnexpectedOpcode);
  EXPECT_FALSE(get<Fpdu>(connection, 2).ddp);
  EXPECT_TRUE(get<Fpdu>(connection, 2).error);
  EXPECT_TRUE(all<Message>(connection).empty());
}

TEST(Trace, BadStartupEndsTheDirection) {
  for (const std::size_t length : {1U, 16U, 19U, 60U}) {
    Conversation talk;
    talk.open();
    talk.say(true, Bytes(length, std::byte{'x'}));
    talk.fin(true);
    talk.rst(false);
    const Connection connection = only(talk.frames);
    ASSERT_EQ(all<BadStartup>(connection).size(), 1U);
    EXPECT_EQ(get<BadStartup>(connection).error->rule, mpa::StartupRule::bad_key);
    EXPECT_EQ(get<TcpEnd>(connection, 1).kind, TcpEnd::Kind::rst);
  }
  Conversation cut;
  cut.open();
  cut.say(true, Octets(request()).first(19));
  cut.fin(true);
  const Connection connection = only(cut.frames);
  ASSERT_EQ(connection.events.size(), 2U);
  EXPECT_FALSE(get<BadStartup>(connection).error);
}

TEST(Trace, RejectedStartupLeavesMpa) {
  Conversation talk;
  talk.open();
  talk.say(true, request());
  talk.say(false, reply(true, true));
  talk.say(true, pattern(30));
  const Connection connection = only(talk.frames);
  EXPECT_TRUE(all<Fpdu>(connection).empty());
  EXPECT_THAT(describe(*all<Note>(connection).at(0)), HasSubstr("rejected"));
}

TEST(Trace, FpduBrokenOffIsTold) {
  Conversation talk = opened();
  talk.say(true, Octets(tagged(Opcode::rdma_write, 0x99, 5, true, pattern(100))).first(40));
  talk.rst(true);
  const Connection connection = only(talk.frames);
  ASSERT_EQ(all<Fpdu>(connection).size(), 1U);
  EXPECT_EQ(get<Fpdu>(connection).extent, Extent::broken_off);
  EXPECT_EQ(get<Fpdu>(connection).tagged()->stag, 0x99U);
  EXPECT_EQ(get<Fpdu>(connection).payload().size(), 40U - 2 - 14);
  EXPECT_EQ(get<Fpdu>(connection).payload_length, 100U);
}

TEST(Trace, LackingPayloadKeepsTheBoundaries) {
  Conversation talk = opened();
  const Bytes write = tagged(Opcode::rdma_write, 0x99, 5, true, pattern(100));
  talk.say(true, write);
  Frame& cut = talk.frames.back();
  cut.octets.resize(cut.octets.size() - 60);
  talk.say(true, untagged(Opcode::send, 0, 1, 0, true, load()));
  const Connection connection = only(talk.frames);
  ASSERT_EQ(all<Fpdu>(connection).size(), 2U);
  EXPECT_EQ(get<Fpdu>(connection, 0).extent, Extent::lacking);
  EXPECT_EQ(get<Fpdu>(connection, 0).crc, CrcState::unknown);
  EXPECT_EQ(get<Fpdu>(connection, 0).tagged()->tagged_offset, 5U);
  EXPECT_EQ(get<Missing>(connection).length, 60U);
  EXPECT_EQ(all<Message>(connection).size(), 1U);
}

TEST(Trace, BehindALostFrameTheNextFpduIsFoundByItsCrc) {
  Conversation talk = opened();
  const Bytes write = tagged(Opcode::rdma_write, 0x99, 5, true, pattern(100));
  talk.skip(true, write.size() + 7);         // with the first octets of the next one
  talk.say(true, Octets(write).subspan(7));  // its rest is no FPDU
  talk.say(true, untagged(Opcode::send, 0, 9, 0, true, load()));
  talk.say_chopped(true, write, 11);
  const Connection connection = only(talk.frames);
  EXPECT_EQ(get<Missing>(connection).length, write.size() + 7);
  ASSERT_EQ(all<Fpdu>(connection).size(), 2U);
  EXPECT_EQ(get<Fpdu>(connection, 0).untagged()->msn, 9U);
  EXPECT_EQ(get<Fpdu>(connection, 1).crc, CrcState::good);
  EXPECT_EQ(all<Message>(connection).size(), 1U);
  ASSERT_EQ(all<Note>(connection).size(), 2U);
  EXPECT_THAT(describe(*all<Note>(connection)[1]), HasSubstr(std::to_string(write.size() - 7) + " octets"));
}

TEST(Trace, RetransmissionsDoNotRepeatEvents) {
  Conversation talk = opened();
  const Bytes send = untagged(Opcode::send, 0, 1, 0, true, load());
  const std::uint32_t at = talk.next(true);
  talk.say(true, send);
  talk.add_at(true, at, send);
  talk.add_at(true, at - 10, Octets(request() + send).subspan(request().size() - 10));
  const Connection connection = only(talk.frames);
  EXPECT_EQ(all<Fpdu>(connection).size(), 1U);
  EXPECT_EQ(connection.counters[0].retransmitted, 2 * send.size() + 10);
}

TEST(Trace, SameEndsAgainAreAnotherConnection) {
  Conversation talk = opened();
  talk.say(true, untagged(Opcode::send, 0, 1, 0, true, load()));
  talk.fin(true);
  Conversation again(50000, 60000);
  again.open();
  again.say(true, request());
  for (Frame& frame : again.frames) {
    frame.number += talk.frames.size();
    talk.frames.push_back(frame);
  }
  const Trace trace = decode_trace(talk.frames);
  ASSERT_EQ(trace.connections.size(), 2U);
  EXPECT_EQ(all<Startup>(trace.connections[1]).size(), 1U);
}

TEST(Trace, WhatIsKeptCanBeBounded) {
  DecodeOptions options;
  options.max_kept = 20;
  Conversation talk = opened();
  talk.say(true, tagged(Opcode::rdma_write, 1, 0, true, pattern(100)));
  talk.say(true,
           untagged(Opcode::read_request, 1, 1, 0, true, rdmap::encode(rdmap::ReadRequest{1, 2, 3, 4, 5})));
  const Connection connection = only(talk.frames, options);
  EXPECT_EQ(get<Fpdu>(connection, 0).ulpdu.size(), 20U);
  EXPECT_EQ(get<Fpdu>(connection, 0).payload_length, 100U);
  EXPECT_EQ(std::get<rdmap::ReadRequest>(get<Fpdu>(connection, 1).header).source_to, 5U);
}

TEST(Trace, CopiesOfEventsOutliveTheTrace) {
  std::vector<Event> kept;
  {
    Conversation talk = opened();
    talk.say(true, untagged(Opcode::send, 0, 1, 0, true, load()));
    kept = only(talk.frames).events;
  }
  const auto* message = kept.back().as<Message>();
  ASSERT_NE(message, nullptr);
  EXPECT_EQ(to_vector(message->octets), load());
}

TEST(Trace, LinesTellFrameTimeAndSide) {
  Conversation talk = opened();
  const Trace trace = decode_trace(talk.frames);
  EXPECT_EQ(to_line(trace.connections[0].events[1], trace.start_ns),
            "#4 +0.000003 server: MPA Reply rev 2 C S, IRD 8 ORD 4, 0 octets of private data");
}

TEST(Trace, FramesWithoutASegmentAreCounted) {
  std::vector<Frame> frames(2);
  frames[0].octets = ethernet(0x0806, pattern(28));
  frames[1].octets = ethernet(0x0800, pattern(3));
  frames[1].wire_length = 60;
  const Trace trace = decode_trace(frames);
  EXPECT_EQ(trace.frames, 2U);
  EXPECT_EQ(trace.count(FrameProblem::Kind::other_protocol), 1U);
  EXPECT_EQ(trace.count(FrameProblem::Kind::cut_short), 1U);
}

}  // namespace
}  // namespace kbtp::trace
