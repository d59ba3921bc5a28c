#include "rdmap_binding/rdmap/opcode.h"

#include <gtest/gtest.h>

#include "base/hex.h"
#include "rdmap_binding/rdmap/golden.h"

namespace kbtp::rdmap {
namespace {

// Rules: RFC5040-4.1-01
TEST(RdmapOpcode, Rfc5040_4_1_01_ControlOctetsAreAsInTheFigures) {
  for (std::size_t opcode = 0; opcode < kOpcodes.size(); ++opcode) {
    EXPECT_EQ(static_cast<std::size_t>(kOpcodes[opcode].opcode), opcode);
    EXPECT_EQ(control_octet(kOpcodes[opcode].opcode), 0x40 + opcode);
  }
  for (std::uint8_t opcode = 0xC; opcode < 0x10; ++opcode) EXPECT_EQ(find_opcode(opcode), nullptr);
}

TEST(RdmapOpcode, EveryControlOctetRoundTrips) {
  for (unsigned octet = 0; octet < 256; ++octet) {
    ASSERT_EQ(encode_control(decode_control(static_cast<std::uint8_t>(octet))), octet);
  }
  EXPECT_EQ(decode_control(0xB9), (Control{2, 3, 9}));
}

// Rules: RFC5040-4.1-04
TEST(RdmapOpcode, Rfc5040_4_1_04_FactsAgreeWithTheGoldenMessages) {
  for (const auto& golden : golden::kMessages) {
    SCOPED_TRACE(golden.name);
    const OpcodeFacts& fact = facts(golden.opcode);
    EXPECT_EQ(fact.tagged, std::holds_alternative<ddp::TaggedHeader>(golden.ddp));
    if (const auto* untagged = std::get_if<ddp::UntaggedHeader>(&golden.ddp)) {
      EXPECT_EQ(fact.queue_number, untagged->queue_number);
    }
    EXPECT_EQ(fact.has_payload, std::holds_alternative<std::string_view>(golden.value));
    if (!fact.has_payload && golden.opcode != Opcode::terminate) {
      EXPECT_EQ(from_hex(golden.hex)->size(), ddp::kUntaggedHeaderSize + fact.header_size);
    }
  }
}

TEST(RdmapOpcode, GoldenMessagesCoverEveryOpcode) {
  for (const auto& fact : kOpcodes) {
    bool found = false;
    for (const auto& golden : golden::kMessages) found = found || golden.opcode == fact.opcode;
    EXPECT_TRUE(found) << fact.name;
  }
}

}  // namespace
}  // namespace kbtp::rdmap
