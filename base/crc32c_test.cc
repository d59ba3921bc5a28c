#include "base/crc32c.h"

#include <array>
#include <gtest/gtest.h>
#include <vector>

#include "base/hex.h"

namespace kbtp {
namespace {

TEST(Crc32c, CheckValue) { EXPECT_EQ(crc32c(as_octets("123456789")), 0xE3069283u); }

TEST(Crc32c, Rfc5044WireOrderIsLeastSignificantOctetFirst) {
  std::array<std::byte, 4> wire{};
  store_crc32c(wire.data(), 0x83992352);
  EXPECT_EQ(to_hex(wire), "52239983");
  EXPECT_EQ(load_crc32c(wire.data()), 0x83992352u);
}

TEST(Crc32c, PiecesEqualTheWhole) {
  std::vector<std::byte> octets(10'000);
  for (std::size_t i = 0; i < octets.size(); ++i) octets[i] = static_cast<std::byte>(i * 31);
  for (const std::size_t cut : {0u, 1u, 511u, 4096u, 9'999u, 10'000u}) {
    Crc32c crc;
    crc.update(Octets(octets).first(cut));
    crc.update(Octets(octets).subspan(cut));
    EXPECT_EQ(crc.value(), crc32c(octets)) << cut;
  }
  std::vector<std::byte> copy(octets.size());
  Crc32c crc;
  copy_with_crc(copy, octets, crc);
  EXPECT_EQ(copy, octets);
  EXPECT_EQ(crc.value(), crc32c(octets));
}

}  // namespace
}  // namespace kbtp
