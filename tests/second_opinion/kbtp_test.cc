// `kbtp dissect -o json` against the Lua dissector in tshark, field by field: each KBTP message with all its
// fields over RoCE, and what a conformance run leaves over iWARP. What tshark must not claim is here too.

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>
#include <set>
#include <sys/wait.h>
#include <unistd.h>

#include "pcap/capture_file.h"
#include "pcap/fields.h"
#include "pcap/live_capture.h"
#include "pcap/test_ib_frames.h"
#include "proto/wire/message.h"
#include "second_opinion/tshark.h"

namespace kbtp::second_opinion {
namespace {

using namespace trace::test;
using nlohmann::json;

std::string scratch(std::string_view name) {
  return (std::filesystem::temp_directory_path() / fmt::format("kbtp-lua-{}-{}", ::getpid(), name)).string();
}

/// The lines of `kbtp dissect -o json`.
std::vector<json> dissect(const std::string& path) {
  std::vector<json> lines;
  std::FILE* pipe = ::popen((std::string(KBTP_COMMAND) + " dissect -o json '" + path + "'").c_str(), "re");
  if (pipe == nullptr) return lines;
  char* text = nullptr;
  std::size_t capacity = 0;
  for (ssize_t n = 0; (n = ::getline(&text, &capacity, pipe)) > 0;)
    lines.push_back(json::parse(std::string_view(text, static_cast<std::size_t>(n))));
  std::free(text);
  ::pclose(pipe);
  return lines;
}

KbtpMessage message_of(const json& line) {
  KbtpMessage message{line.at("frame.number"), {}};
  for (const auto& [name, value] : line.items()) {
    if (!name.starts_with("kbtp.") || name.ends_with("_name") || name.starts_with("kbtp.error")) continue;
    message.fields[name] = value.is_string() ? value.get<std::string>() : value.dump();
  }
  return message;
}

/// Where the two part, in words; empty when they agree.
std::string difference(const std::vector<KbtpMessage>& ours, const std::vector<KbtpMessage>& theirs) {
  for (std::size_t i = 0; i < std::max(ours.size(), theirs.size()); ++i) {
    if (i < ours.size() && i < theirs.size() && ours[i] == theirs[i]) continue;
    const auto text = [i](const std::vector<KbtpMessage>& all) {
      if (i >= all.size()) return std::string("nothing");
      std::string fields = fmt::format("frame {}:", all[i].frame);
      for (const auto& [name, value] : all[i].fields) fields += fmt::format(" {}={}", name, value);
      return fields;
    };
    return fmt::format("message {}\n  ours   {}\n  theirs {}", i, text(ours), text(theirs));
  }
  return "";
}

/// A conversation of two queue pairs that consists of Sends.
class Conversation {
 public:
  void send(bool from_initiator, const Bytes& message) {
    ib::Packet packet = ib_packet(ib::Operation::send_only, from_initiator ? 0x11U : 0x12U,
                                  from_initiator ? initiator_psn_++ : target_psn_++, message);
    packet.bth.pad_count = static_cast<std::uint8_t>((4 - message.size() % 4) % 4);
    add(from_initiator, packet);
  }
  void add(bool from_initiator, const ib::Packet& packet) {
    const auto initiator = v4(1, 0);
    const auto target = v4(2, 0);
    Bytes octets = from_initiator ? roce(packet, initiator, target) : roce(packet, target, initiator);
    frames_.push_back(trace::Frame{frames_.size() + 1, 0, trace::LinkType::ethernet,
                                   static_cast<std::uint32_t>(octets.size()), std::move(octets)});
  }
  [[nodiscard]] const std::vector<trace::Frame>& frames() const { return frames_; }

