// iWARP in connections whose start-up is not in the capture, markers in either direction, and what must never
// be taken for iWARP.

#include <gtest/gtest.h>
#include <random>

#include "base/hex.h"
#include "pcap/fpdu_search.h"
#include "pcap/test_frames.h"
#include "pcap/trace.h"
#include "rdmap_binding/mpa/marker.h"

namespace kbtp::trace {
namespace {

using namespace test;
using rdmap::Opcode;

DecodeOptions anything() {
  DecodeOptions options;
  options.expect_iwarp = false;
  return options;
}
std::vector<const Fpdu*> fpdus(const Connection& connection, Side from = Side::client) {
  std::vector<const Fpdu*> found;
  for (const Event& event : connection.events) {
    if (const auto* fpdu = event.as<Fpdu>(); fpdu != nullptr && event.from == from) found.push_back(fpdu);
  }
  return found;
}
Bytes spoiled(Bytes fpdu) {  // as a sender whose CRCs are off
  std::fill(fpdu.end() - 4, fpdu.end(), std::byte{0});
  return fpdu;
}
Bytes write(std::uint64_t offset, std::size_t n = 50) {
  return tagged(Opcode::rdma_write, 0xABCD, offset, true, pattern(n));
}

TEST(Found, InTheMiddleOfAConnectionByOneRightCrc) {
  Conversation talk;  // without its opening
  talk.say(true, Octets(write(0)).subspan(13));
  talk.say(true, write(50) + write(100));
  talk.say(true, spoiled(write(150)));
  const Trace trace = decode_trace(talk.frames, anything());
  ASSERT_EQ(trace.connections.size(), 1U);
  EXPECT_TRUE(trace.connections[0].is_iwarp);
  const auto found = fpdus(trace.connections[0]);
  ASSERT_EQ(found.size(), 3U);
  EXPECT_EQ(found[0]->tagged()->tagged_offset, 50U);
  EXPECT_EQ(found[1]->crc, CrcState::good);
  EXPECT_EQ(found[2]->crc, CrcState::bad);  // CRCs are in use here
}

TEST(Found, WithoutCrcsByHeadersThatFit) {
  Bytes octets = Bytes(5) + Bytes{};
  for (std::size_t i = 0; i < kChain; ++i) append(octets, spoiled(write(50 * i)));
  Conversation few;
  few.say(true, Octets(octets).first(octets.size() - spoiled(write(0)).size()));
  EXPECT_FALSE(decode_trace(few.frames, anything()).connections[0].is_iwarp);
  Conversation enough;
  enough.say_chopped(true, octets, 17);
  const Trace trace = decode_trace(enough.frames, anything());
  ASSERT_TRUE(trace.connections[0].is_iwarp);
  EXPECT_EQ(fpdus(trace.connections[0]).size(), kChain);
  EXPECT_EQ(fpdus(trace.connections[0])[0]->crc, CrcState::unknown);
}

TEST(Found, AStartupFrameOnAnyPortInAnyPieces) {
  for (std::size_t chop = 1; chop < 30; ++chop) {
    Conversation talk;
    talk.open();
    talk.say_chopped(true, request(), chop);
    talk.say_chopped(false, reply(), chop);
    talk.say_chopped(true, write(0), chop);
    const Trace trace = decode_trace(talk.frames, anything());
    ASSERT_TRUE(trace.connections[0].is_iwarp) << chop;
    EXPECT_EQ(fpdus(trace.connections[0]).size(), 1U);
  }
}

TEST(Found, NothingInOtherProtocols) {
  std::vector<std::pair<const char*, Bytes>> samples;
  const auto text = [](std::string_view line, std::size_t times) {
    Bytes octets;
    for (std::size_t i = 0; i < times; ++i) append(octets, as_octets(line));
    return octets;
  };
  std::mt19937 random(7);
  const auto noise = [&](std::size_t n) {
    Bytes octets(n);
    for (std::byte& octet : octets) octet = static_cast<std::byte>(random());
    return octets;
  };
  Bytes http = text("GET /index.html HTTP/1.1\r\nHost: example\r\nAccept: */*\r\n\r\n", 50);
  for (int i = 0; i < 40; ++i) {  // chunks of a compressed body
    append(
        http,
        as_octets("HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nTransfer-Encoding: chunked\r\n\r\n1000\r\n"));
    append(http, noise(4096));
    append(http, as_octets("\r\n0\r\n\r\n"));
  }
  append(http, text("<html>\r\n<body>Monday, 30 November</body>\r\n</html>\r\n", 400));
  samples.emplace_back("HTTP", http);
  Bytes tls = *from_hex("16 0303 0004 0e000000  14 0303 0001 01");
  for (int i = 0; i < 200; ++i) {  // application data in records of many sizes
    const auto size = static_cast<std::uint16_t>(i % 3 == 0 ? 16384 + 17 : 25 + random() % 1400);
    append(tls, Bytes{std::byte{0x17}, std::byte{3}, std::byte{3}, static_cast<std::byte>(size >> 8),
                      static_cast<std::byte>(size)});
    append(tls, noise(size));
  }
  samples.emplace_back("TLS", tls);
  Bytes smb;  // direct TCP transport: a zero, length in 24 bits, then a READ response of SMB2
  for (int i = 0; i < 60; ++i) {
    const std::size_t data = i % 2 == 0 ? 4096 : 65536;
    const std::size_t length = 64 + 16 + data;
    append(smb, Bytes{std::byte{0}, static_cast<std::byte>(length >> 16), static_cast<std::byte>(length >> 8),
                      static_cast<std::byte>(length)});
    append(smb, *from_hex("fe534d42 4000 0100 00000000 0800 0100 01000000 00000000"));
    append(smb, pattern(40, static_cast<std::uint8_t>(i)));
    append(smb, *from_hex("1100 50 00 00100000 00000000 00000000"));
    append(smb, i % 3 == 0   ? Bytes(data)
                : i % 3 == 1 ? noise(data)
                             : text("a line of a log file\n", data / 21));
  }
  samples.emplace_back("SMB", smb);
  Bytes nvme;  // NVMe/TCP: command capsules, and data to the controller in PDUs with a digest
  for (int i = 0; i < 100; ++i) {
    append(nvme, *from_hex("04 00 48 00 48000000"));
    append(nvme, pattern(64, static_cast<std::uint8_t>(i)));
    append(nvme, *from_hex("06 06 18 1c 1c100000 0100 0000 00000000 00100000 00000000"));
    append(nvme, noise(4));
    append(nvme, i % 2 == 0 ? Bytes(4096) : noise(4096));
  }
  samples.emplace_back("NVMe/TCP", nvme);
  samples.emplace_back("zeros", Bytes(100'000));
  samples.emplace_back("ones", Bytes(100'000, std::byte{0xFF}));
  for (const auto& [name, octets] : samples) {
    for (const bool opening : {true, false}) {
      Conversation talk;
      if (opening) talk.open();
      talk.say_chopped(true, octets, 1448);
      talk.say_chopped(false, Octets(octets).subspan(3), 1448);
      const Trace trace = decode_trace(talk.frames, anything());
      EXPECT_FALSE(trace.connections[0].is_iwarp) << name;
      for (const Event& event : trace.connections[0].events) {
        EXPECT_TRUE(event.as<Fpdu>() == nullptr && event.as<BadStartup>() == nullptr) << name;
      }
    }
  }
}

TEST(Found, TheStrictTestLooksAtEachField) {
  const Bytes good = untagged(Opcode::send, 0, 1, 0, true, pattern(30));
  ASSERT_TRUE(may_be_fpdu(good));
  for (const auto& [at, value] : {std::pair{std::size_t{0}, 0xFF},
                                  {2, 0x42},
                                  {2, 0x45},
                                  {3, 0x83},
                                  {3, 0x53},
                                  {3, 0x4C},
                                  {3, 0x40},
                                  {8, 1},
                                  {11, 1}}) {
    Bytes wrong = good;
    wrong[at] = static_cast<std::byte>(value);
    EXPECT_FALSE(may_be_fpdu(wrong)) << at;
  }
}

Bytes with_markers(const std::vector<Bytes>& ulpdus, mpa::MarkerInserter& inserter) {
  Bytes stream;
  for (const Bytes& ulpdu : ulpdus) append(stream, mpa::encode_marked_fpdu(ulpdu, inserter));
  return stream;
}
Bytes asking_for_markers(mpa::StartupKind kind, bool markers) {
  mpa::StartupFrame frame;
  frame.kind = kind;
  frame.crc = true;
  frame.markers = markers;
  return mpa::encode_startup(frame);
}
Bytes ulpdu(std::size_t payload) {
  const Bytes fpdu = tagged(Opcode::rdma_write, 7, 0, true, pattern(payload));
  return {fpdu.begin() + 2, fpdu.begin() + 2 + 14 + static_cast<std::ptrdiff_t>(payload)};
}

TEST(Markers, AreTakenOutOfTheDirectionWhoseReceiverAskedForThem) {
  const std::vector<Bytes> ulpdus{ulpdu(0), ulpdu(486), ulpdu(487), ulpdu(1), ulpdu(5000), ulpdu(20)};
  for (const std::size_t chop : {std::size_t{1}, std::size_t{7}, std::size_t{512}, std::size_t{60000}}) {
    for (const Side receiver : {Side::client, Side::server}) {
      Conversation talk;
      talk.open();
      talk.say(true, asking_for_markers(mpa::StartupKind::request, receiver == Side::client));
      talk.say(false, asking_for_markers(mpa::StartupKind::reply, receiver == Side::server));
      mpa::MarkerInserter inserter;
      talk.say_chopped(receiver != Side::client, with_markers(ulpdus, inserter), chop);
      talk.say(receiver == Side::client, write(0));
      const Trace trace = decode_trace(talk.frames);
      ASSERT_EQ(trace.connections.size(), 1U);
      const auto found = fpdus(trace.connections[0], other(receiver));
      ASSERT_EQ(found.size(), ulpdus.size());
      std::size_t markers = 0;
      for (std::size_t i = 0; i < ulpdus.size(); ++i) {
        EXPECT_EQ(to_vector(found[i]->ulpdu), ulpdus[i]) << i;
        EXPECT_EQ(found[i]->crc, CrcState::good);
        EXPECT_FALSE(found[i]->error);
        markers += found[i]->markers;
      }
      EXPECT_EQ(markers, inserter.clock().position() / 512 + 1);
      ASSERT_EQ(fpdus(trace.connections[0], receiver).size(), 1U);
      EXPECT_EQ(fpdus(trace.connections[0], receiver)[0]->markers, 0);
    }
  }
}

TEST(Markers, OneThatPointsElsewhereIsAnError) {
  mpa::MarkerInserter inserter;
  Bytes stream = with_markers({ulpdu(1000)}, inserter);
  stream[512 + 3] ^= std::byte{4};
  store_crc32c(stream.data() + stream.size() - 4, crc32c(Octets(stream).first(stream.size() - 4)));
  Conversation talk;
  talk.open();
  talk.say(true, asking_for_markers(mpa::StartupKind::request, false));
  talk.say(false, asking_for_markers(mpa::StartupKind::reply, true));
  talk.say(true, stream);
  const Trace trace = decode_trace(talk.frames);
  const auto found = fpdus(trace.connections[0]);
  ASSERT_EQ(found.size(), 1U);
  ASSERT_TRUE(found[0]->error);
  EXPECT_EQ(found[0]->error->code, terminate::kMpaMarkerMismatch);
  EXPECT_EQ(found[0]->error->octet, 512U);
}

/// Counts, and keeps nothing.
class Counting final : public Observer {
 public:
  void on_event(const ConnectionInfo&, const Event& event) override {
    fpdus += event.as<Fpdu>() != nullptr ? 1 : 0;
  }
  void on_end(const ConnectionInfo& connection) override { ended.push_back(connection.number); }
  void on_other_frame(const FrameView&, const FrameProblem&) override {}
  std::uint64_t fpdus = 0;
  std::vector<std::uint64_t> ended;
};

TEST(Decoder, TheConnectionThatWasSilentLongestMakesRoom) {
  Counting counting;
  Decoder decoder(anything(), counting, {.connections = 2});
  for (const std::uint16_t port : {std::uint16_t{1}, std::uint16_t{2}, std::uint16_t{1}, std::uint16_t{3}}) {
    Conversation talk(1000, 2000, port);
    talk.say(true, write(0));
    decoder.frame(view(talk.frames[0]));
  }
  EXPECT_EQ(counting.ended, std::vector<std::uint64_t>{2});
  decoder.finish();
  EXPECT_EQ(counting.ended, (std::vector<std::uint64_t>{2, 1, 3}));
  EXPECT_EQ(decoder.dropped(), 1U);
}

TEST(Decoder, HeldOctetsAreBoundedOverAllConnections) {
  Counting counting;
  Decoder decoder(anything(), counting, {.connections = 1000, .held_octets = 200'000});
  Bytes longest = write(0, 60'000);
  longest.resize(30'000);  // half an FPDU: the rest is waited for
  for (std::uint16_t port = 1; port <= 50; ++port) {
    Conversation talk(1000, 2000, port);
    talk.open();
    talk.say(true, request());
    talk.say(true, longest);
    for (const Frame& frame : talk.frames) decoder.frame(view(frame));
  }
  EXPECT_GT(decoder.dropped(), 40U);
  decoder.finish();
  EXPECT_EQ(counting.ended.size(), 50U);
}

}  // namespace
}  // namespace kbtp::trace
