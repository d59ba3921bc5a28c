#include "pcap/capture_file.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <map>
#include <zlib.h>

#include "base/hex.h"
#include "pcap/test_frames.h"
#include "pcap/test_gzip.h"
#include "pcap/trace.h"

namespace kbtp::trace {
namespace {

using namespace test;

std::vector<Frame> three_frames() {
  Conversation talk;
  talk.open();
  talk.say(true, request());
  talk.frames[0].time_ns = 1'700'000'000'123'456'789;
  talk.frames[2].octets.resize(60);  // cut short
  return talk.frames;
}

TEST(CaptureFile, WhatIsWrittenIsReadAgain) {
  const std::vector<Frame> frames = three_frames();
  const auto file = read_capture(encode_capture(frames));
  ASSERT_TRUE(file) << file.error().text;
  EXPECT_EQ(file->damage, "");
  ASSERT_EQ(file->frames.size(), frames.size());
  for (std::size_t i = 0; i < frames.size(); ++i) {
    EXPECT_EQ(file->frames[i].number, i + 1);
    EXPECT_EQ(file->frames[i].time_ns, frames[i].time_ns);
    EXPECT_EQ(file->frames[i].wire_length, frames[i].wire_length);
    EXPECT_EQ(file->frames[i].link, LinkType::ethernet);
    EXPECT_EQ(file->frames[i].octets, frames[i].octets);
  }
}

TEST(CaptureFile, OctetsOfTheFileHeader) {
  Frame frame;
  frame.time_ns = 2'000'000'003;
  frame.link = LinkType::linux_sll2;
  frame.wire_length = 9;
  frame.octets = *from_hex("0102");
  EXPECT_EQ(encode_capture(std::span(&frame, 1)),
            *from_hex("a1b23c4d 0002 0004 00000000 00000000 00040000 00000114 # file, SLL2 is 276\n"
                      "00000002 00000003 00000002 00000009 0102"));
}

TEST(CaptureFile, LinkTypesOfInfiniband) {
  for (const LinkType link : {LinkType::infiniband, LinkType::erf}) {
    Frame frame;
    frame.link = link;
    frame.wire_length = 2;
    frame.octets = *from_hex("0102");
    const auto file = read_capture(encode_capture(std::span(&frame, 1)));
    ASSERT_TRUE(file) << file.error().text;
    EXPECT_EQ(file->frames.at(0).link, link);
  }
}

TEST(CaptureFile, BrokenOffAtEveryOctetGivesTheFramesBefore) {
  const std::vector<Frame> frames = three_frames();
  const std::vector<std::byte> whole = encode_capture(frames);
  for (std::size_t size = 0; size < whole.size(); ++size) {
    const auto file = read_capture(Octets(whole).first(size));
    if (size < 24) {
      EXPECT_FALSE(file) << size;
      continue;
    }
    ASSERT_TRUE(file) << size;
    EXPECT_LT(file->frames.size(), 3U);
    std::size_t at = 24;
    bool between = at == size;
    for (const Frame& frame : frames) between = between || (at += 16 + frame.octets.size()) == size;
    EXPECT_EQ(file->damage.empty(), between) << size << ": " << file->damage;
  }
}

std::vector<std::byte> swapped_order(std::vector<std::byte> file) {
  for (const std::size_t at : {0, 16, 20}) std::reverse(file.begin() + at, file.begin() + at + 4);
  for (const std::size_t at : {4, 6}) std::reverse(file.begin() + at, file.begin() + at + 2);
  for (std::size_t at = 24; at < file.size();) {
    const std::size_t next = at + 16 + load_be<std::uint32_t>(file.data() + at + 8);
    for (std::size_t i = 0; i < 4; ++i, at += 4)
      std::reverse(file.begin() + static_cast<std::ptrdiff_t>(at),
                   file.begin() + static_cast<std::ptrdiff_t>(at) + 4);
    at = next;
  }
  return file;
}

TEST(CaptureFile, EitherByteOrderAndUnitOfTime) {
  const std::vector<Frame> frames = three_frames();
  const auto swapped = read_capture(swapped_order(encode_capture(frames)));
  ASSERT_TRUE(swapped);
  ASSERT_EQ(swapped->frames.size(), 3U);
  EXPECT_EQ(swapped->frames[0].time_ns, frames[0].time_ns);
  EXPECT_EQ(swapped->frames[2].octets, frames[2].octets);
  auto coarse = encode_capture(frames);
  store_be<std::uint32_t>(coarse.data(), 0xA1B2C3D4);
  store_be<std::uint32_t>(coarse.data() + 28, 123456);
  EXPECT_EQ(read_capture(coarse)->frames[0].time_ns, 1'700'000'000'123'456'000);
}

TEST(CaptureFile, GzipIsUnpackedInAnyNumberOfMembers) {
  const auto whole = encode_capture(three_frames());
  auto packed = gzipped(Octets(whole).first(50));
  append(packed, gzipped(Octets(whole).subspan(50)));
  const auto file = read_capture(packed);
  ASSERT_TRUE(file) << file.error().text;
  EXPECT_EQ(file->frames.size(), 3U);
  EXPECT_EQ(file->damage, "");
}

TEST(CaptureFile, GzipThatBreaksOffGivesTheFramesBefore) {
  Conversation talk;
  for (int i = 0; i < 2000; ++i) talk.say(true, pattern(900, static_cast<std::uint8_t>(i)));
  auto packed = gzipped(encode_capture(talk.frames));
  packed.resize(packed.size() / 2);
  const auto file = read_capture(packed);
  ASSERT_TRUE(file) << file.error().text;
  EXPECT_GT(file->frames.size(), 100U);
  EXPECT_LT(file->frames.size(), 2000U);
  EXPECT_NE(file->damage.find("gzip data break off"), std::string::npos) << file->damage;
}

TEST(CaptureFile, FramesOverManyChunksOfTheBuffer) {
  Conversation talk;
  for (int i = 0; i < 1500; ++i) talk.say(true, pattern(static_cast<std::size_t>(i), 3));
  const auto file = read_capture(encode_capture(talk.frames));
  ASSERT_TRUE(file);
  ASSERT_EQ(file->frames.size(), talk.frames.size());
  for (std::size_t i = 0; i < talk.frames.size(); ++i)
    ASSERT_EQ(file->frames[i].octets, talk.frames[i].octets);
}

TEST(CaptureFile, AHostileLengthEndsTheFile) {
  auto file = encode_capture(three_frames());
  store_be<std::uint32_t>(file.data() + 24 + 8, 0xFFFFFFFF);
  const auto read = read_capture(file);
  ASSERT_TRUE(read);
  EXPECT_TRUE(read->frames.empty());
  EXPECT_NE(read->damage.find("4294967295 octets"), std::string::npos) << read->damage;
}

TEST(CaptureFile, ErrorsAreSentences) {
  EXPECT_NE(read_capture(std::string("/nonexistent/trace.pcap")).error().text.find("No such file"),
            std::string::npos);
  EXPECT_FALSE(read_capture(Octets{}));
  EXPECT_FALSE(read_capture(as_octets("this is a text and not a capture file at all")));
  const auto usb = read_capture(*from_hex("a1b2c3d4 0002 0004 00000000 00000000 00040000 000000dc"));
  ASSERT_FALSE(usb);
  EXPECT_NE(usb.error().text.find("link type"), std::string::npos);
  EXPECT_FALSE(write_capture("/nonexistent/trace.pcap", {}));
}

TEST(CaptureFile, WritesToAPath) {
  const auto path =
      std::filesystem::temp_directory_path() / ("kbtp-capture-" + std::to_string(::getpid()) + ".pcap");
  ASSERT_TRUE(write_capture(path.string(), three_frames()));
  const auto trace = decode_trace_file(path.string());
  std::filesystem::remove(path);
  ASSERT_TRUE(trace);
  EXPECT_EQ(trace->connections.size(), 1U);
}

/// Captures of public test suites, when this checkout has them beside it (they are no part of the product).
class ReaderCaptures : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::is_directory(folder())) GTEST_SKIP() << "no captures at " << folder();
  }
  static std::string folder() {
    const char* set = std::getenv("KBTP_SHARED");
    return (set != nullptr ? std::string(set) : std::string(KBTP_SOURCE_DIR "/../shared")) +
           "/captures/reader";
  }
  static Trace trace(const std::string& name) {
    auto decoded = decode_trace_file(folder() + "/" + name);
    EXPECT_TRUE(decoded) << name << ": " << decoded.error().text;
    return decoded ? std::move(*decoded) : Trace{};
  }
};

