// Every kind of message between two engines, with the byte streams cut at every offset and run together.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/masked_add.h"
#include "rdmap_binding/rnic/engine_rig.h"

namespace kbtp::rnic::test {
namespace {

using rdma::Access;
using rdma::Content;
using rdma::WorkStatus;

/// Cuts what goes one way once, behind its `at`-th octet, and leaves the rest whole.
Cut cut_at(std::size_t at) {
  auto left = std::make_shared<std::size_t>(at);
  return [left] {
    const std::size_t n = *left;
    *left = ~std::size_t{0};
    return n == 0 ? ~std::size_t{0} : n;
  };
}
Cut runs_of(std::size_t n) {
  return [n] { return n; };
}

/// CRCs on: by way of the staging buffer; off: large payload of large FPDUs straight into place; with markers
/// in one direction or both: taken apart first.
struct Way {
  bool crc = true;
  std::size_t emss = kEmss;
  bool markers_to_a = false;
  bool markers_to_b = false;
};

RnicOptions options_of(bool crc, bool markers) {
  RnicOptions options;
  options.crc = crc;
  options.markers = markers;
  return options;
}

constexpr std::size_t kBulk = 6000;

/// One of everything from `a` to `b`, and what must have come of it.
class Everything {
 public:
  explicit Everything(Way way)
      : pair({}, {}, options_of(way.crc, way.markers_to_a), options_of(way.crc, way.markers_to_b)),
        sink(kBulk),
        source(pattern(kBulk, 3)),
        read_into(kBulk),
        words(8, 5),
        write_from(pattern(kBulk, 9)) {
    pair.emss = way.emss;
    pair.run();
    auto& b = *pair.b->recorder.stream;
    b.post_receives(30);
    sink_stag = b.register_region({sink, Access::remote_write, Content::octets, 100, false})->stag;
    source_stag = b.register_region({source, Access::remote_read, Content::octets, 0, false})->stag;
    words_stag = b.register_region({std::as_writable_bytes(std::span(words)),
                                    Access::remote_atomic | Access::remote_read, Content::words, 0, false})
                     ->stag;
    gone_stag = b.register_region({sink, Access::remote_read, Content::octets, 0, true})->stag;
  }

  void go(const Cut& cut, const Cut& cut_back) {
    auto& a = *pair.a->recorder.stream;
    a.post({rdma::Write{1, write_from, {sink_stag, 100}, nullptr},
            rdma::Send{2, pattern(40), false, std::nullopt}, rdma::Send{3, {}, true, std::nullopt},
            rdma::Read{4, read_into, {source_stag, 0}}, rdma::FetchAdd{5, {words_stag, 8}, 7, 0},
            rdma::CompareSwap{6, {words_stag, 16}, 5, ~std::uint64_t{0}, 99, ~std::uint64_t{0}},
            rdma::Send{7, pattern(8), true, gone_stag},
            rdma::WriteImmediate{{8, Octets(write_from).first(10), {sink_stag, kBulk + 90}, nullptr},
                                 0x1122334455667788},
            rdma::Read{9, MutableOctets(read_back), {words_stag, 3}},
            rdma::Read{10, {}, {0xDEAD, ~std::uint64_t{0}}}, rdma::Write{11, {}, {0xDEAD, 5}, nullptr}});
    pair.run(cut, cut_back);
  }

