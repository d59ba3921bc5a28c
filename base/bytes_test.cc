#include "base/bytes.h"

#include <array>
#include <gtest/gtest.h>

#include "base/hex.h"

namespace kbtp {
namespace {

TEST(ByteReader, ReadsBigEndian) {
  const auto octets = from_hex("01 0203 04050607 08090a0b0c0d0e0f ff").value();
  ByteReader reader(octets);
  EXPECT_EQ(reader.u8(), 0x01);
  EXPECT_EQ(reader.u16(), 0x0203);
  EXPECT_EQ(reader.u32(), 0x04050607u);
  EXPECT_EQ(reader.u64(), 0x08090a0b0c0d0e0fu);
  EXPECT_EQ(reader.remaining(), 1u);
  EXPECT_TRUE(reader.ok());
}

TEST(ByteReader, LatchesTheFirstOverrun) {
  const auto octets = from_hex("010203").value();
  ByteReader reader(octets);
  EXPECT_EQ(reader.u32(), 0u);
  EXPECT_FALSE(reader.ok());
  EXPECT_EQ(reader.u8(), 0u) << "nothing is read after an overrun";
}

TEST(ByteWriter, NeverWritesPastTheEnd) {
  std::array<std::byte, 4> octets{};
  ByteWriter writer(MutableOctets(octets).first(3));
  writer.u16(0x0102);
  writer.u16(0x0304);
  EXPECT_FALSE(writer.ok());
  EXPECT_EQ(to_hex(octets), "01020000");
}

TEST(Hex, SkipsCommentsAndRefusesOddDigits) {
  EXPECT_EQ(to_hex(from_hex("4d 50 # a comment\n 41").value()), "4d5041");
  EXPECT_FALSE(from_hex("4d5"));
  EXPECT_FALSE(from_hex("4g"));
}

}  // namespace
}  // namespace kbtp
