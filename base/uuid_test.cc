#include "base/uuid.h"

#include <gtest/gtest.h>
#include <unordered_set>

namespace kbtp {
namespace {

constexpr std::string_view kText = "f81d4fae-7dec-11d0-a765-00a0c91e6bf6";

TEST(Uuid, TextFormIsOctetsInOrder) {
  const auto uuid = Uuid::parse(kText);
  ASSERT_TRUE(uuid);
  EXPECT_EQ(uuid->octets[0], std::byte{0xF8});
  EXPECT_EQ(uuid->octets[15], std::byte{0xF6});
  EXPECT_EQ(uuid->to_string(), kText);
  EXPECT_EQ(Uuid::parse("F81D4FAE-7DEC-11D0-A765-00A0C91E6BF6"), uuid);
}

TEST(Uuid, OtherFormsAreRefused) {
  EXPECT_FALSE(Uuid::parse(""));
  EXPECT_FALSE(Uuid::parse("f81d4fae7dec11d0a76500a0c91e6bf6"));
  EXPECT_FALSE(Uuid::parse("f81d4fae-7dec-11d0-a765-00a0c91e6bf"));
  EXPECT_FALSE(Uuid::parse("f81d4fae-7dec-11d0-a765-00a0c91e6bf6 "));
  EXPECT_FALSE(Uuid::parse("g81d4fae-7dec-11d0-a765-00a0c91e6bf6"));
  EXPECT_FALSE(Uuid::parse("f81d4fae-7dec-11d0-a765-00a0c91e6b#6"));
  EXPECT_FALSE(Uuid::parse("f81d4fae 7dec-11d0-a765-00a0c91e6bf6"));
}

TEST(Uuid, RandomOnesDifferAndSayVersion4) {
  std::unordered_set<Uuid> seen;
  for (int i = 0; i < 100; ++i) {
    const Uuid uuid = Uuid::random();
    EXPECT_EQ(uuid.to_string()[14], '4');
    EXPECT_FALSE(uuid.is_zero());
    EXPECT_TRUE(seen.insert(uuid).second);
  }
  EXPECT_TRUE(Uuid{}.is_zero());
}

}  // namespace
}  // namespace kbtp
