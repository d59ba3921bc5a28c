// Memory of the whole dissection on inputs that are large or hostile. Each test stands for itself: what a
// process has taken at most does not shrink again.

#include <array>
#include <cstdio>
#include <gtest/gtest.h>
#include <memory>
#include <sys/resource.h>

#include "base/sanitizers.h"
#include "pcap/analysis.h"
#include "pcap/decoder.h"
#include "pcap/output.h"
#include "pcap/print_lines.h"
#include "pcap/record_builder.h"
#include "pcap/summary.h"
#include "pcap/test_frames.h"
#include "pcap/test_ib_frames.h"
#include "proto/wire/hello.h"
#include "proto/wire/request.h"
#include "rdmap_binding/rdmap/headers.h"

namespace kbtp::trace {
namespace {

using namespace test;
using rdmap::Opcode;

constexpr std::size_t kShare = kSanitized ? 20 : 1;  // of the work; memory is not looked at then

std::size_t most_memory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::size_t>(usage.ru_maxrss) * 1024;
}

/// All that `kbtp dissect` does with a frame, in every form but the chart.
class Dissection final : public Observer {
 public:
  Dissection() : null_(std::fopen("/dev/null", "we")), output_(fileno(null_.get())), lines_(output_, false) {
    options_.expect_iwarp = false;
    decoder_ = std::make_unique<Decoder>(options_, *this);
  }

  void feed(Frame frame) {
    frame.number = ++frames_;
    frame.time_ns = static_cast<std::int64_t>(frames_) * 1000;
    summary_.frame(view(frame));
    decoder_->frame(view(frame));
  }
  void feed(Conversation& talk) {
    for (Frame& frame : talk.frames) feed(std::move(frame));
    talk.frames.clear();
  }
  void feed(const Bytes& octets) { feed(Frame{0, 0, LinkType::ethernet, 0, octets}); }
  /// The page at the end.
  std::string finish() {
    decoder_->finish();
    return summary_.text();
  }
  [[nodiscard]] std::uint64_t dropped() const { return decoder_->dropped(); }
  [[nodiscard]] std::uint64_t answered() const { return answered_; }
  [[nodiscard]] std::uint64_t fpdus() const { return fpdus_; }
  /// Octets that were taken since this was made.
  [[nodiscard]] std::size_t taken() const { return most_memory() - before_; }

 private:
  struct Closer {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  void on_event(const ConnectionInfo& connection, const Event& event) override {
    if (event.as<Fpdu>() != nullptr) ++fpdus_;
    annotation_.clear();
    analyzer_.event(connection, event, annotation_);
    if (analyzer_.answered()) ++answered_;
    summary_.event(connection, event, annotation_, analyzer_.answered());
    builder_.build(connection, event, annotation_, record_);
    lines_.event(connection, event, annotation_, true);
  }
  void on_end(const ConnectionInfo& connection) override {
    lines_.end(connection);
    analyzer_.end(connection);
    summary_.end(connection);
  }
  void on_other_frame(const FrameView& /*frame*/, const FrameProblem& /*problem*/) override {}

