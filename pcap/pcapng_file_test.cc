#include "pcap/pcapng_file.h"

#include <algorithm>
#include <gtest/gtest.h>

#include "base/hex.h"
#include "pcap/capture_file.h"
#include "pcap/test_frames.h"
#include "pcap/trace.h"

namespace kbtp::trace {
namespace {

using namespace test;

/// Writes blocks in the byte order of its section.
class Pcapng {
 public:
  explicit Pcapng(bool little = true) { section(little); }

  Pcapng& section(bool little) {
    little_ = little;
    Bytes body = number<std::uint32_t>(0x1A2B3C4D);
    append(body, number<std::uint16_t>(1));
    append(body, number<std::uint16_t>(0));
    append(body, Bytes(8, std::byte{0xFF}));  // length: not told
    return block(0x0A0D0D0A, body);
  }
  Pcapng& interface(std::uint16_t link, std::uint32_t snap = 0, const Bytes& options = {}) {
    Bytes body = number(link);
    append(body, Bytes(2));
    append(body, number(snap));
    append(body, options);
    return block(1, body);
  }
  [[nodiscard]] Bytes option(std::uint16_t code, const Bytes& value) const {
    Bytes octets = number(code);
    append(octets, number(static_cast<std::uint16_t>(value.size())));
    append(octets, value);
    octets.resize((octets.size() + 3) / 4 * 4);
    return octets;
  }
  Pcapng& packet(std::uint32_t interface, std::uint64_t time, const Bytes& octets,
                 std::uint32_t on_wire = 0) {
    Bytes body = number(interface);
    append(body, number(static_cast<std::uint32_t>(time >> 32)));
    append(body, number(static_cast<std::uint32_t>(time)));
    append(body, number(static_cast<std::uint32_t>(octets.size())));
    append(body, number(on_wire != 0 ? on_wire : static_cast<std::uint32_t>(octets.size())));
    append(body, octets);
    return block(6, body);
  }
  Pcapng& simple(std::uint32_t on_wire, const Bytes& octets) {
    Bytes body = number(on_wire);
    append(body, octets);
    return block(3, body);
  }
  Pcapng& block(std::uint32_t type, Bytes body) {
    body.resize((body.size() + 3) / 4 * 4);
    const auto size = static_cast<std::uint32_t>(body.size() + 12);
    append(file, number(type));
    append(file, number(size));
    append(file, body);
    append(file, number(size));
    return *this;
  }
  template <class T>
  [[nodiscard]] Bytes number(T value) const {
    Bytes octets(sizeof value);
    store_be<T>(octets.data(), value);
    if (little_) std::ranges::reverse(octets);
    return octets;
  }

  Bytes file;

