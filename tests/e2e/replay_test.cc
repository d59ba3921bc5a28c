// `kbtp replay` of generated traces, and the death of either side in the middle of it.

#include <csignal>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sstream>
#include <string>

#include "tests/e2e/process.h"
#include "tools/lru.h"
#include "tools/trace_generator.h"

namespace kbtp::e2e {
namespace {

using testing::HasSubstr;

struct Trace {
  std::string path;
  std::uint64_t requests = 0;
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
};

Trace make_trace(std::uint64_t requests, std::uint32_t capacity, std::uint64_t interval_ms = 0) {
  tools::GeneratorOptions options;
  options.requests = requests;
  options.mean_interval_ms = interval_ms;
  tools::TraceGenerator generator(options);
  tools::Lru lru(capacity);
  Trace trace;
  trace.requests = requests;
  std::string text;
  for (std::uint64_t i = 0; i < requests; ++i) {
    const tools::TraceRequest request = generator.next();
    for (const std::uint64_t id : request.hash_ids) ++(lru.touch(id).hit ? trace.hits : trace.misses);
    text += tools::to_line(request) + "\n";
  }
  trace.path = temporary_file("trace.jsonl", text);
  return trace;
}

nlohmann::json replay_json(const Trace& trace, std::vector<std::string> more,
                           const std::string& block_size = "4096") {
  const std::string report = temporary_file("report.json", "");
  std::vector<std::string> arguments = {"replay",       trace.path, "--capacity", "256",
                                        "--block-size", block_size, "--json",     report};
  arguments.insert(arguments.end(), more.begin(), more.end());
  const Finished ended = kbtp(arguments);
  EXPECT_EQ(ended.status, 0) << ended.err << ended.out;
  EXPECT_THAT(ended.out, HasSubstr("are free at the end"));
  std::ifstream file(report);
  return nlohmann::json::parse(file, nullptr, false);
}

TEST(Replay, HitsAndMissesDependOnNothingButTheTrace) {
  const Trace trace = make_trace(200, 256);
  ASSERT_GT(trace.hits, 500U);
  for (const std::vector<std::string>& more :
       {std::vector<std::string>{}, {"--outstanding", "1"}, {"--initiators", "3"}, {"--crc", "off"}}) {
    const auto json = replay_json(trace, more);
    EXPECT_EQ(json["requests"], trace.requests);
    EXPECT_EQ(json["hits"], trace.hits);
    EXPECT_EQ(json["misses"], trace.misses);
    EXPECT_EQ(json["octets_checked"], trace.hits * 4096);
    EXPECT_EQ(json["octets_stored"], trace.misses * 4096);
  }
}

TEST(Replay, TheReportHasTheMembersThatScriptsRelyOn) {
  const auto json = replay_json(make_trace(20, 256), {"--wait", "spin"});
  EXPECT_EQ(json["op"], "replay");
  EXPECT_EQ(json["size"], 4096);
  EXPECT_EQ(json["outstanding"], 32);
  EXPECT_EQ(json["connections"], 1);
  EXPECT_EQ(json["crc"], true);
  EXPECT_EQ(json["wait"], "spin");
  for (const char* member : {"ops_per_s", "gbytes_per_s", "p50_us", "p99_us", "cpu_s_per_gib", "min", "max"})
    EXPECT_GT(json[member], 0) << member;
  EXPECT_TRUE(json["congestion_control"].is_string());
}

TEST(Replay, BlocksOfAnOddSizeAreCheckedToTheLastOctet) {
  const Trace trace = make_trace(50, 256);
  EXPECT_EQ(replay_json(trace, {}, "4099")["octets_checked"], trace.hits * 4099);
}

TEST(Replay, DrivesATargetThatRunsAlready) {
  const Trace trace = make_trace(100, 64);
  Target target({"--listen", "[::1]:0", "--blocks", "80", "--block-size", "4096"});
  const Finished ended = kbtp({"replay", trace.path, "--target", target.endpoint(), "--capacity", "64",
                               "--block-size", "4096", "--initiators", "2"});
  EXPECT_EQ(ended.status, 0) << ended.err;
  EXPECT_EQ(target.drain(), "drained: 80 of 80 blocks are free");
}

TEST(Replay, ATargetThatIsTooSmallEndsWith3) {
  const Trace trace = make_trace(10, 64);
  Target target({"--listen", "127.0.0.1:0", "--blocks", "16", "--block-size", "4096"});
  const Finished few = kbtp({"replay", trace.path, "--target", target.endpoint(), "--capacity", "64"});
  EXPECT_EQ(few.status, 3);
  EXPECT_THAT(few.err, HasSubstr("the target grants 15 blocks of its 16"));
  const Finished small = kbtp({"replay", trace.path, "--target", target.endpoint(), "--capacity", "8"});
  EXPECT_EQ(small.status, 3);
  EXPECT_THAT(small.err, HasSubstr("the target's blocks have 4096 octets, and 65536 are needed"));
}

TEST(Replay, AMistakeInTheTraceEndsWith2AndNamesTheLine) {
  const std::string good = R"({"timestamp": 0, "input_length": 1, "output_length": 1, "hash_ids": [1]})";
  const std::string path = temporary_file("bad.jsonl", good + "\n" + good + "\n{\"timestamp\": -1}\n");
  const Finished ended = kbtp({"replay", path});
  EXPECT_EQ(ended.status, 2);
  EXPECT_THAT(ended.err, HasSubstr(path + ":3: -1 is negative"));
  EXPECT_EQ(kbtp({"replay", temporary_file("empty.jsonl", "")}).status, 2);
}

TEST(Replay, ATargetKilledInTheMiddleEndsItWith3WithinItsDeadline) {
  const Trace trace = make_trace(10'000, 256, 250);
  Target target(
      {"--listen", "127.0.0.1:0", "--blocks", "512", "--block-size", "4096", "--metrics", "127.0.0.1:0"});
  // At the trace's own pace this would take forty minutes.
  Process replay({kbtp_path(), "replay", trace.path, "--target", target.endpoint(), "--capacity", "256",
                  "--block-size", "4096", "--speed", "1", "--deadline", "20"});
  ASSERT_TRUE(target.wait_for_metric("kbtp_bound_handles", [](double bound) { return bound > 0; }));
  target.process().signal(SIGKILL);
  EXPECT_EQ(replay.wait(std::chrono::seconds(30)), 3) << replay.err();
  EXPECT_THAT(replay.err(), HasSubstr("the target was lost"));
}

TEST(Replay, ATargetThatStopsAnsweringEndsItWith3WithinItsDeadline) {
  const Trace trace = make_trace(10'000, 256, 250);
  Target target(
      {"--listen", "127.0.0.1:0", "--blocks", "512", "--block-size", "4096", "--metrics", "127.0.0.1:0"});
  Process replay({kbtp_path(), "replay", trace.path, "--target", target.endpoint(), "--capacity", "256",
                  "--block-size", "4096", "--speed", "1", "--deadline", "1"});
  ASSERT_TRUE(target.wait_for_metric("kbtp_bound_handles", [](double bound) { return bound > 0; }));
  target.process().signal(SIGSTOP);
  EXPECT_EQ(replay.wait(std::chrono::seconds(30)), 3) << replay.err();
  target.process().signal(SIGCONT);
}

TEST(Replay, AnInitiatorKilledInTheMiddleLosesNoBlock) {
  const Trace trace = make_trace(10'000, 256, 250);
  Target target(
      {"--listen", "127.0.0.1:0", "--blocks", "512", "--block-size", "4096", "--metrics", "127.0.0.1:0"});
  Process replay({kbtp_path(), "replay", trace.path, "--target", target.endpoint(), "--capacity", "256",
                  "--block-size", "4096", "--speed", "1"});
  ASSERT_TRUE(target.wait_for_metric("kbtp_bound_handles", [](double bound) { return bound > 0; }));
  replay.signal(SIGKILL);
  EXPECT_EQ(replay.wait(), 128 + SIGKILL);
  EXPECT_TRUE(target.wait_for_metric("kbtp_free_blocks", [](double blocks) { return blocks == 512; }));
  EXPECT_EQ(target.metric("kbtp_quota_blocks"), 0);
  EXPECT_EQ(target.drain(), "drained: 512 of 512 blocks are free");
}

TEST(Replay, TheEmbeddedTargetDiesWithItsParent) {
  const Trace trace = make_trace(10'000, 256, 250);
  Process replay({kbtp_path(), "replay", trace.path, "--capacity", "256", "--speed", "1"});
  // The child exists before the first connection does; wait until the kernel lists it.
  const std::string list =
      "/proc/" + std::to_string(replay.pid()) + "/task/" + std::to_string(replay.pid()) + "/children";
  pid_t child = 0;
  for (int i = 0; i < 3000 && child == 0; ++i) {
    std::ifstream(list) >> child;
    poll(nullptr, 0, 10);
  }
  ASSERT_GT(child, 0);
  replay.signal(SIGKILL);
  // The child holds standard error of its parent: its end is the end of the stream.
  EXPECT_EQ(replay.wait(), 128 + SIGKILL);
}

TEST(Bench, LoadReportsOneObjectWithTheMembersThatScriptsRelyOn) {
  const Finished ended = kbtp({"bench", "load", "--size", "64KiB", "--outstanding", "4", "--connections", "2",
                               "--ops", "200", "--runs", "2", "--json", "-"});
  ASSERT_EQ(ended.status, 0) << ended.err;
  const auto json = nlohmann::json::parse(ended.out, nullptr, false);
  EXPECT_EQ(json["op"], "load");
  EXPECT_EQ(json["size"], 65536);
  EXPECT_EQ(json["outstanding"], 4);
  EXPECT_EQ(json["connections"], 2);
  EXPECT_EQ(json["crc"], true);
  EXPECT_EQ(json["wait"], "block");
  EXPECT_EQ(json["runs"], 2);
  for (const char* member : {"ops_per_s", "gbytes_per_s", "p50_us", "p99_us", "cpu_s_per_gib", "min", "max"})
    EXPECT_GT(json[member], 0) << member;
  EXPECT_LE(json["min"], json["gbytes_per_s"]);
  EXPECT_LE(json["gbytes_per_s"], json["max"]);
  EXPECT_TRUE(json["congestion_control"].is_string());
}

TEST(Bench, ATableIsForPeople) {
  const Finished ended =
      kbtp({"bench", "load", "--size", "4096", "--ops", "50", "--runs", "1", "--crc", "off"});
  ASSERT_EQ(ended.status, 0) << ended.err;
  EXPECT_THAT(ended.out, HasSubstr("GB/s"));
  EXPECT_THAT(ended.out, HasSubstr("off"));
}

}  // namespace
}  // namespace kbtp::e2e
