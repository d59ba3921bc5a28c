// RoCE conversations whose every packet is written here: pairing of queue pairs, order of PSNs, Sends put
// together, what responses answer, verdicts on the ICRC, bounds.

#include "pcap/ib_decoder.h"

#include <cstdlib>
#include <filesystem>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "ib_binding/wire/icrc.h"
#include "pcap/analysis.h"
#include "pcap/summary.h"
#include "pcap/test_frames.h"
#include "pcap/test_ib_frames.h"
#include "pcap/test_records.h"
#include "pcap/trace.h"

namespace kbtp::trace {
namespace {

using namespace test;
using ib::Operation;
using ib::Service;

constexpr std::uint32_t kClientQp = 0x11, kServerQp = 0x22;

/// Frames of two hosts, one millisecond apart.
class Talk {
 public:
  explicit Talk(bool use_v6 = false)
      : client_(use_v6 ? v6(1, 0) : v4(1, 0)), server_(use_v6 ? v6(2, 0) : v4(2, 0)) {}

  void say(bool from_client, const ib::Packet& packet) {
    add(roce(packet, from_client ? client_ : server_, from_client ? server_ : client_));
  }
  void client(Operation operation, std::uint32_t psn, Octets payload = {}) {
    say(true, ib_packet(operation, kServerQp, psn, payload));
  }
  void server(Operation operation, std::uint32_t psn, Octets payload = {}) {
    say(false, ib_packet(operation, kClientQp, psn, payload));
  }
  void nak(std::uint8_t syndrome, std::uint32_t psn) {
    ib::Packet answer = ib_packet(Operation::acknowledge, kClientQp, psn);
    answer.aeth = ib::Aeth{syndrome, 1};
    say(false, answer);
  }
  void add(Bytes octets) {
    const std::uint64_t number = frames.size() + 1;
    frames.push_back(Frame{number, static_cast<std::int64_t>(number) * 1'000'000, LinkType::ethernet,
                           static_cast<std::uint32_t>(octets.size()), std::move(octets)});
  }
  /// Packets of the only conversation.
  [[nodiscard]] std::vector<IbPacket> packets() const {
    const Trace trace = decode_trace(frames);
    EXPECT_EQ(trace.connections.size(), 1U);
    std::vector<IbPacket> all;
    if (trace.connections.empty()) return all;
    for (const Event& event : trace.connections.front().events) {
      if (const auto* ib = event.as<IbPacket>()) all.push_back(*ib);
    }
    return all;
  }
  [[nodiscard]] std::vector<Event> messages() const {
    std::vector<Event> all;
    for (const Connection& connection : decode_trace(frames).connections) {
      for (const Event& event : connection.events) {
        if (event.as<Message>() != nullptr) all.push_back(event);
      }
    }
    return all;
  }

  std::vector<Frame> frames;