  void check() const {
    const Recorder& a = pair.a->recorder;
    const Recorder& b = pair.b->recorder;
    ASSERT_FALSE(a.closed.has_value()) << a.closed->text;
    ASSERT_FALSE(b.closed.has_value()) << b.closed->text;
    ASSERT_EQ(a.completions.size(), 11U);
    for (std::size_t i = 0; i < 11; ++i) {
      EXPECT_EQ(a.completions[i].id, i + 1);
      EXPECT_EQ(a.completions[i].status, WorkStatus::success);
    }
    EXPECT_EQ(a.completions[4].original, 5U);
    EXPECT_EQ(a.completions[5].original, 5U);
    EXPECT_THAT(words, testing::ElementsAre(5, 12, 99, 5, 5, 5, 5, 5));
    std::vector<std::byte> expected = write_from;
    std::copy_n(write_from.begin(), 10, expected.end() - 10);
    EXPECT_EQ(sink, expected);
    EXPECT_EQ(read_into, source);
    std::array<std::byte, 13> word_octets{};
    std::memcpy(word_octets.data(), reinterpret_cast<const std::byte*>(words.data()) + 3, 13);
    EXPECT_EQ(read_back, word_octets);
    ASSERT_EQ(b.received.size(), 4U);
    EXPECT_EQ(b.received[0].payload, pattern(40));
    EXPECT_FALSE(b.received[0].solicited);
    EXPECT_TRUE(b.received[1].payload.empty());
    EXPECT_TRUE(b.received[1].solicited);
    EXPECT_EQ(b.received[2].invalidated, gone_stag);
    EXPECT_TRUE(b.received[2].solicited);
    EXPECT_EQ(b.received[3].immediate, 0x1122334455667788U);
    EXPECT_FALSE(pair.host_b.stags.exists(gone_stag));
  }

