// The direct modes from the shell: `kbtp block --direct` and the benchmarks of them, with a target whose
// configuration says who is trusted with what.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/e2e/process.h"

namespace kbtp::e2e {
namespace {

using testing::HasSubstr;

constexpr const char* kTrusted = "123e4567-e89b-12d3-a456-426614174000";
constexpr const char* kLoadsOnly = "123e4567-e89b-12d3-a456-426614174001";
constexpr const char* kNeither = "123e4567-e89b-12d3-a456-426614174002";

std::string config() {
  const auto initiator = [](const char* identity, int base, const char* more) {
    return "[[initiator]]\nidentity = \"" + std::string(identity) +
           "\"\naddress = \"127.0.0.1\"\nquota = 3\nhandles = 8\nbase_handle = " + std::to_string(base) +
           "\n" + more;
  };
  return temporary_file(
      "direct.toml", "blocks = 16\nblock_size = 65536\nhandles = 1000\n" +
                         initiator(kTrusted, 100, "direct_load = true\ndirect_alloc = true\n") +
                         initiator(kLoadsOnly, 200, "direct_load = true\n") + initiator(kNeither, 300, ""));
}

class Direct : public testing::Test {
 protected:
  Target target_{{"--config", config(), "--listen", "127.0.0.1:0"}};

