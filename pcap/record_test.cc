#include <algorithm>
#include <gtest/gtest.h>
#include <set>

#include "base/hex.h"
#include "pcap/test_frames.h"
#include "pcap/test_records.h"
#include "proto/wire/hello.h"
#include "proto/wire/request.h"
#include "rdmap_binding/mpa/marker.h"
#include "rdmap_binding/rdmap/headers.h"
#include "rdmap_binding/rdmap/segment.h"
#include "rdmap_binding/rdmap/terminate.h"

namespace kbtp::trace::test {
namespace {

using rdmap::Opcode;

template <class Array>
Bytes bytes(const Array& octets) {
  return Bytes(octets.begin(), octets.end());
}

/// Client and server have said their start-up frames.
Conversation started(bool crc = true) {
  Conversation talk;
  talk.open();
  talk.say(true, request(crc));
  talk.say(false, reply(crc));
  return talk;
}

Seen only_fpdu(const Bytes& octets, bool from_client = true) {
  Conversation talk = started();
  talk.say(from_client, octets);
  const auto seen = records(talk.frames, "fpdu");
  EXPECT_EQ(seen.size(), 1U);
  return seen.empty() ? Seen{} : seen.front();
}

Seen only_message(Octets octets) {
  Conversation talk = started();
  talk.say(true, untagged(Opcode::send, 0, 1, 0, true, octets));
  const auto seen = records(talk.frames, "message");
  EXPECT_EQ(seen.size(), 1U);
  return seen.empty() ? Seen{} : seen.front();
}

/// Fields that fill their octets wholly: what stands at their place must be their value.
void expect_octets_hold_values(const Seen& seen, const std::set<std::string>& parts_of_octets) {
  for (const auto& [name, value] : seen.fields) {
    if (value.kind != Kind::number || parts_of_octets.contains(name)) continue;
    const auto [offset, size] = value.place;
    if (size == 0 || size > 8) continue;
    ASSERT_LE(offset + size, seen.octets.size()) << name;
    std::uint64_t there = 0;
    for (std::uint32_t i = 0; i < size; ++i)
      there = there << 8 | std::to_integer<std::uint64_t>(seen.octets[offset + i]);
    EXPECT_EQ(there, value.number) << name;
  }
}

TEST(Record, SaysWhereAndWhenAndBetweenWhom) {
  const auto all = records(started().frames);
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].text("event"), "startup");
  EXPECT_EQ(all[0].text("frame.number"), "3");
  EXPECT_EQ(all[0].text("frame.time"), "0.000003000");
  EXPECT_EQ(all[0].text("frame.relative"), "0.000002000");
  EXPECT_EQ(all[0].text("stream"), "1");
  EXPECT_EQ(all[0].text("from"), "client");
  EXPECT_EQ(all[0].text("src"), "10.0.0.1:40000");
  EXPECT_EQ(all[0].text("dst.port"), "7420");
  EXPECT_EQ(all[1].text("from"), "server");
  EXPECT_EQ(all[1].text("src"), "10.0.0.2:7420");
}

TEST(Record, StartupFrameWithEnhancedAndPrivateData) {
  mpa::StartupFrame frame;
  frame.crc = true;
  frame.enhanced = mpa::Enhanced{true, false, 4, true, false, 8};
  const Bytes mine = pattern(5);
  frame.private_data = mine;
  Conversation talk;
  talk.open();
  talk.say(true, mpa::encode_startup(frame));
  const auto all = records(talk.frames, "startup");
  ASSERT_EQ(all.size(), 1U);
  const Seen& seen = all[0];
  EXPECT_EQ(seen.text("mpa.kind"), "request");
  EXPECT_EQ(seen.text("mpa.wants_crc"), "true");
  EXPECT_EQ(seen.text("mpa.wants_markers"), "false");
  EXPECT_EQ(seen.place("mpa.wants_crc"), "16+1");
  EXPECT_EQ(seen.text("mpa.pd_length"), "9");
  EXPECT_EQ(seen.place("mpa.pd_length"), "18+2");
  EXPECT_EQ(seen.text("mpa.ird"), "4");
  EXPECT_EQ(seen.text("mpa.ord"), "8");
  EXPECT_EQ(seen.text("mpa.rtr_write"), "true");
  EXPECT_EQ(seen.place("mpa.private_data"), "24+5");
  EXPECT_EQ(seen.text("mpa.private_data"), "00 07 0e 15 1c");
}

