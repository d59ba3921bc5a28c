#include "pcap/reassembly.h"

#include <algorithm>
#include <gtest/gtest.h>
#include <numeric>
#include <random>

#include "pcap/test_frames.h"

namespace kbtp::trace {
namespace {

using namespace test;

/// One direction, fed by the test; what comes out is put together again and checked for order.
class Stream {
 public:
  explicit Stream(std::uint32_t isn, Reassembler::Limits limits = {}) : reassembler_(limits), isn_(isn) {}

  void syn() {
    TcpSegment segment;
    segment.sequence = isn_;
    segment.syn = true;
    feed(segment);
  }
  void data(std::uint64_t offset, Octets payload, std::uint32_t wire_length = 0) {
    TcpSegment segment;
    segment.sequence = isn_ + 1 + static_cast<std::uint32_t>(offset);
    segment.payload = payload;
    segment.payload_length = std::max<std::uint32_t>(wire_length, static_cast<std::uint32_t>(payload.size()));
    feed(segment);
  }
  void fin(std::uint64_t offset) {
    TcpSegment segment;
    segment.sequence = isn_ + 1 + static_cast<std::uint32_t>(offset);
    segment.fin = true;
    feed(segment);
  }
  /// The other end has all in front of `offset`.
  void acknowledge(std::uint64_t offset, std::int64_t later_ns = 0) {
    ++frame_;
    time_ns_ += later_ns;
    reassembler_.acknowledged(isn_ + 1 + static_cast<std::uint32_t>(offset), FrameRef{frame_, time_ns_});
    be_patient();
  }
  void finish() { reassembler_.finish(FrameRef{frame_ + 1, 0}, sink()); }

  /// Octets so far; missing ones are 0xEE.
  Bytes octets;
  std::vector<Run> runs;  ///< spans in them are stale

  [[nodiscard]] const Reassembler& get() const { return reassembler_; }

 private:
  Reassembler::Sink sink() {
    return [this](const Run& run) {
      EXPECT_EQ(run.offset, octets.size());
      EXPECT_GT(run.length, 0U);
      EXPECT_GE(run.ready.number, runs.empty() ? 1 : runs.back().ready.number);
      if (run.missing()) {
        octets.resize(octets.size() + run.length, std::byte{0xEE});
      } else {
        EXPECT_EQ(run.length, run.octets.size());
        append(octets, run.octets);
      }
      runs.push_back(run);
    };
  }
  void feed(const TcpSegment& segment) {
    ++frame_;
    reassembler_.segment(segment, FrameRef{frame_, time_ns_}, sink());
    be_patient();
  }
  void be_patient() {
    if (reassembler_.impatient()) reassembler_.give_up_acknowledged(sink());
  }

