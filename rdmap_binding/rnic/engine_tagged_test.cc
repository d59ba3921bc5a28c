// Tagged messages as DDP wants them (RFC 5041 4.2, 7.1, 8.2): what is placed and where, at every boundary of
// a region and of 64 bits, on streams that share STags and streams that do not; and the sinks of our own
// Reads.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <set>

#include "rdmap_binding/rnic/engine_target_rig.h"

namespace kbtp::rnic::test {
namespace {

using rdma::Access;
using rdma::Content;

constexpr std::uint64_t kTop = ~std::uint64_t{0};

// Rules: RFC5041-7.1-08, RFC5041-7.1-09, RFC5041-7.1-10, RFC5041-7.1-11, RFC5041-8.3.1-03, RFC5041-4.2-05
TEST(EngineTagged, EveryRangeAroundARegionIsPlacedWhollyOrNotAtAll) {
  constexpr std::size_t kSize = 12;
  constexpr std::size_t kGuard = 16;
  for (const std::uint64_t base : {std::uint64_t{0}, std::uint64_t{0x1003}, std::uint64_t{1} << 32,
                                   std::uint64_t{1} << 63, kTop - kSize}) {
    for (std::int64_t start = -3; start <= static_cast<std::int64_t>(kSize) + 3; ++start) {
      for (std::size_t length = 1; length <= kSize + 4; ++length) {
        const std::uint64_t to = base + static_cast<std::uint64_t>(start);
        SCOPED_TRACE(testing::Message() << base << " " << start << " " << length);
        MemoryTarget t;
        std::vector<std::byte> memory(kGuard + kSize + kGuard, std::byte{0x11});
        const auto stag = t.stream()
                              .register_region({MutableOctets(memory).subspan(kGuard, kSize),
                                                Access::remote_write, Content::octets, base, false})
                              ->stag;
        const auto told = t.told(Tagged{.stag = stag, .to = to, .body = pattern(length, 7)}.fpdu());
        std::vector<std::byte> expected(memory.size(), std::byte{0x11});
        const bool wraps = length - 1 > kTop - to;
        const bool inside =
            !wraps && to >= base && start >= 0 && static_cast<std::size_t>(start) + length <= kSize;
        if (inside) {
          std::ranges::copy(pattern(length, 7), expected.begin() + kGuard + start);
        } else {
          ASSERT_TRUE(told);
          EXPECT_EQ(to_string(told->code),
                    to_string(wraps ? terminate::kDdpTaggedToWrap : terminate::kDdpTaggedBaseOrBounds));
        }
        EXPECT_EQ(told.has_value(), !inside);
        ASSERT_EQ(memory, expected);
      }
    }
  }
}

// Rules: RFC5041-7.1-11, RFC5041-5.2-04
TEST(EngineTagged, LargeSegmentsArePlacedWhollyOrNotAtAllOnEitherWay) {
  constexpr std::size_t kSize = 40'000;
  for (const bool crc : {true, false}) {
    for (const std::size_t cut : {std::size_t{100}, std::size_t{9000}, std::size_t{100'000}}) {
      for (const std::size_t length : {kSize - 1, kSize, kSize + 1}) {
        SCOPED_TRACE(testing::Message() << crc << " " << cut << " " << length);
        RnicOptions rnic;
        rnic.crc = crc;
        MemoryTarget t(MemoryTarget::options(), rnic);
        std::vector<std::byte> memory(kSize + 100, std::byte{0x11});
        const auto stag = t.stream()
                              .register_region({MutableOctets(memory).first(kSize), Access::remote_write,
                                                Content::octets, 0, false})
                              ->stag;
        t.target.end->feed(Tagged{.stag = stag, .body = pattern(length, 2)}.fpdu(), cut);
        const auto told = terminate_in(t.target.drained());
        std::vector<std::byte> expected(memory.size(), std::byte{0x11});
        if (length <= kSize) std::ranges::copy(pattern(length, 2), expected.begin());
        EXPECT_EQ(told.has_value(), length > kSize);
        EXPECT_EQ(memory, expected);
      }
    }
  }
}

// Rules: RFC5041-5.2-09, RFC5041-7.1-16, RFC5041-5.2-08
TEST(EngineTagged, AWriteOfNothingNamesNoMemory) {
  MemoryTarget t;
  for (const rdma::STag stag : {0U, 0xDEADU, t.readable, t.counters, t.other_stream, t.other_domain}) {
    for (const std::uint64_t to : {std::uint64_t{0}, kBase - 1, kTop}) {
      EXPECT_TRUE(t.answer(Tagged{.stag = stag, .to = to}.fpdu()).empty());
    }
  }
  EXPECT_FALSE(t.stopped());
  EXPECT_EQ(t.memory, pattern(8192));
}

// --- Streams and domains ---------------------------------------------------------------------------------

/// Streams of one RNIC: two of domain 7, one of domain 8.
class EngineStreams : public testing::Test {
 protected:
  static rdma::StreamOptions of(std::uint32_t domain) {
    auto options = MemoryTarget::options();
    options.domain = rdma::DomainId{domain};
    return options;
  }
  void open(End& end) {
    end.engine.start(kEmss);
    mpa::StartupFrame frame;
    frame.revision = 1;
    frame.crc = true;
    end.feed(mpa::encode_startup(frame));
    std::ignore = end.drain();
    ASSERT_NE(end.recorder.stream, nullptr);
  }
  void SetUp() override {
    one.accept_options = of(7);
    two.accept_options = of(7);
    far.accept_options = of(8);
    open(one);
    open(two);
    open(far);
  }
  /// The code that refuses a Write of two octets, or none.
  std::optional<TerminateCode> write(End& end, rdma::STag stag) {
    end.feed(Tagged{.stag = stag, .body = pattern(2, 40)}.fpdu());
    const auto told = terminate_in(ulpdus(end.drain()));
    return told ? std::optional(told->code) : std::nullopt;
  }

  Host host;
  End one{host}, two{host}, far{host};
  std::vector<std::byte> memory = std::vector<std::byte>(64);
};

// Rules: RFC5041-8.2-04, RFC5041-8.2-03, RFC5041-8.3.1-01, RFC5041-8.2-01, RFC5041-8.3-01
TEST_F(EngineStreams, AnStagOfADomainServesEveryStreamOfItAndNoOther) {
  const auto stag =
      host.stags.add(rdma::DomainId{7}, {memory, Access::remote_write, Content::octets, 0, false})->stag;
  EXPECT_EQ(write(one, stag), std::nullopt);
  EXPECT_EQ(memory[1], pattern(2, 40)[1]);
  memory.assign(64, std::byte{0});
  EXPECT_EQ(write(two, stag), std::nullopt);
  EXPECT_EQ(memory[1], pattern(2, 40)[1]);
  memory.assign(64, std::byte{0});
  EXPECT_EQ(write(far, stag), terminate::kDdpTaggedStagNotAssociated);
  EXPECT_THAT(memory, testing::Each(std::byte{0}));
  // The end of one stream leaves the others theirs.
  one.engine.abort("over");
  one.settle();
  EXPECT_EQ(write(two, stag), std::nullopt);
}

// Rules: RFC5041-8.2-02, RFC5041-8.3.1-02, RFC5041-4.2-04
TEST_F(EngineStreams, AnStagOfAStreamServesThatStreamAlone) {
  const auto stag =
      one.recorder.stream->register_region({memory, Access::remote_write, Content::octets, 0, false})->stag;
  EXPECT_EQ(write(two, stag), terminate::kDdpTaggedStagNotAssociated);
  EXPECT_THAT(memory, testing::Each(std::byte{0}));
  EXPECT_EQ(write(far, stag), terminate::kDdpTaggedStagNotAssociated);
  EXPECT_EQ(write(one, stag), std::nullopt);
  EXPECT_EQ(memory[1], pattern(2, 40)[1]);
}

// Rules: RFC5041-8.3.1-04, RFC5041-8.3.1-06, RFC5041-8.3-01
TEST_F(EngineStreams, RevocationOfADomainsStagHoldsForAllItsStreams) {
  const auto stag =
      host.stags.add(rdma::DomainId{7}, {memory, Access::remote_write, Content::octets, 0, false})->stag;
  EXPECT_EQ(write(one, stag), std::nullopt);
  EXPECT_TRUE(host.stags.remove_of_domain(stag));
  memory.assign(64, std::byte{0});
  EXPECT_EQ(write(one, stag), terminate::kDdpTaggedInvalidStag);
  EXPECT_EQ(write(two, stag), terminate::kDdpTaggedInvalidStag);
  EXPECT_THAT(memory, testing::Each(std::byte{0}));
}

// Rules: RFC5041-8.3.1-05, RFC5041-7.1-07
TEST(EngineTagged, RightsAreThoseOfTheRegistration) {
  struct Case {
    Access access;
    bool writes, reads;
  };
  for (const Case& c : {Case{Access::none, false, false}, Case{Access::remote_read, false, true},
                        Case{Access::remote_write, true, false},
                        Case{Access::remote_read | Access::remote_write, true, true}}) {
    for (const bool write : {true, false}) {
      MemoryTarget t;
      const auto stag = t.add(c.access);
      const auto answers = t.answer(write ? Tagged{.stag = stag, .to = kBase, .body = pattern(8, 1)}.fpdu()
                                          : read_request(1, reading(stag, kBase, 8)).fpdu());
      const bool allowed = write ? c.writes : c.reads;
      EXPECT_EQ(terminate_in(answers).has_value(), !allowed);
      EXPECT_EQ(to_vector(Octets(t.memory).first(8)), pattern(8, write && allowed ? 1 : 0));
    }
  }
}

// Rules: RFC5041-8.3.1-06, RFC5041-8.3.1-04
TEST(EngineTagged, RevokedInTheMiddleOfASegmentNothingMoreIsPlaced) {
  for (const bool crc : {true, false}) {
    for (const std::size_t before : {std::size_t{10}, std::size_t{5000}, std::size_t{29'990}}) {
      SCOPED_TRACE(testing::Message() << crc << " " << before);
      RnicOptions rnic;
      rnic.crc = crc;
      MemoryTarget t(MemoryTarget::options(), rnic);
      t.answer(Untagged{}.fpdu());
      std::vector<std::byte> memory(30'000);
      const auto stag =
          t.stream().register_region({memory, Access::remote_write, Content::octets, 0, false})->stag;
      const auto fpdu = Tagged{.stag = stag, .body = pattern(30'000, 1)}.fpdu();
      t.target.end->feed(Octets(fpdu).first(before));
      t.stream().revoke(stag);
      std::ranges::fill(memory, std::byte{0xEE});  // the owner's again
      t.target.end->feed(Octets(fpdu).subspan(before));
      const auto told = terminate_in(t.target.drained());
      ASSERT_TRUE(told);
      EXPECT_EQ(to_string(told->code), to_string(terminate::kDdpTaggedInvalidStag));
      EXPECT_THAT(memory, testing::Each(std::byte{0xEE}));
    }
  }
}

// --- Sinks of our own Reads (G-52) -----------------------------------------------------------------------

/// A target that reads `kSink` octets from its peer, between guards.
struct Reader {
  static constexpr std::size_t kSink = 20'000;
  explicit Reader(bool crc) : t(MemoryTarget::options(), with(crc)), memory(kSink + 200, std::byte{0x11}) {
    t.answer(Untagged{}.fpdu());  // a Responder is silent until it has heard something
    t.stream().post({rdma::Read{1, MutableOctets(memory).subspan(100, kSink), {0x99, 0x500}}});
    const auto out = t.target.drained();
    request = rdmap::decode_read_request(Octets(out.at(0)).subspan(18).first<28>());
  }
  static RnicOptions with(bool crc) {
    RnicOptions rnic;
    rnic.crc = crc;
    return rnic;
  }
  std::vector<std::byte> response(std::uint64_t at, std::size_t size, bool last) const {
    return Tagged{.ddp_control = static_cast<std::uint8_t>(last ? 0xC1 : 0x81),
                  .rdmap_control = 0x42,
                  .stag = request.sink_stag,
                  .to = request.sink_to + at,
                  .body = pattern(size, static_cast<unsigned>(at))}
        .fpdu();
  }
  void expect_guards() const {
    EXPECT_THAT(std::vector(memory.begin(), memory.begin() + 100), testing::Each(std::byte{0x11}));
    EXPECT_THAT(std::vector(memory.end() - 100, memory.end()), testing::Each(std::byte{0x11}));
  }
  MemoryTarget t;
  std::vector<std::byte> memory;
  rdmap::ReadRequest request;
};

/// A peer that never says "last" fills the sink and not an octet more, in segments of any size.
TEST(EngineTagged, G52_AResponseWithoutEndStopsAtTheSinksEnd) {
  for (const bool crc : {true, false}) {
    for (const std::size_t step : {std::size_t{999}, std::size_t{4999}, std::size_t{5000}, Reader::kSink,
                                   Reader::kSink + 1, std::size_t{60'000}}) {
      SCOPED_TRACE(testing::Message() << crc << " " << step);
      Reader r(crc);
      std::uint64_t at = 0;
      std::vector<std::vector<std::byte>> answers;
      for (int i = 0; i < 100 && answers.empty(); ++i) {
        r.t.target.end->feed(r.response(at, step, false), 3000);
        answers = r.t.target.drained();
        at += step;
      }
      const auto told = terminate_in(answers);
      ASSERT_TRUE(told);
      EXPECT_EQ(to_string(told->code), to_string(terminate::kDdpTaggedBaseOrBounds));
      r.expect_guards();
      const std::size_t whole = Reader::kSink / step * step;
      EXPECT_THAT(std::vector(r.memory.begin() + 100 + static_cast<std::ptrdiff_t>(whole), r.memory.end()),
                  testing::Each(std::byte{0x11}))
          << "nothing of the segment that leaves the sink";
      ASSERT_EQ(r.t.recorder().completions.size(), 1U);
      EXPECT_EQ(r.t.recorder().completions[0].status, rdma::WorkStatus::flushed);
    }
  }
}

/// Segments that go back, skip, or end early are errors before an octet of them is placed.
TEST(EngineTagged, G52_ResponseSegmentsComeInOrder) {
  struct Case {
    std::uint64_t first, second;
    std::size_t size;
    bool last;
  };
  for (const Case& c : {Case{1, 0, 100, false}, Case{0, 0, 100, false}, Case{0, 99, 100, false},
                        Case{0, 101, 100, false}, Case{0, 100, 100, true}, Case{0, kTop - 50, 100, false},
                        Case{0, (std::uint64_t{1} << 32) + 100, 100, false}}) {
    SCOPED_TRACE(testing::Message() << c.first << " " << c.second);
    Reader r(true);
    const auto told =
        r.t.told(joined({r.response(c.first, 100, false), r.response(c.second, c.size, c.last)}));
    ASSERT_TRUE(told);
    EXPECT_EQ(told->code.layer == terminate::kLayerDdp, !c.last);
    r.expect_guards();
    EXPECT_EQ(r.t.recorder().completions.at(0).status, rdma::WorkStatus::flushed);
  }
}

/// Each Read has an STag of its own, good for its Response alone.
TEST(EngineTagged, G52_SinkStagsAreUsedOnce) {
  auto options = MemoryTarget::options();
  options.ord = 16;
  MemoryTarget t(options);
  t.answer(Untagged{}.fpdu());
  std::vector<std::byte> sink(16 * 8);
  std::vector<rdma::WorkRequest> reads;
  for (std::uint64_t i = 0; i < 16; ++i) {
    reads.emplace_back(rdma::Read{i, MutableOctets(sink).subspan(8 * i, 8), {0x99, 0}});
  }
  t.stream().post(std::move(reads));
  std::vector<rdma::STag> stags;
  for (const auto& out : t.target.drained()) {
    stags.push_back(rdmap::decode_read_request(Octets(out).subspan(18).first<28>()).sink_stag);
  }
  ASSERT_EQ(stags.size(), 16U);
  EXPECT_EQ(std::set(stags.begin(), stags.end()).size(), 16U);
  for (const rdma::STag stag : stags) EXPECT_FALSE(t.target.host.stags.exists(stag));
  // The second Read's Response before the first one's.
  const auto told = t.told(Tagged{.rdmap_control = 0x42, .stag = stags[1], .body = pattern(8, 1)}.fpdu());
  ASSERT_TRUE(told);
  EXPECT_THAT(sink, testing::Each(std::byte{0}));
}

/// Offsets of a Response are the requester's, taken as they are modulo 2^64 (RFC 5040 4.4).
TEST(EngineTagged, ResponsesFollowASinkOffsetThroughItsWrap) {
  MemoryTarget t;
  const auto answers = t.answer(read_request(1, {0xABCD, kTop - 99, 4000, t.readable, kBase}).fpdu());
  ASSERT_GT(answers.size(), 1U);
  std::uint64_t to = kTop - 99;
  std::vector<std::byte> all;
  for (const auto& out : answers) {
    EXPECT_EQ(load_be<std::uint64_t>(out.data() + 6), to);
    to += out.size() - 14;
    all.insert(all.end(), out.begin() + 14, out.end());
  }
  EXPECT_EQ(all, to_vector(Octets(t.memory).first(4000)));
}

// --- What our own side may ask for -----------------------------------------------------------------------

// Rules: RFC5041-5.2-02, RFC5041-5.2-07
TEST(EngineTagged, OurMessagesStayBelow4GiBAndInside64Bits) {
  Pair pair;
  pair.run();
  std::byte octet{};
  constexpr std::size_t kTooLong = std::size_t{1} << 32;
  const MutableOctets huge(&octet, kTooLong);  // never touched: refused before
  std::vector<std::byte> eight(8);
  pair.a->recorder.stream->post({
      rdma::Write{1, huge, {1, 0}, nullptr},
      rdma::Read{2, huge, {1, 0}},
      rdma::WriteImmediate{{3, huge, {1, 0}, nullptr}, 0},
      rdma::Write{4, eight, {1, kTop - 6}, nullptr},
      rdma::Read{5, eight, {1, kTop - 6}},
      rdma::WriteImmediate{{6, eight, {1, kTop - 6}, nullptr}, 0},
      rdma::FetchAdd{7, {1, kTop - 6}, 1, 0},
      rdma::CompareSwap{8, {1, kTop - 6}, 1, 0, 0, 0},
  });
  EXPECT_TRUE(pair.a->drain().empty());
  ASSERT_EQ(pair.a->recorder.completions.size(), 8U);
  for (const auto& completion : pair.a->recorder.completions) {
    EXPECT_EQ(completion.status, rdma::WorkStatus::bad_request) << completion.id;
  }
  pair.a->recorder.stream->post({rdma::Write{9, eight, {1, kTop - 7}, nullptr}});
  const auto out = ulpdus(pair.a->drain());
  ASSERT_EQ(out.size(), 1U);
  EXPECT_EQ(load_be<std::uint32_t>(out[0].data() + 2), 1U);
  EXPECT_EQ(load_be<std::uint64_t>(out[0].data() + 6), kTop - 7);
}

}  // namespace
}  // namespace kbtp::rnic::test
