#include "rdmap_binding/rdmap/segment.h"

#include <algorithm>
#include <gtest/gtest.h>

#include "base/hex.h"
#include "rdmap_binding/rdmap/golden.h"

namespace kbtp::rdmap {
namespace {

std::vector<std::byte> octets_of(std::string_view hex) { return from_hex(hex).value(); }

bool same_body(const Body& body, const golden::Value& value) {
  if (const auto* text = std::get_if<std::string_view>(&value)) {
    const auto* payload = std::get_if<Payload>(&body);
    return payload != nullptr && std::ranges::equal(payload->octets, as_octets(*text));
  }
  if (const auto* golden = std::get_if<golden::TerminateValue>(&value)) {
    const auto* message = std::get_if<Terminate>(&body);
    return message != nullptr && message->control == golden->control &&
           message->segment_length == golden->segment_length &&
           to_hex(message->ddp_header) == golden->ddp_header_hex &&
           message->read_request == golden->read_request && to_hex(message->rest) == golden->rest_hex;
  }
  const auto equal = [&](auto* wanted) {
    const auto* got = std::get_if<std::remove_cvref_t<decltype(*wanted)>>(&body);
    return got != nullptr && *got == *wanted;
  };
  if (const auto* wanted = std::get_if<ReadRequest>(&value)) return equal(wanted);
  if (const auto* wanted = std::get_if<Immediate>(&value)) return equal(wanted);
  if (const auto* wanted = std::get_if<AtomicRequest>(&value)) return equal(wanted);
  if (const auto* wanted = std::get_if<AtomicResponse>(&value)) return equal(wanted);
  return false;
}

bool same(const SegmentView& segment, const golden::Message& golden) {
  return segment.head.opcode == golden.opcode && segment.head.ddp == golden.ddp &&
         same_body(segment.body, golden.value);
}

/// Bits that a receiver does not look at and that have no place in the decoded value.
bool is_ignored_bit(const golden::Message& golden, std::size_t bit) {
  const std::size_t header = ddp::kUntaggedHeaderSize * 8;
  if (golden.opcode == Opcode::terminate) return bit >= header + 19 && bit < header + 32;  // RFC 5040 4.8
  if (golden.opcode == Opcode::atomic_request) return bit >= header && bit < header + 28;  // RFC 7306 5.2.1
  return false;
}

TEST(RdmapSegment, GoldenOctetsDecodeToTheirValues) {
  for (const auto& golden : golden::kMessages) {
    SCOPED_TRACE(golden.name);
    const auto octets = octets_of(golden.hex);
    const auto segment = decode_segment(octets);
    ASSERT_TRUE(segment.has_value()) << segment.error().reason;
    EXPECT_TRUE(same(*segment, golden));
    EXPECT_EQ(segment->head.payload_size, octets.size() - ddp::header_size(golden.ddp));
  }
}

TEST(RdmapSegment, GoldenValuesEncodeToTheirOctets) {
  for (const auto& golden : golden::kMessages) {
    SCOPED_TRACE(golden.name);
    const auto octets = octets_of(golden.hex);
    // Views of the copies come from the octets; everything else from the golden value.
    SegmentView segment = decode_segment(octets).value();
    segment.head.ddp = golden.ddp;
    if (const auto* value = std::get_if<golden::TerminateValue>(&golden.value)) {
      const auto header = octets_of(value->ddp_header_hex);
      const auto rest = octets_of(value->rest_hex);
      segment.body = Terminate{value->control, value->segment_length, header, value->read_request, rest};
      auto encoded = encode_segment(segment);
      if (golden.has_ignored_bits) {
        encoded[20] |= octets[20] & std::byte{0x1F};
        encoded[21] = octets[21];
      }
      EXPECT_EQ(to_hex(encoded), to_hex(octets));
      continue;
    }
    if (const auto* value = std::get_if<ReadRequest>(&golden.value)) segment.body = *value;
    if (const auto* value = std::get_if<Immediate>(&golden.value)) segment.body = *value;
    if (const auto* value = std::get_if<AtomicRequest>(&golden.value)) segment.body = *value;
    if (const auto* value = std::get_if<AtomicResponse>(&golden.value)) segment.body = *value;
    if (const auto* value = std::get_if<std::string_view>(&golden.value))
      segment.body = Payload{as_octets(*value)};
    auto encoded = encode_segment(segment);
    if (golden.has_ignored_bits) {
      for (std::size_t bit = 0; bit < encoded.size() * 8; ++bit) {
        const std::byte mask = std::byte{0x80} >> (bit % 8);
        if (is_ignored_bit(golden, bit)) encoded[bit / 8] |= octets[bit / 8] & mask;
      }
    }
    EXPECT_EQ(to_hex(encoded), to_hex(octets));
  }
}

// MPA hands up the length, so a message with ULP payload cut behind its header is another, shorter one; a
// message that is a header only has one length.
TEST(RdmapSegment, Rfc7306_4_2_01_EveryCutIsAnErrorOrAnotherMessage) {
  for (const auto& golden : golden::kMessages) {
    SCOPED_TRACE(golden.name);
    const auto octets = octets_of(golden.hex);
    const auto* terminate = std::get_if<golden::TerminateValue>(&golden.value);
    for (std::size_t n = 0; n < octets.size(); ++n) {
      const auto segment = decode_segment(Octets(octets).first(n));
      if (segment) {
        EXPECT_FALSE(same(*segment, golden)) << n;
        const bool cut_in_padding =
            terminate != nullptr && n >= octets.size() - terminate->rest_hex.size() / 2;
        EXPECT_TRUE(facts(golden.opcode).has_payload || cut_in_padding) << n;
      } else {
        EXPECT_LE(segment.error().octet, n);
      }
    }
  }
}

TEST(RdmapSegment, NoFlippedBitGoesUnseenButIgnoredOnes) {
  for (const auto& golden : golden::kMessages) {
    SCOPED_TRACE(golden.name);
    auto octets = octets_of(golden.hex);
    for (std::size_t bit = 0; bit < octets.size() * 8; ++bit) {
      octets[bit / 8] ^= std::byte{0x80} >> (bit % 8);
      const auto segment = decode_segment(octets);
      if (is_ignored_bit(golden, bit)) {
        ASSERT_TRUE(segment.has_value()) << bit;
        EXPECT_TRUE(same(*segment, golden)) << bit;
      } else if (segment) {
        EXPECT_FALSE(same(*segment, golden)) << bit;
      }
      octets[bit / 8] ^= std::byte{0x80} >> (bit % 8);
    }
  }
}

TEST(RdmapSegment, BadMessagesGetTheirTripleAndOctet) {
  for (const auto& bad : golden::kBadMessages) {
    SCOPED_TRACE(bad.name);
    const auto segment = decode_segment(octets_of(bad.hex));
    ASSERT_FALSE(segment.has_value());
    EXPECT_EQ(segment.error().code, bad.code) << to_string(segment.error().code);
    EXPECT_EQ(segment.error().octet, bad.octet);
    EXPECT_FALSE(segment.error().reason.empty());
  }
}

// Rules: RFC5040-4.1-06
TEST(RdmapSegment, Rfc5040_4_1_06_ReservedBitsAreIgnored) {
  for (const auto& golden : golden::kMessages) {
    auto octets = octets_of(golden.hex);
    octets[0] |= std::byte{ddp::kReservedMask};
    octets[1] |= std::byte{kReservedMask};
    const auto segment = decode_segment(octets);
    ASSERT_TRUE(segment.has_value()) << golden.name;
    EXPECT_EQ(segment->head.opcode, golden.opcode);
    EXPECT_TRUE(same_body(segment->body, golden.value)) << golden.name;
  }
}

TEST(RdmapSegment, Rfc7306_5_2_1_08_EveryUnassignedAtomicOperationIsRefused) {
  const auto* golden = std::ranges::find(golden::kMessages, Opcode::atomic_request, &golden::Message::opcode);
  auto octets = octets_of(golden->hex);
  for (unsigned operation = 0; operation < 16; ++operation) {
    octets[ddp::kUntaggedHeaderSize + 3] = static_cast<std::byte>(operation);
    const auto segment = decode_segment(octets);
    EXPECT_EQ(segment.has_value(), operation == 0 || operation == 2) << operation;
    if (!segment) {
      EXPECT_EQ(segment.error().code, terminate::kRdmapUnexpectedOpcode);
    }
  }
}

TEST(RdmapHead, TellsAsMuchFromTheFirstOctetsAsFromAll) {
  for (const auto& golden : golden::kMessages) {
    SCOPED_TRACE(golden.name);
    const auto octets = octets_of(golden.hex);
    const auto head = decode_head(Octets(octets).first(ddp::header_size(golden.ddp)), octets.size());
    ASSERT_TRUE(head.has_value());
    EXPECT_EQ(head->opcode, golden.opcode);
    EXPECT_EQ(head->ddp, golden.ddp);
    EXPECT_EQ(head->payload_size, octets.size() - ddp::header_size(golden.ddp));
    EXPECT_EQ(head->last(), ddp::is_last(golden.ddp));
  }
}

TEST(RdmapHead, AHeadLongerThanItsUlpduIsCutToIt) {
  const auto octets = octets_of("41 43 00000000 00000000 00000001 00000000 0000");
  EXPECT_FALSE(decode_head(octets, 5).has_value());
  EXPECT_EQ(decode_head(octets, 18)->payload_size, 0u);
}

TEST(RdmapHead, MakersGiveTheGoldenHeaders) {
  EXPECT_EQ(to_hex(ddp::encode(make_tagged(Opcode::rdma_write, 0x1A2B3C4D, 0x100000010, true))),
            "c1401a2b3c4d0000000100000010");
  EXPECT_EQ(to_hex(ddp::encode(make_untagged(Opcode::send_invalidate, 3, 0, true, 0xCAFE0001))),
            "4144cafe0001000000000000000300000000");
  EXPECT_EQ(to_hex(ddp::encode(make_untagged(Opcode::atomic_response, 1))),
            "414b00000000000000030000000100000000");
  EXPECT_EQ(to_hex(ddp::encode(make_untagged(Opcode::send, 2, 3, false))),
            "014300000000000000000000000200000003");
}

}  // namespace
}  // namespace kbtp::rdmap
