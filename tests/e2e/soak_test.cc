// `kbtp bench soak`, briefly: the checks are the real ones, and only what needs hours to judge is relaxed.

#include <csignal>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <unistd.h>
#include <vector>

#include "tests/e2e/process.h"

namespace kbtp::e2e {
namespace {

using testing::HasSubstr;

// Seconds are too short to tell warming up from a leak.
std::vector<std::string> soak(std::vector<std::string> more) {
  std::vector<std::string> words = {"bench",
                                    "soak",
                                    "--rate",
                                    "1000",
                                    "--session-life",
                                    "0.5",
                                    "--process-life",
                                    "0.5",
                                    "--bad-starts",
                                    "20",
                                    "--memory-slope",
                                    "1000000",
                                    "--memory-range",
                                    "100000",
                                    "--descriptor-slope",
                                    "1000000",
                                    "--descriptor-range",
                                    "100"};
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

TEST(Soak, ShortOneEndsWithAVerdictOnEverything) {
  const Finished ended = kbtp(soak({"--duration", "4s", "--interval", "0.25", "--seed", "1", "--json", "-"}));
  ASSERT_EQ(ended.status, 0) << ended.err;
  std::istringstream lines(ended.out);
  std::vector<nlohmann::json> objects;
  for (std::string line; std::getline(lines, line);)
    objects.push_back(nlohmann::json::parse(line, nullptr, false));
  ASSERT_GE(objects.size(), 10);
  const nlohmann::json& sample = objects.front();
  for (const char* member : {"seconds", "operations", "target_resident", "target_descriptors",
                             "self_resident", "self_descriptors"})
    EXPECT_GT(sample[member], 0) << member;
  const nlohmann::json& verdict = objects.back();
  EXPECT_EQ(verdict["op"], "soak");
  EXPECT_EQ(verdict["verdict"], "pass");
  EXPECT_EQ(verdict["finding"], "");
  EXPECT_EQ(verdict["flatness"].size(), 4);
  for (const auto& judged : verdict["flatness"]) EXPECT_EQ(judged["verdict"], "flat") << judged;
  // It was a mixture, it was disturbed, and it went on regardless.
  for (const auto& [kind, count] : verdict["by_kind"].items()) EXPECT_GT(count, 0) << kind;
  for (const char* member : {"refused", "cuts", "bad_starts", "kills", "unanswered", "octets_checked"})
    EXPECT_GT(verdict[member], 0) << member;
  EXPECT_THAT(ended.err, HasSubstr("blocks of the target are free at the end"));
}

TEST(Soak, ALeakEndsWith1) {
  Target target({"--listen", "127.0.0.1:0", "--blocks", "256", "--block-size", "16KiB", "--quiet"});
  // What is watched in the target's place is this process, which takes a megabyte every 20 ms.
  Process process({kbtp_path(), "bench", "soak", "--target", target.endpoint(), "--target-pid",
                   std::to_string(getpid()), "--processes", "0", "--bad-starts", "0", "--rate", "500",
                   "--duration", "3s", "--interval", "0.2", "--memory-slope", "1000000"});
  std::vector<std::vector<char>> leaked;
  while (!process.wait(std::chrono::milliseconds(20)) && leaked.size() < 1500)
    leaked.emplace_back(std::size_t{1} << 20, 'x');
  EXPECT_EQ(process.wait(), 1);
  EXPECT_THAT(process.out(), HasSubstr("target memory: NOT FLAT"));
  EXPECT_THAT(process.err(), HasSubstr("not everything stayed flat"));
}

TEST(Soak, ASignalEndsItEarlyWithWhatIsKnown) {
  std::vector<std::string> words = soak({"--duration", "24h", "--interval", "0.5"});
  words.insert(words.begin(), kbtp_path());
  Process process(words);
  ASSERT_TRUE(process.wait_for_output("00:00:01"));
  process.signal(SIGINT);
  EXPECT_EQ(process.wait(), 0) << process.err();
  EXPECT_THAT(process.out(), HasSubstr("blocks of the target are free at the end"));
}

TEST(Soak, ATargetThatDiesIsAFinding) {
  std::vector<std::string> words = soak({"--duration", "24h", "--interval", "0.5", "--processes", "0"});
  words.insert(words.begin(), kbtp_path());
  Process process(words);
  ASSERT_TRUE(process.wait_for_output("operations ("));
  const std::string list =
      "/proc/" + std::to_string(process.pid()) + "/task/" + std::to_string(process.pid()) + "/children";
  pid_t target = 0;
  std::ifstream(list) >> target;
  ASSERT_GT(target, 0);
  ASSERT_EQ(kill(target, SIGKILL), 0);
  EXPECT_EQ(process.wait(), 1);
  EXPECT_THAT(process.err(), HasSubstr("kbtp bench soak: "));
}

TEST(Soak, ATargetThatIsNotThereEndsWith3) {
  const Finished ended = kbtp({"bench", "soak", "--target", "no-such-host.invalid:7420", "--duration", "1s"});
  EXPECT_EQ(ended.status, 3);
}

}  // namespace
}  // namespace kbtp::e2e
