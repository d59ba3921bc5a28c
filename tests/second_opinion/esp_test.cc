// Our decoder against tshark over conversations inside ESP, with the same keys: captures of strongSwan
// (tunnel in UDP) and of Linux siw (transport mode).

#include "pcap/esp.h"

#include <array>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <sstream>
#include <unistd.h>

#include "base/hex.h"
#include "pcap/capture_file.h"
#include "pcap/esp_seal.h"
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

/// How many FPDUs both see, with the same keys.
std::size_t expect_same(const std::filesystem::path& path, const std::string& esp_sa) {
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

class SecondOpinionInEsp : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = tshark_missing(); !why.empty()) GTEST_SKIP() << why;
    const char* set = std::getenv("KBTP_SHARED");
    folder_ = set != nullptr ? std::string(set) : std::string(KBTP_SOURCE_DIR "/../shared");
    folder_ /= "captures";
    if (!std::filesystem::is_directory(folder_)) GTEST_SKIP() << "no captures at " << folder_;
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

/// Every algorithm, in tunnel mode, sealed here with OpenSSL.
TEST(SecondOpinionOfEsp, EveryAlgorithm) {
  if (const std::string why = tshark_missing(); !why.empty()) GTEST_SKIP() << why;
  using namespace trace;
  using namespace trace::test;
  struct Algorithm {
    EspTransform transform;
    const char* cipher;
    const char* integrity;
  };
  const std::array algorithms{
      Algorithm{gcm(8, 16), "AES-GCM with 8 octet ICV [RFC4106]", "NULL"},
      Algorithm{gcm(12, 24), "AES-GCM with 12 octet ICV [RFC4106]", "NULL"},
      Algorithm{gcm(16, 32), "AES-GCM with 16 octet ICV [RFC4106]", "NULL"},
      Algorithm{with_hmac(EspCipher::aes_cbc, EspIntegrity::hmac_sha1_96, 16), "AES-CBC [RFC3602]",
                "HMAC-SHA-1-96 [RFC2404]"},
      Algorithm{with_hmac(EspCipher::aes_cbc, EspIntegrity::hmac_sha256_128, 24), "AES-CBC [RFC3602]",
                "HMAC-SHA-256-128 [RFC4868]"},
      Algorithm{with_hmac(EspCipher::aes_cbc, EspIntegrity::hmac_sha384_192, 32), "AES-CBC [RFC3602]",
                "HMAC-SHA-384-192 [RFC4868]"},
      Algorithm{with_hmac(EspCipher::null, EspIntegrity::hmac_sha512_256), "NULL",
                "HMAC-SHA-512-256 [RFC4868]"},
  };
  for (const Algorithm& algorithm : algorithms) {
    Conversation talk;
    talk.open();
    talk.say(true, request());
    talk.say(false, reply());
    for (std::uint32_t i = 0; i < 16; ++i)
      talk.say(true, tagged(rdmap::Opcode::rdma_write, 7, 100 * i, true, pattern(100 + i)));
    for (Frame& frame : talk.frames) {
      const Bytes sealed =
          seal(algorithm.transform, 0xC0DE0001, frame.number, 4, Octets(frame.octets).subspan(14));
      frame.octets = ethernet(0x0800, ipv4(v4(91, 0), v4(92, 0), 50, sealed));
      frame.wire_length = static_cast<std::uint32_t>(frame.octets.size());
    }
    const auto hex = [](const Bytes& key) { return key.empty() ? std::string() : "0x" + to_hex(key); };
    const std::string keys = std::string(R"("IPv4","10.0.0.91","*","0xc0de0001",")") + algorithm.cipher +
                             "\",\"" + hex(algorithm.transform.cipher_key) + "\",\"" + algorithm.integrity +
                             "\",\"" + hex(algorithm.transform.integrity_key) + "\"\n";
    const auto path = std::filesystem::temp_directory_path() /
                      ("kbtp-second-opinion-esp-" + std::to_string(::getpid()) + ".pcap");
    EXPECT_TRUE(write_capture(path.string(), talk.frames));
    EXPECT_EQ(expect_same(path, keys), 16U) << keys;
    std::filesystem::remove(path);
  }
}

}  // namespace
}  // namespace kbtp::second_opinion