  Pair pair;
  std::vector<std::byte> sink, source, read_into;
  std::vector<std::uint64_t> words;
  std::vector<std::byte> write_from;
  std::array<std::byte, 13> read_back{};
  rdma::STag sink_stag = 0, source_stag = 0, words_stag = 0, gone_stag = 0;
};

class Messages : public testing::TestWithParam<Way> {};

// Rules: RFC5044-4.4-05, RFC5044-4.3-09
TEST_P(Messages, Rfc5044_5_1_03_WholeStream) {
  Everything all(GetParam());
  all.go(whole(), whole());
  all.check();
}

// Rules: RFC5044-4.3-09, RFC5044-5.1-03, RFC5044-A-01
TEST_P(Messages, Rfc5044_5_1_03_RunsOfEverySmallSize) {
  for (std::size_t n = 1; n <= 80; ++n) {
    SCOPED_TRACE(n);
    Everything all(GetParam());
    all.go(runs_of(n), runs_of(n));
    all.check();
  }
}

/// Every offset of the headers and small messages at both ends of a stream; the bulk between is sampled.
std::vector<std::size_t> offsets(std::size_t total) {
  constexpr std::size_t kFirst = 64;
  constexpr std::size_t kLast = 700;
  constexpr std::size_t kStep = 37;
  std::vector<std::size_t> all;
  for (std::size_t at = 1; at < total; at += at < kFirst || at + kLast > total ? 1 : kStep) all.push_back(at);
  return all;
}

// Rules: RFC5044-4.3-09, RFC5044-5.1-03, RFC5044-5.2-01, RFC5044-A-01
TEST_P(Messages, Rfc5044_5_2_01_CutAtEveryOffset) {
  Everything first(GetParam());
  const std::size_t before_a = first.pair.a_octets;
  const std::size_t before_b = first.pair.b_octets;
  first.go(whole(), whole());
  for (const std::size_t at : offsets(first.pair.a_octets - before_a)) {
    SCOPED_TRACE(at);
    Everything all(GetParam());
    all.go(cut_at(at), whole());
    all.check();
    if (HasFailure()) return;
  }
  for (const std::size_t at : offsets(first.pair.b_octets - before_b)) {
    SCOPED_TRACE(at);
    Everything all(GetParam());
    all.go(whole(), cut_at(at));
    all.check();
    if (HasFailure()) return;
  }
}

INSTANTIATE_TEST_SUITE_P(Ways, Messages,
                         testing::Values(Way{true, 1460}, Way{false, 1460}, Way{false, 65'483},
                                         Way{true, 1460, true, true}, Way{true, 65'483, false, true},
                                         Way{false, 1460, true, false}),
                         [](const auto& param) {
                           const Way& way = param.param;
                           return std::string(way.crc ? "Crc" : "NoCrc") + std::to_string(way.emss) +
                                  (way.markers_to_a ? "MarkersToA" : "") +
                                  (way.markers_to_b ? "MarkersToB" : "");
                         });

TEST(EngineMessages, Rfc5041_5_2_08_SendsOfEverySizeArriveWhole) {
  rdma::StreamOptions big;
  big.receive_size = 10'000;
  big.initial_receives = 200;
  Pair pair({}, big);
  pair.run();
  std::vector<std::size_t> sizes;
  for (std::size_t size = 0; size < 10'000; size += size < 4 ? 1 : 397) sizes.push_back(size);
  for (const std::size_t around : {1436U, 1437U, 1438U, 2873U, 2874U, 2875U, 10'000U})
    sizes.push_back(around);
  for (const std::size_t size : sizes) {
    pair.a->recorder.stream->post({rdma::Send{size, pattern(size, 1), false, std::nullopt}});
  }
  pair.run(runs_of(1000));
  ASSERT_EQ(pair.b->recorder.received.size(), sizes.size());
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    EXPECT_EQ(pair.b->recorder.received[i].payload, pattern(sizes[i], 1));
  }
}

// Rules: RFC5040-6.1-03
TEST(EngineMessages, Rfc5040_6_1_03_ReadsPastTheOrdWait) {
  rdma::StreamOptions narrow;
  narrow.ord = 2;
  Pair pair(narrow, {});
  pair.run();
  EXPECT_EQ(pair.a->recorder.stream->capabilities().ord, 2U);
  std::vector<std::byte> source = pattern(64);
  const auto stag =
      pair.b->recorder.stream->register_region({source, Access::remote_read, Content::stable, 0, false})
          ->stag;
  std::vector<std::byte> into(64);
  std::vector<rdma::WorkRequest> reads;
  for (std::uint64_t i = 0; i < 8; ++i) {
    reads.emplace_back(rdma::Read{i, MutableOctets(into).subspan(8 * i, 8), {stag, 8 * i}});
  }
  pair.a->recorder.stream->post(std::move(reads));
  // Before the peer answers, only two requests may have gone out.
  EXPECT_EQ(ulpdus(pair.a->drain()).size(), 2U);
}

// Rules: RFC5040-6.1-03
TEST(EngineMessages, Rfc5040_6_1_03_ReadsPastTheOrdGoWhenAnswersCome) {
  rdma::StreamOptions narrow;
  narrow.ord = 2;
  Pair pair(narrow, {});
  pair.run();
  std::vector<std::byte> source = pattern(64);
  const auto stag =
      pair.b->recorder.stream->register_region({source, Access::remote_read, Content::stable, 0, false})
          ->stag;
  std::vector<std::byte> into(64);
  for (std::uint64_t i = 0; i < 8; ++i) {
    pair.a->recorder.stream->post({rdma::Read{i, MutableOctets(into).subspan(8 * i, 8), {stag, 8 * i}}});
  }
  pair.run();
  EXPECT_EQ(into, source);
  EXPECT_EQ(pair.a->recorder.completions.size(), 8U);
}

TEST(EngineMessages, ReadWithoutDepthIsRefusedLocally) {
  rdma::StreamOptions none;
  none.ord = 0;
  Pair pair(none, {});
  pair.run();
  std::vector<std::byte> into(8);
  pair.a->recorder.stream->post(
      {rdma::Read{1, into, {1, 0}}, rdma::FetchAdd{2, {1, 0}, 1, 0}, rdma::Send{3, pattern(4), false, {}}});
  pair.run();
  ASSERT_EQ(pair.a->recorder.completions.size(), 3U);
  EXPECT_EQ(pair.a->recorder.completions[0].status, WorkStatus::bad_request);
  EXPECT_EQ(pair.a->recorder.completions[1].status, WorkStatus::bad_request);
  EXPECT_EQ(pair.a->recorder.completions[2].status, WorkStatus::success);
  EXPECT_EQ(pair.b->recorder.received.size(), 1U);
}

// Rules: RFC5040-5.5-15
TEST(EngineMessages, Rfc5040_5_5_15_CompletionsInTheOrderPosted) {
  Pair pair;
  pair.run();
  std::vector<std::byte> source = pattern(5000);
  const auto stag =
      pair.b->recorder.stream->register_region({source, Access::remote_read, Content::octets, 0, false})
          ->stag;
  std::vector<std::byte> into(5000);
  pair.a->recorder.stream->post({rdma::Read{1, into, {stag, 0}}, rdma::Send{2, pattern(4), false, {}}});
  // The Send is wholly sent, the Read not answered: neither may complete.
  const auto octets = pair.a->drain();
  EXPECT_TRUE(pair.a->recorder.completions.empty());
  pair.b->feed(octets);
  pair.run();
  ASSERT_EQ(pair.a->recorder.completions.size(), 2U);
  EXPECT_EQ(pair.a->recorder.completions[0].id, 1U);
}

TEST(EngineMessages, Rfc7306_5_01_MaskedFetchAddOnTheWireIsTheLocalOne) {
  Pair pair;
  pair.run();
  std::vector<std::uint64_t> words(1, 0xFFFF'FFFF'0000'00F0);
  const auto stag = pair.b->recorder.stream
                        ->register_region({std::as_writable_bytes(std::span(words)), Access::remote_atomic,
                                           Content::words, 0x1000, false})
                        ->stag;
  constexpr std::uint64_t kAdd = 0x0000'0001'0000'0010;
  constexpr std::uint64_t kMask = 0x8000'0000'8000'0080;
  const std::uint64_t expected = masked_add(words[0], kAdd, kMask);
  pair.a->recorder.stream->post({rdma::FetchAdd{1, {stag, 0x1000}, kAdd, kMask}});
  pair.run();
  EXPECT_EQ(words[0], expected);
  EXPECT_EQ(expected, 0U);  // both fields wrap, and no carry leaves them
  EXPECT_EQ(pair.a->recorder.completions.at(0).original, 0xFFFF'FFFF'0000'00F0U);
}

TEST(EngineMessages, LocalInvalidateRunsInOrder) {
  Pair pair;
  pair.run();
  std::vector<std::byte> memory(16);
  const auto stag =
      pair.a->recorder.stream->register_region({memory, Access::remote_write, Content::octets, 0, false})
          ->stag;
  pair.a->recorder.stream->post({rdma::Send{1, pattern(4), false, {}}, rdma::LocalInvalidate{2, stag}});
  EXPECT_TRUE(pair.host_a.stags.exists(stag));
  pair.run();
  EXPECT_FALSE(pair.host_a.stags.exists(stag));
  ASSERT_EQ(pair.a->recorder.completions.size(), 2U);
  EXPECT_EQ(pair.a->recorder.completions[1].status, WorkStatus::success);
}

TEST(EngineMessages, RevokedSourceIsSentFromAPrivateCopy) {
  Pair pair;
  pair.run();
  std::vector<std::byte> source = pattern(1200);
  const auto stag =
      pair.b->recorder.stream->register_region({source, Access::remote_read, Content::stable, 0, false})
          ->stag;
  std::vector<std::byte> into(1200);
  pair.a->recorder.stream->post({rdma::Read{1, into, {stag, 0}}});
  pair.b->feed(pair.a->drain());
  const auto first = pair.b->drain(100);  // the Response is on its way
  pair.b->recorder.stream->revoke(stag);
  std::fill(source.begin(), source.end(), std::byte{0xEE});  // the owner uses its memory again
  pair.a->feed(first);
  pair.run();
  EXPECT_EQ(into, pattern(1200));
}

TEST(EngineMessages, ObserverSeesWhatTheWireCarries) {
  std::vector<FpduEvent> events;
  RnicOptions rnic;
  rnic.fpdu_observer = [&events](const FpduEvent& event) { events.push_back(event); };
  Pair pair({}, {}, rnic, {});
  pair.run();
  pair.a->recorder.stream->post({rdma::Send{1, pattern(24), false, std::nullopt}});
  pair.b->recorder.stream->post({rdma::Send{1, pattern(32), true, std::nullopt}});
  pair.run();
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].direction, Direction::sent);
  EXPECT_EQ(events[0].stream_octet, 24U);  // behind the enhanced MPA Request
  EXPECT_EQ(events[0].ddp_control, 0x41);
  EXPECT_EQ(events[0].rdmap_control, 0x43);
  EXPECT_EQ(events[0].msn, 1U);
  EXPECT_EQ(events[0].payload_length, 24U);
  EXPECT_EQ(events[1].direction, Direction::received);
  EXPECT_EQ(events[1].stream_octet, 24U);
  EXPECT_EQ(events[1].rdmap_control, 0x45);
  EXPECT_EQ(events[1].payload_length, 32U);
  EXPECT_EQ(events[1].crc, CrcVerdict::good);
}

}  // namespace
}  // namespace kbtp::rnic::test