 private:
  std::uint32_t initiator_psn_ = 100, target_psn_ = 200;
  std::vector<trace::Frame> frames_;
};

wire::Hello hello() {
  return {.request_id = 0xFEDCBA9876543210,
          .base_handle = 7,
          .wanted = {.record_completion = true, .direct_alloc = true},
          .max_requests = 3,
          .receive_size = 128,
          .quota = 5,
          .handle_count = 9,
          .identity = *Uuid::parse("f81d4fae-7dec-11d0-a765-00a0c91e6bf6")};
}

wire::HelloAck hello_ack() {
  wire::HelloAck ack{.request_id = hello().request_id, .base_handle = 7, .version = 1, .min_version = 1};
  ack.granted = {.record_completion = true, .direct_load = true, .direct_alloc = true};
  ack.max_version = 1;
  ack.ring_log2 = 6;
  // Each number another one, so that no two fields can be taken for each other.
  std::uint32_t next = 1000;
  for (auto* field :
       {&ack.max_requests, &ack.max_inline, &ack.block_size, &ack.quota, &ack.usage, &ack.ticket_timeout_ms,
        &ack.table_stag, &ack.pool_stag, &ack.partition_stag, &ack.ring_stag, &ack.head_stag})
    *field = next++ << 8;
  for (auto* field : {&ack.handle_count, &ack.table_base_handle, &ack.table_handle_count, &ack.pool_blocks,
                      &ack.table_offset, &ack.ring_offset, &ack.head_offset, &ack.pool_offset,
                      &ack.pool_length, &ack.partition_offset, &ack.partition_length})
    *field = (std::uint64_t{next++} << 44) + 3;
  return ack;
}

constexpr wire::RequestHead kHead{.request_id = 0x1122334455667788, .handle = 1ULL << 60, .generation = 77};
constexpr wire::DataDescriptor kData{.stag = 0xA1B2C3D4, .tagged_offset = 0x0102030405060708, .length = 4096};
constexpr wire::CompletionDescriptor kRecord{.stag = 0x51525354, .tagged_offset = 0x6162636465666768};

wire::Completion completion() {
  return {.request_id = kHead.request_id,
          .handle = kHead.handle,
          .status = wire::Status::not_sealed,
          .generation = 78,
          .data_length = 4095,
          .block_offset = 0x7172737475767778};
}

class KbtpSecondOpinion : public ::testing::Test {
 protected:
  void SetUp() override {
    if (const std::string why = tshark_missing(); !why.empty()) GTEST_SKIP() << why;
  }
};

TEST_F(KbtpSecondOpinion, EveryFieldOfEveryMessage) {
  Conversation talk;
  talk.send(true, wire::encode(hello()));
  talk.send(false, wire::encode(hello_ack()));
  talk.send(true, wire::encode(wire::Load{kHead, kData, {}, true, true}));
  talk.send(true, wire::encode(wire::Load{kHead, kData, kRecord, false, false}));
  const Bytes inline_data = pattern(13);
  talk.send(true,
            wire::encode(wire::Store{
                kHead, {.source = kData, .record = kRecord, .inline_data = inline_data, .seal = true}}));
  talk.send(true, wire::encode(wire::Store{kHead, {.source = kData, .invalidate = true}}));
  talk.send(true, wire::encode(wire::AllocStore{kHead, {.source = kData, .seal = true}}));
  talk.send(true, wire::encode(wire::AllocStore{kHead, {.source = {}, .inline_data = Octets()}}));
  talk.send(true, wire::encode(wire::Free{kHead, {}}));
  talk.send(true, wire::encode(wire::Free{kHead, kRecord}));
  wire::Bind bind{
      .head = kHead, .ticket = 0x31323334, .data_length = 4000, .block_offset = 0x4142434445464748};
  talk.send(true, wire::encode(bind));
  bind.record = kRecord;
  bind.seal = true;
  talk.send(true, wire::encode(bind));
  talk.send(false, wire::encode(completion()));
  wire::Assignment padded = wire::kProposed;
  padded.completion = wire::kPaddedCompletion;
  talk.send(false, wire::encode(completion(), padded));
  wire::Completion unassigned = completion();
  unassigned.status = wire::Status::unassigned;
  unassigned.status_code = 999;
  talk.send(false, wire::encode(unassigned));
  const std::string path = scratch("every.pcap");
  ASSERT_TRUE(trace::write_capture(path, talk.frames()));

  std::vector<KbtpMessage> ours;
  std::set<std::string> seen;
  for (const json& line : dissect(path)) {
    if (line.at("event") != "message") continue;
    ours.push_back(message_of(line));
    for (const auto& [name, value] : ours.back().fields) seen.insert(name);
  }
  EXPECT_EQ(ours.size(), talk.frames().size());
  for (const trace::FieldInfo& field : trace::kbtp_fields()) {
    if (field.name.starts_with("message.") || field.name.starts_with("kbtp.error")) continue;
    EXPECT_TRUE(seen.contains(std::string(field.name))) << field.name << " is in no message of this test";
  }
  const auto theirs = ask_tshark_kbtp(path);
  ASSERT_TRUE(theirs);
  EXPECT_EQ(difference(ours, *theirs), "");
  std::filesystem::remove(path);
}

TEST_F(KbtpSecondOpinion, OctetsThatOnlyLookLikeIt) {
  Conversation talk;
  ib::Packet write = ib_packet(ib::Operation::write_only, 0x11, 99, {});
  const Bytes greeting = wire::encode(hello());
  write.payload = greeting;
  talk.add(true, write);  // no Send
  wire::RequestHead other = kHead;
  other.request_id = 5;
  talk.send(true, wire::encode(wire::Load{other, kData, {}, false, false}));  // no session is known
  talk.send(false, wire::encode(completion()));                               // and answers nothing
  Bytes longer = wire::encode(wire::Free{kHead, {}});
  longer.resize(longer.size() + 4);
  talk.send(true, longer);  // no such length
  talk.send(true, wire::encode(wire::Free{kHead, {}}));
  talk.send(false, wire::encode(completion()));  // answers that one: beyond doubt
  talk.send(true, longer);                       // told as what is wrong
  const std::string path = scratch("looks.pcap");
  ASSERT_TRUE(trace::write_capture(path, talk.frames()));
  const auto theirs = ask_tshark_kbtp(path);
  ASSERT_TRUE(theirs);
  std::vector<std::uint64_t> claimed;
  for (const KbtpMessage& message : *theirs) claimed.push_back(message.frame);
  EXPECT_EQ(claimed, (std::vector<std::uint64_t>{6, 7}));
  EXPECT_TRUE(theirs->back().fields.contains("kbtp.error"));
  std::filesystem::remove(path);
}

// Wireshark does not put packets together: the first of several tells all but the end of the data.
TEST_F(KbtpSecondOpinion, HeadOfALongMessage) {
  Conversation talk;
  talk.send(true, wire::encode(hello()));
  const Bytes data = pattern(300);
  const Bytes message = wire::encode(wire::Store{kHead, {.source = kData, .inline_data = data}});
  const Bytes first(message.begin(), message.begin() + 256);
  const Bytes last(message.begin() + 256, message.end());
  talk.add(true, ib_packet(ib::Operation::send_first, 0x11, 101, first));
  talk.add(true, ib_packet(ib::Operation::send_last, 0x11, 102, last));
  const std::string path = scratch("long.pcap");
  ASSERT_TRUE(trace::write_capture(path, talk.frames()));
  std::vector<KbtpMessage> ours;
  for (const json& line : dissect(path)) {
    if (line.at("event") != "message") continue;
    ours.push_back(message_of(line));
    ours.back().frame = line.value("frame.first", ours.back().frame);
  }
  const auto theirs = ask_tshark_kbtp(path);
  ASSERT_TRUE(theirs);
  EXPECT_EQ(ours.size(), 2U);
  EXPECT_EQ(difference(ours, *theirs), "");
  std::filesystem::remove(path);
}

TEST_F(KbtpSecondOpinion, ConformanceRun) {
  if (const auto capture = trace::LiveCapture::open({}); !capture) GTEST_SKIP() << capture.error().text;
  const std::string folder = scratch("conform");
  const int status =
      std::system((std::string(KBTP_COMMAND) + " conform run --out " + folder + " >/dev/null 2>&1").c_str());
  ASSERT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) <= 1) << status;
  std::vector<trace::Frame> frames;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder)) {
    // One case sends a hundred thousand messages, of which the others have examples enough.
    if (entry.path().filename() != "trace.pcap" || entry.file_size() > 1'000'000) continue;
    auto file = trace::read_capture(entry.path().string());
    ASSERT_TRUE(file) << file.error().text;
    for (trace::Frame& frame : file->frames) {
      frame.number = frames.size() + 1;
      frames.push_back(std::move(frame));
    }
  }
  const std::string path = folder + "/all.pcap";
  ASSERT_TRUE(trace::write_capture(path, frames));

  const std::vector<json> lines = dissect(path);
  std::set<std::uint64_t> sessions, left_out, wrong_frames;
  std::map<std::uint64_t, std::uint64_t> stream_of;
  for (const json& line : lines) {
    if (!line.contains("stream")) continue;
    const std::uint64_t stream = line.at("stream");
    stream_of[line.at("frame.number")] = stream;
    if (line.contains("fpdu.error") || line.value("fpdu.crc", "") == "bad")
      wrong_frames.insert(line.at("frame.number").get<std::uint64_t>());
    // Markers one way only: tshark loses the other one (differences_test.cc).
    if (line.value("mpa.wants_markers", false)) left_out.insert(stream);
    if (line.at("event") != "message") continue;
    if (line.value("kbtp.op_name", "").starts_with("HELLO")) sessions.insert(stream);
    // Of several segments: the two tell of it in other frames.
    if (line.contains("frame.first")) left_out.insert(stream);
  }
  std::vector<KbtpMessage> ours;
  for (const json& line : lines) {
    if (line.at("event") != "message" || !line.contains("kbtp.op")) continue;
    const std::uint64_t stream = line.at("stream");
    const bool wrong = wrong_frames.contains(line.at("frame.number").get<std::uint64_t>());
    if (sessions.contains(stream) && !left_out.contains(stream) && !wrong) ours.push_back(message_of(line));
  }
  auto asked = ask_tshark_kbtp(path);
  ASSERT_TRUE(asked);
  std::vector<KbtpMessage> theirs;
  for (KbtpMessage& message : *asked) {
    // tshark hands on what a segment with a wrong header or a wrong CRC carries.
    if (wrong_frames.contains(message.frame) || left_out.contains(stream_of[message.frame])) continue;
    message.fields.erase("kbtp.error");
    theirs.push_back(std::move(message));
  }
  EXPECT_EQ(difference(ours, theirs), "") << path;
  EXPECT_GT(ours.size(), 200U);
  EXPECT_LT(left_out.size(), 8U);
  if (!HasFailure()) std::filesystem::remove_all(folder);  // else it stays for whoever looks into it
}

}  // namespace
}  // namespace kbtp::second_opinion
