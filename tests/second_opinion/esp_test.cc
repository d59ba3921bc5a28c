// Our decoder against tshark over conversations inside ESP, with the same keys: captures of strongSwan
// (tunnel in UDP) and of Linux siw (transport mode).

#include "pcap/esp.h"

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>

#include "second_opinion/tshark.h"

namespace kbtp::second_opinion {
namespace {

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// "10.2.1.1 -> 10.2.1.2 spi 0x1001 key 0x0001..." as a line of esp_sa.
std::string esp_sa_of(const std::string& notes) {
  std::istringstream lines(notes);
  std::string keys;
  for (std::string line; std::getline(lines, line);) {
    std::istringstream words(line);
    std::string from, arrow, to, spi_word, spi, key_word, key;
    if (line.starts_with('#') || !(words >> from >> arrow >> to >> spi_word >> spi >> key_word >> key))
      continue;
    keys += "\"IPv4\",\"" + from + "\",\"" + to + "\",\"" + spi +
            "\",\"AES-GCM with 16 octet ICV [RFC4106]\",\"" + key + "\",\"NULL\",\"\"\n";
  }
  return keys;
}

class SecondOpinionInEsp : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = tshark_missing(); !why.empty()) GTEST_SKIP() << why;
    const char* set = std::getenv("KBTP_SHARED");
    folder_ = set != nullptr ? std::string(set) : std::string(KBTP_SOURCE_DIR "/../shared");
    folder_ /= "captures";
    if (!std::filesystem::is_directory(folder_)) GTEST_SKIP() << "no captures at " << folder_;
  }
  static std::size_t expect_same(const std::filesystem::path& path, const std::string& esp_sa) {
    auto keys = trace::read_esp_keys(esp_sa, path.string());
    EXPECT_TRUE(keys);
    if (!keys) return 0;
    trace::EspStage stage(std::move(*keys));
    trace::DecodeOptions options;
    options.esp = &stage;
    const auto ours = trace::decode_trace_file(path.string(), options);
    const auto theirs = ask_tshark(path.string(), esp_sa);
    EXPECT_TRUE(ours && theirs) << path;
    if (!ours || !theirs) return 0;
    const Rows rows = rows_of(*ours);
    EXPECT_EQ(difference(rows, *theirs), "") << path;
    return count(rows);
  }

  std::filesystem::path folder_;
};

TEST_F(SecondOpinionInEsp, StrongSwanTunnelInUdp) {
  for (const char* name : {"ipsec_psk", "ipsec_cert"}) {
    const std::string base = (folder_ / "esp" / name).string();
    EXPECT_EQ(expect_same(base + ".pcap", text_of(base + ".esp_sa")), 41U);
  }
}

TEST_F(SecondOpinionInEsp, LinuxTransportWithSiw) {
  const auto folder = folder_ / "siw";
  EXPECT_EQ(
      expect_same(folder / "siw-esp-aesgcm-rping-C5.pcap", esp_sa_of(text_of(folder / "siw-esp-keys.txt"))),
      35U);
}

}  // namespace
}  // namespace kbtp::second_opinion
