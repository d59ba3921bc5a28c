#include "proto/memory/quota.h"

#include <gtest/gtest.h>
#include <thread>
#include <vector>

namespace kbtp::memory {
namespace {

TEST(QuotaBook, Kbtp_3_4_02_SumStaysBelowTheReserve) {
  QuotaBook book(100, 10);
  const auto a = book.open(60);
  const auto b = book.open(60);
  const auto c = book.open(1);
  EXPECT_EQ(a.quota, 60u);
  EXPECT_EQ(b.quota, 30u);  // a smaller grant (P-09)
  EXPECT_EQ(c.quota, 0u);
  EXPECT_EQ(book.available(), 0u);
  book.close(a.owner);
  EXPECT_EQ(book.available(), 60u);
  EXPECT_EQ(book.open(1000).quota, 60u);
}

TEST(QuotaBook, ReserveAbovePoolLeavesNothing) {
  QuotaBook book(5, 6);
  EXPECT_EQ(book.reserved(), 5u);
  EXPECT_EQ(book.open(1).quota, 0u);
}

TEST(QuotaBook, Kbtp_3_4_14_OneAboveTheQuotaIsRefusedAndChangesNothing) {
  QuotaBook book(10, 0);
  const auto [owner, quota] = book.open(2);
  EXPECT_TRUE(book.reserve(owner));
  EXPECT_TRUE(book.reserve(owner));
  EXPECT_FALSE(book.reserve(owner));
  EXPECT_EQ(book.usage(owner), 2u);
  book.release(owner);
  EXPECT_EQ(book.usage(owner), 1u);  // KBTP-3.4-05
  EXPECT_TRUE(book.reserve(owner));
  EXPECT_FALSE(book.reserve(owner));
}

TEST(QuotaBook, G_54_QuotaZeroAllocatesNothing) {
  QuotaBook book(10, 0);
  const auto grant = book.open(0);
  EXPECT_FALSE(book.reserve(grant.owner));
}

TEST(QuotaBook, UnknownOwnersHaveNothing) {
  QuotaBook book(10, 0);
  const auto grant = book.open(3);
  book.close(grant.owner);
  book.close(grant.owner);
  EXPECT_EQ(book.available(), 10u);
  EXPECT_FALSE(book.reserve(grant.owner));
  EXPECT_EQ(book.quota(grant.owner), 0u);
  EXPECT_EQ(book.usage(grant.owner), 0u);
}

TEST(QuotaBook, ThreadsTogetherNeverExceedTheQuota) {
  QuotaBook book(64, 0);
  const auto [owner, quota] = book.open(3);
  std::vector<std::jthread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, id = owner] {
      for (int j = 0; j < 5000; ++j) {
        if (!book.reserve(id)) continue;
        EXPECT_LE(book.usage(id), 3u);
        book.release(id);
      }
    });
  }
  threads.clear();
  EXPECT_EQ(book.usage(owner), 0u);
}

}  // namespace
}  // namespace kbtp::memory
