// tshark's opinion of every trace that a conformance run leaves: raw peers say things there that no RNIC
// would.

#include <cstdlib>
#include <filesystem>
#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include "pcap/capture_file.h"
#include "pcap/live_capture.h"
#include "second_opinion/tshark.h"

namespace kbtp::second_opinion {
namespace {

/// Whether tshark can be asked about a connection at all.
bool can_be_compared(const trace::Connection& connection) {
  for (const trace::Event& event : connection.events) {
    // tshark recognises a start-up frame only when one segment brings it, and loses a direction without
    // markers when the other has them (differences_test.cc). No case has markers both ways.
    const auto* startup = event.as<trace::Startup>();
    if (startup != nullptr && (startup->frame.markers || event.first.number != event.frame.number))
      return false;
    // A machine under load may have dropped frames; what is behind a hole each reads as it likes.
    if (event.as<trace::Missing>() != nullptr) return false;
  }
  return true;
}

TEST(SecondOpinionOfConformance, EveryTraceOfARun) {
  if (const std::string why = tshark_missing(); !why.empty()) GTEST_SKIP() << why;
  if (const auto capture = trace::LiveCapture::open({}); !capture) GTEST_SKIP() << capture.error().text;
  const auto folder = std::filesystem::temp_directory_path() / ("kbtp-conform-" + std::to_string(::getpid()));
  const std::string command =
      std::string(KBTP_COMMAND) + " conform run --out " + folder.string() + " >/dev/null 2>&1";
  const int status = std::system(command.c_str());
  ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) <= 1) << command << ": " << status;
  // All traces go to tshark as one: it takes far longer to start than to read.
  std::vector<trace::Frame> frames;
  std::size_t traces = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    if (entry.path().filename() != "trace.pcap") continue;
    auto file = trace::read_capture(entry.path().string());
    ASSERT_TRUE(file) << file.error().text;
    EXPECT_EQ(file->damage, "");
    for (trace::Frame& frame : file->frames) {
      frame.number = frames.size() + 1;
      frames.push_back(std::move(frame));
    }
    ++traces;
  }
  EXPECT_GE(traces, 15U);
  const std::string path = folder.string() + "/all.pcap";
  ASSERT_TRUE(trace::write_capture(path, frames));
  const trace::Trace trace = trace::decode_trace(frames);
  Rows ours = rows_of(trace);
  auto theirs = ask_tshark(path);
  ASSERT_TRUE(theirs);
  std::size_t left_out = 0;
  for (const trace::Connection& connection : trace.connections) {
    if (can_be_compared(connection)) continue;
    ++left_out;
    const std::string client = connection.client.to_string();
    const std::string server = connection.server.to_string();
    for (const std::string& direction : {client + " > " + server, server + " > " + client}) {
      ours.erase(direction);
      theirs->erase(direction);
    }
  }
  EXPECT_EQ(difference(ours, *theirs), "") << path;
  EXPECT_GT(count(ours), 100U);
  EXPECT_LT(left_out, 5U);
  if (!HasFailure()) std::filesystem::remove_all(folder);  // else it stays for whoever looks into it
}

}  // namespace
}  // namespace kbtp::second_opinion
