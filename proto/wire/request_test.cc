#include "proto/wire/request.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/hex.h"
#include "proto/wire/golden.h"

namespace kbtp::wire {
namespace {

constexpr Features kAll{.record_completion = true, .direct_load = true, .direct_alloc = true};

/// A request with that opcode and those flags, of the right length.
std::vector<std::byte> request(std::uint8_t opcode, std::uint16_t flags) {
  std::vector<std::byte> octets(opcode == 0x06 ? 24 : 40);
  if (has(flags, Flag::record)) octets.resize(octets.size() + 16);
  ByteWriter writer(octets);
  write(writer, Header{.opcode = opcode, .flags = flags, .request_id = 7, .handle = 9});
  return octets;
}

TEST(KbtpRequest, G_11_FlagMatrixForEveryFlagsValue) {
  struct Row {
    std::uint8_t opcode;
    std::uint16_t legal;
  };
  // LOAD, STORE, ALLOC_STORE, FREE, BIND as G-11 lists them.
  for (const Row row :
       {Row{0x03, 0x001C}, Row{0x04, 0x000F}, Row{0x05, 0x000F}, Row{0x06, 0x0004}, Row{0x07, 0x0006}}) {
    for (unsigned flags = 0; flags <= 0xFFFF; ++flags) {
      const bool legal = (flags & ~unsigned{row.legal}) == 0;
      const bool possible = (flags & 0x0009) != 0x0009 && (flags & 0x000C) != 0x000C;
      const auto octets = request(row.opcode, static_cast<std::uint16_t>(flags));
      const auto decoded = decode_request(octets, kAll);
      ASSERT_EQ(decoded.has_value(), legal && possible) << int{row.opcode} << " " << flags;
      if (decoded) {
        ASSERT_EQ(wire::flags(*decoded), flags);
        ASSERT_EQ(encode(*decoded), octets);
      } else {
        ASSERT_EQ(decoded.error().status, Status::invalid_request);
      }
    }
  }
}

TEST(KbtpRequest, G_15_EarlierStepsWin) {
  // Everything wrong at once; then one thing after the other is put right.
  auto octets = request(0x55, 0xFFFF);
  octets.resize(23);
  octets[0] = std::byte{9};
  const Features none;
  const auto answer = [&] { return decode_request(octets, none).error(); };
  EXPECT_EQ(answer().status, std::nullopt);  // (1)
  octets.resize(24);
  EXPECT_EQ(answer().status, Status::unsupported_version);  // (2)
  octets[0] = std::byte{1};
  EXPECT_EQ(answer().status, Status::unsupported_opcode);  // (3)
  octets[1] = std::byte{0x07};
  EXPECT_EQ(answer().status, Status::access_denied);  // (4)
  octets[1] = std::byte{0x03};
  EXPECT_EQ(answer().rule, "KBTP-5.1-07");  // (5)
  EXPECT_EQ(answer().status, Status::invalid_request);
  octets[2] = octets[3] = std::byte{0};
  EXPECT_EQ(answer().rule, "G-09");  // (6)
  EXPECT_EQ(answer().status, Status::invalid_request);
  octets.resize(40);
  EXPECT_TRUE(decode_request(octets, none));
}

TEST(KbtpRequest, P_01_OnlyBindNeedsItsFeature) {
  EXPECT_EQ(decode_request(request(0x07, 0), Features{.direct_load = true}).error().status,
            Status::access_denied);
  EXPECT_TRUE(decode_request(request(0x07, 0), Features{.direct_alloc = true}));
  EXPECT_TRUE(decode_request(request(0x03, 0x0004), Features{}));  // RECORD not granted: G-13
}

TEST(KbtpRequest, P_04_MessagesThatAreNoRequestsDisconnect) {
  for (const std::uint8_t opcode : {0x01, 0x02, 0x08}) {
    const auto decoded = decode_request(request(opcode, 0xFFFF), kAll);
    ASSERT_FALSE(decoded);
    EXPECT_TRUE(decoded.error().disconnects());
    EXPECT_TRUE(decoded.error().header);
  }
}

TEST(KbtpRequest, P_12_InlineWithStagIsAcceptedAndTold) {
  auto octets = request(0x04, 0x0001);
  octets[24] = std::byte{0xAA};
  octets[35] = std::byte{0xBB};
  const auto decoded = decode_request(octets, kAll);
  ASSERT_TRUE(decoded);
  const auto& store = std::get<Store>(*decoded);
  EXPECT_EQ(store.body.source.stag, 0xAA000000u);
  EXPECT_EQ(store.body.source.tagged_offset, 0xBBu);
  ASSERT_TRUE(store.body.inline_data);
  EXPECT_TRUE(store.body.inline_data->empty());
}

TEST(KbtpRequest, G_00_ReservedOctetsAreIgnored) {
  auto octets = request(0x06, 0x0004);
  std::fill(octets.end() - 4, octets.end(), std::byte{0xFF});
  EXPECT_TRUE(decode_request(octets, kAll));
}

TEST(KbtpRequest, G_55_StatusOfARequestIsIgnoredAndTold) {
  auto octets = request(0x06, 0);
  octets[23] = std::byte{5};
  const auto decoded = decode_request(octets, kAll);
  ASSERT_TRUE(decoded);
  EXPECT_EQ(head(*decoded).status, 5);
}

TEST(KbtpRequest, G_12_TellsTheStagToInvalidate) {
  for (const auto& golden : golden::messages()) {
    const auto octets = *from_hex(golden.hex);
    const auto decoded = decode_request(octets, kAll);
    if (!decoded) continue;
    const bool asked = golden.name.find("invalidate") != std::string_view::npos;
    EXPECT_EQ(stag_to_invalidate(*decoded).has_value(), asked) << golden.name;
    if (asked) {
      EXPECT_EQ(stag_to_invalidate(*decoded), golden::kData.stag);
    }
  }
}

TEST(KbtpRequest, InlineDataIsAViewOfTheMessage) {
  const std::vector<std::byte> data(1000, std::byte{0x5A});
  const auto octets =
      encode(Request(Store{{}, {.source = {}, .record = golden::kRecord, .inline_data = data}}));
  ASSERT_EQ(octets.size(), 24u + 16u + 16u + 1000u);
  const auto decoded = decode_request(octets, kAll);
  ASSERT_TRUE(decoded);
  const auto& body = std::get<Store>(*decoded).body;
  EXPECT_EQ(body.source.length, 1000u);  // the encoder takes it from the data
  EXPECT_EQ(body.inline_data->data(), octets.data() + 56);
  EXPECT_EQ(body.inline_data->size(), 1000u);
}

}  // namespace
}  // namespace kbtp::wire