/// The depths guessed from private data of a start-up frame without enhanced data.
std::string guess(const std::string& private_data, bool enhanced = false) {
  mpa::StartupFrame frame;
  if (enhanced) frame.enhanced = mpa::Enhanced{};
  const Bytes octets = *from_hex(private_data);
  frame.private_data = octets;
  Conversation talk;
  talk.open();
  talk.say(true, mpa::encode_startup(frame));
  const auto all = records(talk.frames, "startup");
  EXPECT_EQ(all.at(0).place("mpa.guessed_ird") == "20+4", all.at(0).place("mpa.guessed_ord") == "24+4");
  return all.at(0).text("mpa.guessed_ird") + " " + all.at(0).text("mpa.guessed_ord");
}

TEST(Record, DepthsOfOldMiddlewareAreGuessed) {
  EXPECT_EQ(guess("00000010 00000001"), "16 1");  // MS-SMBD 6.1
  EXPECT_EQ(guess("20000000 01000000"), "32 1");  // Linux's cifs, little-endian
  EXPECT_EQ(guess("00003fff 00000100"), "16383 256");
  for (const char* other : {"00000010 00000000", "00000000 00000000", "00004000 00000001",
                            "00000010 01000000", "00000010", "00000010 00000001 00", "6b627470 00000001"})
    EXPECT_EQ(guess(other), "(none) (none)") << other;
  EXPECT_EQ(guess("00000010 00000001", true), "(none) (none)");
}

TEST(Record, TaggedSegment) {
  const Seen seen = only_fpdu(tagged(Opcode::rdma_write, 0x1234, 0x1000, true, pattern(5)));
  EXPECT_EQ(seen.text("fpdu.ulpdu_length"), "19");
  EXPECT_EQ(seen.text("fpdu.crc"), "good");
  EXPECT_EQ(seen.text("fpdu.extent"), "whole");
  EXPECT_EQ(seen.text("ddp.tagged"), "true");
  EXPECT_EQ(seen.text("rdmap.opcode"), "0x00  RDMA Write");
  EXPECT_EQ(seen.place("rdmap.opcode"), "3+1");
  EXPECT_EQ(seen.text("ddp.stag"), "0x00001234");
  EXPECT_EQ(seen.place("ddp.stag"), "4+4");
  EXPECT_EQ(seen.text("ddp.to"), "0x0000000000001000");
  EXPECT_EQ(seen.place("ddp.to"), "8+8");
  EXPECT_EQ(seen.place("rdmap.length"), "16+5");
  EXPECT_EQ(seen.text("fpdu.pad"), "3");
  EXPECT_EQ(seen.place("fpdu.pad"), "21+3");
  EXPECT_EQ(seen.place("fpdu.crc_value"), "24+4");
}