 private:
  TransportAddress client_, server_;
};

TEST(IbDecoderTest, TheDestinationPortDecidesAlone) {
  const Bytes payload = pattern(8);
  const ib::Packet packet = ib_packet(Operation::send_only, kServerQp, 1, payload);
  Talk talk;
  talk.add(roce(packet, v4(1, 0), v4(2, 0), 4792));
  Bytes reply = roce(packet, v4(1, 0), v4(2, 0), 53);
  reply[14 + 20] = std::byte{4791 >> 8};
  reply[14 + 21] = std::byte{4791 & 0xFF};
  talk.add(reply);
  const Trace trace = decode_trace(talk.frames);
  EXPECT_TRUE(trace.connections.empty());
  EXPECT_EQ(trace.count(FrameProblem::Kind::other_protocol), 2U);
}

TEST(IbDecoderTest, VerdictOnTheIcrc) {
  for (const bool use_v6 : {false, true}) {
    Talk talk(use_v6);
    talk.client(Operation::send_only, 1, pattern(7));
    EXPECT_EQ(talk.packets().at(0).icrc, IcrcState::good);
    talk.frames[0].octets[talk.frames[0].octets.size() - 8] ^= std::byte{1};
    EXPECT_EQ(talk.packets().at(0).icrc, IcrcState::bad);
    EXPECT_TRUE(talk.messages().empty());
    talk.frames[0].octets.pop_back();
    EXPECT_EQ(talk.packets().at(0).icrc, IcrcState::unknown);
  }
}

TEST(IbDecoderTest, RoceV1) {
  const Bytes transport = ib::encode_packet(ib_packet(Operation::send_only, kServerQp, 1, pattern(8)));
  constexpr std::uint8_t kIbaTransport = 0x1B;  // Next Header of a GRH, IBTA 8.3.5
  Bytes grh = ipv6(v6(1, 0), v6(2, 0), kIbaTransport, transport + Bytes(4));
  const std::uint32_t icrc = ib::invariant_crc(ib::Network::grh, Octets(grh).first(40), transport);
  for (std::size_t i = 0; i < 4; ++i) grh[40 + transport.size() + i] = static_cast<std::byte>(icrc >> 8 * i);
  Talk talk;
  talk.add(ethernet(0x8915, grh));
  EXPECT_EQ(talk.packets().at(0).icrc, IcrcState::good);
  EXPECT_EQ(decode_trace(talk.frames).connections.at(0).transport, Transport::rocev1);
}

TEST(IbDecoderTest, OnItsOwnLink) {
  for (const bool global : {false, true}) {
    Talk talk;
    talk.add(native(ib_packet(Operation::send_only, kServerQp, 100, pattern(6)), 4, 5, global));
    talk.add(native(ib_packet(Operation::acknowledge, kClientQp, 100), 5, 4, global));
    for (Frame& frame : talk.frames) frame.link = LinkType::infiniband;
    const auto packets = talk.packets();
    ASSERT_EQ(packets.size(), 2U);
    EXPECT_EQ(packets[0].icrc, IcrcState::good);
    EXPECT_EQ(packets[1].icrc, IcrcState::good);
    EXPECT_EQ(packets[1].answers.value().request.number, 1U);
    ASSERT_EQ(talk.messages().size(), 1U);
    EXPECT_EQ(talk.messages()[0].as<Message>()->octets.size(), 6U);
    const Trace trace = decode_trace(talk.frames);
    const ConnectionInfo& info = trace.connections.at(0);
    EXPECT_EQ(info.transport, Transport::infiniband);
    EXPECT_EQ(info.end_text(Side::client), global ? "fd00::4" : "LID 4");

    talk.frames[0].octets[0] ^= std::byte{0xF0};  // another Virtual Lane: not covered
    EXPECT_EQ(talk.packets()[0].icrc, IcrcState::good);
    talk.frames[0].octets[7] ^= std::byte{0x40};  // another LID: covered within a subnet only
    EXPECT_EQ(decode_trace(talk.frames).connections.at(0).events.at(0).as<IbPacket>()->icrc,
              global ? IcrcState::good : IcrcState::bad);
  }
}

TEST(IbDecoderTest, AcknowledgesPairTheDirections) {
  Talk talk;
  talk.client(Operation::send_only, 100, pattern(4));
  talk.server(Operation::acknowledge, 100);
  talk.server(Operation::send_only, 7000, pattern(4));
  talk.client(Operation::acknowledge, 7000);
  const Trace trace = decode_trace(talk.frames);
  ASSERT_EQ(trace.connections.size(), 1U);
  EXPECT_EQ(trace.connections[0].qp[0], kClientQp);
  EXPECT_EQ(trace.connections[0].qp[1], kServerQp);
  const auto packets = talk.packets();
  EXPECT_EQ(packets.at(1).answers.value().request.number, 1U);
  EXPECT_EQ(packets.at(3).answers.value().request.number, 3U);
}

TEST(IbDecoderTest, ResponsesChooseTheConversationByTheirPsn) {
  Talk talk;
  talk.say(true, ib_packet(Operation::send_only, 0x31, 100, pattern(4)));
  talk.say(true, ib_packet(Operation::send_only, 0x32, 5000, pattern(4)));
  talk.say(false, ib_packet(Operation::acknowledge, 0x41, 100));
  talk.say(false, ib_packet(Operation::acknowledge, 0x42, 5000));
  const Trace trace = decode_trace(talk.frames);
  ASSERT_EQ(trace.connections.size(), 2U);
  EXPECT_EQ(trace.connections[0].qp[0], 0x41U);
  EXPECT_EQ(trace.connections[0].qp[1], 0x31U);
  EXPECT_EQ(trace.connections[1].qp[0], 0x42U);
  EXPECT_EQ(trace.connections[1].qp[1], 0x32U);
}

TEST(IbDecoderTest, SendsArePutTogetherOverTheWrapOfPsns) {
  Talk talk;
  const Bytes whole = pattern(600);
  talk.client(Operation::send_first, 0xFFFFFE, Octets(whole).first(256));
  talk.client(Operation::send_middle, 0xFFFFFF, Octets(whole).subspan(256, 256));
  talk.client(Operation::send_last_immediate, 0, Octets(whole).subspan(512));
  const auto messages = talk.messages();
  ASSERT_EQ(messages.size(), 1U);
  const Message& message = *messages[0].as<Message>();
  EXPECT_TRUE(std::ranges::equal(message.octets, whole));
  EXPECT_EQ(message.psn, 0xFFFFFEU);
  EXPECT_EQ(message.immediate, 0x01020304U);
  EXPECT_EQ(messages[0].first.number, 1U);
  EXPECT_EQ(messages[0].frame.number, 3U);
  for (const IbPacket& ib : talk.packets()) EXPECT_EQ(ib.order, PsnOrder::in_order);
}

TEST(IbDecoderTest, KindsOfSend) {
  Talk talk;
  const Bytes payload = pattern(4);
  ib::Packet packet = ib_packet(Operation::send_only_invalidate, kServerQp, 1, payload);
  talk.say(true, packet);
  packet.bth.solicited_event = true;
  packet.bth.psn = 2;
  talk.say(true, packet);
  const auto messages = talk.messages();
  ASSERT_EQ(messages.size(), 2U);
  EXPECT_EQ(messages[0].as<Message>()->opcode, rdmap::Opcode::send_invalidate);
  EXPECT_EQ(messages[0].as<Message>()->invalidate_stag, 0xABCFU);
  EXPECT_EQ(messages[1].as<Message>()->opcode, rdmap::Opcode::send_se_invalidate);
}

TEST(IbDecoderTest, WhatIsSentAgainIsToldAndDeliveredOnce) {
  Talk talk;
  const Bytes whole = pattern(512);
  talk.client(Operation::send_only, 10, pattern(4));
  talk.client(Operation::send_first, 11, Octets(whole).first(256));
  talk.client(Operation::send_last, 13, pattern(3));  // 12 was lost; this is another message's end
  talk.nak(0x60, 12);
  talk.client(Operation::send_last, 12, Octets(whole).subspan(256));
  talk.client(Operation::send_only, 10, pattern(4));
  const auto packets = talk.packets();
  EXPECT_EQ(packets.at(2).order, PsnOrder::gap);
  EXPECT_EQ(packets.at(2).missing_psns, 1U);
  EXPECT_EQ(packets.at(4).order, PsnOrder::repeated);
  EXPECT_EQ(packets.at(5).order, PsnOrder::repeated);
  const auto messages = talk.messages();
  ASSERT_EQ(messages.size(), 2U);
  EXPECT_TRUE(std::ranges::equal(messages[1].as<Message>()->octets, whole));
}

TEST(IbDecoderTest, ReadsTakeAPsnForEachPacketOfTheirResponse) {
  Talk talk;
  talk.client(Operation::read_request, 50);  // 4096 octets
  talk.server(Operation::read_response_first, 50, pattern(2048));
  talk.server(Operation::read_response_last, 51, pattern(2048));
  talk.client(Operation::read_request, 52);
  talk.client(Operation::send_only, 54, pattern(4));
  const auto packets = talk.packets();
  EXPECT_FALSE(packets.at(1).answers.value().complete);
  EXPECT_TRUE(packets.at(2).answers.value().complete);
  EXPECT_EQ(packets.at(2).answers->request.number, 1U);
  EXPECT_EQ(packets.at(2).answers->dma_length, 4096U);
  EXPECT_EQ(packets.at(3).order, PsnOrder::in_order);
  EXPECT_EQ(packets.at(4).order, PsnOrder::in_order);
}

TEST(IbDecoderTest, AtomicsAndAcknowledgesOfSeveral) {
  Talk talk;
  talk.client(Operation::fetch_add, 1);
  talk.server(Operation::atomic_acknowledge, 1);
  for (const std::uint32_t psn : {2U, 3U, 4U}) talk.client(Operation::write_only, psn, pattern(4));
  talk.server(Operation::acknowledge, 4);
  const auto packets = talk.packets();
  EXPECT_EQ(packets.at(1).answers.value().operation, Operation::fetch_add);
  EXPECT_EQ(packets.at(5).answers.value().request.number, 5U);
  EXPECT_EQ(packets.at(5).answers->requests, 3U);
}

/// Kinds of findings of all events, in order.
std::vector<std::string> findings(const Talk& talk) {
  Analyzer analyzer;
  std::vector<std::string> kinds;
  for (const Connection& connection : decode_trace(talk.frames).connections) {
    for (const Event& event : connection.events) {
      Annotation annotation;
      analyzer.event(connection, event, annotation);
      for (const Finding& finding : annotation.findings) kinds.emplace_back(finding.kind);
    }
  }
  return kinds;
}

TEST(IbDecoderTest, NaksAndCongestionAreFindings) {
  Talk talk;
  talk.client(Operation::send_only, 1, pattern(4));
  talk.nak(0x20, 1);  // RNR NAK
  talk.client(Operation::send_only, 1, pattern(4));
  talk.nak(0x62, 1);  // remote access error
  ib::Packet cnp;
  cnp.bth.opcode.value = ib::kCongestionNotification;
  cnp.bth.destination_qp = kClientQp;
  const Bytes reserved(16);
  cnp.payload = reserved;
  talk.say(false, cnp);
  EXPECT_EQ(findings(talk), (std::vector<std::string>{"rnr-nak", "psn-repeated", "nak", "congestion"}));
}

TEST(IbDecoderTest, HeadersThatCannotBeReadLeaveTheBth) {
  Talk talk;
  ib::Packet packet = ib_packet(Operation::send_only, kServerQp, 9);
  packet.bth.opcode = make_opcode(Service::reliable_connection, Operation::read_request);
  talk.say(true, packet);  // no RETH
  const auto packets = talk.packets();
  EXPECT_NE(packets.at(0).error, nullptr);
  EXPECT_EQ(packets.at(0).packet.bth.psn, 9U);
  EXPECT_EQ(findings(talk), (std::vector<std::string>{"ib-malformed"}));
}

TEST(IbDecoderTest, HoldsNoMoreConversationsThanItMay) {
  struct Count final : Observer {
    void on_event(const ConnectionInfo&, const Event&) override { ++events; }
    void on_end(const ConnectionInfo&) override { ++ends; }
    void on_other_frame(const FrameView&, const FrameProblem&) override {}
    std::size_t events = 0, ends = 0;
  } count;
  DecoderLimits limits;
  limits.connections = 4;
  Decoder decoder({}, count, limits);
  Talk talk;
  for (std::uint32_t qp = 1; qp <= 20; ++qp)
    talk.say(true, ib_packet(Operation::send_first, 0x100 + qp, qp, pattern(256)));
  for (const Frame& frame : talk.frames) decoder.frame(view(frame));
  EXPECT_EQ(count.ends, 16U);
  EXPECT_EQ(decoder.dropped(), 16U);
  decoder.finish();
  EXPECT_EQ(count.ends, 20U);
}

TEST(IbDecoderTest, FieldsHaveTheirOctets) {
  Talk talk;
  talk.client(Operation::write_only_immediate, 0x010203, pattern(6));
  std::vector<Seen> seen;
  RecordBuilder builder(wire::kProposed);
  const Trace trace = decode_trace(talk.frames);
  Record record;
  builder.build(trace.connections.at(0), trace.connections[0].events.at(0), {}, record);
  const Seen fields = keep(record);
  EXPECT_EQ(fields.text("event"), "ib-packet");
  EXPECT_EQ(fields.text("transport"), "rocev2");
  EXPECT_EQ(fields.text("src"), "10.0.0.1");
  EXPECT_EQ(fields.place("src.port"), "none");
  EXPECT_EQ(fields.text("ib.bth.opcode"), "0x0b  RDMA Write Only with Immediate");
  EXPECT_EQ(fields.place("ib.bth.psn"), "9+3");
  EXPECT_EQ(fields.place("ib.reth.va"), "12+8");
  EXPECT_EQ(fields.place("ib.reth.dma_length"), "24+4");
  EXPECT_EQ(fields.place("ib.imm.data"), "28+4");
  EXPECT_EQ(fields.place("ib.payload_length"), "32+6");
  EXPECT_EQ(fields.place("ib.icrc"), "40+4");
  EXPECT_EQ(fields.text("ib.icrc"), "good");
}

/// What `kbtp dissect` prints, without analysis.
std::string lines(const std::vector<Frame>& frames) {
  Output output(-1);
  LinePrinter printer(output, false);
  const Annotation none;
  for (const Connection& connection : decode_trace(frames).connections) {
    for (const Event& event : connection.events) printer.event(connection, event, none, true);
    printer.end(connection);
  }
  return std::string(output.held());
}

TEST(IbDecoderTest, OneLineAMessage) {
  Talk talk;
  talk.client(Operation::write_first, 1, pattern(256));
  talk.client(Operation::write_last, 2, pattern(10));
  talk.client(Operation::send_first, 3, pattern(256));
  talk.server(Operation::acknowledge, 2);
  talk.client(Operation::send_last, 4, pattern(44));
  EXPECT_EQ(lines(talk.frames),
            "stream 1: 10.0.0.1 QP 0x11 > 10.0.0.2 QP 0x22, RoCEv2\n"
            "     2     0.002000  1 > RDMA Write           266 octets, PSN 1 to 2, at R_Key 0x0000abcd VA "
            "0x1000 since #1\n"
            "     4     0.004000  1 < Acknowledge          PSN 2\n"
            "     5     0.005000  1 > Send                 300 octets, PSN 3, 2 packets since #3\n");
}

TEST(IbDecoderTest, ASendThatComesAgainHasItsLineInItsPlace) {
  Talk talk;
  talk.client(Operation::send_only, 1, pattern(2));
  talk.client(Operation::send_only, 1, pattern(2));
  talk.server(Operation::acknowledge, 1);
  EXPECT_EQ(lines(talk.frames),
            "stream 1: 10.0.0.1 QP 0x11 > 10.0.0.2 QP 0x22, RoCEv2\n"
            "     1     0.001000  1 > Send                 2 octets, PSN 1, 0007\n"
            "     2     0.002000  1 > Send                 2 octets, PSN 1\n"
            "     3     0.003000  1 < Acknowledge          PSN 1\n");
}

TEST(IbDecoderTest, SummaryCountsPacketsAndNamesQueuePairs) {
  Talk talk;
  talk.client(Operation::read_request, 50);
  talk.server(Operation::read_response_only, 50, pattern(100));
  Summary summary;
  Analyzer analyzer;
  for (const Connection& connection : decode_trace(talk.frames).connections) {
    for (const Event& event : connection.events) {
      Annotation annotation;
      analyzer.event(connection, event, annotation);
      summary.event(connection, event, annotation, analyzer.answered());
    }
    summary.end(connection);
  }
  const std::string text = summary.text();
  EXPECT_NE(text.find("0 TCP connections, 0 of them iWARP; 1 RoCE conversation\n"), std::string::npos)
      << text;
  EXPECT_NE(text.find("10.0.0.1 QP 0x11 > 10.0.0.2 QP 0x22"), std::string::npos) << text;
  EXPECT_NE(text.find("100 B  2 right\n"), std::string::npos) << text;
  EXPECT_NE(text.find("RDMA Read "), std::string::npos) << text;
}

TEST(IbDecoderTest, ACompletionRecordEndsItsRequest) {
  wire::Load load;
  load.head = {.request_id = 77, .handle = 3};
  load.destination = {0x1000, 0x8000, 512};
  load.record = wire::CompletionDescriptor{0x1001, 0x9000};
  const auto record_at = [](std::uint32_t key, std::uint64_t address, std::uint64_t request_id,
                            wire::Status status, const wire::Assignment& assignment = wire::kProposed) {
    static std::array<std::byte, wire::kCompletionRecordSize> octets;
    octets = wire::encode(
        wire::CompletionRecord{.request_id = request_id, .status = status, .data_length = 400}, assignment);
    ib::Packet packet = ib_packet(Operation::write_only_immediate, kClientQp, 61, octets);
    packet.reth = ib::Reth{address, key, wire::kCompletionRecordSize};
    return packet;
  };
  struct Told {
    std::vector<Answered> answered;
    std::string text;
    std::vector<std::string> findings;
  };
  const auto told = [&](const ib::Packet& record, const wire::Assignment& assignment = wire::kProposed) {
    Talk talk;
    talk.client(Operation::send_only, 50, wire::encode(wire::Request(load), assignment));
    const Bytes block = pattern(400);
    ib::Packet data = ib_packet(Operation::write_only, kClientQp, 60, block);
    data.reth = ib::Reth{0x8000, 0x1000, 400};
    talk.say(false, data);
    talk.say(false, record);
    Told all;
    Analyzer analyzer(assignment);
    DecodeOptions options;
    options.assignment = assignment;
    for (const Connection& connection : decode_trace(talk.frames, options).connections) {
      for (const Event& event : connection.events) {
        Annotation annotation;
        analyzer.event(connection, event, annotation);
        if (analyzer.answered()) all.answered.push_back(*analyzer.answered());
        all.text = annotation.text;
        for (const Finding& finding : annotation.findings) all.findings.push_back(finding.text);
      }
    }
    return all;
  };
  const Told good = told(record_at(0x1001, 0x9000, 77, wire::Status::success));
  ASSERT_EQ(good.answered.size(), 1U);
  EXPECT_EQ(good.answered[0].op, wire::Opcode::load);
  EXPECT_EQ(good.answered[0].octets, 400U);
  EXPECT_EQ(good.answered[0].latency_ns, 2'000'000);
  EXPECT_EQ(good.text, "completion record, SUCCESS, answers LOAD #1, 2000.0 us");
  EXPECT_TRUE(good.findings.empty());

  const Told refused = told(record_at(0x1001, 0x9000, 77, wire::Status::not_bound));
  ASSERT_EQ(refused.answered.size(), 1U);
  EXPECT_EQ(refused.answered[0].status, wire::Status::not_bound);
  ASSERT_EQ(refused.findings.size(), 1U);

  // By other numbers for statuses and opcodes.
  wire::Assignment other = wire::kProposed;
  std::ranges::reverse(other.statuses);
  std::ranges::reverse(other.opcodes);
  const Told by_other = told(record_at(0x1001, 0x9000, 77, wire::Status::not_bound, other), other);
  ASSERT_EQ(by_other.answered.size(), 1U);
  EXPECT_EQ(by_other.answered[0].status, wire::Status::not_bound);

  // Elsewhere, of another request, or of another size it is a Write as any.
  EXPECT_TRUE(told(record_at(0x1001, 0x9018, 77, wire::Status::success)).answered.empty());
  EXPECT_TRUE(told(record_at(0x1000, 0x9000, 77, wire::Status::success)).answered.empty());
  EXPECT_TRUE(told(record_at(0x1001, 0x9000, 78, wire::Status::success)).answered.empty());
  ib::Packet shorter = record_at(0x1001, 0x9000, 77, wire::Status::success);
  shorter.payload = shorter.payload.first(16);
  EXPECT_TRUE(told(shorter).answered.empty());
}

std::string rxe_folder() {
  const char* set = std::getenv("KBTP_SHARED");
  return (set != nullptr ? std::string(set) : std::string(KBTP_SOURCE_DIR "/../shared")) + "/captures/rxe";
}

TEST(IbDecoderTest, CapturesOfRxe) {
  if (!std::filesystem::is_directory(rxe_folder())) GTEST_SKIP() << "no captures at " << rxe_folder();
  std::size_t files = 0;
  for (const auto& entry : std::filesystem::directory_iterator(rxe_folder())) {
    if (entry.path().extension() != ".pcap") continue;
    ++files;
    const auto trace = decode_trace_file(entry.path().string());
    ASSERT_TRUE(trace) << entry.path();
    std::size_t conversations = 0;
    for (const Connection& connection : trace->connections) {
      if (connection.transport == Transport::tcp) continue;
      ++conversations;
      EXPECT_TRUE(connection.qp[0] && connection.qp[1]) << entry.path();
      for (const Event& event : connection.events) {
        const auto* ib = event.as<IbPacket>();
        if (ib == nullptr) continue;
        EXPECT_EQ(ib->icrc, IcrcState::good) << entry.path() << describe(event);
        EXPECT_TRUE(ib->order == PsnOrder::in_order || ib->order == PsnOrder::unchecked) << describe(event);
        EXPECT_EQ(ib->error, nullptr);
        const bool response = ib->facts() != nullptr && ib->facts()->response;
        EXPECT_EQ(ib->answers.has_value(), response) << entry.path() << describe(event);
      }
    }
    EXPECT_EQ(conversations, 1U) << entry.path();
  }
  EXPECT_EQ(files, 6U);
}

TEST(IbDecoderTest, TheCommunicationManagerPairsQueuePairs) {
  const std::string path = rxe_folder() + "/rxe-rping-C5.pcap";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no capture " << path;
  const auto trace = decode_trace_file(path);
  ASSERT_TRUE(trace);
  const Connection& connection = trace->connections.at(0);
  EXPECT_TRUE(connection.opening_seen);
  std::vector<std::string> kinds;
  for (const Event& event : connection.events) {
    if (const auto* cm = event.as<CmMessage>()) kinds.emplace_back(to_string(cm->cm.kind));
  }
  EXPECT_EQ(kinds, (std::vector<std::string>{"REQ", "REP", "RTU", "DREQ", "DREP"}));
  // Starting PSNs in REQ and REP are those of the first requests in either direction: nothing is a gap.
  EXPECT_EQ(connection.events.at(0).from, Side::client);
}

/// A MAD of the Communication Manager with nothing but its kind, its Transaction ID and the identifiers.
Bytes mad(ib::CmKind kind, std::uint64_t transaction, std::uint32_t local_id, std::uint32_t remote_id) {
  Bytes octets(ib::kMadSize);
  ByteWriter out(octets);
  out.u8(1);
  out.u8(7);  // communication management
  out.u8(2);
  out.u8(3);  // Send
  out.u32(0);
  out.u64(transaction);
  out.u16(static_cast<std::uint16_t>(kind));
  out.bytes(Bytes(6));
  out.u32(local_id);
  out.u32(remote_id);
  return octets;
}

TEST(IbDecoderTest, WhatTheCommunicationManagerSaysAgainIsMarked) {
  Talk talk;
  std::uint32_t psn = 0;
  const auto say = [&](bool client, const Bytes& message) {
    talk.say(client, ib_packet(Operation::send_only, ib::kGeneralServicesQp, psn++, message,
                               Service::unreliable_datagram));
  };
  using enum ib::CmKind;
  say(true, mad(connect_request, 0x51, 7, 0));
  say(true, mad(connect_request, 0x51, 7, 0));  // no answer came
  say(false, mad(connect_reply, 0x51, 9, 7));   // the same transaction, another message
  say(true, mad(ready_to_use, 0x51, 7, 9));
  say(false, mad(connect_reply, 0x51, 9, 7));  // the RTU was lost
  say(true, mad(disconnect_request, 0x52, 7, 9));
  say(true, mad(disconnect_request, 0x53, 7, 9));
  const Trace trace = decode_trace(talk.frames);
  ASSERT_EQ(trace.connections.size(), 1U);
  std::vector<std::uint64_t> repeats;
  for (const Event& event : trace.connections[0].events) {
    if (const auto* cm = event.as<CmMessage>()) repeats.push_back(cm->repeats.value_or(0));
  }
  EXPECT_EQ(repeats, (std::vector<std::uint64_t>{0, 1, 0, 0, 3, 0, 0}));
  EXPECT_EQ(findings(talk), (std::vector<std::string>{"cm-repeated", "cm-repeated"}));
}

TEST(IbDecoderTest, ADatagramThatComesTwiceIsTold) {
  Talk talk;
  const auto say = [&](std::uint32_t psn) {
    talk.say(true, ib_packet(Operation::send_only, 0x30, psn, pattern(8), Service::unreliable_datagram));
  };
  for (const std::uint32_t psn : {0xFFFFFFU, 3U, 3U, 9U, 1U}) say(psn);
  std::vector<PsnOrder> orders;
  for (const IbPacket& packet : talk.packets()) orders.push_back(packet.order);
  using enum PsnOrder;
  EXPECT_EQ(orders, (std::vector<PsnOrder>{unchecked, unchecked, repeated, unchecked, unchecked}));
  EXPECT_EQ(findings(talk), (std::vector<std::string>{"psn-repeated"}));
}

}  // namespace
}  // namespace kbtp::trace
