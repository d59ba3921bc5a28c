// Every golden message of MPA, DDP and RDMAP is a seed of its fuzzer, and so is every refused one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/hex.h"
#include "fuzz/seeds.h"
#include "rdmap_binding/ddp/golden.h"
#include "rdmap_binding/mpa/golden.h"
#include "rdmap_binding/rdmap/golden.h"

namespace kbtp {
namespace {

template <class Table>
void add(fuzz::Seeds& seeds, std::string_view prefix, const Table& table) {
  for (const auto& entry : table) {
    const bool is_new =
        seeds.emplace(std::string(prefix) + std::string(entry.name), from_hex(entry.hex).value()).second;
    EXPECT_TRUE(is_new) << entry.name << " twice";
  }
}

std::filesystem::path corpus(std::string_view fuzzer) {
  return std::filesystem::path(KBTP_FUZZ_CORPUS) / fuzzer;
}

TEST(FuzzSeeds, MpaCorpusHoldsTheGoldenFrames) {
  fuzz::Seeds seeds;
  add(seeds, "startup_", mpa::golden::kStartups);
  add(seeds, "bad_", mpa::golden::kBadStartups);
  add(seeds, "fpdu_", mpa::golden::kFpdus);
  add(seeds, "marked_", mpa::golden::kMarkedFpdus);
  for (const auto& golden : mpa::golden::kMarkedStreams) {
    auto octets = from_hex(golden.head).value();
    octets.resize(octets.size() + golden.zeros);
    const auto tail = from_hex(golden.tail).value();
    octets.insert(octets.end(), tail.begin(), tail.end());
    EXPECT_TRUE(seeds.emplace("marked_" + std::string(golden.name), octets).second) << golden.name;
  }
  EXPECT_THAT(fuzz::stale_seeds(corpus("mpa"), seeds), testing::IsEmpty());
}

TEST(FuzzSeeds, DdpCorpusHoldsTheGoldenSegments) {
  fuzz::Seeds seeds;
  add(seeds, "segment_", ddp::golden::kSegments);
  add(seeds, "bad_", ddp::golden::kBadSegments);
  EXPECT_THAT(fuzz::stale_seeds(corpus("ddp"), seeds), testing::IsEmpty());
}

TEST(FuzzSeeds, RdmapCorpusHoldsTheGoldenMessages) {
  fuzz::Seeds seeds;
  add(seeds, "message_", rdmap::golden::kMessages);
  add(seeds, "bad_", rdmap::golden::kBadMessages);
  EXPECT_THAT(fuzz::stale_seeds(corpus("rdmap"), seeds), testing::IsEmpty());
}

}  // namespace
}  // namespace kbtp
