// Conversations inside ESP, as a Decoder makes of them what it makes of the same without ESP.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <functional>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sstream>

#include "pcap/capture_file.h"
#include "pcap/esp.h"
#include "pcap/esp_seal.h"
#include "pcap/trace.h"

namespace kbtp::trace {
namespace {

using namespace test;
using rdmap::Opcode;

Conversation talk() {
  Conversation talk;
  talk.open();
  talk.say(true, request());
  talk.say(false, reply());
  for (std::uint32_t i = 0; i < 4; ++i)
    talk.say(true, tagged(Opcode::rdma_write, 7, 1000 * i, i == 3, pattern(1000)));
  talk.say(false, untagged(Opcode::send, 0, 1, 0, true, pattern(100)));
  talk.fin(true);
  talk.fin(false);
  return talk;
}

std::vector<std::string> lines_of(const Trace& trace) {
  std::vector<std::string> lines;
  for (const Connection& connection : trace.connections) {
    for (const Event& event : connection.events) lines.push_back(to_line(event, trace.start_ns));
  }
  return lines;
}

/// The conversation's IP packets, each in ESP made by `wrap`, from 10.9.0.1 and 10.9.0.2 in turn by who
/// sends.
std::vector<Frame> wrapped(const Conversation& talk,
                           const std::function<Bytes(Octets ip_packet, std::uint64_t sequence)>& wrap) {
  std::vector<Frame> frames = talk.frames;
  std::uint64_t sequence = 0;
  for (Frame& frame : frames) {
    frame.octets = ethernet(0x0800, wrap(Octets(frame.octets).subspan(14), ++sequence));
    frame.wire_length = static_cast<std::uint32_t>(frame.octets.size());
  }
  return frames;
}

Trace opened(const std::vector<Frame>& frames, const EspTransform& transform) {
  EspKey key;
  key.spi_mask = 0;
  key.transform = transform;
  EspStage stage({key});
  DecodeOptions options;
  options.esp = &stage;
  Trace trace = decode_trace(frames, options);
  EXPECT_TRUE(account_of(stage).empty());
  return trace;
}

TEST(EspTrace, TunnelTransportUdpAndFragmentsGiveTheSameEvents) {
  const Conversation plain = talk();
  const auto expected = lines_of(decode_trace(plain.frames));
  ASSERT_GT(expected.size(), 8U);
  const TransportAddress here = v4(91, 0);
  const TransportAddress there = v4(92, 0);
  const EspTransform transform = gcm();

  EXPECT_EQ(lines_of(opened(wrapped(plain,
                                    [&](Octets ip, std::uint64_t n) {
                                      return ipv4(here, there, 50, seal(transform, 9, n, 4, ip));
                                    }),
                            transform)),
            expected);
  const auto transport = [&](Octets ip, std::uint64_t n) {
    const bool client = ip[15] == std::byte{1};
    return ipv4(v4(client ? 1 : 2, 0), v4(client ? 2 : 1, 0), 50, seal(transform, 9, n, 6, ip.subspan(20)));
  };
  EXPECT_EQ(lines_of(opened(wrapped(plain, transport), transform)), expected);
  EXPECT_EQ(lines_of(opened(wrapped(plain,
                                    [&](Octets ip, std::uint64_t n) {
                                      const Bytes esp = seal(transform, 9, n, 4, ip, true);
                                      Bytes udp(8);
                                      store_be(udp.data(), std::uint16_t{4500});
                                      store_be(udp.data() + 2, std::uint16_t{4500});
                                      store_be(udp.data() + 4, static_cast<std::uint16_t>(8 + esp.size()));
                                      return ipv4(here, there, 17, udp + esp);
                                    }),
                            transform)),
            expected);
  // ESP in two fragments of the IP packet around it; frames get numbers of their own.
  std::vector<Frame> frames;
  for (const Frame& whole : wrapped(plain, transport)) {
    const Octets ip = Octets(whole.octets).subspan(14);
    for (const bool second : {false, true}) {
      const Octets part = second ? ip.subspan(20 + 32) : ip.subspan(20, 32);
      Bytes packet = to_vector(ip.first(20)) + to_vector(part);
      store_be(packet.data() + 2, static_cast<std::uint16_t>(packet.size()));
      store_be(packet.data() + 4, static_cast<std::uint16_t>(whole.number));
      store_be(packet.data() + 6, static_cast<std::uint16_t>(second ? 32 / 8 : 0x2000));
      Frame frame = whole;
      frame.octets = ethernet(0x0800, packet);
      frame.wire_length = static_cast<std::uint32_t>(frame.octets.size());
      frames.push_back(frame);
    }
  }
  EXPECT_EQ(lines_of(opened(frames, transform)), expected);
}

TEST(EspTrace, WithoutAKeyItIsOtherTrafficAndCounted) {
  EspStage stage({});
  DecodeOptions options;
  options.esp = &stage;
  const auto frames = wrapped(talk(), [&](Octets ip, std::uint64_t n) {
    return ipv4(v4(91, 0), v4(92, 0), 50, seal(gcm(), 9, n, 4, ip));
  });
  const Trace trace = decode_trace(frames, options);
  EXPECT_TRUE(trace.connections.empty());
  EXPECT_EQ(trace.count(FrameProblem::Kind::other_protocol), frames.size());
  ASSERT_EQ(stage.associations().size(), 1U);
  EXPECT_EQ(stage.associations()[0].without_key, frames.size());
}

std::string text_of(const std::filesystem::path& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

/// Over captures of strongSwan and of Linux, where they are.
class EspCaptures : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* set = std::getenv("KBTP_SHARED");
    folder_ = set != nullptr ? std::string(set) : std::string(KBTP_SOURCE_DIR "/../shared");
    folder_ /= "captures";
    if (!std::filesystem::is_directory(folder_)) GTEST_SKIP() << "no captures at " << folder_;
  }
  /// All that is inside decodes as iWARP without an error.
  static void expect_iwarp(const std::filesystem::path& path, const std::string& keys,
                           std::uint64_t esp_packets, std::size_t fpdus) {
    auto read = read_esp_keys(keys, "keys");
    ASSERT_TRUE(read) << read.error().text;
    EspStage stage(std::move(*read), [](const auto& one, std::size_t) { ADD_FAILURE() << one.to_string(); });
    DecodeOptions options;
    options.expect_iwarp = false;
    options.esp = &stage;
    const auto trace = decode_trace_file(path.string(), options);
    ASSERT_TRUE(trace);
    std::uint64_t opened = 0;
    for (const auto& one : stage.associations()) {
      opened += one.opened;
      EXPECT_EQ(one.without_key, 0U) << one.to_string();
    }
    EXPECT_EQ(opened, esp_packets);
    EXPECT_TRUE(account_of(stage).empty());
    std::size_t good = 0;
    for (const Connection& connection : trace->connections) {
      for (const Event& event : connection.events) {
        EXPECT_EQ(event.as<BadStartup>(), nullptr) << to_line(event, trace->start_ns);
        EXPECT_EQ(event.as<Missing>(), nullptr) << to_line(event, trace->start_ns);
        EXPECT_EQ(event.as<Note>(), nullptr) << to_line(event, trace->start_ns);
        if (const auto* fpdu = event.as<Fpdu>()) {
          EXPECT_FALSE(fpdu->error) << to_line(event, trace->start_ns);
          EXPECT_NE(fpdu->crc, CrcState::bad) << to_line(event, trace->start_ns);
          ++good;
        }
      }
    }
    EXPECT_EQ(good, fpdus);
  }

