// `kbtp dissect` in every form over every capture of other people's traffic, kernels and tools, when they are
// beside the repository.

#include <cstdlib>
#include <filesystem>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>

#include "tests/e2e/process.h"

namespace kbtp::e2e {
namespace {

using ::testing::HasSubstr;

std::vector<std::filesystem::path> captures() {
  const char* set = std::getenv("KBTP_SHARED");
  const std::filesystem::path folder =
      (set != nullptr ? std::filesystem::path(set) : KBTP_SOURCE_DIR "/../shared") / "captures";
  std::vector<std::filesystem::path> files;
  if (!std::filesystem::is_directory(folder)) return files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().extension() == ".pcap" || entry.path().extension() == ".pcapng")
      files.push_back(entry.path());
  }
  return files;
}

/// The command line for a file, with its keys when it has some.
std::vector<std::string> command(const std::filesystem::path& file) {
  std::vector<std::string> words{"dissect", file.string()};
  std::filesystem::path keys = file;
  keys.replace_extension(".esp_sa");
  if (file.filename() == "siw-esp-aesgcm-rping-C5.pcap") keys = file.parent_path() / "siw-esp-keys.txt";
  if (std::filesystem::exists(keys)) words.insert(words.end(), {"--esp-keys", keys.string()});
  return words;
}

TEST(DissectCaptures, EachFormOfEachFile) {
  const auto files = captures();
  if (files.empty()) GTEST_SKIP() << "no captures beside the repository";
  for (const auto& file : files) {
    SCOPED_TRACE(file);
    const bool ours = file.filename().string().starts_with("siw") ||
                      file.filename().string().starts_with("rxe") || file.filename() == "ipsec_psk.pcap" ||
                      file.filename() == "ipsec_cert.pcap";
    for (const std::string form : {"text", "fields", "json", "summary", "svg"}) {
      SCOPED_TRACE(form);
      std::vector<std::string> words = command(file);
      if (form == "fields") {
        words.insert(words.end(), {"-v", "-x"});
      } else {
        words.insert(words.end(), {"-o", form});
      }
      const Finished run = kbtp(words);
      if (file.filename() == "pcapplusplus-microsecs_big_endian.pcap") {
        EXPECT_EQ(run.status, 3);
        EXPECT_THAT(run.err, HasSubstr("link type 253 is not understood"));
        continue;
      }
      EXPECT_EQ(run.status, 0) << run.err;
      if (!ours) {
        EXPECT_THAT(run.err, HasSubstr("neither iWARP nor RoCE in "));
        EXPECT_TRUE(form == "summary" || form == "svg" || run.out.empty()) << run.out;
        continue;
      }
      EXPECT_EQ(run.err, "");
      EXPECT_FALSE(run.out.empty());
      if (form == "summary") {
        EXPECT_THAT(run.out, HasSubstr("nothing was found wrong"));
      } else if (form == "json") {
        std::istringstream lines(run.out);
        for (std::string line; std::getline(lines, line);) EXPECT_TRUE(nlohmann::json::accept(line)) << line;
      }
    }
  }
  EXPECT_GT(files.size(), 60U);
}

}  // namespace
}  // namespace kbtp::e2e
