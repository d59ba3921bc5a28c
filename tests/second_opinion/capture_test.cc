// Our decoder against tshark over capture files: those of Linux siw, and hand-made ones.

#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <map>
#include <unistd.h>

#include "pcap/capture_file.h"
#include "pcap/test_frames.h"
#include "rdmap_binding/rdmap/headers.h"
#include "rdmap_binding/rdmap/terminate.h"
#include "second_opinion/tshark.h"

namespace kbtp::second_opinion {
namespace {

using namespace trace::test;
using rdmap::Opcode;

/// Both opinions of a file, and how many FPDUs both see.
std::size_t expect_same(const std::string& path) {
  const auto ours = trace::decode_trace_file(path);
  const auto theirs = ask_tshark(path);
  EXPECT_TRUE(ours && theirs) << path;
  if (!ours || !theirs) return 0;
  const Rows rows = rows_of(*ours);
  EXPECT_EQ(difference(rows, *theirs), "") << path;
  EXPECT_GE(count_more(rows, *theirs), 2 * count(rows)) << path;
  return count(rows);
}

/// Start-up frames: how many both see. tshark knows no RFC 6581 (differences_test.cc): S is its fourth
/// reserved bit, and IRD and ORD are private data.
std::size_t expect_same_startups(const std::string& path) {
  constexpr std::array<std::string_view, 7> kFields{
      "frame.number",  "iwarp_mpa.marker_flag", "iwarp_mpa.crc_flag", "iwarp_mpa.rej_flag",
      "iwarp_mpa.rev", "iwarp_mpa.res",         "iwarp_mpa.pdlength"};
  const auto ours = trace::decode_trace_file(path);
  const auto theirs = ask_tshark_fields(path, "iwarp_mpa.req || iwarp_mpa.rep", kFields);
  EXPECT_TRUE(ours && theirs) << path;
  if (!ours || !theirs) return 0;
  std::map<std::uint64_t, std::vector<std::string>> rows;
  for (const trace::Connection& connection : ours->connections) {
    for (const trace::Event& event : connection.events) {
      const auto* startup = event.as<trace::Startup>();
      if (startup == nullptr) continue;
      const mpa::StartupFrame& frame = startup->frame;
      rows[event.frame.number] = {std::to_string(event.frame.number),
                                  std::to_string(int{frame.markers}),
                                  std::to_string(int{frame.crc}),
                                  std::to_string(int{frame.reject}),
                                  std::to_string(frame.revision),
                                  fmt::format("0x{:02x}", frame.reserved | (frame.enhanced ? 0x10 : 0)),
                                  std::to_string(mpa::private_data_length(frame))};
    }
  }
  EXPECT_EQ(rows.size(), theirs->size()) << path;
  for (const std::vector<std::string>& row : *theirs) EXPECT_EQ(rows[std::stoull(row.at(0))], row) << path;
  return theirs->size();
}

class SecondOpinion : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = tshark_missing(); !why.empty()) GTEST_SKIP() << why;
  }
  static std::size_t expect_same_conversation(const Conversation& talk) {
    const auto path = std::filesystem::temp_directory_path() / fmt_name();
    EXPECT_TRUE(trace::write_capture(path.string(), talk.frames));
    const std::size_t fpdus = expect_same(path.string());
    EXPECT_EQ(expect_same_startups(path.string()), 2U);
    std::filesystem::remove(path);
    return fpdus;
  }
  static std::string fmt_name() {
    return "kbtp-second-opinion-" + std::to_string(::getpid()) + "-" +
           ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".pcap";
  }
};

std::filesystem::path captures() {
  const char* set = std::getenv("KBTP_SHARED");
  return (set != nullptr ? std::filesystem::path(set) : KBTP_SOURCE_DIR "/../shared") / "captures";
}

TEST_F(SecondOpinion, CapturesOfSiw) {
  const auto folder = captures() / "siw";
  if (!std::filesystem::is_directory(folder)) GTEST_SKIP() << "no captures at " << folder;
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    // What is inside ESP is compared where the keys are (esp_test.cc).
    if (entry.path().extension() != ".pcap" || name.find("-esp-") != std::string::npos) continue;
    ++files;
    EXPECT_GT(expect_same(entry.path().string()), 10U) << name;
    expect_same_startups(entry.path().string());
  }
  EXPECT_GT(files, 8U);
}

