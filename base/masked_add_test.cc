#include "base/masked_add.h"

#include <gtest/gtest.h>
#include <random>

namespace kbtp {
namespace {

// RFC 7306 5.1.1 describes the operation bit by bit; this is that description and shares nothing with
// masked_add().
std::uint64_t bit_serial(std::uint64_t original, std::uint64_t add, std::uint64_t mask) {
  std::uint64_t sum = 0;
  unsigned carry = 0;
  for (int bit = 0; bit < 64; ++bit) {
    const unsigned total = ((original >> bit) & 1) + ((add >> bit) & 1) + carry;
    sum |= static_cast<std::uint64_t>(total & 1) << bit;
    carry = ((mask >> bit) & 1) != 0 ? 0 : total >> 1;
  }
  return sum;
}

TEST(MaskedAdd, Rfc7306_5_1_1_01_EqualsTheBitSerialForm) {
  std::mt19937_64 random(7306);
  for (int i = 0; i < 100'000; ++i) {
    const auto original = random(), add = random(), mask = random() & random();
    ASSERT_EQ(masked_add(original, add, mask), bit_serial(original, add, mask));
  }
  for (const std::uint64_t mask :
       {std::uint64_t{0}, ~std::uint64_t{0}, std::uint64_t{1} << 63, std::uint64_t{1} << 31}) {
    for (int i = 0; i < 1'000; ++i) {
      const auto original = random(), add = random();
      ASSERT_EQ(masked_add(original, add, mask), bit_serial(original, add, mask)) << mask;
    }
  }
}

TEST(MaskedAdd, Rfc7306_5_1_1_06_MaskZeroWrapsAt64Bits) {
  EXPECT_EQ(masked_add(~std::uint64_t{0}, 1, 0), 0u);
}

TEST(MaskedCompareSwap, Rfc7306_5_1_2_02_SwapsOnlyMaskedBitsOnAMatch) {
  std::uint64_t word = 0x1122334455667788;
  EXPECT_EQ(masked_compare_swap(word, 0x88, 0xff, 0xaaaa, 0x00ff), 0x1122334455667788u);
  EXPECT_EQ(word, 0x11223344556677aau);
  EXPECT_EQ(masked_compare_swap(word, 0x00, 0xff, 0, ~std::uint64_t{0}), 0x11223344556677aau);
  EXPECT_EQ(word, 0x11223344556677aau) << "a mismatch changes nothing";
}

}  // namespace
}  // namespace kbtp