TEST_F(ReaderCaptures, LinkTypes) {
  EXPECT_EQ(trace("pcapplusplus-SllPacket.pcap").connections.at(0).server.to_string(),
            "[2404:6800:8004::68]:80");
  EXPECT_EQ(trace("pcapplusplus-Sll2Packet.pcap").connections.at(0).client.to_string(),
            "7.249.151.114:57292");
  EXPECT_EQ(trace("pcapplusplus-raw_ip.pcap").connections.size(), 6U);
  EXPECT_EQ(trace("pcapplusplus-linktype_ipv6.pcap").connections.size(), 1U);
  EXPECT_EQ(trace("pcapplusplus-null_loopback.pcap").connections.at(0).server.to_string(), "[::1]:81");
  EXPECT_EQ(trace("tcpdump-tcp-handshake-nano.pcap").connections.size(), 1U);
  EXPECT_EQ(trace("tcpdump-bigtcp-ipv4.pcap").connections.size(), 1U);
  EXPECT_EQ(trace("tcpdump-bigtcp-ipv6-hbh.pcap").connections.size(), 1U);
}

TEST_F(ReaderCaptures, MalformedAndFragmentedFramesAreCounted) {
  EXPECT_EQ(trace("pcapplusplus-frag_with_padding.pcap").count(FrameProblem::Kind::fragment), 7U);
  EXPECT_EQ(trace("pcapplusplus-tcp-malformed.pcap").count(FrameProblem::Kind::malformed), 2U);
  EXPECT_EQ(trace("tcpdump-LINKTYPE_IPV4_invalid.pcap").count(FrameProblem::Kind::malformed), 1U);
  EXPECT_EQ(trace("tcpdump-ipv4_invalid_hdr_length.pcap").count(FrameProblem::Kind::malformed), 1U);
  EXPECT_EQ(trace("tcpdump-ipv6_invalid_length.pcap").count(FrameProblem::Kind::malformed), 1U);
}

