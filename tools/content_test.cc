#include "tools/content.h"

#include <gtest/gtest.h>
#include <vector>

namespace kbtp::tools {
namespace {

TEST(Content, WhatWasMadeIsFoundRightAtEverySize) {
  for (const std::size_t size : {0U, 1U, 7U, 8U, 9U, 4095U, 4096U, 65536U, 65539U}) {
    std::vector<std::byte> block(size);
    make_content({42, 1}, block);
    EXPECT_EQ(find_wrong_octet({42, 1}, block), std::nullopt) << size;
  }
}

TEST(Content, EverySingleWrongOctetIsFoundWhereItIs) {
  std::vector<std::byte> block(4096 + 5);
  make_content({7, 3}, block);
  for (std::size_t at = 0; at < block.size(); ++at) {
    block[at] ^= std::byte{0x10};
    EXPECT_EQ(find_wrong_octet({7, 3}, block), at);
    block[at] ^= std::byte{0x10};
  }
}

TEST(Content, StaleContentAndAnotherBlocksContentShow) {
  std::vector<std::byte> block(4096);
  make_content({7, 1}, block);
  EXPECT_NE(find_wrong_octet({7, 2}, block), std::nullopt);
  EXPECT_NE(find_wrong_octet({8, 1}, block), std::nullopt);
}

TEST(Content, AShiftByAWordShows) {
  std::vector<std::byte> block(4096 + 8);
  make_content({7, 1}, block);
  EXPECT_NE(find_wrong_octet({7, 1}, Octets(block).subspan(8)), std::nullopt);
}

}  // namespace
}  // namespace kbtp::tools
