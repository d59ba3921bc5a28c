#include "pcap/chart.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>
#include <vector>

#include "pcap/analysis.h"
#include "pcap/test_frames.h"
#include "proto/wire/completion.h"
#include "proto/wire/request.h"

namespace kbtp::trace::test {
namespace {

using rdmap::Opcode;
using ::testing::HasSubstr;
using ::testing::Not;

/// Takes all that is iWARP to the chart.
class Drawn final : private Observer {
 public:
  explicit Drawn(const std::vector<Frame>& frames, ChartLimits limits = {}) : chart(limits) {
    DecodeOptions options;
    options.expect_iwarp = false;
    Decoder decoder(options, *this);
    chart.set_start(frames.front().time_ns);
    for (const Frame& frame : frames) decoder.frame(view(frame));
    decoder.finish();
  }
  [[nodiscard]] std::string svg(std::string_view name = "x.pcap") const {
    Output out(-1);
    chart.write(name, out);
    return std::string(out.held());
  }

  Chart chart;

 private:
  void on_event(const ConnectionInfo& connection, const Event& event) override {
    annotation_.clear();
    analyzer_.event(connection, event, annotation_);
    chart.event(connection, event, annotation_, true);
  }
  void on_end(const ConnectionInfo& connection) override { chart.end(connection); }
  void on_other_frame(const FrameView& /*frame*/, const FrameProblem& /*problem*/) override {}

  Analyzer analyzer_;
  Annotation annotation_;
};

Bytes load(std::uint64_t id) {
  return wire::encode(wire::Request(wire::Load{.head = {id, id, 0, 0}, .destination = {0x1234, 0, 4096}}));
}
Bytes completion(std::uint64_t id, wire::Status status) {
  wire::Completion what;
  what.request_id = id;
  what.handle = id;
  what.status = status;
  return wire::encode(what);
}
Bytes send(std::uint32_t msn, Octets message) { return untagged(Opcode::send, 0, msn, 0, true, message); }

/// Two LOADs at once; the second fails and is answered first.
Conversation two_loads(std::uint16_t port = 40000) {
  Conversation talk(1000, 2000, port);
  talk.open();
  talk.say(true, request());
  talk.say(false, reply());
  talk.say(true, send(1, load(7)));
  talk.say(true, send(2, load(8)));
  talk.say(false, send(1, completion(8, wire::Status::not_bound)));
  for (std::uint64_t i = 0; i < 4; ++i)
    talk.say(false, tagged(Opcode::rdma_write, 0x1234, 1024 * i, i == 3, pattern(1024)));
  talk.say(false, send(2, completion(7, wire::Status::success)));
  talk.rst(true);
  return talk;
}

TEST(Chart, AnArrowForAMessageInTheColourOfItsKind) {
  const Drawn drawn(two_loads().frames);
  std::vector<Chart::Kind> kinds;
  for (const Chart::Row& row : drawn.chart.rows()) kinds.push_back(row.kind);
  using enum Chart::Kind;
  EXPECT_EQ(kinds, (std::vector{setup, setup, request, request, failure, data, completion, failure}));
  const Chart::Row& write = drawn.chart.rows()[5];
  EXPECT_EQ(write.title, "RDMA Write");
  EXPECT_THAT(write.text, HasSubstr("4096 octets to STag 0x00001234 TO 0x0, 4 segments"));
  EXPECT_EQ(write.first_frame, 8U);
  EXPECT_EQ(write.at.number, 11U);
  EXPECT_EQ(write.from, Side::server);
}

TEST(Chart, AnAnswerNamesItsRequestAndAFindingItsMessage) {
  const Drawn drawn(two_loads().frames);
  const auto& rows = drawn.chart.rows();
  ASSERT_EQ(rows.size(), 8U);
  EXPECT_EQ(rows[4].request_frame, rows[3].at.number);
  EXPECT_EQ(rows[6].request_frame, rows[2].at.number);
  EXPECT_EQ(rows[5].request_frame, std::nullopt);
  ASSERT_EQ(rows[4].marks.size(), 1U);
  EXPECT_EQ(rows[4].marks[0].text, "LOAD of handle 8 ends with NOT_BOUND");
  const std::string svg = drawn.svg();
  EXPECT_THAT(svg, HasSubstr("<title>warning: LOAD of handle 8 ends with NOT_BOUND</title>"));
  EXPECT_THAT(svg, HasSubstr("<title>KBTP LOAD of #6: #7 answers LOAD #6, "));
}

TEST(Chart, WhatXmlCannotHoldIsEscapedOrReplaced) {
  const Drawn drawn(two_loads().frames);
  const std::string svg = drawn.svg("<a & \"b\">\x01\xFF\xEF\xBF\xBE\xC3\xA9");
  EXPECT_THAT(svg, HasSubstr("<title>Messages of &lt;a &amp; &quot;b&quot;&gt;"
                             "\xEF\xBF\xBD\xEF\xBF\xBD\xEF\xBF\xBD\xC3\xA9</title>"));
  EXPECT_THAT(svg, Not(HasSubstr("<a &")));
}

TEST(Chart, IsBoundedInMessagesAndStreamsAndSaysSo) {
  auto frames = two_loads().frames;
  for (Frame& frame : two_loads(40001).frames) frames.push_back(frame);
  for (std::size_t i = 0; i < frames.size(); ++i) frames[i].number = i + 1;

  const Drawn one_stream(frames, {.messages = 100, .streams = 1});
  EXPECT_EQ(one_stream.chart.streams().size(), 1U);
  EXPECT_EQ(one_stream.chart.rows().size(), 8U);
  EXPECT_EQ(one_stream.chart.left_out(), 8U);
  EXPECT_THAT(one_stream.svg(), HasSubstr(">8 more lines were left out, and all of 1 more stream. Choose"));

  const Drawn few(frames, {.messages = 7, .streams = 2});
  EXPECT_EQ(few.chart.rows().size(), 7U);
  EXPECT_THAT(few.svg(), HasSubstr(">9 more lines were left out. Choose"));

  const Drawn all(frames);
  EXPECT_EQ(all.chart.rows().size(), 16U);
  EXPECT_THAT(all.svg(), Not(HasSubstr("left out")));
}

TEST(Chart, HasNoScriptAndNothingFromElsewhereAndIsTheSameEachTime) {
  const std::string svg = Drawn(two_loads().frames).svg();
  EXPECT_THAT(svg, Not(HasSubstr("<script")));
  EXPECT_THAT(svg, Not(HasSubstr("href")));
  EXPECT_THAT(svg, Not(HasSubstr("url(")));
  EXPECT_THAT(svg, HasSubstr("prefers-color-scheme:dark"));
  EXPECT_EQ(svg, Drawn(two_loads().frames).svg());
}

}  // namespace
}  // namespace kbtp::trace::test
