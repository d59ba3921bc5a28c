// A target and `kbtp block` in processes of their own, over IPv4 and IPv6.

#include <csignal>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

#include "tests/e2e/process.h"

namespace kbtp::e2e {
namespace {

using testing::HasSubstr;

constexpr const char* kIdentity = "123e4567-e89b-12d3-a456-426614174000";
constexpr const char* kOther = "123e4567-e89b-12d3-a456-426614174001";

// Two named initiators, at handles 100 and 200, that come from `address`.
std::string config_for(const std::string& address) {
  return temporary_file("target.toml",
                        "blocks = 16\nblock_size = 65536\nhandles = 1000\n"
                        "[[initiator]]\nidentity = \"" +
                            std::string(kIdentity) + "\"\naddress = \"" + address +
                            "\"\nquota = 4\nhandles = 8\nbase_handle = 100\n"
                            "[[initiator]]\nidentity = \"" +
                            kOther + "\"\naddress = \"" + address +
                            "\"\nquota = 4\nhandles = 8\nbase_handle = 200\n");
}

struct Address {
  const char* name;
  const char* listen;
  const char* peer;
};

class BlockOver : public testing::TestWithParam<Address> {
 protected:
  Target target_{{"--config", config_for(GetParam().peer), "--listen", GetParam().listen}};

  Finished block(const std::string& operation, const std::string& handle, std::vector<std::string> more = {},
                 std::string_view input = {}) {
    std::vector<std::string> arguments = {"block",    operation, "--target", target_.endpoint(),
                                          "--handle", handle};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return kbtp(arguments, input);
  }
};

INSTANTIATE_TEST_SUITE_P(Each, BlockOver,
                         testing::Values(Address{"IPv4", "127.0.0.1:0", "127.0.0.1"},
                                         Address{"IPv6", "[::1]:0", "::1"}),
                         [](const auto& address) { return address.param.name; });

TEST_P(BlockOver, WhatIsStoredIsLoadedUntilItIsFreed) {
  std::string page;
  for (int i = 0; i < 50'000; ++i) page.push_back(static_cast<char>(i * 7 + i / 251));
  EXPECT_EQ(block("stat", "100").status, 1);
  EXPECT_THAT(block("stat", "100").err, HasSubstr("handle 100: NOT_BOUND"));

  const Finished stored = block("alloc-store", "100", {"--identity", kIdentity, "--seal"}, page);
  ASSERT_EQ(stored.status, 0) << stored.err;
  const Finished stat = block("stat", "100");
  EXPECT_EQ(stat.status, 0) << stat.err;
  EXPECT_THAT(stat.out, HasSubstr("handle 100: bound, Data Length 50000, Generation "));

  const Finished loaded = block("load", "100");
  EXPECT_EQ(loaded.status, 0) << loaded.err;
  EXPECT_TRUE(loaded.out == page);

  const Finished freed = block("free", "100", {"--identity", kIdentity});
  EXPECT_EQ(freed.status, 0) << freed.err;
  EXPECT_EQ(block("stat", "100").status, 1);
  EXPECT_EQ(target_.drain(), "drained: 16 of 16 blocks are free");
}

TEST_P(BlockOver, StatusesOtherThanSuccessEndWith1AndAreNamed) {
  ASSERT_EQ(block("alloc-store", "100", {"--identity", kIdentity}, "text").status, 0);
  const auto expect = [&](const Finished& ended, const std::string& status) {
    EXPECT_EQ(ended.status, 1) << status;
    EXPECT_THAT(ended.err, HasSubstr("handle 100: " + status));
    EXPECT_EQ(ended.out, "");
  };
  expect(block("alloc-store", "100", {"--identity", kIdentity}, "text"), "ALREADY_BOUND");
  expect(block("load", "100"), "NOT_SEALED");
  EXPECT_EQ(block("load", "100", {"--allow-unsealed"}).out, "text");
  expect(block("load", "100", {"--allow-unsealed", "--generation", "65535"}), "GENERATION_MISMATCH");
  expect(block("store", "100", {"--identity", kOther}, "text"), "NOT_OWNER");
  expect(block("free", "100", {"--identity", kOther}), "NOT_OWNER");
  expect(block("store", "100", {"--identity", kIdentity}, std::string(65537, 'x')), "LENGTH_ERROR");
  EXPECT_EQ(block("store", "100", {"--identity", kIdentity, "--seal", "--inline"}, "more").status, 0);
  EXPECT_EQ(block("load", "100").out, "more");
  expect(block("store", "100", {"--identity", kIdentity}, "text"), "SEALED");
  EXPECT_EQ(block("load", "5000").status, 1);
  EXPECT_THAT(block("load", "5000").err, HasSubstr("handle 5000: NO_SUCH_HANDLE"));
}

TEST_P(BlockOver, AnEmptyBlockIsBound) {
  ASSERT_EQ(block("alloc-store", "101", {"--identity", kIdentity, "--seal"}, "").status, 0);
  const Finished stat = block("stat", "101");
  EXPECT_EQ(stat.status, 0);
  EXPECT_THAT(stat.out, HasSubstr("handle 101: bound, Data Length 0, "));
  EXPECT_EQ(block("load", "101").status, 0);
  EXPECT_EQ(block("load", "101").out, "");
}

TEST_P(BlockOver, WithoutAnIdentityTheBlockGoesWithTheSession) {
  const Finished stored = block("alloc-store", "7", {"--seal"}, "text");
  EXPECT_EQ(stored.status, 0) << stored.err;
  EXPECT_THAT(stored.err, HasSubstr("private to this session and gone at its end"));
  EXPECT_EQ(target_.drain(), "drained: 16 of 16 blocks are free");
}

TEST(TargetSignals, SigintDrainsToo) {
  Target target({"--listen", "127.0.0.1:0", "--blocks", "4"});
  target.process().signal(SIGINT);
  EXPECT_EQ(target.process().wait(), 0);
}

TEST(TargetMetrics, TellBlocksAndOperations) {
  Target target({"--listen", "127.0.0.1:0", "--blocks", "4", "--metrics", "127.0.0.1:0"});
  EXPECT_EQ(target.metric("kbtp_free_blocks"), 4);
  EXPECT_EQ(target.metric("kbtp_blocks"), 4);
  ASSERT_EQ(kbtp({"block", "alloc-store", "--target", target.endpoint(), "--handle", "0"}, "text").status, 0);
  EXPECT_EQ(target.metric(R"(kbtp_operations_total{operation="ALLOC_STORE",status="SUCCESS"})"), 1);
  EXPECT_EQ(target.metric(R"(kbtp_block_octets_total{operation="ALLOC_STORE"})"), 4);
  EXPECT_TRUE(target.wait_for_metric("kbtp_sessions_open", [](double open) { return open == 0; }));
  EXPECT_EQ(target.metric("kbtp_free_blocks"), 4);
}

TEST(TargetMetrics, AnAddressThatIsTakenEndsWith3) {
  Target target({"--listen", "127.0.0.1:0", "--blocks", "4"});
  const Finished second =
      kbtp({"target", "--listen", "127.0.0.1:0", "--blocks", "4", "--metrics", target.endpoint()});
  EXPECT_EQ(second.status, 3);
  EXPECT_THAT(second.err, HasSubstr("metrics cannot be served on " + target.endpoint()));
}

}  // namespace
}  // namespace kbtp::e2e
