// Where tshark 4.0 reads something else than we do, and the section that proves us right. Each difference is
// shown: what tshark says is expected to stay what it is, so that one that has gone fails here and leaves the
// list.

#include <filesystem>
#include <gtest/gtest.h>
#include <unistd.h>

#include "base/hex.h"
#include "pcap/capture_file.h"
#include "pcap/test_frames.h"
#include "pcap/test_records.h"
#include "rdmap_binding/mpa/marker.h"
#include "rdmap_binding/rdmap/headers.h"
#include "rdmap_binding/rdmap/segment.h"
#include "second_opinion/tshark.h"

namespace kbtp::second_opinion {
namespace {

using namespace trace::test;
using rdmap::Opcode;

class Differences : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = tshark_missing(); !why.empty()) GTEST_SKIP() << why;
  }
  static std::string temporary() {
    return std::filesystem::temp_directory_path() /
           ("kbtp-differences-" + std::to_string(::getpid()) + ".pcap");
  }
  /// tshark's fields in the frames that its filter takes.
  static std::vector<std::vector<std::string>> theirs(const Conversation& talk, const std::string& filter,
                                                      const std::vector<std::string_view>& fields) {
    const auto path =
        std::filesystem::temp_directory_path() / ("kbtp-differences-" + std::to_string(::getpid()) + ".pcap");
    EXPECT_TRUE(trace::write_capture(path.string(), talk.frames));
    auto rows = ask_tshark_fields(path.string(), filter, fields);
    std::filesystem::remove(path);
    EXPECT_TRUE(rows);
    return rows ? *rows : std::vector<std::vector<std::string>>();
  }
  /// Both start-up frames, which ask for markers each way or not.
  static Conversation started(bool client_wants_markers = false, bool server_wants_markers = false) {
    Conversation talk;
    talk.open();
    mpa::StartupFrame frame;
    frame.crc = true;
    frame.markers = client_wants_markers;
    talk.say(true, mpa::encode_startup(frame));
    frame.kind = mpa::StartupKind::reply;
    frame.markers = server_wants_markers;
    talk.say(false, mpa::encode_startup(frame));
    return talk;
  }
};

using Table = std::vector<std::vector<std::string>>;

TEST_F(Differences, Rfc6581Section6RevisionTwoAndEnhancedData) {
  Conversation talk;
  talk.open();
  talk.say(true, request());
  talk.say(false, reply());
  // To it S is a reserved bit, and IRD and ORD are private data.
  EXPECT_EQ(theirs(talk, "iwarp_mpa.rev == 2", {"frame.number", "iwarp_mpa.res", "iwarp_mpa.privatedata"}),
            (Table{{"3", "0x10", "00040008"}, {"4", "0x10", "00080004"}}));
  const auto ours = records(talk.frames, "startup");
  EXPECT_EQ(ours.at(0).text("mpa.enhanced"), "true");
  EXPECT_EQ(ours.at(0).text("mpa.ird") + " " + ours.at(0).text("mpa.ord"), "4 8");
  EXPECT_EQ(ours.at(1).text("mpa.reserved"), "(none)");
}

TEST_F(Differences, Rfc7306Section6ImmediateData) {
  Conversation talk = started();
  talk.say(true,
           untagged(Opcode::immediate, 0, 1, 0, true, rdmap::encode(rdmap::Immediate{0x0102030405060708})));
  // The opcode without a name, and no field for the data.
  EXPECT_EQ(theirs(talk, "iwarp_rdma.opcode == 8", {"frame.number", "iwarp_ddp.qn"}), (Table{{"5", "0"}}));
  EXPECT_EQ(theirs(talk, "iwarp_rdma.opcode == 8 && frame contains \"Immediate\"", {"frame.number"}),
            Table{});
  EXPECT_EQ(records(talk.frames, "fpdu").at(0).text("rdmap.immediate"), "0x0102030405060708");
}

TEST_F(Differences, Rfc5044Section7StartupFramesInAnySegments) {
  Conversation talk;
  talk.open();
  talk.say_chopped(true, request(), 7);
  talk.say_chopped(false, reply(), 11);
  talk.say(true, tagged(Opcode::rdma_write, 7, 0, true, pattern(40)));
  EXPECT_EQ(theirs(talk, "iwarp_mpa", {"frame.number"}), Table{});
  EXPECT_EQ(records(talk.frames, "startup").size(), 2U);
  EXPECT_EQ(records(talk.frames, "fpdu").size(), 1U);
}

TEST_F(Differences, Rfc5044Section4FpdusWithoutTheirStartup) {
  Conversation talk;
  for (std::uint32_t i = 0; i < 4; ++i)
    talk.say(true, tagged(Opcode::rdma_write, 7, 40 * i, true, pattern(40)));
  EXPECT_EQ(theirs(talk, "iwarp_mpa", {"frame.number"}), Table{});
  EXPECT_EQ(records(talk.frames, "fpdu").size(), 4U);
}

/// Each end finds markers in what it receives when it asked for them (RFC 5044 7.1.1). When only one did,
/// tshark loses what the other one receives.
TEST_F(Differences, Rfc5044Section7MarkersOneWay) {
  for (const bool both : {false, true}) {
    for (const bool asker : {true, false}) {  // the client, the server
      Conversation talk = started(asker || both, !asker || both);
      const Bytes write = tagged(Opcode::rdma_write, 7, 0, true, pattern(1000));
      for (const bool from_client : {true, false}) {
        mpa::MarkerInserter inserter;
        const bool marked = both || from_client != asker;
        for (int i = 0; i < 2; ++i) {
          const Octets ulpdu = Octets(write).subspan(2, 14 + 1000);
          talk.say(from_client, marked ? mpa::encode_marked_fpdu(ulpdu, inserter) : write);
        }
      }
      const std::string path = temporary();
      ASSERT_TRUE(trace::write_capture(path, talk.frames));
      Rows ours = rows_of(*trace::decode_trace_file(path));
      auto theirs = ask_tshark(path);
      std::filesystem::remove(path);
      ASSERT_TRUE(theirs);
      EXPECT_EQ(count(ours), 4U);
      EXPECT_EQ(count(*theirs), both ? 4U : 2U);
      if (!both) ours.erase(asker ? "10.0.0.1:40000 > 10.0.0.2:7420" : "10.0.0.2:7420 > 10.0.0.1:40000");
      EXPECT_EQ(difference(ours, *theirs), "");
    }
  }
}

TEST_F(Differences, Rfc5040Section4TerminateInTheBitOrderOfSiw) {
  Conversation talk = started();
  talk.say(false, untagged(Opcode::terminate, 2, 1, 0, true, *from_hex("20 02 0000")));
  // As siw on a little-endian host writes the same: LLP, MPA, CRC error.
  talk.say(false, untagged(Opcode::terminate, 2, 2, 0, true, *from_hex("02 02 0000")));
  EXPECT_EQ(theirs(talk, "iwarp_rdma.terminate", {"frame.number", "iwarp_rdma.term_layer"}),
            (Table{{"5", "0x02"}, {"6", "0x00"}}));
  const auto ours = records(talk.frames, "fpdu");
  EXPECT_EQ(ours.at(0).text("terminate.bit_order"), "rfc");
  EXPECT_EQ(ours.at(1).text("terminate.bit_order"), "siw");
  EXPECT_EQ(ours.at(1).text("terminate.meaning"), ours.at(0).text("terminate.meaning"));
}

}  // namespace
}  // namespace kbtp::second_opinion
