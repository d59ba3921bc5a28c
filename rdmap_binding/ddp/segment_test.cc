#include "rdmap_binding/ddp/segment.h"

#include <algorithm>
#include <gtest/gtest.h>

#include "base/hex.h"
#include "rdmap_binding/ddp/golden.h"

namespace kbtp::ddp {
namespace {

std::vector<std::byte> octets_of(std::string_view hex) { return from_hex(hex).value(); }

bool same(const Segment& segment, const golden::Segment& golden) {
  return segment.header == golden.header && std::ranges::equal(segment.payload, as_octets(golden.payload));
}

TEST(DdpSegment, GoldenHeadersEncodeToTheirOctets) {
  for (const auto& golden : golden::kSegments) {
    SCOPED_TRACE(golden.name);
    const auto octets = octets_of(golden.hex);
    std::vector<std::byte> encoded(header_size(golden.header));
    EXPECT_EQ(encode(golden.header, encoded), encoded.size());
    EXPECT_EQ(to_hex(encoded), to_hex(Octets(octets).first(encoded.size())));
  }
}

TEST(DdpSegment, GoldenOctetsDecodeToTheirSegments) {
  for (const auto& golden : golden::kSegments) {
    SCOPED_TRACE(golden.name);
    const auto octets = octets_of(golden.hex);
    const auto segment = decode_segment(octets);
    ASSERT_TRUE(segment.has_value());
    EXPECT_TRUE(same(*segment, golden));
    EXPECT_EQ(header_size(octets[0]), header_size(golden.header));
  }
}

// The length of a Segment comes from MPA: cut behind the header, it is another Segment with less payload.
TEST(DdpSegment, Rfc5041_4_4_01_EveryCutWithinTheHeaderIsAnError) {
  for (const auto& golden : golden::kSegments) {
    SCOPED_TRACE(golden.name);
    const auto octets = octets_of(golden.hex);
    for (std::size_t n = 0; n < octets.size(); ++n) {
      const auto segment = decode_segment(Octets(octets).first(n));
      ASSERT_EQ(segment.has_value(), n >= header_size(golden.header)) << n;
      if (segment) {
        EXPECT_FALSE(same(*segment, golden)) << n;
      } else {
        EXPECT_EQ(segment.error().code, terminate::kDdpLocalCatastrophic);
        EXPECT_EQ(segment.error().octet, n);
      }
    }
  }
}

TEST(DdpSegment, NoFlippedBitGoesUnseen) {
  for (const auto& golden : golden::kSegments) {
    SCOPED_TRACE(golden.name);
    auto octets = octets_of(golden.hex);
    for (std::size_t bit = 0; bit < octets.size() * 8; ++bit) {
      octets[bit / 8] ^= std::byte{0x80} >> (bit % 8);
      const auto segment = decode_segment(octets);
      if (segment) {
        EXPECT_FALSE(same(*segment, golden)) << bit;
      }
      octets[bit / 8] ^= std::byte{0x80} >> (bit % 8);
    }
  }
}

TEST(DdpSegment, Rfc5041_7_2_01_BadSegmentsGetTheirTriple) {
  for (const auto& bad : golden::kBadSegments) {
    SCOPED_TRACE(bad.name);
    const auto segment = decode_segment(octets_of(bad.hex));
    ASSERT_FALSE(segment.has_value());
    EXPECT_EQ(segment.error().code, bad.code) << to_string(segment.error().code);
    EXPECT_EQ(segment.error().octet, bad.octet);
    EXPECT_FALSE(segment.error().reason.empty());
  }
}

TEST(DdpSegment, Rfc5041_4_1_05_ReservedBitsAreNotChecked) {
  auto octets = octets_of(golden::kSegments[0].hex);
  octets[0] |= std::byte{kReservedMask};
  const auto segment = decode_segment(octets);
  ASSERT_TRUE(segment.has_value());
  auto header = std::get<TaggedHeader>(golden::kSegments[0].header);
  header.reserved = 0xF;
  EXPECT_EQ(std::get<TaggedHeader>(segment->header), header);
}

TEST(DdpSegment, ReadHeaderTakesAnyVersion) {
  for (const auto& bad : golden::kBadSegments) {
    if (bad.code == terminate::kDdpLocalCatastrophic) continue;
    const auto octets = octets_of(bad.hex);
    const auto header = read_header(octets);
    ASSERT_TRUE(header.has_value()) << bad.name;
    std::vector<std::byte> encoded(header_size(*header));
    encode(*header, encoded);
    EXPECT_EQ(to_hex(encoded), to_hex(Octets(octets).first(encoded.size()))) << bad.name;
  }
}

TEST(DdpSegment, AccessorsReadBothKinds) {
  for (const auto& golden : golden::kSegments) {
    const auto octets = octets_of(golden.hex);
    EXPECT_EQ(rsvdulp(golden.header), std::to_integer<std::uint8_t>(octets[1])) << golden.name;
    EXPECT_EQ(is_last(golden.header), (octets[0] & std::byte{kLastFlag}) != std::byte{0}) << golden.name;
  }
}

TEST(DdpSegment, Rfc5041_4_3_05_MsnWrapsToZero) {
  EXPECT_EQ(next_msn(1), 2u);
  EXPECT_EQ(next_msn(0xFFFFFFFF), 0u);
}

}  // namespace
}  // namespace kbtp::ddp
