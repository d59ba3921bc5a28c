// The page about a capture: every number in it from a conversation written by hand.

#include "pcap/summary.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pcap/test_frames.h"
#include "proto/wire/completion.h"
#include "proto/wire/request.h"

namespace kbtp::trace {
namespace {

using namespace test;
using rdmap::Opcode;
using ::testing::ContainsRegex;
using ::testing::HasSubstr;
using ::testing::Not;

class Page final : public Observer {
 public:
  explicit Page(const std::vector<Frame>& frames) {
    Decoder decoder({}, *this);
    for (const Frame& frame : frames) {
      summary.frame(view(frame));
      decoder.frame(view(frame));
    }
    decoder.finish();
  }
  void on_event(const ConnectionInfo& connection, const Event& event) override {
    annotation_.clear();
    analyzer_.event(connection, event, annotation_);
    summary.event(connection, event, annotation_, analyzer_.answered());
  }
  void on_end(const ConnectionInfo& connection) override { summary.end(connection); }
  void on_other_frame(const FrameView&, const FrameProblem&) override {}

  Summary summary;

 private:
  Analyzer analyzer_;
  Annotation annotation_;
};

Conversation one_load(std::uint16_t port = 40000) {
  Conversation talk(1000, 2000, port);
  talk.open();
  talk.say(true, request());
  talk.say(false, reply());
  wire::Load load;
  load.head = {7, 3, 0, 0};
  load.destination = {0xAB, 0, 4096};
  talk.say(true, untagged(Opcode::send, 0, 1, 0, true, wire::encode(wire::Request(load))));
  talk.say(false, tagged(Opcode::rdma_write, 0xAB, 0, true, pattern(3000)));
  wire::Completion completion;
  completion.request_id = 7;
  completion.data_length = 3000;
  talk.say(false, untagged(Opcode::send, 0, 1, 0, true, wire::encode(completion)));
  return talk;
}

TEST(Summary, StreamsAndOperations) {
  const std::string text = Page(one_load().frames).summary.text();
  EXPECT_THAT(text, HasSubstr("7 frames"));
  EXPECT_THAT(text, HasSubstr("1 TCP connection, 1 of them iWARP"));
  EXPECT_THAT(text, ContainsRegex("1  10.0.0.1:40000 > 10.0.0.2:7420 .* 3 .* 3.0 kB  3 right"));
  EXPECT_THAT(text, ContainsRegex("LOAD SUCCESS +1 +3.0 kB .* 2.0 us +2.0 us +2.0 us"));
  EXPECT_THAT(text, ContainsRegex("RDMA Write +1 +3.0 kB +[0-9.]+ [MG]B/s\n"));
  EXPECT_THAT(text, ContainsRegex("Send +2 +[0-9]+ B +[0-9.]+ [MG]B/s\n"));
  EXPECT_THAT(text, HasSubstr("nothing was found wrong"));
}

TEST(Summary, OfWhatIsNotOursSaysNothingOfFindings) {
  Conversation talk;
  talk.open();
  EXPECT_EQ(Page(talk.frames).summary.text(),
            "2 frames, 108 B on the wire, in 0.000001 s; 1 TCP connection, 0 of them iWARP\n");
}

TEST(Summary, FindingsAreCountedWorstFirst) {
  Conversation talk = one_load();
  Bytes spoiled = tagged(Opcode::rdma_write, 1, 0, true, pattern(16));
  spoiled.back() ^= std::byte{1};
  talk.say(false, spoiled);
  talk.say(false, spoiled);
  talk.rst(true);
  const std::string text = Page(talk.frames).summary.text();
  EXPECT_THAT(text, ContainsRegex("3 right, 2 WRONG"));
  EXPECT_THAT(text, ContainsRegex("error +crc-bad +2  #8 on stream 1: the CRC is wrong"));
  EXPECT_LT(text.find("crc-bad"), text.find("reset"));
  EXPECT_THAT(text, Not(HasSubstr("nothing was found wrong")));
}

TEST(Summary, StreamsBeyondTheMostAreCountedOnly) {
  std::vector<Frame> frames;
  for (std::uint16_t port = 1; port <= 5; ++port) {
    const Conversation talk = one_load(port);
    frames.insert(frames.end(), talk.frames.begin(), talk.frames.end());
  }
  EXPECT_THAT(Page(frames).summary.text(3), HasSubstr("... and 2 more"));
}

}  // namespace
}  // namespace kbtp::trace
