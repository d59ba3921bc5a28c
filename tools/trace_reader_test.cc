#include "tools/trace_reader.h"

#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sstream>

#include "tools/lru.h"

namespace kbtp::tools {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::StartsWith;

constexpr const char* kGood =
    R"({"timestamp": 5, "input_length": 600, "output_length": 2, "hash_ids": [3, 9]})";

// The error that `text` ends with.
std::string error_of(const std::string& text) {
  std::istringstream input(text);
  TraceReader reader(input, "t.jsonl");
  for (;;) {
    auto next = reader.next();
    if (!next) return next.error().text;
    if (!*next) return "";
  }
}

TEST(TraceReader, ReadsTheFourMembers) {
  std::istringstream input(std::string(kGood) + "\n" + kGood);
  TraceReader reader(input, "t.jsonl");
  const auto first = reader.next();
  ASSERT_TRUE(first && *first);
  EXPECT_EQ((*first)->timestamp_ms, 5U);
  EXPECT_EQ((*first)->input_length, 600U);
  EXPECT_EQ((*first)->output_length, 2U);
  EXPECT_THAT((*first)->hash_ids, ElementsAre(3, 9));
  const auto second = reader.next();
  ASSERT_TRUE(second && *second) << "the last line needs no line end";
  const auto third = reader.next();
  ASSERT_TRUE(third);
  EXPECT_FALSE(*third);
}

TEST(TraceReader, TakesCrLfAndAnEmptyFile) {
  EXPECT_EQ(error_of(std::string(kGood) + "\r\n"), "");
  EXPECT_EQ(error_of(""), "");
}

TEST(TraceReader, ErrorsNameFileAndLine) {
  EXPECT_THAT(error_of(std::string(kGood) + "\n{\n"), StartsWith("t.jsonl:2: no JSON at column"));
  EXPECT_EQ(error_of(std::string(kGood) + "\n\n" + kGood), "t.jsonl:2: the line is empty");
}

TEST(TraceReader, RefusesEveryOtherShape) {
  const std::pair<const char*, const char*> cases[] = {
      {R"({"timestamp": 5, "input_length": 600, "output_length": 2})", "'hash_ids' is missing"},
      {R"({"timestamp": 5, "timestamp": 5})", "'timestamp' stands twice"},
      {R"({"timestamp": -5})", "-5 is negative"},
      {R"({"timestamp": 1.5})", "1.5 is no whole number"},
      {R"({"timestamp": 18446744073709551616})", "is no whole number"},
      {R"({"timestamp": "5"})", "a string stands where a whole number should"},
      {R"({"timestamp": null})", "null stands where"},
      {R"({"timestamp": true})", "true or false stands where"},
      {R"({"timestamp": [5]})", "an array stands where it should not"},
      {R"({"hash_ids": 5})", "'hash_ids' is an array"},
      {R"({"hash_ids": [[5]]})", "an array stands where it should not"},
      {R"({"hash_ids": [{}]})", "an object stands where a number should"},
      {R"({"colour": 5})", "'colour' is no member"},
      {"[1]", "an array stands where it should not"},
      {"7", "the line is no object"},
      {"{} {}", "is missing"},
  };
  for (const auto& [line, expected] : cases) {
    EXPECT_THAT(error_of(line), HasSubstr(expected)) << line;
    EXPECT_THAT(error_of(line), StartsWith("t.jsonl:1: ")) << line;
  }
}

TEST(TraceReader, TextBehindTheObjectIsAnError) {
  EXPECT_THAT(error_of(std::string(kGood) + " x"), HasSubstr("no JSON at column"));
}

TEST(TraceReader, ALineThatNeverEndsIsCutOffAtTheLimit) {
  EXPECT_THAT(error_of(std::string(TraceReader::kMaxLine + 1, ' ')), HasSubstr("longer than"));
}

// The public trace whose numbers are known; it lies beside the project, not in it.
TEST(TraceReader, ThePublicTraceGives46065HitsAtCapacity8192) {
  const std::filesystem::path path =
      std::filesystem::path(KBTP_SOURCE_DIR) / "../shared/traces/mooncake_fast25_synthetic_trace.jsonl";
  std::ifstream input(path);
  if (!input) GTEST_SKIP() << path << " is not on this machine";
  TraceReader reader(input, path);
  Lru lru(8192);
  std::uint64_t requests = 0;
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
  for (;;) {
    auto next = reader.next();
    ASSERT_TRUE(next) << next.error().text;
    if (!*next) break;
    ++requests;
    for (const std::uint64_t id : (*next)->hash_ids) ++(lru.touch(id).hit ? hits : misses);
  }
  EXPECT_EQ(requests, 3993U);
  EXPECT_EQ(hits, 46065U);
  EXPECT_EQ(misses, 75812U);
}

}  // namespace
}  // namespace kbtp::tools