  Reassembler reassembler_;
  std::uint32_t isn_;
  std::uint64_t frame_ = 0;
  std::int64_t time_ns_ = 0;
};

TEST(Reassembly, EveryChopOverTheSequenceWrapGivesTheStream) {
  const Bytes sent = pattern(64);
  for (std::size_t chop = 1; chop <= sent.size(); ++chop) {
    Stream stream(0xFFFFFFF0);  // wraps after 15 octets
    stream.syn();
    for (std::size_t at = 0; at < sent.size(); at += chop)
      stream.data(at, Octets(sent).subspan(at, std::min(chop, sent.size() - at)));
    EXPECT_EQ(stream.octets, sent) << chop;
    EXPECT_EQ(stream.get().counters().missing, 0U);
    // Each run tells the frame that brought it: the SYN is frame 1.
    for (std::size_t i = 0; i < stream.runs.size(); ++i) EXPECT_EQ(stream.runs[i].frame.number, i + 2);
  }
}

TEST(Reassembly, AnyOrderOfSegmentsGivesTheStream) {
  const Bytes sent = pattern(40);
  std::vector<std::size_t> order(10);
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    std::shuffle(order.begin(), order.end(), random);
    Stream stream(0xFFFFFFFA);
    stream.syn();
    for (const std::size_t piece : order) stream.data(piece * 4, Octets(sent).subspan(piece * 4, 4));
    EXPECT_EQ(stream.octets, sent);
  }
}

TEST(Reassembly, OverlapsInAnyOrderKeepTheFirstCopyOfWhatWasInOrder) {
  const Bytes sent = pattern(60);
  std::mt19937 random(11);
  for (int round = 0; round < 500; ++round) {
    Stream stream(random());
    stream.syn();
    for (int i = 0; i < 40; ++i) {
      const std::size_t begin = random() % sent.size();
      const std::size_t length = 1 + random() % (sent.size() - begin);
      stream.data(begin, Octets(sent).subspan(begin, length));
    }
    stream.data(0, sent);
    EXPECT_EQ(stream.octets, sent);
  }
}

TEST(Reassembly, FirstCopyWins) {
  Stream stream(5);
  stream.syn();
  stream.data(4, Bytes(4, std::byte{'b'}));
  stream.data(2, Bytes(4, std::byte{'c'}));  // 4 and 5 are repeated
  stream.data(0, Bytes(8, std::byte{'a'}));
  EXPECT_EQ(to_vector(as_octets("aaccbbbb")), stream.octets);
  EXPECT_EQ(stream.get().counters().retransmitted, 8U);
  stream.data(0, Bytes(8, std::byte{'z'}));
  EXPECT_EQ(stream.octets.size(), 8U);
  EXPECT_EQ(stream.get().counters().retransmitted, 16U);
}

TEST(Reassembly, LaterCopiesThatDifferAreCounted) {
  Stream stream(100);
  stream.syn();
  const Bytes first = pattern(6000);
  stream.data(0, first);
  Bytes again = first;
  stream.data(0, again);
  EXPECT_EQ(stream.get().counters().differing, 0U);
  again[100] ^= std::byte{1};  // longer ago than is remembered
  again[5000] ^= std::byte{1};
  again[5999] ^= std::byte{1};
  stream.data(0, again);
  EXPECT_EQ(stream.get().counters().differing, 2U);
  stream.data(5999, Bytes{std::byte{0}});  // a keep-alive
  EXPECT_EQ(stream.get().counters().differing, 2U);
  stream.data(6100, pattern(50, 1));  // waits behind a gap
  stream.data(6120, pattern(50, 2));
  EXPECT_EQ(stream.get().counters().differing, 2U + 30U);
  stream.data(5990, pattern(20, 9));  // overlaps what was given out by ten
  EXPECT_EQ(stream.get().counters().differing, 2U + 30U + 10U);
  EXPECT_EQ(Bytes(stream.octets.begin(), stream.octets.begin() + 6000), first);
}

TEST(Reassembly, GapIsToldAtTheEnd) {
  Stream stream(5);
  stream.syn();
  stream.data(0, pattern(4));
  stream.data(10, pattern(4));
  EXPECT_EQ(stream.octets.size(), 4U);
  stream.finish();
  ASSERT_EQ(stream.runs.size(), 3U);
  EXPECT_TRUE(stream.runs[1].missing());
  EXPECT_EQ(stream.runs[1].length, 6U);
  EXPECT_EQ(stream.runs[1].frame.number, 3U);
  EXPECT_EQ(stream.get().counters().missing, 6U);
  EXPECT_EQ(stream.octets.size(), 14U);
}

TEST(Reassembly, AGapThatWasAcknowledgedIsToldSomeSegmentsLater) {
  Stream stream(0xFFFFFFF0);
  stream.syn();
  stream.data(0, pattern(100));
  stream.data(200, pattern(100));
  for (std::uint32_t i = 0; i < Reassembler::Limits{}.patience_segments; ++i) {
    stream.acknowledge(300);
    ASSERT_EQ(stream.octets.size(), 100U) << i;
  }
  stream.acknowledge(300);
  EXPECT_EQ(stream.octets.size(), 300U);
  EXPECT_EQ(stream.get().counters().missing, 100U);
  // The next one waits as long again, and segments of the direction itself count too.
  stream.data(400, pattern(100));
  stream.acknowledge(500);
  for (std::uint32_t i = 0; i + 1 < Reassembler::Limits{}.patience_segments; ++i)
    stream.data(500 + std::uint64_t{10} * i, pattern(10));
  EXPECT_EQ(stream.octets.size(), 300U);
  stream.data(5000, pattern(10));
  EXPECT_EQ(stream.get().counters().missing, 200U);
  EXPECT_EQ(stream.octets.size(), 500U + 10U * (Reassembler::Limits{}.patience_segments - 1));
}

TEST(Reassembly, AGapThatWasAcknowledgedIsToldSomeTimeLater) {
  Stream stream(5);
  stream.syn();
  stream.data(10, pattern(10));
  stream.acknowledge(20);
  stream.acknowledge(20, Reassembler::Limits{}.patience_ns - 1);
  EXPECT_TRUE(stream.octets.empty());
  stream.acknowledge(20, 1);
  EXPECT_EQ(stream.octets.size(), 20U);
}

TEST(Reassembly, WhatComesBehindItsAcknowledgementIsNotLacking) {
  Stream stream(5);
  stream.syn();
  stream.data(0, pattern(10));
  stream.acknowledge(40);  // overtook all of it
  stream.data(20, pattern(10));
  stream.data(30, pattern(10));
  stream.data(10, pattern(10));
  stream.acknowledge(40, Reassembler::Limits{}.patience_ns);
  stream.finish();
  EXPECT_EQ(stream.octets.size(), 40U);
  EXPECT_EQ(stream.get().counters().missing, 0U);
}

TEST(Reassembly, AGapThatWasNotAcknowledgedWaits) {
  Stream stream(5);
  stream.syn();
  stream.data(0, pattern(10));
  stream.data(20, pattern(10));
  for (int i = 0; i < 1000; ++i) stream.acknowledge(10, 1'000'000);
  stream.acknowledge(15);  // a part of it
  for (int i = 0; i < 1000; ++i) stream.acknowledge(15, 1'000'000);
  EXPECT_EQ(stream.octets.size(), 10U);
  stream.data(10, pattern(10));
  EXPECT_EQ(stream.octets.size(), 30U);
  EXPECT_EQ(stream.get().counters().missing, 0U);
}

TEST(Reassembly, AnAcknowledgedFinLeavesNothingToWaitFor) {
  Stream stream(5);
  stream.syn();
  stream.data(10, pattern(10));
  stream.fin(20);
  stream.acknowledge(20);
  EXPECT_TRUE(stream.octets.empty());
  stream.acknowledge(21);
  EXPECT_EQ(stream.octets.size(), 20U);
}

TEST(Reassembly, WhatWasAcknowledgedAndNeverCameIsToldAtTheEnd) {
  for (const bool fin : {false, true}) {
    Stream stream(5);
    stream.syn();
    stream.data(0, pattern(10));
    if (fin) stream.fin(30);
    stream.acknowledge(31);  // that of the FIN, whether that is in the capture or not
    stream.finish();
    ASSERT_EQ(stream.runs.size(), 2U) << fin;
    EXPECT_TRUE(stream.runs[1].missing());
    EXPECT_EQ(stream.octets.size(), 30U) << fin;
  }
  Stream whole(5);
  whole.syn();
  whole.data(0, pattern(10));
  whole.acknowledge(11);
  whole.finish();
  EXPECT_EQ(whole.runs.size(), 1U);
}

TEST(Reassembly, CutShortFramesLeaveMissingRuns) {
  Stream stream(5);
  stream.syn();
  stream.data(0, pattern(4), 10);
  stream.data(10, pattern(2));
  ASSERT_EQ(stream.runs.size(), 3U);
  EXPECT_EQ(stream.runs[1].length, 6U);
  EXPECT_TRUE(stream.runs[1].missing());
  EXPECT_EQ(stream.octets.size(), 12U);
}

TEST(Reassembly, RetransmissionFillsWhatWasCutShortWhileItWaits) {
  const Bytes sent = pattern(20);
  Stream stream(5);
  stream.syn();
  stream.data(5, Octets(sent).subspan(5, 2), 10);  // 7 to 14 lacking
  stream.data(9, Octets(sent).subspan(9, 4));
  stream.data(7, Octets(sent).subspan(7, 13));
  stream.data(0, Octets(sent).first(5));
  EXPECT_EQ(stream.octets, sent);
  EXPECT_EQ(stream.get().counters().missing, 0U);
}

TEST(Reassembly, WaitingIsBounded) {
  Stream stream(5, {100, 1000});
  stream.syn();
  for (std::uint64_t at = 1; at < 400; at += 10) stream.data(at, pattern(10));
  EXPECT_EQ(stream.octets.size(), 401U);  // the gap of one octet was given up
  EXPECT_EQ(stream.get().counters().missing, 1U);

  Stream scattered(5, {1 << 20, 8});
  scattered.syn();
  for (std::uint64_t at = 1; at < 400; at += 2) scattered.data(at, pattern(1));
  EXPECT_GT(scattered.octets.size(), 370U);
}

TEST(Reassembly, WithoutSynTheFirstOctetSeenIsTheBeginning) {
  Stream stream(5);
  stream.data(100, pattern(4));
  stream.data(104, pattern(4));
  stream.data(96, pattern(4));  // before the beginning
  EXPECT_EQ(stream.octets, pattern(4) + pattern(4));
  EXPECT_FALSE(stream.get().syn_sequence());
}

TEST(Reassembly, FinHasItsPlace) {
  Stream stream(0xFFFFFFFE);
  stream.syn();
  stream.fin(4);
  EXPECT_EQ(stream.get().fin_offset(), 4U);
  EXPECT_EQ(stream.get().next_offset(), 0U);
  stream.data(0, pattern(4));
  EXPECT_EQ(stream.get().next_offset(), 4U);
}

TEST(Reassembly, RunsTellTheFrameThatBroughtThemAndTheOneThatLetThemOut) {
  Stream stream(5);
  stream.syn();
  stream.data(4, pattern(4));
  stream.data(0, pattern(4));
  ASSERT_EQ(stream.runs.size(), 2U);
  EXPECT_EQ(stream.runs[1].frame.number, 2U);
  EXPECT_EQ(stream.runs[1].ready.number, 3U);
}

}  // namespace
}  // namespace kbtp::trace
