#include "rdmap_binding/mpa/fpdu.h"

#include <gtest/gtest.h>

#include "base/hex.h"
#include "rdmap_binding/mpa/golden.h"

namespace kbtp::mpa {
namespace {

std::vector<std::byte> octets_of(std::string_view hex) { return from_hex(hex).value(); }

TEST(MpaFpdu, GoldenFpdusEncodeToTheirOctets) {
  for (const auto& golden : golden::kFpdus) {
    SCOPED_TRACE(golden.name);
    const auto ulpdu = octets_of(golden.ulpdu_hex);
    EXPECT_EQ(to_hex(encode_fpdu(ulpdu)), to_hex(octets_of(golden.hex)));
    EXPECT_EQ(pad_size(ulpdu.size()), golden.pad);
    EXPECT_EQ(fpdu_size(ulpdu.size()), octets_of(golden.hex).size());
  }
}

TEST(MpaFpdu, GoldenOctetsDecodeToTheirUlpdus) {
  for (const auto& golden : golden::kFpdus) {
    SCOPED_TRACE(golden.name);
    auto octets = octets_of(golden.hex);
    const std::size_t size = octets.size();
    octets.push_back(std::byte{0xAA});
    for (const CrcUse use : {CrcUse::check, CrcUse::ignore}) {
      const auto result = decode_fpdu(octets, use);
      const auto* fpdu = std::get_if<Fpdu>(&result);
      ASSERT_NE(fpdu, nullptr);
      EXPECT_EQ(to_hex(fpdu->ulpdu), golden.ulpdu_hex);
      EXPECT_EQ(fpdu->pad.size(), golden.pad);
      EXPECT_EQ(fpdu->size, size);
    }
  }
}

// Rules: RFC5044-5.2-01, RFC5044-6-03
TEST(MpaFpdu, Rfc5044_5_2_01_EveryPrefixNeedsMoreByItsLength) {
  for (const auto& golden : golden::kFpdus) {
    SCOPED_TRACE(golden.name);
    const auto octets = octets_of(golden.hex);
    for (std::size_t n = 0; n < octets.size(); ++n) {
      const auto result = decode_fpdu(Octets(octets).first(n), CrcUse::check);
      const auto* more = std::get_if<NeedMore>(&result);
      ASSERT_NE(more, nullptr) << n;
      EXPECT_EQ(more->total, n < kLengthSize ? kLengthSize : octets.size()) << n;
    }
  }
}

// Rules: RFC5044-4.4-11
TEST(MpaFpdu, Rfc5044_4_4_11_EveryFlippedBitIsSeen) {
  for (const auto& golden : golden::kFpdus) {
    SCOPED_TRACE(golden.name);
    auto octets = octets_of(golden.hex);
    for (std::size_t bit = 0; bit < octets.size() * 8; ++bit) {
      octets[bit / 8] ^= std::byte{0x80} >> (bit % 8);
      const auto result = decode_fpdu(octets, CrcUse::check);
      EXPECT_FALSE(std::holds_alternative<Fpdu>(result)) << bit;
      if (bit >= kLengthSize * 8) {
        ASSERT_TRUE(std::holds_alternative<WireError>(result)) << bit;
        EXPECT_EQ(std::get<WireError>(result).code, terminate::kMpaCrcError);
      }
      octets[bit / 8] ^= std::byte{0x80} >> (bit % 8);
    }
  }
}

// Rules: RFC5044-4.1-03
TEST(MpaFpdu, Rfc5044_4_1_03_AnyPadIsTakenIfTheCrcCoversIt) {
  const auto ulpdu = octets_of("c1401a2b3c4d0000000100000010aa");
  std::vector<std::byte> octets = octets_of("000f");
  octets.insert(octets.end(), ulpdu.begin(), ulpdu.end());
  for (int i = 0; i < 3; ++i) octets.push_back(std::byte{0xA5});
  const std::uint32_t crc = crc32c(octets);
  octets.resize(octets.size() + kCrcSize);
  store_crc32c(octets.data() + octets.size() - kCrcSize, crc);
  const auto result = decode_fpdu(octets, CrcUse::check);
  ASSERT_TRUE(std::holds_alternative<Fpdu>(result));
  EXPECT_EQ(to_hex(std::get<Fpdu>(result).pad), "a5a5a5");
}

// Rules: RFC5044-4.4-07
TEST(MpaFpdu, Rfc5044_4_4_07_AWrongCrcIsTakenWhenCrcsAreOff) {
  auto octets = octets_of(golden::kFpdus[0].hex);
  octets.back() ^= std::byte{1};
  EXPECT_TRUE(std::holds_alternative<Fpdu>(decode_fpdu(octets, CrcUse::ignore)));
}

// Rules: RFC5044-3-09
TEST(MpaFpdu, Rfc5044_3_09_LengthsOutsideTheRangeAreRefusedUnbuffered) {
  EXPECT_FALSE(check_length(1).has_value());
  EXPECT_FALSE(check_length(64768).has_value());
  for (const char* hex : {"0000", "fd01", "ffff"}) {
    const auto result = decode_fpdu(octets_of(hex), CrcUse::check);
    ASSERT_TRUE(std::holds_alternative<WireError>(result)) << hex;
    EXPECT_EQ(std::get<WireError>(result).code, terminate::kMpaMarkerMismatch);
  }
}

TEST(MpaFpdu, LargestUlpduRoundTrips) {
  const std::vector<std::byte> ulpdu(kMaxMulpdu, std::byte{0x3C});
  const auto octets = encode_fpdu(ulpdu);
  const auto result = decode_fpdu(octets, CrcUse::check);
  EXPECT_EQ(std::get<Fpdu>(result).ulpdu.size(), kMaxMulpdu);
}

TEST(MpaFpdu, Rfc5044_4_1_04_FpduIsAMultipleOfFour) {
  for (std::size_t n = 1; n <= kMaxMulpdu; ++n) {
    ASSERT_EQ(fpdu_size(n) % 4, 0u);
    ASSERT_LE(pad_size(n), kMaxPad);
  }
}

// Both dumps of RFC 5044 4.4 from the pieces that a sender with markers would use: the CRC runs over markers
// and octets alike, in stream order.
// Rules: RFC5044-4.4-09, RFC5044-4.4-10
TEST(MpaFpdu, Rfc5044_4_4_10_AnnotatedDumpsReproduce) {
  for (const auto& golden : golden::kMarkedFpdus) {
    SCOPED_TRACE(golden.name);
    const auto ulpdu = octets_of(golden.ulpdu_hex);
    std::vector<std::byte> stream;
    const auto length = encode_length(static_cast<std::uint16_t>(ulpdu.size()));
    stream.insert(stream.end(), length.begin(), length.end());
    stream.insert(stream.end(), ulpdu.begin(), ulpdu.end());
    std::array<std::byte, kMarkerSize> marker{};
    store_be(marker.data() + 2, static_cast<std::uint16_t>(golden.marker_at));
    stream.insert(stream.begin() + static_cast<std::ptrdiff_t>(golden.marker_at), marker.begin(),
                  marker.end());
    EXPECT_EQ((golden.stream_offset + golden.marker_at) % kMarkerInterval, 0u);
    Crc32c crc;
    crc.update(stream);
    const Trailer trailer = make_trailer(ulpdu.size(), crc);
    EXPECT_TRUE(check_crc(trailer.octets(), crc));
    stream.insert(stream.end(), trailer.octets().begin(), trailer.octets().end());
    EXPECT_EQ(to_hex(stream), to_hex(octets_of(golden.hex)));
  }
}

TEST(MpaFpdu, PiecesMakeTheSameFpdu) {
  for (std::size_t n = 1; n < 70; ++n) {
    const std::vector<std::byte> ulpdu(n, std::byte{0x77});
    const auto length = encode_length(static_cast<std::uint16_t>(n));
    Crc32c crc;
    crc.update(length);
    crc.update(ulpdu);
    std::vector<std::byte> pieces(length.begin(), length.end());
    pieces.insert(pieces.end(), ulpdu.begin(), ulpdu.end());
    const Trailer trailer = make_trailer(n, crc);
    pieces.insert(pieces.end(), trailer.octets().begin(), trailer.octets().end());
    EXPECT_EQ(to_hex(pieces), to_hex(encode_fpdu(ulpdu)));
    const Trailer empty = make_trailer_without_crc(n);
    EXPECT_EQ(empty.octets().size(), trailer.octets().size());
    EXPECT_FALSE(check_crc(Octets(trailer.octets()).first(3), crc)) << "shorter than a CRC";
  }
}

// Rules: RFC5044-4.5-01
TEST(MpaMulpdu, Rfc5044_4_5_01_WithMarkers) {
  EXPECT_EQ(mulpdu(1460, true), 1460u - (6 + 4 * 3 + 0));
  EXPECT_EQ(mulpdu(1461, true), 1461u - (6 + 4 * 3 + 1));
  EXPECT_EQ(mulpdu(512, true), 512u - (6 + 4));
  EXPECT_EQ(mulpdu(513, true), 513u - (6 + 8 + 1));
}

// Rules: RFC5044-4.5-02
TEST(MpaMulpdu, Rfc5044_4_5_02_WithoutMarkers) {
  EXPECT_EQ(mulpdu(1460, false), 1454u);
  EXPECT_EQ(mulpdu(1463, false), 1454u);
  EXPECT_EQ(mulpdu(32768, false), 32762u);
}

// Rules: RFC5044-3-04, RFC5044-4.5-05
TEST(MpaMulpdu, Rfc5044_3_04_StaysWithin128And64768) {
  for (const bool markers : {false, true}) {
    for (const std::size_t emss : {0u, 1u, 6u, 7u, 88u, 133u}) EXPECT_EQ(mulpdu(emss, markers), 128u) << emss;
    EXPECT_EQ(mulpdu(1u << 20, markers), 64768u);
  }
  EXPECT_EQ(mulpdu(65483, false), 64768u) << "the formula alone would say 65474";
}

TEST(MpaMulpdu, AnFpduOfThatSizeFitsTheSegment) {
  for (std::size_t emss = 140; emss < 64000; emss += 7) {
    ASSERT_LE(fpdu_size(mulpdu(emss, false)), emss);
    ASSERT_LE(fpdu_size(mulpdu(emss, true)) + kMarkerSize * ((emss + 511) / 512), emss + 3);
  }
}

}  // namespace
}  // namespace kbtp::mpa