TEST(Record, ReadRequestImmediateAndAtomics) {
  const std::set<std::string> parts{"ddp.version",   "rdmap.version",          "rdmap.opcode",
                                    "rdmap.length",  "rdmap.atomic.operation", "fpdu.pad",
                                    "fpdu.crc_value"};
  const Bytes read = bytes(rdmap::encode(rdmap::ReadRequest{1, 0x1122334455667788, 3, 4, 5}));
  Seen seen = only_fpdu(untagged(Opcode::read_request, 1, 1, 0, true, read));
  EXPECT_EQ(seen.text("rdmap.read.sink_to"), "0x1122334455667788");
  EXPECT_EQ(seen.place("rdmap.read.source_to"), "40+8");
  expect_octets_hold_values(seen, parts);

  seen = only_fpdu(untagged(Opcode::immediate, 0, 1, 0, true, bytes(rdmap::encode(rdmap::Immediate{77}))));
  EXPECT_EQ(seen.find("rdmap.immediate")->number, 77U);
  expect_octets_hold_values(seen, parts);

  const rdmap::AtomicRequest add{rdmap::AtomicOpcode::fetch_add, 9, 8, 7, 6, 5, 4, 3};
  seen = only_fpdu(untagged(Opcode::atomic_request, 1, 1, 0, true, bytes(rdmap::encode(add))));
  EXPECT_EQ(seen.text("rdmap.atomic.operation"), "0x00  FetchAdd");
  EXPECT_EQ(seen.place("rdmap.atomic.operation"), "23+1");
  EXPECT_EQ(seen.place("rdmap.atomic.compare_mask"), "64+8");
  expect_octets_hold_values(seen, parts);

  seen = only_fpdu(untagged(Opcode::atomic_response, 3, 1, 0, true,
                            bytes(rdmap::encode(rdmap::AtomicResponse{9, 0xFFFFFFFFFFFFFFFF}))));
  EXPECT_EQ(seen.text("rdmap.atomic.original"), "0xffffffffffffffff");
  expect_octets_hold_values(seen, parts);
}

TEST(Record, OffsetsCountMarkers) {
  Conversation talk;
  talk.open();
  talk.say(true, request());
  mpa::StartupFrame wants;  // the server wants markers in what the client sends
  wants.kind = mpa::StartupKind::reply;
  wants.crc = true;
  wants.markers = true;
  wants.enhanced = mpa::Enhanced{false, false, 8, false, false, 4};
  talk.say(false, mpa::encode_startup(wants));
  mpa::MarkerInserter inserter;
  const auto write = [&](std::uint64_t to, std::size_t size) {
    const auto header = ddp::encode(rdmap::make_tagged(Opcode::rdma_write, 7, to, true));
    talk.say(true, mpa::encode_marked_fpdu(bytes(header) + pattern(size), inserter));
  };
  write(0, 476);                   // 500 octets with the marker in front
  write(0x1122334455667788, 600);  // a marker stands in its Tagged Offset, another in its data
  const auto all = records(talk.frames, "fpdu");
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].text("fpdu.crc"), "good");
  EXPECT_EQ(all[0].place("fpdu.marker"), "0+4");
  EXPECT_EQ(all[0].place("fpdu.ulpdu_length"), "4+2");
  EXPECT_EQ(all[0].place("ddp.to"), "12+8");
  EXPECT_EQ(all[0].place("fpdu.crc_value"), "496+4");

  EXPECT_EQ(all[1].text("fpdu.markers"), "2");
  EXPECT_EQ(all[1].text("fpdu.marker"), "12");
  EXPECT_EQ(all[1].place("fpdu.marker"), "12+4");
  EXPECT_EQ(all[1].place("fpdu.ulpdu_length"), "0+2");
  EXPECT_EQ(all[1].text("ddp.to"), "0x1122334455667788");
  EXPECT_EQ(all[1].place("ddp.to"), "8+12");
  EXPECT_EQ(all[1].place("rdmap.length"), "20+604");
  EXPECT_EQ(all[1].place("fpdu.crc_value"), "624+4");
}