 private:
  bool little_ = true;
};

CaptureFile read(const Pcapng& pcapng) {
  auto file = read_capture(pcapng.file);
  EXPECT_TRUE(file);
  return file ? std::move(*file) : CaptureFile{};
}

/// What is common: loopback beside Ethernet, and other snap lengths. libpcap refuses such files.
TEST(PcapngFile, InterfacesOfSeveralLinkTypesAndSnapLengths) {
  for (const bool little : {true, false}) {
    Pcapng file(little);
    file.interface(1, 262144).interface(0, 96).interface(276);
    file.packet(0, 1'000'000, pattern(60))
        .packet(2, 2'000'000, pattern(61))
        .packet(1, 3'000'000, pattern(5), 99);
    const CaptureFile read = trace::read(file);
    ASSERT_EQ(read.frames.size(), 3U) << read.damage;
    EXPECT_EQ(read.damage, "");
    EXPECT_EQ(read.frames[0].link, LinkType::ethernet);
    EXPECT_EQ(read.frames[1].link, LinkType::linux_sll2);
    EXPECT_EQ(read.frames[2].link, LinkType::null_loopback);
    EXPECT_EQ(read.frames[1].octets, pattern(61));
    EXPECT_EQ(read.frames[2].octets, pattern(5));
    EXPECT_EQ(read.frames[2].wire_length, 99U);
    EXPECT_EQ(read.frames[2].number, 3U);
    EXPECT_EQ(read.frames[2].time_ns, 3'000'000'000);
  }
}

TEST(PcapngFile, SectionsHaveInterfacesAndByteOrderOfTheirOwn) {
  Pcapng file(true);
  file.interface(1).packet(0, 1, pattern(60)).section(false).interface(101).packet(0, 2, pattern(61));
  const CaptureFile read = trace::read(file);
  ASSERT_EQ(read.frames.size(), 2U) << read.damage;
  EXPECT_EQ(read.frames[1].link, LinkType::raw_ip);
  EXPECT_EQ(read.frames[1].time_ns, 2000);
  file.section(true).packet(0, 3, pattern(60));
  EXPECT_NE(trace::read(file).damage.find("interface 0, which is not described"), std::string::npos);
}

/// if_tsresol and if_tsoffset of an interface.
std::int64_t time_of(std::uint8_t resolution, std::uint64_t time, std::int64_t offset = 0) {
  Pcapng file;
  Bytes options = file.option(2, pattern(5));  // if_name: not ours
  append(options, file.option(9, Bytes{std::byte{resolution}}));
  append(options, file.option(14, file.number(static_cast<std::uint64_t>(offset))));
  append(options, file.option(0, {}));
  file.interface(1, 0, options).packet(0, time, pattern(60));
  const CaptureFile read = trace::read(file);
  EXPECT_EQ(read.frames.size(), 1U) << read.damage;
  return read.frames.empty() ? 0 : read.frames[0].time_ns;
}

TEST(PcapngFile, TimesOfAnyUnit) {
  EXPECT_EQ(time_of(0, 7), 7'000'000'000);
  EXPECT_EQ(time_of(3, 7), 7'000'000);
  EXPECT_EQ(time_of(9, 1'700'000'000'123'456'789), 1'700'000'000'123'456'789);
  EXPECT_EQ(time_of(12, 5'000'123), 5'000);
  EXPECT_EQ(time_of(0x7F, ~std::uint64_t{0}), 0);
  EXPECT_EQ(time_of(0x80 | 10, 1536), 1'500'000'000);
  EXPECT_EQ(time_of(0x80 | 32, (std::uint64_t{3} << 32) | 0x40000000), 3'250'000'000);
  EXPECT_EQ(time_of(0x80 | 60, std::uint64_t{3} << 59), 1'500'000'000);
  EXPECT_EQ(time_of(0xFF, 1), 0);
  EXPECT_EQ(time_of(6, 1, 100), 100'000'001'000);
  EXPECT_EQ(time_of(6, 0, -2), -2'000'000'000);
  // Whatever a file claims, the difference of any two times fits.
  EXPECT_EQ(time_of(9, std::uint64_t{1} << 63), -((std::int64_t{1} << 62) - 1));
  EXPECT_EQ(time_of(9, (std::uint64_t{1} << 63) - 1), (std::int64_t{1} << 62) - 1);
}

TEST(PcapngFile, SimpleAndObsoletePackets) {
  Pcapng file;
  file.interface(1, 64);
  file.simple(5, pattern(5)).simple(1000, pattern(64));
  Bytes obsolete = file.number<std::uint16_t>(0);
  append(obsolete, file.number<std::uint16_t>(9));  // drops
  append(obsolete, file.number<std::uint32_t>(0));
  append(obsolete, file.number<std::uint32_t>(8));
  append(obsolete, file.number<std::uint32_t>(3));
  append(obsolete, file.number<std::uint32_t>(30));
  append(obsolete, pattern(3));
  file.block(2, obsolete).block(0xBAD, pattern(40)).packet(0, 9, pattern(60));
  const CaptureFile read = trace::read(file);
  ASSERT_EQ(read.frames.size(), 4U) << read.damage;
  EXPECT_EQ(read.frames[0].octets, pattern(5));
  EXPECT_EQ(read.frames[1].octets.size(), 64U);
  EXPECT_EQ(read.frames[1].wire_length, 1000U);
  EXPECT_EQ(read.frames[2].octets, pattern(3));
  EXPECT_EQ(read.frames[2].wire_length, 30U);
  EXPECT_EQ(read.frames[2].time_ns, 8000);
}

TEST(PcapngFile, BrokenOffAtEveryOctetGivesTheFramesBefore) {
  Pcapng file;
  file.interface(1).interface(0);
  std::vector<std::size_t> ends{28, file.file.size() - 20, file.file.size()};
  for (std::uint32_t i = 0; i < 3; ++i) {
    file.packet(i % 2, i, pattern(20 + i));
    ends.push_back(file.file.size());
  }
  for (std::size_t size = 28; size < file.file.size(); ++size) {
    const auto read = read_capture(Octets(file.file).first(size));
    ASSERT_TRUE(read) << size;
    const bool between = std::ranges::find(ends, size) != ends.end();
    EXPECT_EQ(read->damage.empty(), between) << size << ": " << read->damage;
    EXPECT_EQ(static_cast<std::ptrdiff_t>(read->frames.size()),
              std::count_if(ends.begin() + 3, ends.end(), [&](std::size_t end) { return end <= size; }));
  }
}

TEST(PcapngFile, HostileBlocksEndTheFile) {
  const auto damage = [](std::size_t at, std::uint32_t value) {
    Pcapng file;
    file.interface(1).packet(0, 1, pattern(60)).packet(0, 2, pattern(60));
    const Bytes number = file.number(value);
    // The first packet's block begins behind 28 + 20 octets.
    std::ranges::copy(number, file.file.begin() + 48 + static_cast<std::ptrdiff_t>(at));
    const CaptureFile read = trace::read(file);
    EXPECT_LT(read.frames.size(), 2U);
    return read.damage;
  };
  EXPECT_NE(damage(4, 8).find("claims to have 8 octets"), std::string::npos);
  EXPECT_NE(damage(4, 93).find("claims to have 93 octets"), std::string::npos);
  EXPECT_NE(damage(4, 0xFFFFFFFC).find("claims to have 4294967292 octets"), std::string::npos);
  EXPECT_NE(damage(4, 96).find("two lengths"), std::string::npos);
  EXPECT_NE(damage(8, 7).find("interface 7"), std::string::npos);
  EXPECT_NE(damage(20, 61).find("claims to have 61 octets"), std::string::npos);
  EXPECT_NE(damage(0, 0x0A0D0D0A).find("no byte order"), std::string::npos);
}

TEST(PcapngFile, AConversationOverTwoInterfacesIsOneStream) {
  Conversation talk;
  talk.open();
  talk.say(true, request());
  talk.say(false, reply());
  talk.say(true, untagged(rdmap::Opcode::send, 0, 1, 0, true, pattern(20)));
  Pcapng file;
  file.interface(1, 262144).interface(1, 65535).interface(253);
  for (std::size_t i = 0; i < talk.frames.size(); ++i)
    file.packet(i % 2, i, talk.frames[i].octets, talk.frames[i].wire_length);
  file.packet(2, 99, pattern(40));  // netlink: passed over
  const CaptureFile read = trace::read(file);
  const Trace trace = decode_trace(read.frames, {});
  ASSERT_EQ(trace.connections.size(), 1U);
  EXPECT_TRUE(trace.connections[0].is_iwarp);
  EXPECT_EQ(trace.count(FrameProblem::Kind::unsupported_link), 1U);
}

}  // namespace
}  // namespace kbtp::trace