TEST_F(ReaderCaptures, SequenceWrapHasNoGap) {
  const Trace wrapped = trace("pcapplusplus-one_tcp_stream_max_seq.pcap");
  ASSERT_EQ(wrapped.connections.size(), 1U);
  EXPECT_EQ(wrapped.connections[0].counters[0].missing, 0U);
  EXPECT_EQ(wrapped.connections[0].counters[1].missing, 0U);
}

/// What its authors say of each file is in ../shared/captures/README.md.
TEST_F(ReaderCaptures, EveryPcapngHasItsPackets) {
  const std::map<std::string, std::uint64_t> expected = {
      {"basic_test001", 4},    {"basic_test002", 0},     {"basic_test003", 0},     {"basic_test004", 4},
      {"basic_test005", 4},    {"basic_test006", 5},     {"basic_test007", 1},     {"basic_test008", 4},
      {"basic_test009", 2},    {"basic_test010", 4},     {"basic_test011", 4},     {"basic_test012", 4},
      {"basic_test013", 0},    {"basic_test014", 0},     {"basic_test015", 0},     {"basic_test016", 4},
      {"basic_test017", 0},    {"basic_test018", 4},     {"advanced_test100", 5},  {"advanced_test101", 4},
      {"advanced_test102", 5}, {"difficult_test200", 0}, {"difficult_test201", 4}, {"difficult_test202", 8}};
  for (const auto& [name, frames] : expected) {
    const Trace read = trace("output_le_" + name + ".pcapng");
    EXPECT_EQ(read.frames, frames) << name;
    EXPECT_EQ(read.damage, "") << name;
  }
  EXPECT_EQ(trace("pcapplusplus-many_interfaces-1.pcapng").frames, 64U);
}

TEST_F(ReaderCaptures, EveryFileIsReadOrSaysWhyNot) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder())) {
    const auto decoded = decode_trace_file(entry.path().string());
    ++files;
    if (decoded) {
      EXPECT_EQ(decoded->damage, "") << entry.path();
    } else {
      // Of libnfnetlink's log: nothing for us.
      EXPECT_NE(decoded.error().text.find("link type 253"), std::string::npos) << decoded.error().text;
    }
  }
  EXPECT_GT(files, 30U);
}

}  // namespace
}  // namespace kbtp::trace
