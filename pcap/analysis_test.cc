// What follows from several events: conversations written by hand, the annotations of their frames.

#include "pcap/analysis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <map>

#include "base/hex.h"
#include "pcap/test_frames.h"
#include "proto/wire/completion.h"
#include "proto/wire/hello.h"
#include "proto/wire/request.h"
#include "proto/wire/structures.h"
#include "rdmap_binding/rdmap/headers.h"

namespace kbtp::trace {
namespace {

using namespace test;
using rdmap::Opcode;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

/// The annotations of all events, by the frame that completed them.
class Analysed final : public Observer {
 public:
  explicit Analysed(const std::vector<Frame>& frames) {
    Decoder decoder({}, *this);
    for (const Frame& frame : frames) decoder.frame(view(frame));
    decoder.finish();
  }
  void on_event(const ConnectionInfo& connection, const Event& event) override {
    Annotation annotation;
    analyzer_.event(connection, event, annotation);
    const std::uint64_t frame = event.frame.number;
    if (!annotation.text.empty()) texts[frame] = annotation.text;
    for (const Finding& finding : annotation.findings) findings[frame].emplace_back(finding.kind);
    for (const Field& field : annotation.fields) {
      numbers[std::pair(frame, std::string(field.info->name))] = field.number;
    }
    if (analyzer_.answered()) answered.push_back(*analyzer_.answered());
  }
  void on_end(const ConnectionInfo& connection) override { analyzer_.end(connection); }
  void on_other_frame(const FrameView&, const FrameProblem&) override {}

  std::map<std::uint64_t, std::string> texts;
  std::map<std::uint64_t, std::vector<std::string>> findings;
  std::map<std::pair<std::uint64_t, std::string>, std::uint64_t> numbers;
  std::vector<Answered> answered;

 private:
  Analyzer analyzer_;
};

/// Both start-up frames, HELLO and HELLO_ACK: six frames.
class Talk : public Conversation {
 public:
  explicit Talk(const wire::HelloAck& ack = plain_ack()) {
    open();
    say(true, request());
    say(false, reply());
    wire::Hello hello;
    hello.request_id = 1;
    send(true, wire::encode(hello));
    send(false, wire::encode(ack));
  }
  static wire::HelloAck plain_ack() {
    wire::HelloAck ack;
    ack.request_id = 1;
    ack.version = ack.min_version = ack.max_version = 1;
    ack.block_size = 4096;
    return ack;
  }
  /// Each returns the number of its frame.
  std::uint64_t send(bool from_client, Octets message, std::uint32_t invalidate = 0) {
    const auto opcode = invalidate == 0 ? Opcode::send : Opcode::send_invalidate;
    say(from_client, untagged(opcode, 0, ++msn_[from_client ? 0 : 1], 0, true, message, invalidate));
    return frames.size();
  }
  std::uint64_t untagged_header(bool from_client, Opcode opcode, Octets header) {
    say(from_client, untagged(opcode, rdmap::facts(opcode).queue_number, 1, 0, true, header));
    return frames.size();
  }
  std::uint64_t write(bool from_client, std::uint32_t stag, std::uint64_t to,
                      Opcode opcode = Opcode::rdma_write) {
    say(from_client, tagged(opcode, stag, to, true, pattern(16)));
    return frames.size();
  }
  std::uint64_t load(std::uint64_t id, std::uint64_t handle, std::uint32_t stag, std::uint64_t to) {
    wire::Load load;
    load.head = {id, handle, 0, 0};
    load.destination = {stag, to, 4096};
    return send(true, wire::encode(wire::Request(load)));
  }
  std::uint64_t complete(std::uint64_t id, wire::Status status = wire::Status::success,
                         std::uint32_t invalidate = 0) {
    wire::Completion completion;
    completion.request_id = id;
    completion.status = status;
    completion.data_length = 16;
    return send(false, wire::encode(completion), invalidate);
  }

