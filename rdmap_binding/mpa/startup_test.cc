#include "rdmap_binding/mpa/startup.h"

#include <gtest/gtest.h>

#include "base/hex.h"
#include "rdmap_binding/mpa/golden.h"

namespace kbtp::mpa {
namespace {

std::vector<std::byte> octets_of(std::string_view hex) { return from_hex(hex).value(); }

StartupRule rule_of(const StartupResult& result) { return std::get<StartupError>(result).rule; }

TEST(MpaStartup, GoldenFramesEncodeToTheirOctets) {
  for (const auto& golden : golden::kStartups) {
    SCOPED_TRACE(golden.name);
    EXPECT_EQ(to_hex(encode_startup(golden.frame())), to_hex(octets_of(golden.hex)));
  }
}

TEST(MpaStartup, GoldenOctetsDecodeToTheirFrames) {
  for (const auto& golden : golden::kStartups) {
    SCOPED_TRACE(golden.name);
    auto octets = octets_of(golden.hex);
    const std::size_t size = octets.size();
    octets.push_back(std::byte{0xAA});  // what follows is the next frame's and not looked at
    for (const auto expected : {std::optional(golden.kind), std::optional<StartupKind>()}) {
      const auto result = decode_startup(octets, expected);
      const auto* complete = std::get_if<StartupComplete>(&result);
      ASSERT_NE(complete, nullptr);
      EXPECT_EQ(complete->size, size);
      EXPECT_TRUE(complete->frame == golden.frame());
    }
  }
}

TEST(MpaStartup, EveryPrefixNeedsMoreAndSaysHowMuch) {
  for (const auto& golden : golden::kStartups) {
    SCOPED_TRACE(golden.name);
    const auto octets = octets_of(golden.hex);
    for (std::size_t n = 0; n < octets.size(); ++n) {
      const auto result = decode_startup(Octets(octets).first(n), golden.kind);
      const auto* more = std::get_if<NeedMore>(&result);
      ASSERT_NE(more, nullptr) << n;
      EXPECT_EQ(more->total, n < kStartupHeaderSize ? kStartupHeaderSize : octets.size()) << n;
    }
  }
}

TEST(MpaStartup, NoFlippedBitGoesUnseen) {
  for (const auto& golden : golden::kStartups) {
    SCOPED_TRACE(golden.name);
    auto octets = octets_of(golden.hex);
    for (std::size_t bit = 0; bit < octets.size() * 8; ++bit) {
      octets[bit / 8] ^= std::byte{0x80} >> (bit % 8);
      const auto result = decode_startup(octets, golden.kind);
      if (const auto* complete = std::get_if<StartupComplete>(&result)) {
        EXPECT_FALSE(complete->frame == golden.frame()) << bit;
      }
      if (bit < kKeySize * 8) {
        ASSERT_TRUE(std::holds_alternative<StartupError>(result)) << bit;
        EXPECT_EQ(std::get<StartupError>(result).octet, bit / 8);
      }
      octets[bit / 8] ^= std::byte{0x80} >> (bit % 8);
    }
  }
}

TEST(MpaStartup, BadFramesAreRefusedByRuleAndOctet) {
  for (const auto& bad : golden::kBadStartups) {
    SCOPED_TRACE(bad.name);
    const auto result = decode_startup(octets_of(bad.hex), bad.expected);
    ASSERT_TRUE(std::holds_alternative<StartupError>(result));
    EXPECT_EQ(std::get<StartupError>(result), (StartupError{bad.rule, bad.octet}));
    EXPECT_EQ(std::get<StartupError>(result).wire_error().code, terminate::kMpaInvalidStartup);
    EXPECT_FALSE(std::get<StartupError>(result).wire_error().reason.empty());
  }
}

// Rules: RFC5044-7.1.1-02
TEST(MpaStartup, Rfc5044_7_1_1_02_EachWrongKeyOctetIsSeenAtOnce) {
  auto octets = octets_of(golden::kStartups[0].hex);
  for (std::size_t i = 0; i < kKeySize; ++i) {
    octets[i] ^= std::byte{0x80};
    const auto result = decode_startup(Octets(octets).first(i + 1), StartupKind::request);
    EXPECT_EQ(std::get<StartupError>(result), (StartupError{StartupRule::bad_key, i}));
    octets[i] ^= std::byte{0x80};
  }
}

// Rules: RFC5044-7.1.2-15
TEST(MpaStartup, Rfc5044_7_1_2_15_RequestIsNoReply) {
  for (const auto& golden : golden::kStartups) {
    const auto other = golden.kind == StartupKind::request ? StartupKind::reply : StartupKind::request;
    EXPECT_EQ(rule_of(decode_startup(octets_of(golden.hex), other)), StartupRule::wrong_kind) << golden.name;
  }
}

// Rules: RFC5044-7.1.1-15
TEST(MpaStartup, Rfc5044_7_1_1_15_PdLengthAbove512IsRefusedOnceOctet19IsThere) {
  StartupFrame frame;
  frame.crc = true;
  const std::vector<std::byte> data(513, std::byte{0x5A});
  frame.private_data = data;
  const auto octets = encode_startup(frame);
  EXPECT_TRUE(std::holds_alternative<NeedMore>(decode_startup(Octets(octets).first(19), frame.kind)));
  EXPECT_EQ(rule_of(decode_startup(Octets(octets).first(20), frame.kind)),
            StartupRule::private_data_too_long);
}

// Rules: RFC5044-7.1.2-17
TEST(MpaStartup, Rfc5044_7_1_2_17_PrivateDataOf512OctetsIsTaken) {
  const std::vector<std::byte> data(512, std::byte{0x5A});
  StartupFrame frame;
  frame.kind = StartupKind::reply;
  frame.private_data = data;
  const auto octets = encode_startup(frame);
  ASSERT_EQ(octets.size(), kMaxStartupSize);
  const auto result = decode_startup(octets, frame.kind);
  EXPECT_TRUE(std::get<StartupComplete>(result).frame == frame);
}

// Rules: RFC6581-9-02
TEST(MpaStartup, Rfc6581_9_02_EnhancedOctetsCountInPdLength) {
  const std::vector<std::byte> data(512, std::byte{0x5A});
  StartupFrame frame;
  frame.enhanced = Enhanced{false, false, 1, false, false, 2};
  for (const std::size_t ulp : {0u, 508u, 509u}) {
    frame.private_data = Octets(data).first(ulp);
    const auto octets = encode_startup(frame);
    const auto result = decode_startup(octets, frame.kind);
    if (ulp > kMaxEnhancedPrivateData) {
      EXPECT_EQ(rule_of(result), StartupRule::private_data_too_long);
    } else {
      EXPECT_EQ(std::get<StartupComplete>(result).frame.private_data.size(), ulp);
    }
  }
}

// Rules: RFC6581-6-04
TEST(MpaStartup, Rfc6581_6_04_EnhancedNeedsFourOctetsFromRevision2On) {
  auto octets = octets_of("4d504120 49442052 65712046 72616d65 50 02 0003 000000");
  for (std::uint8_t length = 0; length < 4; ++length) {
    octets[19] = std::byte{length};
    EXPECT_EQ(rule_of(decode_startup(octets, std::nullopt)), StartupRule::enhanced_too_short);
  }
  octets[17] = std::byte{1};  // revision 1: the bit is reserved
  const auto result = decode_startup(octets, std::nullopt);
  const StartupFrame& frame = std::get<StartupComplete>(result).frame;
  EXPECT_FALSE(frame.enhanced.has_value());
  EXPECT_EQ(frame.reserved, 0x10);
}

// Rules: RFC5044-7.1.1-13
TEST(MpaStartup, Rfc5044_7_1_1_13_OnlyRevisions1And2AreUnderstood) {
  for (unsigned revision = 0; revision < 256; ++revision) {
    EXPECT_EQ(understands_revision(static_cast<std::uint8_t>(revision)), revision == 1 || revision == 2);
  }
}

}  // namespace
}  // namespace kbtp::mpa
