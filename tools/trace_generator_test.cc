#include "tools/trace_generator.h"

#include <gtest/gtest.h>
#include <sstream>
#include <unordered_set>

namespace kbtp::tools {
namespace {

std::string trace_of(const GeneratorOptions& options) {
  TraceGenerator generator(options);
  std::string text;
  for (std::uint64_t i = 0; i < options.requests; ++i) text += to_line(generator.next()) + "\n";
  return text;
}

// Share of block references that stood in the trace before.
double repeated_share(const GeneratorOptions& options) {
  TraceGenerator generator(options);
  std::unordered_set<std::uint64_t> seen;
  double references = 0;
  double repeated = 0;
  for (std::uint64_t i = 0; i < options.requests; ++i) {
    for (const std::uint64_t id : generator.next().hash_ids) {
      ++references;
      if (!seen.insert(id).second) ++repeated;
    }
  }
  return repeated / references;
}

TEST(TraceGenerator, WhatItWritesTheReaderReads) {
  GeneratorOptions options;
  options.requests = 500;
  std::istringstream input(trace_of(options));
  TraceReader reader(input, "generated");
  std::uint64_t requests = 0;
  std::uint64_t last = 0;
  for (;;) {
    auto next = reader.next();
    ASSERT_TRUE(next) << next.error().text;
    if (!*next) break;
    ++requests;
    EXPECT_GE((*next)->timestamp_ms, last);
    last = (*next)->timestamp_ms;
    // One block for every 512 tokens, as in the published traces.
    EXPECT_EQ((*next)->hash_ids.size(), ((*next)->input_length + 511) / 512);
  }
  EXPECT_EQ(requests, 500U);
}

TEST(TraceGenerator, TheSeedDecidesEverything) {
  GeneratorOptions options;
  EXPECT_EQ(trace_of(options), trace_of(options));
  GeneratorOptions other = options;
  other.seed = 2;
  EXPECT_NE(trace_of(options), trace_of(other));
}

TEST(TraceGenerator, ReuseIsTunable) {
  GeneratorOptions options;
  options.requests = 2000;
  options.reuse = 0;
  EXPECT_EQ(repeated_share(options), 0);
  options.reuse = 0.5;
  const double half = repeated_share(options);
  options.reuse = 1;
  const double full = repeated_share(options);
  EXPECT_GT(half, 0.15);
  EXPECT_GT(full, half + 0.15);
}

}  // namespace
}  // namespace kbtp::tools
