#include "rdmap_binding/mpa/marker.h"

#include <gtest/gtest.h>

#include "base/hex.h"
#include "rdmap_binding/mpa/golden.h"
#include "rdmap_binding/mpa/startup.h"

namespace kbtp::mpa {
namespace {

std::vector<std::byte> octets_of(std::string_view hex) { return from_hex(hex).value(); }

std::vector<std::byte> with_zeros(std::string_view head, std::size_t zeros, std::string_view tail) {
  std::vector<std::byte> octets = octets_of(head);
  octets.resize(octets.size() + zeros);
  const auto rest = octets_of(tail);
  octets.insert(octets.end(), rest.begin(), rest.end());
  return octets;
}

std::vector<std::byte> pattern(std::size_t size, unsigned seed) {
  std::vector<std::byte> octets(size);
  for (std::size_t i = 0; i < size; ++i) octets[i] = static_cast<std::byte>(i * 5 + i / 256 + seed);
  return octets;
}

/// A clock that reaches its next marker in `until` octets.
MarkerClock clock_before(std::size_t until, std::uint32_t first = 0) {
  MarkerClock clock(first);
  clock.advance(kMarkerInterval - until);
  return clock;
}

/// RFC 5044 4.3, read octet by octet: in front of each octet whose distance from SeqStart is a multiple of
/// 512 stands a marker that tells how far back ULPDU_Length began.
std::vector<std::byte> octet_by_octet(Octets ulpdu, std::uint32_t& seq, std::uint32_t start) {
  std::vector<std::byte> stream;
  std::optional<std::uint32_t> fpdu;
  const auto marker = [&] {
    if (static_cast<std::uint32_t>(seq - start) % 512 != 0) return;
    const std::uint32_t pointer = fpdu ? seq - *fpdu : 0;
    for (const std::uint32_t octet : {0U, 0U, pointer >> 8, pointer & 0xFF}) {
      stream.push_back(static_cast<std::byte>(octet));
      ++seq;
    }
  };
  std::vector<std::byte> clean = to_vector(encode_length(static_cast<std::uint16_t>(ulpdu.size())));
  clean.insert(clean.end(), ulpdu.begin(), ulpdu.end());
  while (clean.size() % 4 != 0) clean.push_back(std::byte{0});
  for (const std::byte octet : clean) {
    marker();
    if (!fpdu) fpdu = seq;
    stream.push_back(octet);
    ++seq;
  }
  marker();
  std::array<std::byte, kCrcSize> crc{};
  store_crc32c(crc.data(), crc32c(stream));
  stream.insert(stream.end(), crc.begin(), crc.end());
  seq += 4;
  return stream;
}

MarkedFpdu measured(Octets octets, const MarkerClock& clock) {
  const auto result = measure_marked(octets, clock);
  const auto* fpdu = std::get_if<MarkedFpdu>(&result);
  return fpdu == nullptr ? MarkedFpdu{} : *fpdu;
}

/// The ULPDU of one marked FPDU that must be good.
std::vector<std::byte> ulpdu_of(Octets stream, const MarkerClock& clock) {
  const MarkedFpdu fpdu = measured(stream, clock);
  EXPECT_EQ(fpdu.size, stream.size());
  if (fpdu.size != stream.size()) return {};
  EXPECT_TRUE(check_marked_crc(stream));
  EXPECT_EQ(check_markers(stream, clock), std::nullopt);
  std::vector<std::byte> clean(fpdu_size(fpdu.ulpdu_length));
  EXPECT_EQ(remove_markers(clean, stream, clock).size(), clean.size());
  return to_vector(Octets(clean).subspan(kLengthSize, fpdu.ulpdu_length));
}

// Rules: RFC5044-4.2-01, RFC5044-4.3-03, RFC5044-4.3-05, RFC5044-4.3-07, RFC5044-4.3-08, RFC5044-4.4-10
TEST(MpaMarker, GoldenStreamsInBothDirections) {
  for (const auto& golden : golden::kMarkedStreams) {
    SCOPED_TRACE(golden.name);
    const auto stream = with_zeros(golden.head, golden.zeros, golden.tail);
    const auto ulpdu = with_zeros(golden.ulpdu_head, golden.ulpdu_zeros, "");
    MarkerInserter inserter(clock_before(golden.until));
    EXPECT_EQ(to_hex(encode_marked_fpdu(ulpdu, inserter)), to_hex(stream));
    EXPECT_EQ(inserter.clock().position(),
              static_cast<std::uint32_t>(kMarkerInterval - golden.until + stream.size()));
    EXPECT_EQ(to_hex(ulpdu_of(stream, clock_before(golden.until))), to_hex(ulpdu));
  }
}

// Rules: RFC5044-4.4-09, RFC5044-4.4-10
TEST(MpaMarker, AnnotatedDumpsOfTheRfc) {
  for (const auto& golden : golden::kMarkedFpdus) {
    SCOPED_TRACE(golden.name);
    MarkerClock clock;
    clock.advance(golden.stream_offset);
    MarkerInserter inserter(clock);
    EXPECT_EQ(to_hex(encode_marked_fpdu(octets_of(golden.ulpdu_hex), inserter)),
              to_hex(octets_of(golden.hex)));
    EXPECT_EQ(to_hex(ulpdu_of(octets_of(golden.hex), clock)), golden.ulpdu_hex);
  }
}

// Rules: RFC5044-4.3-02, RFC5044-4.3-03, RFC5044-4.3-06, RFC5044-4.3-07, RFC5044-4.3-08
TEST(MpaMarker, AStreamIsWhatTheRfcSaysOctetByOctet) {
  std::uint32_t seq = 11;  // the RFC's own example of a start
  MarkerInserter inserter(MarkerClock(11));
  for (std::size_t n = 1; n < 1200; n += 1 + n % 7) {
    const auto ulpdu = pattern(n, static_cast<unsigned>(n));
    const MarkerClock before = inserter.clock();
    const auto stream = encode_marked_fpdu(ulpdu, inserter);
    ASSERT_EQ(to_hex(stream), to_hex(octet_by_octet(ulpdu, seq, 11))) << n;
    ASSERT_EQ(inserter.clock().position(), seq);
    ASSERT_EQ(to_hex(ulpdu_of(stream, before)), to_hex(ulpdu)) << n;
  }
}

// Rules: RFC5044-4.3-04
TEST(MpaMarker, PositionsAndPointersSurviveTheSequenceWrap) {
  const auto ulpdu = pattern(3000, 1);
  MarkerInserter plain;
  const auto expected = encode_marked_fpdu(ulpdu, plain);
  // The wrap falls on every 4-octet place of the FPDU, of its markers and of its pointers' way.
  for (std::uint32_t before_wrap = 0; before_wrap < expected.size() + 8; before_wrap += 4) {
    const MarkerClock clock(std::uint32_t{0} - before_wrap);
    MarkerInserter inserter(clock);
    ASSERT_EQ(encode_marked_fpdu(ulpdu, inserter), expected) << before_wrap;
    ASSERT_EQ(to_hex(ulpdu_of(expected, clock)), to_hex(ulpdu)) << before_wrap;
  }
  for (const std::uint32_t start : {0xFFFFFFFFU, 0xFFFFFE01U, 0xFFFFFDFFU, 0x80000001U}) {
    std::uint32_t seq = start;
    MarkerInserter inserter{MarkerClock(start)};
    for (std::size_t n = 1; n < 600; n += 13) {
      const auto part = pattern(n, start & 0xFF);
      ASSERT_EQ(to_hex(encode_marked_fpdu(part, inserter)), to_hex(octet_by_octet(part, seq, start)));
    }
  }
}

// Rules: RFC5044-4.3-03
TEST(MpaMarker, TheLargestFpduHas128MarkersAndItsPointersFit) {
  const std::vector<std::byte> ulpdu(kMaxMulpdu, std::byte{0x3C});
  for (const std::size_t until : {std::size_t{0}, std::size_t{4}, std::size_t{256}, std::size_t{508}}) {
    MarkerInserter inserter(clock_before(until));
    const auto stream = encode_marked_fpdu(ulpdu, inserter);
    EXPECT_EQ(stream.size(), marked_size(fpdu_size(ulpdu.size()), until));
    EXPECT_LE(stream.size(), fpdu_size(ulpdu.size()) + kMaxMarkers * kMarkerSize);
    EXPECT_EQ(ulpdu_of(stream, clock_before(until)), ulpdu);
  }
  EXPECT_EQ(largest_marked_size(fpdu_size(kMaxMulpdu)), fpdu_size(kMaxMulpdu) + kMaxMarkers * kMarkerSize);
}

// Rules: RFC5044-5.2-01, RFC5044-6-02, RFC5044-6-03
TEST(MpaMarker, EveryPrefixNeedsMoreByLengthAndMarkers) {
  for (const auto& golden : golden::kMarkedStreams) {
    SCOPED_TRACE(golden.name);
    const auto stream = with_zeros(golden.head, golden.zeros, golden.tail);
    const MarkerClock clock = clock_before(golden.until);
    const std::size_t front = (golden.until == 0 ? kMarkerSize : 0) + kLengthSize;
    for (std::size_t n = 0; n < stream.size(); ++n) {
      const auto result = measure_marked(Octets(stream).first(n), clock);
      const auto* more = std::get_if<NeedMore>(&result);
      ASSERT_NE(more, nullptr) << n;
      EXPECT_EQ(more->total, n < front ? front : stream.size()) << n;
    }
  }
}

// Rules: RFC5044-4.4-10, RFC5044-4.4-11
TEST(MpaMarker, EveryFlippedBitIsSeenMarkersIncluded) {
  for (const auto& golden : golden::kMarkedStreams) {
    SCOPED_TRACE(golden.name);
    auto stream = with_zeros(golden.head, golden.zeros, golden.tail);
    const MarkerClock clock = clock_before(golden.until);
    for (std::size_t bit = 0; bit < stream.size() * 8; ++bit) {
      stream[bit / 8] ^= std::byte{0x80} >> (bit % 8);
      const MarkedFpdu fpdu = measured(stream, clock);  // nothing when the length claims more
      EXPECT_FALSE(fpdu.size != 0 && check_marked_crc(Octets(stream).first(fpdu.size))) << bit;
      stream[bit / 8] ^= std::byte{0x80} >> (bit % 8);
    }
  }
}

// Rules: RFC5044-4.2-02, RFC5044-4.2-03
TEST(MpaMarker, ReservedBitsOfAMarkerAreNotLookedAt) {
  EXPECT_EQ(decode_marker(octets_of("ffff0017").data()), 0x14);
  EXPECT_EQ(to_hex(encode_marker(0x17)), "00000014");
  auto stream = with_zeros(golden::kMarkedStreams[4].head, golden::kMarkedStreams[4].zeros,
                           golden::kMarkedStreams[4].tail);
  for (const std::size_t marker : {std::size_t{0}, std::size_t{512}}) {
    stream[marker] = stream[marker + 1] = std::byte{0xFF};
    stream[marker + 3] |= std::byte{3};
  }
  EXPECT_EQ(check_markers(stream, MarkerClock()), std::nullopt);
}

// Rules: RFC5044-8-01, RFC5044-8-03
TEST(MpaMarker, AMarkerThatPointsElsewhereIsAMismatch) {
  for (const auto& golden : golden::kMarkedStreams) {
    SCOPED_TRACE(golden.name);
    auto stream = with_zeros(golden.head, golden.zeros, golden.tail);
    const MarkerClock clock = clock_before(golden.until);
    for (std::size_t marker = golden.until; marker < stream.size(); marker += kMarkerInterval) {
      for (std::size_t bit = 16; bit < 30; ++bit) {
        stream[marker + bit / 8] ^= std::byte{0x80} >> (bit % 8);
        const auto error = check_markers(stream, clock);
        ASSERT_TRUE(error.has_value());
        EXPECT_EQ(error->code, terminate::kMpaMarkerMismatch);
        EXPECT_EQ(error->octet, marker);
        stream[marker + bit / 8] ^= std::byte{0x80} >> (bit % 8);
      }
    }
  }
}

TEST(MpaMarker, LengthsThatNobodyMayPostAreRefusedUnbuffered) {
  for (const char* hex : {"00000000 0000", "00000000 fd01", "00000000 ffff"}) {
    const auto result = measure_marked(octets_of(hex), MarkerClock());
    ASSERT_TRUE(std::holds_alternative<WireError>(result)) << hex;
    EXPECT_EQ(std::get<WireError>(result).code, terminate::kMpaMarkerMismatch);
    EXPECT_EQ(std::get<WireError>(result).octet, 4U);
  }
}

}  // namespace
}  // namespace kbtp::mpa
