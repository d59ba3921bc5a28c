// Our decoder against tshark over capture files: those of Linux siw, and hand-made ones.

#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
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
  return count(rows);
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
    std::filesystem::remove(path);
    return fpdus;
  }
  static std::string fmt_name() {
    return "kbtp-second-opinion-" + std::to_string(::getpid()) + "-" +
           ::testing::UnitTest::GetInstance()->current_test_info()->name() + ".pcap";
  }
};

TEST_F(SecondOpinion, CapturesOfSiw) {
  const char* set = std::getenv("KBTP_SHARED");
  const std::string folder =
      (set != nullptr ? std::string(set) : std::string(KBTP_SOURCE_DIR "/../shared")) + "/captures/siw";
  if (!std::filesystem::is_directory(folder)) GTEST_SKIP() << "no captures at " << folder;
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    // ESP: neither reads what is inside without keys.
    if (entry.path().extension() != ".pcap" || name.find("-esp-") != std::string::npos) continue;
    ++files;
    EXPECT_GT(expect_same(entry.path().string()), 10U) << name;
  }
  EXPECT_GT(files, 8U);
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