/// Everything else in one file, of many link types and snap lengths: frame by frame as tshark reads it, and
/// nothing of it is iWARP or InfiniBand to either of us.
TEST_F(SecondOpinion, CapturesOfOtherTraffic) {
  if (!std::filesystem::is_directory(captures() / "reader")) GTEST_SKIP() << "no captures at " << captures();
  const auto path = std::filesystem::temp_directory_path() / (fmt_name() + "ng");
  std::string merge = "mergecap -a -w '" + path.string() + "'";
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(captures() / "reader")) {
    // mergecap stops at a file that breaks off.
    merge += " '" + entry.path().string() + "'";
    ++files;
  }
  merge += " '" + (captures() / "esp" / "ipsec_esn.pcap").string() + "'";
  ASSERT_EQ(std::system((merge + " 2>/dev/null").c_str()), 0) << merge;
  EXPECT_GT(files, 40U);
  const auto ours = trace::read_capture(path.string());
  ASSERT_TRUE(ours) << ours.error().text;
  EXPECT_EQ(ours->damage, "");
  constexpr std::array<std::string_view, 4> kFields{"_ws.col.Protocol", "frame.len", "frame.cap_len",
                                                    "frame.time_epoch"};
  auto theirs = ask_tshark_fields(path.string(), "frame", kFields);
  ASSERT_TRUE(theirs);
  // Custom Blocks have no frames of any wire; tshark counts them.
  std::erase_if(*theirs, [](const auto& row) { return row.at(0) == "PCAPNG"; });
  ASSERT_EQ(ours->frames.size(), theirs->size());
  for (std::size_t i = 0; i < theirs->size(); ++i) {
    const trace::Frame& frame = ours->frames[i];
    const std::vector<std::string>& row = (*theirs)[i];
    EXPECT_EQ(row.at(1), std::to_string(frame.wire_length)) << frame.number;
    EXPECT_EQ(row.at(2), std::to_string(frame.octets.size())) << frame.number;
    EXPECT_EQ(row.at(3),
              fmt::format("{}.{:09}", frame.time_ns / 1'000'000'000, frame.time_ns % 1'000'000'000))
        << frame.number;
  }
  const auto found = ask_tshark_fields(path.string(), "iwarp_mpa || infiniband", {kFields.data(), 1});
  ASSERT_TRUE(found);
  EXPECT_TRUE(found->empty());
  trace::DecodeOptions options;
  options.expect_iwarp = false;
  for (const trace::Connection& connection : trace::decode_trace(ours->frames, options).connections)
    EXPECT_FALSE(connection.is_iwarp || connection.transport != trace::Transport::tcp);
  std::filesystem::remove(path);
}

Conversation every_message(bool crc) {
  Conversation talk;
  talk.open();
  talk.say(true, request(crc));
  talk.say(false, reply(crc));
  talk.say(true, untagged(Opcode::send, 0, 1, 0, false, pattern(20)));
  talk.say(true, untagged(Opcode::send, 0, 1, 20, true, pattern(21)));
  talk.say(true, untagged(Opcode::send_invalidate, 0, 2, 0, true, pattern(7), 0xABCD));
  talk.say(true, untagged(Opcode::send_se, 0, 3, 0, true, pattern(6)));
  talk.say(true, untagged(Opcode::send_se_invalidate, 0, 4, 0, true, pattern(5), 0xABCE));
  talk.say(false, tagged(Opcode::rdma_write, 0xDEADBEEF, 0xFEDCBA9876543210, false, pattern(100)));
  talk.say(false, tagged(Opcode::rdma_write, 0xDEADBEEF, 0xFEDCBA9876543274, true, pattern(33)));
  talk.say(true,
           untagged(Opcode::read_request, 1, 1, 0, true, rdmap::encode(rdmap::ReadRequest{1, 2, 16, 4, 5})));
  talk.say(false, tagged(Opcode::read_response, 1, 2, true, pattern(16)));
  talk.say(true, untagged(Opcode::atomic_request, 1, 2, 0, true, rdmap::encode(rdmap::AtomicRequest{})));
  talk.say(false, untagged(Opcode::atomic_response, 3, 1, 0, true, rdmap::encode(rdmap::AtomicResponse{})));
  talk.say(true, untagged(Opcode::immediate, 0, 5, 0, true, rdmap::encode(rdmap::Immediate{1})));
  talk.say(false, untagged(Opcode::terminate, 2, 1, 0, true,
                           rdmap::make_terminate(terminate::kDdpUntaggedInvalidQn,
                                                 {pattern(18, 0x41), 60, std::nullopt})
                               .octets()));
  talk.fin(false);
  talk.fin(true);
  return talk;
}

TEST_F(SecondOpinion, EveryMessage) {
  EXPECT_EQ(expect_same_conversation(every_message(true)), 13U);
  EXPECT_EQ(expect_same_conversation(every_message(false)), 13U);
}

TEST_F(SecondOpinion, BadCrc) {
  Conversation talk;
  talk.open();
  talk.say(true, request());
  talk.say(false, reply());
  Bytes fpdu = untagged(Opcode::send, 0, 1, 0, true, pattern(20));
  fpdu[25] ^= std::byte{4};
  talk.say(true, fpdu);
  EXPECT_EQ(expect_same_conversation(talk), 1U);
}

TEST_F(SecondOpinion, FpdusAcrossSegmentsAndSeveralInOne) {
  Bytes stream;
  for (std::uint32_t i = 0; i < 12; ++i)
    append(stream, tagged(Opcode::rdma_write, 7, 100 * i, true, pattern(40 + i)));
  for (const std::size_t chop : {61U, 200U, 5000U}) {
    Conversation talk;
    talk.open();
    talk.say(true, request());
    talk.say(false, reply());
    talk.say_chopped(true, stream, chop);
    EXPECT_EQ(expect_same_conversation(talk), 12U) << chop;
  }
}

}  // namespace
}  // namespace kbtp::second_opinion
