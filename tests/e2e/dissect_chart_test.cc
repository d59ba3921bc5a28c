// `kbtp dissect -o svg`: an XML parser that is not ours reads it, and it has an arrow for each line of text.

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <string>

#include "pcap/capture_file.h"
#include "pcap/test_frames.h"
#include "tests/e2e/process.h"

namespace kbtp::e2e {
namespace {

using ::testing::AllOf;
using ::testing::EndsWith;
using ::testing::HasSubstr;
using ::testing::StartsWith;

std::string capture(const std::string& name) {
  using namespace trace::test;
  Conversation talk;
  talk.open();
  talk.say(true, request());
  talk.say(false, reply());
  for (std::uint32_t msn = 1; msn <= 5; ++msn)
    talk.say(true, untagged(rdmap::Opcode::send, 0, msn, 0, true, pattern(9)));
  for (std::uint64_t i = 0; i < 4; ++i)
    talk.say(false, tagged(rdmap::Opcode::rdma_write, 0x1234, 1024 * i, i == 3, pattern(1024)));
  talk.fin(true);
  talk.fin(false);
  const auto octets = trace::encode_capture(talk.frames);
  return temporary_file(name, {reinterpret_cast<const char*>(octets.data()), octets.size()});
}

/// How many arrows Python's parser finds, and the page's title.
std::string read_by_python(const std::string& svg) {
  constexpr const char* kRead =
      "import sys, xml.etree.ElementTree as tree\n"
      "svg = '{http://www.w3.org/2000/svg}'\n"
      "root = tree.fromstring(sys.stdin.buffer.read())\n"
      "assert root.tag == svg + 'svg'\n"
      "arrows = [e for e in root.iter(svg + 'path') if e.get('class').startswith('arrow')]\n"
      "print(len(arrows), 'arrows,', root.find(svg + 'title').text)\n";
  Process python({"/usr/bin/env", "python3", "-c", kRead}, svg);
  const auto status = python.wait();
  return status == 0 ? python.out() : "python3: " + python.err();
}

TEST(DissectChart, IsXmlWithAnArrowForEachLine) {
  const std::string path = capture("a & <b>.pcap");
  const Finished text = kbtp({"dissect", path});
  const auto lines = std::count(text.out.begin(), text.out.end(), '\n') - 1;  // the stream's own
  const Finished run = kbtp({"dissect", path, "-o", "svg"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_EQ(lines, 10);
  EXPECT_THAT(read_by_python(run.out),
              AllOf(StartsWith(std::to_string(lines) + " arrows, Messages of "), EndsWith("a & <b>.pcap\n")));
}

TEST(DissectChart, TakesTheSameSelectionAsText) {
  const std::string path = capture("chart.pcap");
  const Finished sends = kbtp({"dissect", path, "-o", "svg", "--filter", "opcode==SEND", "--frames", "5-7"});
  EXPECT_EQ(sends.status, 0) << sends.err;
  EXPECT_THAT(read_by_python(sends.out), StartsWith("3 arrows, "));
  const Finished other = kbtp({"dissect", path, "-o", "svg", "--follow", "2"});
  EXPECT_EQ(other.status, 2);
  EXPECT_THAT(read_by_python(other.out), StartsWith("0 arrows, "));
}

TEST(DissectChart, RefusesWhatIsAboutText) {
  const Finished run = kbtp({"dissect", capture("chart.pcap"), "-o", "svg", "-v"});
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("-v, -x and --segments are about text"));
}

}  // namespace
}  // namespace kbtp::e2e