 private:
  std::uint32_t msn_[2] = {0, 0};
};

TEST(Analysis, CompletionsAnswerRequestsAndWritesServeThem) {
  Talk talk;
  const auto load = talk.load(7, 3, 0xAB, 0x1000);
  const auto data = talk.write(false, 0xAB, 0x1000);
  const auto done = talk.complete(7);
  const auto after = talk.write(false, 0xAB, 0x1000);
  const Analysed analysed(talk.frames);
  EXPECT_THAT(analysed.texts.at(6), HasSubstr("answers HELLO #5"));
  EXPECT_THAT(analysed.texts.at(data), HasSubstr("for LOAD 0x7 in #" + std::to_string(load)));
  EXPECT_THAT(analysed.texts.at(done), HasSubstr("answers LOAD #" + std::to_string(load) + ", 2.0 us"));
  EXPECT_EQ(analysed.numbers.at({done, "analysis.request_frame"}), load);
  EXPECT_EQ(analysed.numbers.at({done, "analysis.latency_us"}), 2000U);  // in thousandths
  EXPECT_FALSE(analysed.texts.contains(after));
  EXPECT_TRUE(analysed.findings.empty());
  ASSERT_EQ(analysed.answered.size(), 2U);
  EXPECT_EQ(analysed.answered[1].op, wire::Opcode::load);
  EXPECT_EQ(analysed.answered[1].octets, 16U);
}

TEST(Analysis, AWriteOfSeveralSegmentsIsForWhatItsFirstOctetGoesTo) {
  wire::HelloAck ack = Talk::plain_ack();
  ack.pool_stag = 0x77;
  ack.pool_offset = 0x10000;
  Talk talk(ack);
  talk.say(true, tagged(Opcode::rdma_write, 0x77, 0x11000, false, pattern(600)));
  talk.say(true, tagged(Opcode::rdma_write, 0x77, 0x11000 + 600, true, pattern(100)));
  const auto whole = talk.frames.size();
  const auto inside = talk.write(true, 0x77, 0x11000 + 600);
  const Analysed analysed(talk.frames);
  EXPECT_EQ(analysed.texts.at(whole), "block 0x11000");
  EXPECT_EQ(analysed.texts.at(inside), "block 0x11000 at octet 600");
}

TEST(Analysis, AnAnswerWhoseRequestWaitsBehindLostOctetsIsNotUnasked) {
  for (const bool request_lost : {false, true}) {
    Talk talk;
    talk.load(7, 3, 0xAB, 0x1000);
    talk.frames.pop_back();  // the capture lacks it
    if (!request_lost) talk.load(8, 4, 0xAB, 0x1000);
    talk.complete(request_lost ? 7 : 8);
    for (int i = 0; i < 100; ++i) talk.write(false, 0xAC, 0);
    const Analysed analysed(talk.frames);
    for (const auto& [frame, found] : analysed.findings)
      EXPECT_TRUE(found[0] == "octets-missing" || found[0] == "boundary-lost") << request_lost << found[0];
  }
}

TEST(Analysis, LatenciesBehindLostOctetsEndWhereTheAnswerCame) {
  Talk talk;
  const auto load = talk.load(7, 3, 0xAB, 0x1000);
  talk.write(false, 0xAB, 0x1000);
  talk.frames.pop_back();  // the capture lacks it
  const auto done = talk.complete(7);
  for (std::uint64_t id = 8; id < 200; ++id) talk.load(id, 3, 0xAB, 0x1000);
  const Analysed analysed(talk.frames);
  EXPECT_THAT(analysed.texts.at(done), HasSubstr("answers LOAD #" + std::to_string(load) + ", 1.0 us"));
}

TEST(Analysis, AHandleRemembersItsLastUse) {
  Talk talk;
  talk.load(7, 3, 0xAB, 0);
  const auto first = talk.complete(7);
  const auto second = talk.load(8, 3, 0xAB, 0);
  const Analysed analysed(talk.frames);
  EXPECT_EQ(analysed.numbers.at({second, "analysis.handle_frame"}), first);
}

TEST(Analysis, ReadsAndAtomicsMeetTheirResponses) {
  wire::HelloAck ack = Talk::plain_ack();
  ack.granted = {.direct_load = true, .direct_alloc = true};
  ack.ring_log2 = 3;
  ack.table_stag = 0x11;
  ack.table_offset = 0x100;
  ack.table_base_handle = 40;
  ack.ring_stag = 0x22;
  ack.ring_offset = 0x10000;
  ack.head_stag = 0x33;
  ack.head_offset = 0x200;
  ack.pool_stag = 0x44;
  ack.pool_offset = 0x4000;
  ack.pool_length = 0x10000;
  Talk talk(ack);
  const auto entry = talk.untagged_header(true, Opcode::read_request,
                                          rdmap::encode(rdmap::ReadRequest{9, 0, 16, 0x11, 0x120}));
  const auto response = talk.write(false, 9, 0, Opcode::read_response);
  const auto slot = talk.untagged_header(true, Opcode::read_request,
                                         rdmap::encode(rdmap::ReadRequest{9, 0, 16, 0x22, 0x10030}));
  talk.write(false, 9, 0, Opcode::read_response);
  const auto block = talk.untagged_header(true, Opcode::read_request,
                                          rdmap::encode(rdmap::ReadRequest{9, 0, 16, 0x44, 0x6008}));
  talk.write(false, 9, 0, Opcode::read_response);
  rdmap::AtomicRequest add;
  add.request_identifier = 5;
  add.remote_stag = 0x33;
  add.remote_to = 0x200;
  add.add_or_swap_data = wire::CounterFormat(3).add_data();
  const auto take = talk.untagged_header(true, Opcode::atomic_request, rdmap::encode(add));
  const auto taken =
      talk.untagged_header(false, Opcode::atomic_response,
                           rdmap::encode(rdmap::AtomicResponse{5, wire::CounterFormat(3).pack(13)}));
  const Analysed analysed(talk.frames);
  EXPECT_EQ(analysed.texts.at(entry), "entry of handle 42");
  EXPECT_THAT(analysed.texts.at(response),
              HasSubstr("entry of handle 42, answers #" + std::to_string(entry)));
  EXPECT_EQ(analysed.texts.at(slot), "ring slot 3");
  EXPECT_EQ(analysed.texts.at(block), "block 0x6000 at octet 8");
  EXPECT_EQ(analysed.texts.at(take), "Head");
  EXPECT_THAT(analysed.texts.at(taken), HasSubstr("ticket 13 of ring slot 5"));
  EXPECT_EQ(analysed.numbers.at({taken, "analysis.ticket"}), 13U);
  EXPECT_TRUE(analysed.findings.empty());
}

TEST(Analysis, WhatHasNoRequestIsFound) {
  Talk talk;
  const auto completion = talk.complete(99);
  const auto response = talk.write(false, 9, 0, Opcode::read_response);
  const auto atomic =
      talk.untagged_header(false, Opcode::atomic_response, rdmap::encode(rdmap::AtomicResponse{5, 0}));
  const Analysed analysed(talk.frames);
  EXPECT_THAT(analysed.findings.at(completion), ElementsAre("completion-unasked"));
  EXPECT_THAT(analysed.findings.at(response), ElementsAre("response-unasked"));
  EXPECT_THAT(analysed.findings.at(atomic), ElementsAre("response-unasked"));
}

/// What may lie in octets that the capture lacks is no fault of anybody's.
TEST(Analysis, WhereOctetsAreLackingNothingIsCalledUnasked) {
  Talk talk;
  const auto read = [&](std::uint32_t sink) {
    return talk.untagged_header(true, Opcode::read_request,
                                rdmap::encode(rdmap::ReadRequest{sink, 0, 16, 2, 0}));
  };
  read(71);
  read(72);
  // The response to the first read is not in the capture, nor is a request.
  Bytes lost = tagged(Opcode::read_response, 71, 0, true, pattern(16));
  talk.skip(false, lost.size());
  talk.write(false, 72, 0, Opcode::read_response);
  talk.skip(true, 100);
  talk.load(99, 1, 5, 0);
  talk.complete(55);
  talk.fin(false);
  const Analysed analysed(talk.frames);
  ASSERT_EQ(analysed.answered.size(), 2U);  // HELLO, and the second read, whose response came a frame later
  EXPECT_EQ(analysed.answered[1].kind, Answered::Kind::read);
  EXPECT_EQ(analysed.answered[1].latency_ns, 1000);
  for (const auto& [frame, found] : analysed.findings)
    EXPECT_TRUE(found[0] == "octets-missing" || found[0] == "boundary-lost") << frame << found[0];
}

TEST(Analysis, RefusedRepeatedAndUnansweredRequestsAreFound) {
  Talk talk;
  talk.load(7, 3, 0xAB, 0);
  const auto again = talk.load(7, 4, 0xAB, 0);
  const auto refused = talk.complete(7, wire::Status::not_bound);
  talk.load(8, 3, 0xAB, 0);
  talk.fin(false);
  const auto end = talk.frames.size();
  const Analysed analysed(talk.frames);
  EXPECT_THAT(analysed.findings.at(again), ElementsAre("request-repeated"));
  EXPECT_THAT(analysed.findings.at(refused), ElementsAre("refused"));
  EXPECT_THAT(analysed.findings.at(end), ElementsAre("unanswered"));
}

TEST(Analysis, AnStagLivesUntilItIsInvalidatedAndAgainWhenToldOf) {
  Talk talk;
  talk.load(7, 3, 0xAB, 0);
  talk.complete(7, wire::Status::success, 0xAB);
  const auto late = talk.write(false, 0xAB, 0);
  talk.load(8, 3, 0xAB, 0);
  const auto fine = talk.write(false, 0xAB, 0);
  const Analysed analysed(talk.frames);
  EXPECT_THAT(analysed.findings.at(late), ElementsAre("stag-after-invalidate"));
  EXPECT_FALSE(analysed.findings.contains(fine));
}

TEST(Analysis, BadCrcsTerminatesAndResetsAreFound) {
  Talk talk;
  Bytes spoiled = tagged(Opcode::rdma_write, 1, 0, true, pattern(16));
  spoiled.back() ^= std::byte{1};
  talk.say(true, spoiled);
  const auto bad = talk.frames.size();
  const auto terminate = talk.untagged_header(false, Opcode::terminate, *from_hex("20 02 0000"));
  talk.rst(true);
  const auto reset = talk.frames.size();
  const Analysed analysed(talk.frames);
  EXPECT_THAT(analysed.findings.at(bad), ElementsAre("crc-bad"));
  EXPECT_THAT(analysed.findings.at(terminate), ElementsAre("terminate"));
  EXPECT_THAT(analysed.findings.at(reset), ElementsAre("reset"));
}

TEST(Analysis, OctetsSentAgainWithOtherValuesAndLostBoundariesAreFound) {
  Talk talk;
  const std::uint32_t at = talk.next(true);
  Bytes send = tagged(Opcode::rdma_write, 1, 0, true, pattern(16));
  talk.say(true, send);
  send[20] ^= std::byte{1};
  talk.add_at(true, at, send);
  const auto again = talk.frames.size();
  talk.skip(true, 10);
  talk.say(true, pattern(3));  // behind it the place of a length
  const Analysed analysed(talk.frames);
  EXPECT_THAT(analysed.findings.at(again), ElementsAre("octets-differ"));
  EXPECT_THAT(analysed.findings.at(again + 1), ElementsAre("octets-missing", "boundary-lost"));
}

TEST(Analysis, WhatIsOpenIsBounded) {
  Talk talk;
  for (std::uint64_t id = 100; id < 100 + 5000; ++id) talk.load(id, id, static_cast<std::uint32_t>(id), 0);
  const auto oldest = talk.complete(100);
  const auto newest = talk.complete(5099);
  const Analysed analysed(talk.frames);
  EXPECT_THAT(analysed.findings.at(oldest), ElementsAre("completion-unasked"));
  EXPECT_FALSE(analysed.findings.contains(newest));
}

}  // namespace
}  // namespace kbtp::trace