TEST(Record, TerminateWithItsCopies) {
  const Bytes read = bytes(ddp::encode(rdmap::make_untagged(Opcode::read_request, 5))) +
                     bytes(rdmap::encode(rdmap::ReadRequest{1, 2, 3, 4, 5}));
  const auto body =
      rdmap::make_terminate(terminate::kRdmapAccessRights, rdmap::make_offender(read, read.size()));
  const Seen seen = only_fpdu(untagged(Opcode::terminate, 2, 1, 0, true, to_vector(body.octets())), false);
  EXPECT_EQ(seen.text("terminate.bit_order"), "rfc");
  EXPECT_EQ(seen.text("terminate.layer"), "0  RDMAP");
  EXPECT_EQ(seen.text("terminate.meaning"), "RDMAP/Protection/access rights");
  EXPECT_EQ(seen.text("terminate.m"), "true");
  EXPECT_EQ(seen.text("terminate.segment_length"), "46");
  EXPECT_EQ(seen.place("terminate.segment_length"), "24+2");
  EXPECT_EQ(seen.text("terminate.rdmap.opcode"), "0x01  RDMA Read Request");
  EXPECT_EQ(seen.place("terminate.ddp.msn"), "36+4");
  EXPECT_EQ(seen.text("terminate.rdmap.read.source_stag"), "0x00000004");
  EXPECT_EQ(seen.place("terminate.rdmap.read.source_to"), "64+8");
  expect_octets_hold_values(
      seen, {"ddp.version", "rdmap.version", "rdmap.opcode", "terminate.layer", "terminate.error_type",
             "terminate.ddp.version", "terminate.rdmap.opcode", "fpdu.pad", "fpdu.crc_value"});
}

TEST(Record, TerminateInTheBitOrderOfSiw) {
  // DDP/Tagged/base or bounds about a Write, as siw on a little-endian host says it: M and D in the low bits.
  const Bytes copy = bytes(ddp::encode(rdmap::make_tagged(Opcode::rdma_write, 0xABCD, 0x2000, true)));
  const Bytes control{std::byte{0x11}, std::byte{0x01}, std::byte{0x03}, std::byte{0}};
  const Bytes length{std::byte{0}, std::byte{0x20}};
  const Seen seen = only_fpdu(untagged(Opcode::terminate, 2, 1, 0, true, control + length + copy), false);
  EXPECT_EQ(seen.text("terminate.bit_order"), "siw");
  EXPECT_EQ(seen.text("terminate.meaning"), "DDP/Tagged/base or bounds");
  EXPECT_EQ(seen.text("terminate.d"), "true");
  EXPECT_EQ(seen.text("terminate.r"), "false");
  EXPECT_EQ(seen.text("terminate.ddp.stag"), "0x0000abcd");
  EXPECT_EQ(seen.place("terminate.ddp.to"), "32+8");
}

TEST(Record, TerminateOfSiwWithoutCopiesIsKnownByItsCode) {
  const Bytes crc_error{std::byte{0x02}, std::byte{0x02}, std::byte{0}, std::byte{0}};
  const Seen seen = only_fpdu(untagged(Opcode::terminate, 2, 1, 0, true, crc_error), false);
  EXPECT_EQ(seen.text("terminate.bit_order"), "siw");
  EXPECT_EQ(seen.text("terminate.meaning"), "LLP/MPA/CRC error");
}

TEST(Record, TerminateThatIsTooShortForItsBits) {
  const Bytes control{std::byte{0x11}, std::byte{0x01}, std::byte{0xC0}, std::byte{0}};
  const Seen seen = only_fpdu(untagged(Opcode::terminate, 2, 1, 0, true, control), false);
  EXPECT_EQ(seen.text("terminate.cut_short"), "true");
  EXPECT_EQ(seen.text("terminate.segment_length"), "(none)");
}

const std::set<std::string> kNothing;