  std::filesystem::path folder_;
};

TEST_F(EspCaptures, StrongSwanTunnelInUdp) {
  const auto look = [&](const char* name, std::uint64_t esp_packets) {
    const std::string base = (folder_ / "esp" / name).string();
    expect_iwarp(base + ".pcap", text_of(base + ".esp_sa"), esp_packets, 41);
  };
  look("ipsec_psk", 65);
  look("ipsec_cert", 70);
}

TEST_F(EspCaptures, LinuxTransportWithSiw) {
  expect_iwarp(folder_ / "siw" / "siw-esp-aesgcm-rping-C5.pcap",
               text_of(folder_ / "siw" / "siw-esp-keys.txt"), 50, 35);
}

/// RoCEv2 through a tunnel that the test digs.
TEST_F(EspCaptures, RoceInATunnelGivesTheSameEvents) {
  const auto file = read_capture(std::string(folder_ / "rxe" / "rxe-rping-C5.pcap"));
  ASSERT_TRUE(file);
  const auto expected = lines_of(decode_trace(file->frames));
  ASSERT_GT(expected.size(), 20U);
  Conversation talk;
  talk.frames = file->frames;
  EXPECT_EQ(lines_of(opened(wrapped(talk,
                                    [&](Octets ip, std::uint64_t n) {
                                      const std::uint8_t next = (ip[0] >> 4) == std::byte{6} ? 41 : 4;
                                      return ipv4(v4(91, 0), v4(92, 0), 50, seal(gcm(), 9, n, next, ip));
                                    }),
                            gcm())),
            expected);
}

}  // namespace
}  // namespace kbtp::trace