  Finished block(const std::string& operation, const std::string& handle, std::vector<std::string> more = {},
                 std::string_view input = {}) {
    std::vector<std::string> arguments = {"block",    operation, "--target", target_.endpoint(),
                                          "--handle", handle};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return kbtp(arguments, input);
  }
};

TEST_F(Direct, WhatIsAllocatedDirectlyIsLoadedDirectlyOctetForOctet) {
  std::string page;
  for (int i = 0; i < 50'001; ++i) page.push_back(static_cast<char>(i * 7 + i / 251));
  const Finished stored = block("alloc-store", "100", {"--direct", "--identity", kTrusted, "--seal"}, page);
  ASSERT_EQ(stored.status, 0) << stored.err;
  EXPECT_THAT(stored.err, HasSubstr("handle 100: Data Length 50001, Generation 2"));

  for (const char* who : {kTrusted, kLoadsOnly}) {
    const Finished loaded = block("load", "100", {"--direct", "--identity", who});
    EXPECT_EQ(loaded.status, 0) << loaded.err;
    EXPECT_TRUE(loaded.out == page);
    EXPECT_THAT(loaded.err, HasSubstr("handle 100: Data Length 50001, Generation 2"));
  }
  EXPECT_TRUE(block("load", "100").out == page) << "and by LOAD";

  ASSERT_EQ(block("free", "100", {"--identity", kTrusted}).status, 0);
  const Finished gone = block("load", "100", {"--direct", "--identity", kTrusted});
  EXPECT_EQ(gone.status, 1);
  EXPECT_THAT(gone.err, HasSubstr("handle 100: NOT_BOUND"));
  EXPECT_EQ(gone.out, "");
  EXPECT_EQ(target_.drain(), "drained: 16 of 16 blocks are free");
}

TEST_F(Direct, WhatIsStoredIsLoadedDirectly) {
  ASSERT_EQ(block("alloc-store", "200", {"--identity", kLoadsOnly}, "text").status, 0);
  const Finished unsealed = block("load", "200", {"--direct", "--identity", kLoadsOnly});
  EXPECT_EQ(unsealed.status, 1);
  EXPECT_THAT(unsealed.err, HasSubstr("handle 200: NOT_SEALED"));
  ASSERT_EQ(block("store", "200", {"--identity", kLoadsOnly, "--seal"}, "more").status, 0);
  EXPECT_EQ(block("load", "200", {"--direct", "--identity", kTrusted}).out, "more");
  const Finished other = block("load", "200", {"--direct", "--identity", kTrusted, "--generation", "77"});
  EXPECT_EQ(other.status, 1);
  EXPECT_THAT(other.err, HasSubstr("GENERATION_MISMATCH"));
  EXPECT_THAT(block("load", "5000", {"--direct", "--identity", kTrusted}).err, HasSubstr("NO_SUCH_HANDLE"));
}

TEST_F(Direct, StatusesOfADirectAllocationEndWith1AndAreNamed) {
  const auto alloc = [&](const std::string& handle, const std::string& data) {
    return block("alloc-store", handle, {"--direct", "--identity", kTrusted}, data);
  };
  EXPECT_EQ(alloc("100", "text").status, 0);
  const auto expect = [&](const Finished& ended, const std::string& handle, const std::string& status) {
    EXPECT_EQ(ended.status, 1) << status;
    EXPECT_THAT(ended.err, HasSubstr("handle " + handle + ": " + status));
  };
  expect(alloc("100", "text"), "100", "ALREADY_BOUND");
  expect(alloc("200", "text"), "200", "NOT_OWNER");
  expect(alloc("101", std::string(65537, 'x')), "101", "LENGTH_ERROR");
  EXPECT_EQ(alloc("101", "").status, 0);
  EXPECT_EQ(alloc("102", "text").status, 0);
  expect(alloc("103", "text"), "103", "NO_SPACE");
}

TEST_F(Direct, AModeThatIsNotGrantedEndsWith3) {
  for (const char* who : {kNeither, kLoadsOnly}) {
    const Finished alloc = block("alloc-store", "200", {"--direct", "--identity", who}, "text");
    EXPECT_EQ(alloc.status, 3);
    EXPECT_THAT(alloc.err, HasSubstr("kbtp block alloc-store: the target does not grant DIRECT_ALLOC"));
  }
  const Finished load = block("load", "200", {"--direct", "--identity", kNeither});
  EXPECT_EQ(load.status, 3);
  EXPECT_THAT(load.err, HasSubstr("kbtp block load: the target does not grant DIRECT_LOAD"));
  for (const char* op : {"direct-load", "direct-alloc"}) {
    const Finished bench = kbtp({"bench", op, "--target", target_.endpoint(), "--identity", kNeither,
                                 "--size", "4096", "--outstanding", "3", "--ops", "1"});
    EXPECT_EQ(bench.status, 3);
    EXPECT_THAT(bench.err,
                HasSubstr(std::string("kbtp bench ") + op + ": the target does not grant DIRECT_"));
  }
}

TEST_F(Direct, BenchmarksOfAForeignTargetLeaveNothingBehind) {
  for (const char* op : {"direct-load", "direct-alloc"}) {
    const Finished ended =
        kbtp({"bench", op, "--target", target_.endpoint(), "--identity", kTrusted, "--size", "5000",
              "--outstanding", "3", "--ops", "50", "--runs", "2", "--json", "-"});
    ASSERT_EQ(ended.status, 0) << ended.err;
    const auto json = nlohmann::json::parse(ended.out);
    EXPECT_EQ(json["op"], op);
    EXPECT_EQ(json["size"], 5000);
    EXPECT_TRUE(json["cpu_s_per_gib"].is_null());
  }
  EXPECT_EQ(target_.drain(), "drained: 16 of 16 blocks are free");
}

TEST(DirectBench, AnEmbeddedTargetGrantsTheModes) {
  for (const char* op : {"direct-load", "direct-alloc"}) {
    const Finished ended = kbtp({"bench", op, "--size", "16KiB", "--outstanding", "4", "--connections", "2",
                                 "--seconds", "0.1", "--runs", "2", "--json", "-"});
    ASSERT_EQ(ended.status, 0) << ended.err;
    const auto json = nlohmann::json::parse(ended.out);
    EXPECT_EQ(json["op"], op);
    EXPECT_EQ(json["connections"], 2);
    EXPECT_EQ(json["runs"], 2);
    for (const char* field : {"ops_per_s", "gbytes_per_s", "p50_us", "p99_us", "cpu_s_per_gib", "min", "max"})
      EXPECT_GT(json[field], 0) << field;
  }
}

}  // namespace
}  // namespace kbtp::e2e