TEST(Record, HelloAndAnswer) {
  wire::Hello hello;
  hello.request_id = 0x1122334455667788;
  hello.wanted.direct_load = true;
  hello.max_requests = 17;
  hello.receive_size = 4096;
  hello.quota = 18;
  hello.handle_count = 19;
  Seen seen = only_message(wire::encode(hello));
  EXPECT_EQ(seen.text("kbtp.op"), "0x01  HELLO");
  EXPECT_EQ(seen.text("kbtp.features"), "0x0002  DIRECT_LOAD");
  EXPECT_EQ(seen.text("kbtp.identity"), "00000000-0000-0000-0000-000000000000");
  EXPECT_EQ(seen.place("kbtp.identity"), "48+16");
  EXPECT_EQ(seen.text("kbtp.status"), "(none)");
  EXPECT_EQ(seen.text("message.carrier"), "Send");
  expect_octets_hold_values(seen, kNothing);

  wire::HelloAck ack;
  ack.request_id = 7;
  ack.version = 1;
  ack.block_size = 65536;
  ack.pool_length = std::uint64_t{1} << 40;
  ack.partition_length = 3;
  seen = only_message(wire::encode(ack));
  EXPECT_EQ(seen.text("kbtp.status"), "0  SUCCESS");
  EXPECT_EQ(seen.place("kbtp.partition_length"), "152+8");
  EXPECT_EQ(seen.find("kbtp.pool_length")->number, std::uint64_t{1} << 40);
  expect_octets_hold_values(seen, kNothing);
}

TEST(Record, EachRequest) {
  const wire::RequestHead head{0x0102030405060708, 3, 4, 0};
  const wire::DataDescriptor data{0xAABBCCDD, 0x1000, 512};
  const wire::CompletionDescriptor record{0x11, 0x22};
  const Bytes inlined = pattern(9);
  Seen seen = only_message(wire::encode(wire::Request(wire::Load{head, data, record, false, true})));
  EXPECT_EQ(seen.text("kbtp.op"), "0x03  LOAD");
  EXPECT_EQ(seen.text("kbtp.flags"), "0x0014  RECORD|ALLOW_UNSEALED");
  EXPECT_EQ(seen.text("kbtp.data.length"), "512");
  EXPECT_EQ(seen.place("kbtp.record.to"), "44+8");
  expect_octets_hold_values(seen, kNothing);

  wire::StoreBody body;
  body.inline_data = inlined;
  body.seal = true;
  seen = only_message(wire::encode(wire::Request(wire::AllocStore{head, body})));
  EXPECT_EQ(seen.text("kbtp.op"), "0x05  ALLOC_STORE");
  EXPECT_EQ(seen.text("kbtp.inline_length"), "9");
  EXPECT_EQ(seen.place("kbtp.inline_length"), "40+9");

  seen = only_message(wire::encode(wire::Request(wire::Free{head, record})));
  EXPECT_EQ(seen.place("kbtp.record.stag"), "24+4");
  expect_octets_hold_values(seen, kNothing);

  seen = only_message(wire::encode(wire::Request(wire::Bind{head, 5, 6, 0x7000, record, true})));
  EXPECT_EQ(seen.text("kbtp.ticket"), "5");
  EXPECT_EQ(seen.text("kbtp.block_offset"), "0x0000000000007000");
  expect_octets_hold_values(seen, kNothing);
}

TEST(Record, CompletionInEitherLayout) {
  wire::Completion completion;
  completion.request_id = 9;
  completion.status = wire::Status::no_space;
  completion.data_length = 100;
  completion.block_offset = 0x5000;
  for (const auto& layout : {wire::CompletionLayout{}, wire::kPaddedCompletion}) {
    wire::Assignment assignment = wire::kProposed;
    assignment.completion = layout;
    const Seen seen = only_message(wire::encode(completion, assignment));
    EXPECT_EQ(seen.text("kbtp.status"), "12  NO_SPACE");
    expect_octets_hold_values(seen, kNothing);
  }
}

TEST(Record, WhatIsNotKbtpStaysOctetsUntilTheConnectionSpokeKbtp) {
  wire::Hello hello;
  const Bytes foreign = pattern(30, 0xC0);
  Conversation talk = started();
  talk.say(true, untagged(Opcode::send, 0, 1, 0, true, foreign));
  talk.say(true, untagged(Opcode::send, 0, 2, 0, true, wire::encode(hello)));
  talk.say(true, untagged(Opcode::send, 0, 3, 0, true, foreign));
  const auto all = records(talk.frames, "message");
  ASSERT_EQ(all.size(), 3U);
  EXPECT_EQ(all[0].text("kbtp.version"), "(none)");
  EXPECT_EQ(all[0].text("kbtp.error"), "(none)");
  EXPECT_EQ(all[0].text("message.length"), "30");
  EXPECT_EQ(all[2].text("kbtp.version"), "192");
  EXPECT_EQ(all[2].text("kbtp.error"), "version is not 1");
  EXPECT_EQ(all[2].text("kbtp.error_octet"), "0");
}

