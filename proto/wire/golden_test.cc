// Encode, decode, truncate at every octet and flip every bit of the golden messages.

#include "proto/wire/golden.h"

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <iterator>
#include <set>

#include "base/hex.h"

namespace kbtp::wire {
namespace {

using golden::GoldenMessage;

std::vector<std::byte> octets_of(std::string_view hex) {
  auto octets = from_hex(hex);
  EXPECT_TRUE(octets) << hex;
  return octets.value_or(std::vector<std::byte>{});
}

std::vector<std::byte> encode_any(const Message& message) {
  return std::visit(
      [](const auto& m) {
        using T = std::decay_t<decltype(m)>;
        if constexpr (std::is_constructible_v<Request, T>) {
          return encode(Request(m));
        } else {
          return encode(m);
        }
      },
      message);
}

bool is_extensible(const Message& message) {
  return std::holds_alternative<Hello>(message) || std::holds_alternative<HelloAck>(message);
}

/// Octets whose content a receiver ignores: reserved ones, and header fields without a meaning in the
/// message.
std::set<std::size_t> ignored_octets(const GoldenMessage& golden) {
  if (std::holds_alternative<Hello>(golden.message)) return {20, 21, 22, 23, 26, 27};
  if (std::holds_alternative<HelloAck>(golden.message)) return {20, 21};
  if (golden.name == "free_record") return {36, 37, 38, 39};
  if (golden.name.find("record") != std::string_view::npos) return {52, 53, 54, 55};
  return {};
}

class Golden : public testing::TestWithParam<GoldenMessage> {};
INSTANTIATE_TEST_SUITE_P(All, Golden, testing::ValuesIn(golden::messages()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(Golden, Encodes) {
  EXPECT_EQ(to_hex(encode_any(GetParam().message)), to_hex(octets_of(GetParam().hex)));
}

TEST_P(Golden, Decodes) {
  const auto octets = octets_of(GetParam().hex);
  const auto decoded = decode_message(octets);
  ASSERT_TRUE(decoded) << decoded.error().to_string();
  EXPECT_EQ(*decoded, GetParam().message);
  EXPECT_EQ(opcode(*decoded), kProposed.opcode(std::to_integer<std::uint8_t>(octets[1])));
}

TEST_P(Golden, TruncatedAtEveryOctetIsRefused) {
  const auto octets = octets_of(GetParam().hex);
  for (std::size_t n = 0; n < octets.size(); ++n) {
    // A copy of exactly n octets, so that a sanitizer sees a read past the end.
    const std::vector<std::byte> cut(octets.begin(), octets.begin() + static_cast<std::ptrdiff_t>(n));
    const auto decoded = decode_message(cut);
    ASSERT_FALSE(decoded) << n;
    EXPECT_LE(decoded.error().octet, n);
    EXPECT_EQ(decoded.error().header.has_value(), n >= kHeaderSize);
    const Opcode code = opcode(GetParam().message);
    const bool request = code != Opcode::hello && code != Opcode::hello_ack && code != Opcode::completion;
    if (n >= kHeaderSize && request) {
      EXPECT_EQ(decoded.error().status, Status::invalid_request) << n;
    } else {
      EXPECT_TRUE(decoded.error().disconnects()) << n;
    }
  }
}

TEST_P(Golden, OctetBehindIsRefusedExceptInSetUp) {
  auto octets = octets_of(GetParam().hex);
  octets.push_back(std::byte{0});
  const auto decoded = decode_message(octets);
  EXPECT_EQ(decoded.has_value(), is_extensible(GetParam().message));
  if (decoded) {
    EXPECT_EQ(*decoded, GetParam().message);
  }
}

TEST_P(Golden, EveryBitCounts) {
  const auto octets = octets_of(GetParam().hex);
  const auto ignored = ignored_octets(GetParam());
  for (std::size_t i = 0; i < octets.size() * 8; ++i) {
    auto flipped = octets;
    flipped[i / 8] ^= static_cast<std::byte>(0x80 >> (i % 8));
    const auto decoded = decode_message(flipped);
    if (ignored.contains(i / 8)) {
      ASSERT_TRUE(decoded) << "bit " << i;
      EXPECT_EQ(*decoded, GetParam().message) << "bit " << i;
      continue;
    }
    if (!decoded) continue;
    EXPECT_NE(*decoded, GetParam().message) << "bit " << i;
    // What was understood goes out again as it came in; set-up may now be of the other kind.
    const auto again = encode_any(*decoded);
    ASSERT_EQ(again.size() <= flipped.size(), true) << "bit " << i;
    if (again.size() < flipped.size()) {
      EXPECT_TRUE(is_extensible(*decoded)) << "bit " << i;
      continue;
    }
    for (std::size_t j = 0; j < again.size(); ++j) {
      if (again[j] != flipped[j]) {
        EXPECT_TRUE(ignored.contains(j)) << "bit " << i << " octet " << j;
      }
    }
  }
}

TEST_P(Golden, HasItsFuzzSeed) {
  const auto path = std::filesystem::path(KBTP_FUZZ_CORPUS) / GetParam().name;
  std::ifstream in(path, std::ios::binary);
  ASSERT_TRUE(in) << path;
  const std::string seed((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
  EXPECT_EQ(to_hex(as_octets(seed)), to_hex(octets_of(GetParam().hex)));
}

using golden::Malformed;
class GoldenMalformed : public testing::TestWithParam<Malformed> {};
INSTANTIATE_TEST_SUITE_P(All, GoldenMalformed, testing::ValuesIn(golden::malformed()),
                         [](const auto& test) { return std::string(test.param.name); });

TEST_P(GoldenMalformed, GetsItsAnswer) {
  const auto octets = octets_of(GetParam().hex);
  const Features all{.record_completion = true, .direct_load = true, .direct_alloc = true};
  const auto decoded = decode_request(octets, all);
  ASSERT_FALSE(decoded);
  EXPECT_EQ(decoded.error().status, GetParam().status) << decoded.error().to_string();
  EXPECT_EQ(decoded.error().octet, GetParam().octet) << decoded.error().to_string();
  EXPECT_EQ(decoded.error().rule, GetParam().rule) << decoded.error().to_string();
  ASSERT_EQ(decoded.error().header.has_value(), octets.size() >= kHeaderSize);
  if (decoded.error().header) {
    // Echoed in the answer (5.1, G-16).
    EXPECT_EQ(decoded.error().header->request_id, golden::kHead.request_id);
    EXPECT_EQ(decoded.error().header->handle, golden::kHead.handle);
  }
}

TEST(GoldenStructures, TableEntryIsNetworkOrder) {
  for (const auto& [hex, entry] : golden::entries()) {
    const auto octets = octets_of(hex);
    EXPECT_EQ(to_hex(encode(entry)), to_hex(octets));
    EXPECT_EQ(decode_entry(std::span<const std::byte, 16>(octets)), entry);
    EXPECT_EQ(unpack_entry(pack(entry)), entry);
  }
}

TEST(GoldenStructures, SlotIsNetworkOrder) {
  for (const auto& [hex, slot] : golden::slots()) {
    const auto octets = octets_of(hex);
    EXPECT_EQ(to_hex(encode(slot)), to_hex(octets));
    EXPECT_EQ(decode_slot(std::span<const std::byte, 16>(octets)), slot);
    EXPECT_EQ(unpack_slot(pack(slot)), slot);
  }
}

TEST(GoldenStructures, Kbtp_6_5_04_CompletionRecord) {
  const auto octets = octets_of(golden::kCompletionRecordHex);
  EXPECT_EQ(to_hex(encode(golden::completion_record())), to_hex(octets));
  EXPECT_EQ(decode_completion_record(octets), golden::completion_record());
  for (std::size_t n = 0; n < octets.size(); ++n) {
    EXPECT_FALSE(decode_completion_record(Octets(octets).first(n)));
  }
  auto longer = octets;
  longer.push_back(std::byte{0});
  EXPECT_FALSE(decode_completion_record(longer));
}

}  // namespace
}  // namespace kbtp::wire
