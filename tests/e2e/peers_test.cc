// `kbtp replay --peers`: nodes that are target and initiator at once, and what becomes of them when one dies
// or the parent is told to stop.

#include <csignal>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <string>
#include <unistd.h>
#include <vector>

#include "tests/e2e/process.h"
#include "tools/replay_places.h"
#include "tools/trace_generator.h"

namespace kbtp::e2e {
namespace {

using testing::HasSubstr;

constexpr std::uint32_t kCapacity = 240;

struct Trace {
  std::string path;
  std::uint64_t requests = 0;
  std::uint64_t hits = 0;
  std::uint64_t misses = 0;
};

// What is due with `nodes` nodes that share kCapacity.
Trace make_trace(std::uint64_t requests, std::uint32_t nodes, std::uint64_t interval_ms = 0) {
  tools::GeneratorOptions options;
  options.requests = requests;
  options.mean_interval_ms = interval_ms;
  tools::TraceGenerator generator(options);
  tools::PeerPlaces places(nodes, kCapacity / (nodes * (nodes - 1)));
  Trace trace;
  trace.requests = requests;
  std::string text;
  for (std::uint64_t i = 0; i < requests; ++i) {
    const tools::TraceRequest request = generator.next();
    for (const std::uint64_t id : request.hash_ids) ++(places.touch(i, id).hit ? trace.hits : trace.misses);
    text += tools::to_line(request) + "\n";
  }
  trace.path = temporary_file("trace.jsonl", text);
  return trace;
}

// At its own pace this trace takes the better part of an hour, so that there is time to disturb it.
Process long_replay(const Trace& trace) {
  return Process({kbtp_path(), "replay", trace.path, "--peers", "3", "--capacity", std::to_string(kCapacity),
                  "--block-size", "4096", "--speed", "1", "--deadline", "20"});
}

// The nodes, once all are there.
std::vector<pid_t> nodes_of(const Process& replay, std::size_t count) {
  const std::string list =
      "/proc/" + std::to_string(replay.pid()) + "/task/" + std::to_string(replay.pid()) + "/children";
  std::vector<pid_t> nodes;
  for (int i = 0; i < 3000 && nodes.size() < count; ++i) {
    nodes.clear();
    std::ifstream children(list);
    for (pid_t pid = 0; children >> pid;) nodes.push_back(pid);
    poll(nullptr, 0, 10);
  }
  return nodes;
}

TEST(Peers, HitsAndMissesDependOnNothingButTheTrace) {
  for (const std::uint32_t nodes : {2U, 4U}) {
    const Trace trace = make_trace(100, nodes);
    ASSERT_GT(trace.hits, 100U);
    for (const char* outstanding : {"1", "32"}) {
      const std::string report = temporary_file("report.json", "");
      const Finished ended = kbtp({"replay", trace.path, "--peers", std::to_string(nodes), "--capacity",
                                   std::to_string(kCapacity), "--block-size", "4099", "--outstanding",
                                   outstanding, "--json", report});
      ASSERT_EQ(ended.status, 0) << ended.err;
      EXPECT_THAT(ended.out, HasSubstr(" nodes are free at the end"));
      std::ifstream file(report);
      const auto json = nlohmann::json::parse(file, nullptr, false);
      EXPECT_EQ(json["op"], "replay");
      EXPECT_EQ(json["peers"], nodes);
      EXPECT_EQ(json["requests"], trace.requests);
      EXPECT_EQ(json["hits"], trace.hits);
      EXPECT_EQ(json["misses"], trace.misses);
      EXPECT_EQ(json["octets_checked"], trace.hits * 4099);
      EXPECT_EQ(json["octets_stored"], trace.misses * 4099);
      for (const char* member : {"ops_per_s", "gbytes_per_s", "p50_us", "p99_us", "cpu_s_per_gib"})
        EXPECT_GT(json[member], 0) << member;
    }
  }
}

TEST(Peers, ANodeThatDiesEndsItWith3AndLeavesNoOrphan) {
  const Trace trace = make_trace(10'000, 3, 250);
  Process replay = long_replay(trace);
  const std::vector<pid_t> nodes = nodes_of(replay, 3);
  ASSERT_EQ(nodes.size(), 3);
  ASSERT_EQ(kill(nodes[1], SIGKILL), 0);
  // The nodes hold their parent's standard error: its end is theirs too.
  EXPECT_EQ(replay.wait(), 3);
  EXPECT_THAT(replay.err(), HasSubstr("node "));
}

TEST(Peers, ASignalEndsItCleanly) {
  const Trace trace = make_trace(10'000, 3, 250);
  Process replay = long_replay(trace);
  ASSERT_EQ(nodes_of(replay, 3).size(), 3);
  replay.signal(SIGINT);
  EXPECT_EQ(replay.wait(), 3);
  EXPECT_THAT(replay.err(), HasSubstr("interrupted after"));
  EXPECT_THAT(replay.out(), HasSubstr("of the 3 nodes are free at the end"));
}

TEST(Peers, NodesDieWithTheirParent) {
  const Trace trace = make_trace(10'000, 3, 250);
  Process replay = long_replay(trace);
  ASSERT_EQ(nodes_of(replay, 3).size(), 3);
  replay.signal(SIGKILL);
  EXPECT_EQ(replay.wait(), 128 + SIGKILL);
}

TEST(Peers, TooLittleRoomOrTooFewNodesEndWith2) {
  const Trace trace = make_trace(1, 2);
  EXPECT_EQ(kbtp({"replay", trace.path, "--peers", "1"}).status, 2);
  EXPECT_EQ(kbtp({"replay", trace.path, "--peers", "3", "--initiators", "2"}).status, 2);
  const Finished small = kbtp({"replay", trace.path, "--peers", "4", "--capacity", "11"});
  EXPECT_EQ(small.status, 2);
  EXPECT_THAT(small.err, HasSubstr("--capacity must be at least 12"));
}

}  // namespace
}  // namespace kbtp::e2e