TEST(Record, AMessageInSegmentsTellsItsFirstFrame) {
  const Bytes octets = pattern(100);
  Conversation talk = started();
  talk.say(true, untagged(Opcode::send_invalidate, 0, 1, 0, false, Octets(octets).first(60), 0x99));
  talk.say(true, untagged(Opcode::send_invalidate, 0, 1, 60, true, Octets(octets).subspan(60), 0x99));
  const auto all = records(talk.frames, "message");
  ASSERT_EQ(all.size(), 1U);
  EXPECT_EQ(all[0].text("frame.first"), "5");
  EXPECT_EQ(all[0].text("frame.number"), "6");
  EXPECT_EQ(all[0].text("message.carrier"), "Send with Invalidate");
  EXPECT_EQ(all[0].text("message.invalidate_stag"), "0x00000099");
  EXPECT_EQ(all[0].octets, octets);
}

TEST(Record, WrongFpduSaysWhat) {
  Bytes octets = tagged(Opcode::rdma_write, 1, 0, true, pattern(8));
  octets.back() ^= std::byte{1};
  EXPECT_EQ(only_fpdu(octets).text("fpdu.crc"), "bad");
  const Seen seen = only_fpdu(untagged(Opcode::send, 9, 1, 0, true, pattern(8)));
  EXPECT_NE(seen.text("fpdu.error"), "(none)");
  EXPECT_EQ(seen.find("fpdu.error_code")->number, terminate::kDdpUntaggedInvalidQn.packed());
}

TEST(Record, EndOfTheStream) {
  Conversation talk = started();
  talk.fin(true);
  talk.rst(false);
  const auto all = records(talk.frames, "end");
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all[0].text("tcp.end"), "fin");
  EXPECT_EQ(all[1].text("tcp.end"), "rst");
}

TEST(Record, FindingsAreFields) {
  Annotation annotation;
  annotation.findings.push_back({Finding::Severity::warning, "nak", "This is odd."});
  annotation.findings.push_back({Finding::Severity::error, "crc-bad", "This is bad."});
  ConnectionInfo connection;
  connection.number = 1;
  Event event;
  event.what = Note{"look"};
  RecordBuilder builder(wire::kProposed);
  Record record;
  builder.build(connection, event, annotation, record);
  for (const char* expression :
       {"finding.kind==nak", "finding.kind==crc-bad", "severity==error", "note ~ LOOK"}) {
    const auto filter = Filter::compile(expression);
    ASSERT_TRUE(filter) << filter.error().text;
    EXPECT_TRUE(filter->matches(record)) << expression;
  }
}

TEST(Fields, HaveNamesOfTheirOwn) {
  std::set<std::string_view> names;
  for (const auto group : field_groups()) {
    for (const FieldInfo& info : group) {
      EXPECT_TRUE(names.insert(info.name).second) << info.name;
      EXPECT_FALSE(info.help.empty()) << info.name;
      const auto plain = [](std::string_view text) {
        return std::ranges::all_of(text,
                                   [](char c) { return c >= ' ' && c <= '~' && c != '"' && c != '\\'; });
      };
      EXPECT_TRUE(plain(info.name)) << info.name;
      EXPECT_TRUE(std::ranges::all_of(info.names, plain)) << info.name;
      EXPECT_FALSE(info.name.ends_with("_name"))
          << info.name << " could be the name of another field's number";
    }
  }
}

}  // namespace
}  // namespace kbtp::trace::test