  std::size_t before_ = most_memory();
  std::unique_ptr<std::FILE, Closer> null_;
  Output output_;
  DecodeOptions options_;
  Analyzer analyzer_;
  Summary summary_;
  LinePrinter lines_;
  RecordBuilder builder_{wire::kProposed};
  Record record_;
  Annotation annotation_;
  std::unique_ptr<Decoder> decoder_;
  std::uint64_t frames_ = 0, answered_ = 0, fpdus_ = 0;
};

void expect_bounded(const Dissection& dissection) {
  if (!kSanitized) {
    EXPECT_LT(dissection.taken(), std::size_t{256} << 20);
  }
}

/// The `i`-th of many connections.
Conversation conversation(std::size_t i) {
  return Conversation(1000, 0xFFFFFF00, static_cast<std::uint16_t>(1024 + i % 60000),
                      static_cast<std::uint8_t>(3 + i / 60000));
}
void begin(Conversation& talk) {
  talk.open();
  talk.say(true, request());
  talk.say(false, reply());
}
Bytes send(std::uint32_t msn, Octets message) { return untagged(Opcode::send, 0, msn, 0, true, message); }
Bytes load(std::uint64_t id, std::uint32_t stag) {
  return wire::encode(wire::Request(wire::Load{.head = {id, id, 0, 0}, .destination = {stag, 0x1000, 4096}}));
}
Bytes read_request(std::uint32_t msn, std::uint32_t stag) {
  const auto body = rdmap::encode(rdmap::ReadRequest{stag, 0, 4096, stag + 1, 0});
  return untagged(Opcode::read_request, 1, msn, 0, true, body);
}

TEST(Bounds, TenThousandConnectionsAtOnce) {
  constexpr std::size_t kConnections = 10'000 / kShare;
  constexpr std::size_t kRounds = 8;
  Dissection dissection;
  std::vector<Conversation> talks;
  for (std::size_t i = 0; i < kConnections; ++i) begin(talks.emplace_back(conversation(i)));
  const Bytes data = pattern(1400);
  for (std::size_t round = 0; round < kRounds; ++round) {
    for (Conversation& talk : talks) {
      const auto msn = static_cast<std::uint32_t>(round + 1);
      talk.say(true, read_request(msn, msn));
      const Bytes response = tagged(Opcode::read_response, msn, 0, true, data);
      // The second part of the FPDU comes a round later, behind a gap in every other connection.
      talk.say_chopped(false, response, 900);
      if (round % 2 == 1) std::swap(talk.frames.back(), talk.frames[talk.frames.size() - 2]);
      Frame last = std::move(talk.frames.back());
      talk.frames.pop_back();
      dissection.feed(talk);
      talk.frames.push_back(std::move(last));
    }
  }
  for (Conversation& talk : talks) dissection.feed(talk);
  EXPECT_EQ(dissection.dropped(), 0U);
  EXPECT_EQ(dissection.fpdus(), kConnections * kRounds * 2);
  EXPECT_EQ(dissection.answered(), kConnections * kRounds);
  EXPECT_NE(dissection.finish().find("nothing was found wrong"), std::string::npos);
  expect_bounded(dissection);
}

TEST(Bounds, ConnectionsWithoutEnd) {
  Dissection dissection;
  for (std::size_t i = 0; i < 300'000 / kShare; ++i) {
    Conversation talk = conversation(i);
    begin(talk);
    talk.say(true, send(1, load(i, static_cast<std::uint32_t>(i))));
    dissection.feed(talk);
  }
  EXPECT_NE(dissection.finish().find(std::to_string(300'000 / kShare) + " of them iWARP"), std::string::npos);
  expect_bounded(dissection);
}

TEST(Bounds, HolesThatNeverFill) {
  Dissection dissection;
  const Bytes data = pattern(60'000);
  for (std::size_t i = 0; i < 400 / kShare; ++i) {
    Conversation talk = conversation(i);
    begin(talk);
    talk.skip(false, 1);
    for (std::size_t k = 0; k < 20; ++k) talk.say(false, data);
    dissection.feed(talk);
  }
  dissection.finish();
  expect_bounded(dissection);
}

TEST(Bounds, HolesBetweenSingleOctets) {
  Dissection dissection;
  const Bytes one = pattern(1);
  for (std::size_t i = 0; i < 100 / kShare; ++i) {
    Conversation talk = conversation(i);
    begin(talk);
    for (std::size_t k = 0; k < 30'000; ++k) {
      talk.skip(false, 1);
      talk.say(false, one);
    }
    dissection.feed(talk);
  }
  dissection.finish();
  expect_bounded(dissection);
}

TEST(Bounds, OverlapsThatContradictEachOther) {
  Dissection dissection;
  Conversation talk;
  begin(talk);
  for (std::size_t k = 0; k < 200'000 / kShare; ++k) {
    talk.add_at(false, talk.next(false) + static_cast<std::uint32_t>(k * 37 % 100'000),
                pattern(1 + k % 1400, static_cast<std::uint8_t>(k)));
    dissection.feed(talk);
  }
  dissection.finish();
  expect_bounded(dissection);
}

TEST(Bounds, HugeClaims) {
  Dissection dissection;
  const Bytes data = pattern(1400);
  for (std::size_t i = 0; i < 20'000 / kShare; ++i) {
    Conversation talk = conversation(i);
    begin(talk);
    talk.say(true, Bytes{std::byte{0xFF}, std::byte{0xFF}} + data);  // an FPDU of 65,535 octets begins
    // A Send that goes on and on.
    if (i % 20 == 0) {
      for (std::uint32_t k = 0; k < 40; ++k)
        talk.say(false, untagged(Opcode::send, 0, 1, 32'000 * k, false, pattern(32'000)));
    }
    dissection.feed(talk);
    // A frame of which the capture kept the headers, and four billion octets on the wire.
    talk.say(false, {});
    talk.frames.back().octets[16] = talk.frames.back().octets[17] = std::byte{0};  // IPv4's total length
    talk.frames.back().wire_length = 0xFFFFFFFF;
    dissection.feed(talk);
  }
  dissection.finish();
  expect_bounded(dissection);
}

TEST(Bounds, StagsAndRequestsThatNobodyAnswers) {
  Dissection dissection;
  std::uint32_t stag = 0;
  for (std::size_t i = 0; i < 800 / kShare; ++i) {
    Conversation talk = conversation(i);
    begin(talk);
    for (std::uint32_t k = 1; k <= 1000; ++k) {
      const std::uint64_t id = i * 1000 + k;
      talk.say(true, send(2 * k - 1, load(id, ++stag)));
      talk.say(true, untagged(Opcode::send_invalidate, 0, 2 * k, 0, true,
                              load(id + (std::uint64_t{1} << 40), stag), stag));
      talk.say(true, read_request(k, stag));
    }
    dissection.feed(talk);
  }
  dissection.finish();
  expect_bounded(dissection);
}

TEST(Bounds, FragmentsWithoutEnd) {
  Dissection dissection;
  Bytes packet = ipv4(v4(1, 0), v4(2, 0), 6, pattern(1400));
  for (std::size_t k = 0; k < 200'000 / kShare; ++k) {
    store_be(packet.data() + 4, static_cast<std::uint16_t>(k));
    store_be(packet.data() + 6, static_cast<std::uint16_t>(0x2000 | (k * 175 % 7800)));
    dissection.feed(ethernet(0x0800, packet));
  }
  dissection.finish();
  expect_bounded(dissection);
}

TEST(Bounds, QueuePairsWithoutEnd) {
  Dissection dissection;
  const Bytes data = pattern(1024);
  for (std::uint32_t i = 0; i < 200'000 / kShare; ++i) {
    const TransportAddress from = v4(static_cast<std::uint8_t>(i), 0);
    const TransportAddress to = v4(static_cast<std::uint8_t>(i >> 8), 0);
    dissection.feed(roce(ib_packet(ib::Operation::read_request, i, 1), from, to));
    dissection.feed(roce(ib_packet(ib::Operation::send_first, i, 2, data), from, to));
  }
  dissection.finish();
  expect_bounded(dissection);
}

}  // namespace
}  // namespace kbtp::trace
