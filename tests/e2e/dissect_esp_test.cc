// `kbtp dissect --esp-keys` as a user runs it.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "base/hex.h"
#include "pcap/capture_file.h"
#include "pcap/esp_seal.h"
#include "tests/e2e/process.h"

namespace kbtp::e2e {
namespace {

using namespace trace::test;
using rdmap::Opcode;
using ::testing::HasSubstr;

Conversation talk() {
  Conversation talk;
  talk.open();
  talk.say(true, request());
  talk.say(false, reply());
  talk.say(true, tagged(Opcode::rdma_write, 7, 0, true, pattern(1000)));
  talk.say(false, untagged(Opcode::send, 0, 1, 0, true, pattern(100)));
  return talk;
}

std::string capture(const std::string& name, const std::vector<trace::Frame>& frames) {
  const auto octets = trace::encode_capture(frames);
  return temporary_file(name, {reinterpret_cast<const char*>(octets.data()), octets.size()});
}

/// The conversation in a tunnel between 10.0.0.91 and 10.0.0.92; both directions have SAs of their own.
std::string in_tunnel(const std::string& name) {
  std::vector<trace::Frame> frames = talk().frames;
  for (trace::Frame& frame : frames) {
    const Octets ip = Octets(frame.octets).subspan(14);
    const bool client = ip[15] == std::byte{1};
    frame.octets = ethernet(0x0800, ipv4(v4(client ? 91 : 92, 0), v4(client ? 92 : 91, 0), 50,
                                         seal(gcm(), client ? 1 : 2, frame.number, 4, ip)));
    frame.wire_length = static_cast<std::uint32_t>(frame.octets.size());
  }
  return capture(name, frames);
}

std::string key_line(std::uint8_t first) {
  return R"("IPv4","*","*","*","AES-GCM with 16 octet ICV [RFC4106]","0x)" +
         to_hex(gcm(16, 32, first).cipher_key) + "\",\"NULL\",\"\"\n";
}

TEST(DissectEsp, WhatIsInsideIsToldLikeAnyOtherTraffic) {
  const std::string keys = temporary_file("right.esp_sa", key_line(1));
  const Finished plain = kbtp({"dissect", capture("plain.pcap", talk().frames)});
  const Finished inside = kbtp({"dissect", in_tunnel("esp.pcap"), "--esp-keys", keys});
  EXPECT_EQ(inside.status, 0) << inside.err;
  EXPECT_EQ(inside.out, plain.out);
  EXPECT_EQ(inside.err, "");
  const Finished json = kbtp({"dissect", in_tunnel("json.pcap"), "--esp-keys", keys, "-o", "json", "--filter",
                              "spi==2 && event==message"});
  const auto message = nlohmann::json::parse(json.out);
  EXPECT_EQ(message["esp.spi"], 2);
  EXPECT_EQ(message["esp.sequence"], message["frame.number"]);
  EXPECT_EQ(message["esp.mode"], "tunnel");
  EXPECT_EQ(message["esp.in_udp"], false);
}

TEST(DissectEsp, AWrongKeyIsToldOnceForEachAssociation) {
  const std::string keys = temporary_file("wrong.esp_sa", "# not it\n" + key_line(2));
  const Finished run = kbtp({"dissect", in_tunnel("wrong.pcap"), "--esp-keys", keys});
  EXPECT_EQ(run.status, 0);
  const std::string fit = ": the key in line 2 of " + keys + " does not fit: the ICV is wrong\n";
  EXPECT_EQ(run.err, "kbtp dissect: ESP SA SPI 0x00000001 from 10.0.0.91 to 10.0.0.92" + fit +
                         "kbtp dissect: ESP SA SPI 0x00000002 from 10.0.0.92 to 10.0.0.91" + fit +
                         "kbtp dissect: neither iWARP nor RoCE in 6 frames, 0 TCP connections\n");
}

TEST(DissectEsp, WithoutKeysThePacketsAreCounted) {
  const Finished run = kbtp({"dissect", in_tunnel("without.pcap")});
  EXPECT_EQ(run.status, 0);
  EXPECT_THAT(run.err, HasSubstr("6 ESP packets of 2 SAs could not be read: no key for them (--esp-keys)"));
}

TEST(DissectEsp, AFileOfKeysThatIsWrongEndsWithTwo) {
  const std::string bad = temporary_file("bad.esp_sa", key_line(1) + "\"IPv4\",\"1.2.3\"\n");
  const Finished run = kbtp({"dissect", in_tunnel("bad.pcap"), "--esp-keys", bad});
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr(bad + ": line 2, column 1: an esp_sa line has 8 to 10 parts, this one 2"));
  EXPECT_EQ(kbtp({"dissect", bad, "--esp-keys", "/nowhere"}).status, 2);
}

}  // namespace
}  // namespace kbtp::e2e
