// `kbtp dissect` as a user runs it, over captures made here and, where they are, over ../shared/captures.

#include <csignal>
#include <filesystem>
#include <fstream>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <sstream>
#include <sys/stat.h>

#include "pcap/capture_file.h"
#include "pcap/test_frames.h"
#include "proto/wire/completion.h"
#include "proto/wire/hello.h"
#include "proto/wire/request.h"
#include "tests/e2e/process.h"

namespace kbtp::e2e {
namespace {

using rdmap::Opcode;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::StartsWith;
using trace::test::Conversation;

/// HELLO, a LOAD that succeeds, one that does not, and the end.
Conversation session(std::uint16_t client_port = 40000) {
  using namespace trace::test;
  Conversation talk(1000, 0xFFFFFF00, client_port);
  const auto send = [](std::uint32_t msn, Octets message) {
    return untagged(Opcode::send, 0, msn, 0, true, message);
  };
  const auto answer = [](std::uint64_t id, wire::Status status, std::uint32_t length) {
    wire::Completion completion;
    completion.request_id = id;
    completion.handle = id;
    completion.status = status;
    completion.data_length = length;
    return wire::encode(completion);
  };
  const auto load = [](std::uint64_t id) {
    return wire::encode(
        wire::Request(wire::Load{.head = {id, id, 0, 0}, .destination = {0x1234, 0x1000, 4096}}));
  };
  talk.open();
  talk.say(true, request());
  talk.say(false, reply());
  talk.say(true, send(1, wire::encode(wire::Hello{.request_id = 1})));
  talk.say(false, send(1, wire::encode(wire::HelloAck{.request_id = 1, .version = 1, .block_size = 4096})));
  talk.say(true, send(2, load(7)));
  for (std::uint64_t i = 0; i < 4; ++i)
    talk.say(false, tagged(Opcode::rdma_write, 0x1234, 0x1000 + 1024 * i, i == 3, pattern(1024)));
  talk.say(false, send(2, answer(7, wire::Status::success, 4096)));
  talk.say(true, send(3, load(8)));
  talk.say(false, send(3, answer(8, wire::Status::not_bound, 0)));
  talk.fin(true);
  talk.fin(false);
  return talk;
}

std::string octets_of(const std::vector<trace::Frame>& frames) {
  const auto octets = trace::encode_capture(frames);
  return std::string(reinterpret_cast<const char*>(octets.data()), octets.size());
}
std::string capture(const std::string& name, const std::vector<trace::Frame>& frames) {
  return temporary_file(name, octets_of(frames));
}

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> lines;
  std::istringstream stream(text);
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

TEST(Dissect, OneLineAMessage) {
  const Finished run = kbtp({"dissect", capture("session.pcap", session().frames)});
  EXPECT_EQ(run.status, 0) << run.err;
  const auto lines = lines_of(run.out);
  ASSERT_EQ(lines.size(), 13U) << run.out;
  EXPECT_EQ(lines[0], "stream 1: 10.0.0.1:40000 > 10.0.0.2:7420");
  EXPECT_THAT(lines[5], HasSubstr("KBTP LOAD            request 0x7, handle 7, to 4096 octets"));
  EXPECT_THAT(lines[6],
              HasSubstr("RDMA Write           4096 octets to STag 0x00001234 TO 0x1000, 4 segments"));
  EXPECT_THAT(lines[9], HasSubstr("NOT_BOUND request 0x8"));
  EXPECT_THAT(lines[10], StartsWith("        warning: "));
  EXPECT_THAT(run.out, Not(HasSubstr("\x1b")));
  EXPECT_EQ(run.err, "");
}

TEST(Dissect, JsonLinesAreObjectsWithTheSameKeysEveryTime) {
  const std::string path = capture("json.pcap", session().frames);
  const Finished run = kbtp({"dissect", path, "-o", "json", "--filter", "event==message"});
  EXPECT_EQ(run.status, 0) << run.err;
  const auto lines = lines_of(run.out);
  ASSERT_EQ(lines.size(), 6U) << run.out;
  const auto hello = nlohmann::json::parse(lines[0]);
  EXPECT_EQ(hello["kbtp.op_name"], "HELLO");
  EXPECT_EQ(hello["kbtp.handle"], "18446744073709551615");
  const auto last = nlohmann::json::parse(lines[5]);
  EXPECT_EQ(last["kbtp.status"], 6);
  EXPECT_EQ(last["kbtp.status_name"], "NOT_BOUND");
  EXPECT_EQ(last["stream"], 1);
}

TEST(Dissect, FiltersByFields) {
  const std::string path = capture("filter.pcap", session().frames);
  const Finished failed = kbtp({"dissect", path, "--filter", "op==COMPLETION && status!=0"});
  EXPECT_EQ(failed.status, 0) << failed.err;
  EXPECT_THAT(failed.out, HasSubstr("NOT_BOUND request 0x8"));
  EXPECT_THAT(failed.out, Not(HasSubstr("SUCCESS")));
  EXPECT_THAT(failed.out, Not(HasSubstr("KBTP LOAD")));
}

TEST(Dissect, AFilterThatIsWrongNamesTheColumnAndEndsWithTwo) {
  const std::string path = capture("wrong.pcap", session().frames);
  const Finished run = kbtp({"dissect", path, "--filter", "op==LOAD && nothing==1"});
  EXPECT_EQ(run.status, 2);
  EXPECT_THAT(run.err, HasSubstr("column 13"));
  EXPECT_THAT(run.err, HasSubstr("\n  op==LOAD && nothing==1\n              ^"));
  EXPECT_EQ(run.out, "");
}

TEST(Dissect, ASelectionOfNothingEndsWithTwo) {
  const std::string path = capture("nothing.pcap", session().frames);
  EXPECT_EQ(kbtp({"dissect", path, "--filter", "op==BIND"}).status, 2);
  EXPECT_EQ(kbtp({"dissect", path, "--frames", "900-"}).status, 2);
  const Finished stream = kbtp({"dissect", path, "--follow", "2"});
  EXPECT_EQ(stream.status, 2);
  EXPECT_THAT(stream.err, HasSubstr("there is no stream 2: the capture has 1"));
}

TEST(Dissect, FollowsOneStreamAndKeepsToItsFrames) {
  auto frames = session().frames;
  const auto second = session(40001).frames;
  frames.insert(frames.end(), second.begin(), second.end());
  const std::string path = capture("two.pcap", frames);
  const Finished run = kbtp({"dissect", path, "--follow", "2"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, StartsWith("stream 2: 10.0.0.1:40001"));
  EXPECT_THAT(run.out, Not(HasSubstr("stream 1")));
  const Finished few = kbtp({"dissect", path, "--frames", "5-6"});
  EXPECT_EQ(lines_of(few.out).size(), 3U) << few.out;
  EXPECT_THAT(few.out, HasSubstr("HELLO_ACK"));
  // Frame 9 is in the middle of a Write: nothing was complete there.
  const Finished inside = kbtp({"dissect", path, "--frames", "9"});
  EXPECT_EQ(inside.status, 0) << inside.err;
  EXPECT_EQ(inside.out, "");
}

TEST(Dissect, FieldByFieldAndOctets) {
  const std::string path = capture("fields.pcap", session().frames);
  const Finished run = kbtp({"dissect", path, "-v", "-x", "--filter", "kbtp.op==LOAD"});
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("\n            1   kbtp.op                    0x03  LOAD\n"));
  EXPECT_THAT(run.out, HasSubstr("\n*   0001  03 "));
}

TEST(Dissect, ColourWhenAsked) {
  const std::string path = capture("colour.pcap", session().frames);
  EXPECT_THAT(kbtp({"dissect", path, "--color", "always"}).out, HasSubstr("\x1b[1mKBTP LOAD\x1b[0m"));
  EXPECT_THAT(kbtp({"dissect", path, "--color", "never"}).out, Not(HasSubstr("\x1b")));
}

TEST(Dissect, ColourOnATerminalOnly) {
  const std::string path = capture("terminal.pcap", session().frames);
  EXPECT_THAT(kbtp({"dissect", path}).out, Not(HasSubstr("\x1b")));
  const auto on_a_terminal = [&](const std::string& environment) {
    Process run({"/bin/sh", "-c",
                 "unset NO_COLOR; TERM=xterm; export TERM; " + environment + " script -qec \"'" +
                     kbtp_path() + "' dissect '" + path + "'\" /dev/null </dev/null"});
    EXPECT_EQ(run.wait(), 0) << run.err();
    return run.out();
  };
  EXPECT_THAT(on_a_terminal(""), HasSubstr("\x1b[1mKBTP LOAD\x1b[0m"));
  EXPECT_THAT(on_a_terminal("NO_COLOR=1"), AllOf(HasSubstr("KBTP LOAD"), Not(HasSubstr("\x1b"))));
  EXPECT_THAT(on_a_terminal("TERM=dumb"), AllOf(HasSubstr("KBTP LOAD"), Not(HasSubstr("\x1b"))));
}

TEST(Dissect, ReadsStandardInput) {
  const Finished run = kbtp({"dissect", "-"}, octets_of(session().frames));
  EXPECT_EQ(run.status, 0) << run.err;
  EXPECT_THAT(run.out, HasSubstr("KBTP HELLO "));
}

TEST(Dissect, TellsWhatItHasWhileItsInputIsStillOpen) {
  const std::string octets = octets_of(session().frames);
  const std::string pipe = temporary_file("pipe", "");
  std::filesystem::remove(pipe);
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  // A shell holds the pipe open for writing while dissect reads it.
  const std::string path = temporary_file("slow.pcap", octets);
  Process run({"/bin/sh", "-c",
               "{ cat '" + path + "'; exec cat '" + pipe + "'; } | '" + kbtp_path() + "' dissect -"});
  EXPECT_TRUE(run.wait_for_output("KBTP COMPLETION      NOT_BOUND"));
  {
    const std::ofstream end(pipe);
  }
  EXPECT_EQ(run.wait(), 0) << run.err();
}

TEST(Dissect, AFileThatIsCutKeepsWhatCameBefore) {
  std::string octets = octets_of(session().frames);
  octets.resize(octets.size() - 10);
  const Finished run = kbtp({"dissect", temporary_file("cut.pcap", octets)});
  EXPECT_EQ(run.status, 0);
  EXPECT_THAT(run.out, HasSubstr("NOT_BOUND"));
  EXPECT_NE(run.err, "");
}

TEST(Dissect, WhatCannotBeReadEndsWithThree) {
  EXPECT_EQ(kbtp({"dissect", "/nowhere/trace.pcap"}).status, 3);
  EXPECT_EQ(kbtp({"dissect", temporary_file("text", "this is no capture file at all")}).status, 3);
  EXPECT_EQ(kbtp({"dissect", "-i", "no-such-interface"}).status, 3);
}

TEST(Dissect, WrongCommandLinesEndWithTwo) {
  EXPECT_EQ(kbtp({"dissect"}).status, 2);
  EXPECT_EQ(kbtp({"dissect", "a", "b"}).status, 2);
  EXPECT_EQ(kbtp({"dissect", "a", "-o", "xml"}).status, 2);
  EXPECT_EQ(kbtp({"dissect", "a", "--frames", "9-3"}).status, 2);
  EXPECT_EQ(kbtp({"dissect", "a", "-o", "json", "-v"}).status, 2);
}

TEST(Dissect, AReaderThatHasSeenEnoughIsNoFailure) {
  std::vector<trace::Frame> frames;
  for (std::uint16_t i = 0; i < 200; ++i) {
    const auto more = session(static_cast<std::uint16_t>(41000 + i)).frames;
    frames.insert(frames.end(), more.begin(), more.end());
  }
  const std::string path = capture("many.pcap", frames);
  Process run({"/bin/sh", "-c",
               "{ '" + kbtp_path() + "' dissect -o json '" + path + "'; echo status $? >&2; } | head -1"});
  EXPECT_EQ(run.wait(), 0);
  EXPECT_EQ(lines_of(run.out()).size(), 1U);
  EXPECT_EQ(run.err(), "status 0\n");
}

TEST(Dissect, WhatIsNoIwarpIsSaid) {
  Conversation talk;
  talk.open();
  talk.say(true, as_octets("GET / HTTP/1.1\r\nHost: example\r\n\r\n"));
  const Finished run = kbtp({"dissect", capture("http.pcap", talk.frames)});
  EXPECT_EQ(run.status, 0);
  EXPECT_EQ(run.out, "");
  EXPECT_THAT(run.err, HasSubstr("neither iWARP nor RoCE in 3 frames, 1 TCP connection"));
}

TEST(Dissect, ListsItsFields) {
  const Finished run = kbtp({"dissect", "--fields"});
  EXPECT_EQ(run.status, 0);
  EXPECT_THAT(run.out, HasSubstr("\nkbtp.status "));
  EXPECT_THAT(run.out, HasSubstr("GENERATION_MISMATCH"));
}

TEST(Dissect, Live) {
  Target target({"--listen", "127.0.0.1:0", "--blocks", "4"});
  Process run({kbtp_path(), "dissect", "-i", "lo", "tcp", "port", std::to_string(target.port())});
  if (!run.wait_for_error("capturing on lo")) {
    EXPECT_EQ(run.wait(), 3);
    if (run.err().find("not permitted") != std::string::npos) GTEST_SKIP() << run.err();
    FAIL() << run.err();
  }
  const Finished stat = kbtp({"block", "stat", "--target", target.endpoint(), "--handle", "0"});
  EXPECT_EQ(stat.status, 1) << stat.out << stat.err;  // NOT_BOUND
  EXPECT_TRUE(run.wait_for_output("KBTP COMPLETION")) << run.err();
  run.signal(SIGINT);
  EXPECT_EQ(run.wait(), 0) << run.err();
  EXPECT_THAT(run.out(), HasSubstr("KBTP HELLO_ACK"));
}

/// The kernel's iWARP, when its captures are beside the repository.
class SiwCaptures : public ::testing::Test {
 protected:
  void SetUp() override {
    if (!std::filesystem::exists(kFolder)) GTEST_SKIP() << "there is no " << kFolder;
  }
  static constexpr const char* kFolder = KBTP_SOURCE_DIR "/../shared/captures/siw";
};

TEST_F(SiwCaptures, EachIsIwarpWithoutAnythingWrong) {
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(kFolder)) {
    const std::string name = entry.path().filename();
    if (entry.path().extension() != ".pcap" || name.find("esp") != std::string::npos) continue;
    ++files;
    const Finished run = kbtp({"dissect", entry.path(), "-o", "json"});
    EXPECT_EQ(run.status, 0) << name << run.err;
    EXPECT_EQ(run.err, "") << name;
    const bool crc = name.find("crc") != std::string::npos;
    std::size_t fpdus = 0;
    for (const std::string& line : lines_of(run.out)) {
      const auto event = nlohmann::json::parse(line);
      EXPECT_NE(event["event"], "note") << name << line;
      EXPECT_FALSE(event.contains("fpdu.error")) << name << line;
      if (event["event"] != "fpdu") continue;
      ++fpdus;
      EXPECT_EQ(event["fpdu.crc"], crc ? "good" : "off") << name << line;
    }
    EXPECT_GT(fpdus, 10U) << name;
  }
  EXPECT_GE(files, 12U);
}

TEST_F(SiwCaptures, RpingIsReadsAndWritesInTurn) {
  const std::string path = std::string(kFolder) + "/siw-rping-C5.pcap";
  const auto count = [&](const char* expression) {
    return lines_of(kbtp({"dissect", path, "-o", "json", "--filter", expression}).out).size();
  };
  EXPECT_EQ(count("opcode==RDMA_WRITE"), 5U);
  EXPECT_EQ(count("rdmap.opcode==\"RDMA Read Request\" && size==64"), 5U);
  EXPECT_EQ(count("opcode==2"), 5U);
  EXPECT_EQ(count("event==message"), 20U);
  EXPECT_EQ(count("event==end"), 2U);
}

}  // namespace
}  // namespace kbtp::e2e
