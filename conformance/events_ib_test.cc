// RoCE conversations whose every packet is written here, as the events that judges read.

#include "conformance/events_ib.h"

#include <algorithm>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/hex.h"
#include "conformance/evidence.h"
#include "conformance/judge.h"
#include "pcap/test_ib_frames.h"
#include "proto/wire/completion.h"
#include "proto/wire/request.h"

namespace kbtp::conformance {
namespace {

using ib::Operation;
using testing::ElementsAre;
using trace::test::Bytes;
using trace::test::ib_packet;

constexpr std::uint16_t kPort = 0xAA3B;  // that the REQ below tells
constexpr std::uint32_t kSuiteQp = 0x11, kTargetQp = 0x22;
constexpr std::uint32_t kSuitePsn = 0xFFFFFE, kTargetPsn = 0xAC0F62;  // of the first request of each
constexpr std::uint32_t kMtu = 1024;
constexpr std::uint32_t kKey = 0xABCD;

Bytes cm(std::string_view hex) {
  Bytes mad = from_hex(hex).value();
  mad.resize(ib::kMadSize);
  return mad;
}
Bytes connect_request() {
  Bytes mad = cm(R"(01070203 00000000 000000022e03efdd 0010 0000 00000000
    ddef032e 00000000 0000000001061c06 505400fffe000001 00000000 00000000 000011 01 000000 01 000000 a0
    ac0f62 a7 ffff 37 f0)");
  const auto ip =
      from_hex("0040 aa3b 000000000000000000000000 0a000001 000000000000000000000000 0a000002").value();
  std::ranges::copy(ip, mad.begin() + ib::kMadHeaderSize + 140);
  return mad;
}
Bytes connect_reply() {
  return cm(R"(01070203 00000000 000000022e03efdd 0013 0000 00000000
    018c5298 ddef032e 00000000 000022 00 000000 00 fffffe 00 0808)");
}
Bytes disconnect_request() {
  return cm("01070203 00000000 000000022e03eff0 0015 0000 00000000 018c5298 ddef032e 000011 00");
}

/// Frames of suite and target from their REQ and REP on, numbered from 1.
class Talk {
 public:
  Talk() {
    say(Side::suite, datagram(connect_request()));
    say(Side::target, datagram(connect_reply()));
  }

  static ib::Packet datagram(const Bytes& mad) {
    return ib_packet(Operation::send_only, ib::kGeneralServicesQp, 1, mad, ib::Service::unreliable_datagram);
  }
  void say(Side from, const ib::Packet& packet) {
    const auto suite = trace::test::v4(1, 0);
    const auto target = trace::test::v4(2, 0);
    Bytes octets = from == Side::suite ? trace::test::roce(packet, suite, target)
                                       : trace::test::roce(packet, target, suite);
    const std::uint64_t number = frames.size() + 1;
    frames.push_back({number, static_cast<std::int64_t>(number) * 1'000'000, trace::LinkType::ethernet,
                      static_cast<std::uint32_t>(octets.size()), std::move(octets)});
  }
  /// A packet of the target, so many PSNs behind its first one; of an answer: behind the suite's first one.
  static ib::Packet of_target(Operation operation, std::uint32_t number, Octets payload = {}) {
    const bool response = ib::make_opcode(ib::Service::reliable_connection, operation).facts()->response;
    return ib_packet(operation, kSuiteQp, ((response ? kSuitePsn : kTargetPsn) + number) & ib::kPsnMask,
                     payload);
  }
  static ib::Packet of_suite(Operation operation, std::uint32_t number, Octets payload = {}) {
    const bool response = ib::make_opcode(ib::Service::reliable_connection, operation).facts()->response;
    return ib_packet(operation, kTargetQp, ((response ? kTargetPsn : kSuitePsn) + number) & ib::kPsnMask,
                     payload);
  }
  void target(Operation operation, std::uint32_t number, Octets payload = {}) {
    say(Side::target, of_target(operation, number, payload));
  }
  void suite(Operation operation, std::uint32_t number, Octets payload = {}) {
    say(Side::suite, of_suite(operation, number, payload));
  }

  [[nodiscard]] EventList events() const {
    const std::vector<std::uint16_t> ports = {1, kPort};
    return events_from_capture(frames, ports);
  }
  [[nodiscard]] Finding judged_by(const Expectation& expectation) const {
    return expectation.judge(Evidence(events().events));
  }

  std::vector<trace::Frame> frames;
};

Bytes completion(RequestId id) {
  wire::Completion completion;
  completion.request_id = id;
  return wire::encode(completion);
}

TEST(EventsIb, AWriteOfSeveralPacketsIsPlacedWhereItsFirstSays) {
  const Bytes data = trace::test::pattern(2 * kMtu + 10);
  Talk talk;
  talk.target(Operation::write_first, 0, Octets(data).first(kMtu));
  talk.target(Operation::write_middle, 1, Octets(data).subspan(kMtu, kMtu));
  talk.target(Operation::write_last, 2, Octets(data).last(10));
  talk.target(Operation::send_only, 3, completion(7));
  const Finding placed = talk.judged_by(places("r", 1, kKey, 0x1000, data));
  EXPECT_EQ(placed.grade, Grade::exact) << placed.observed;
  EXPECT_THAT(placed.frames, ElementsAre(3, 4, 5));
  EXPECT_EQ(talk.judged_by(places_before_completing("r", 1, kKey, 7)).grade, Grade::exact);
  EXPECT_EQ(talk.judged_by(places("r", 1, kKey, 0x1001, data)).grade, Grade::wrong);
  EXPECT_EQ(talk.judged_by(places_nothing("r", 1, kKey)).grade, Grade::wrong);
  EXPECT_FALSE(talk.events().octets_missing);
}

TEST(EventsIb, WhatIsSentAgainCountsOnce) {
  Talk talk;
  talk.target(Operation::send_only, 0, completion(7));
  talk.target(Operation::send_only, 0, completion(7));
  talk.target(Operation::send_only, 1, completion(8));
  const Evidence evidence(talk.events().events);
  EXPECT_EQ(evidence.on(1).completions.size(), 2U);
  EXPECT_EQ(completes("r", 1, 7, wire::Status::success).judge(evidence).grade, Grade::exact);
}

TEST(EventsIb, WhatCameTooEarlyCountsWhenItComesInItsTurn) {
  Talk talk;
  talk.target(Operation::send_only, 1, completion(8));  // the one before it was lost on the way
  EXPECT_TRUE(talk.events().octets_missing) << "nothing may rest on a capture with a hole";
  talk.target(Operation::send_only, 0, completion(7));
  talk.target(Operation::send_only, 1, completion(8));
  const auto list = talk.events();
  EXPECT_FALSE(list.octets_missing);
  const Evidence evidence(list.events);
  ASSERT_EQ(evidence.on(1).completions.size(), 2U);
  EXPECT_EQ(evidence.on(1).completions[0].completion.request_id, 7U);
  EXPECT_EQ(evidence.on(1).completions[1].frame, 5U);
}

TEST(EventsIb, InvalidationIsThatOfTheIeth) {
  Talk talk;
  ib::Packet packet = Talk::of_target(Operation::send_only_invalidate, 0);
  const Bytes message = completion(7);
  packet.payload = message;
  talk.say(Side::target, packet);
  talk.target(Operation::send_only, 1, completion(8));
  EXPECT_EQ(talk.judged_by(invalidates("r", 1, 7, 0xABCF)).grade, Grade::exact);
  EXPECT_EQ(talk.judged_by(invalidates("r", 1, 8, std::nullopt)).grade, Grade::exact);
  EXPECT_EQ(talk.judged_by(invalidates("r", 1, 8, 0xABCF)).grade, Grade::wrong);
}

TEST(EventsIb, AReadTakesAPsnForEachPacketOfItsResponse) {
  const Bytes data = trace::test::pattern(4096);
  Talk talk;
  talk.target(Operation::read_request, 0);  // 4096 octets at 0x1000: four packets
  talk.suite(Operation::read_response_first, 0, Octets(data).first(kMtu));
  talk.suite(Operation::read_response_middle, 1, Octets(data).first(kMtu));
  talk.suite(Operation::read_response_middle, 1, Octets(data).first(kMtu));
  talk.suite(Operation::read_response_middle, 2, Octets(data).first(kMtu));
  talk.suite(Operation::read_response_last, 3, Octets(data).first(kMtu));
  talk.target(Operation::send_only, 4, completion(7));
  EXPECT_EQ(talk.judged_by(reads("r", 1, kKey, 0x1000, 4096)).grade, Grade::exact);
  EXPECT_EQ(talk.judged_by(keeps_reads_within("r", 1, 1)).grade, Grade::exact);
  EXPECT_EQ(talk.judged_by(completes_after_reading("r", 1, 7)).grade, Grade::exact);
  const Evidence evidence(talk.events().events);
  std::vector<std::uint64_t> offsets;
  for (const Segment& segment : evidence.on(1).segments) {
    if (segment.tagged) offsets.push_back(segment.tagged_offset);
  }
  EXPECT_THAT(offsets, ElementsAre(0, kMtu, 2 * kMtu, 3 * kMtu));
}

TEST(EventsIb, RequestsOfTheSuiteAreCountedOverTheWrapOfPsns) {
  Talk talk;
  for (std::uint32_t i = 0; i < 4; ++i) {
    wire::Free free;
    free.head.request_id = i;
    talk.suite(Operation::send_only, i, wire::encode(free));
    talk.target(Operation::send_only, i, completion(i));
  }
  EXPECT_EQ(talk.judged_by(echoes_request_ids("r", 1)).grade, Grade::exact);
  talk.target(Operation::send_only, 4, completion(9));
  EXPECT_EQ(talk.judged_by(echoes_request_ids("r", 1)).grade, Grade::wrong);
}

/// A record in the slot of the key that ib_packet() names, as one packet.
class Recorded {
 public:
  static constexpr wire::CompletionDescriptor kSlot{kKey, 0x1000};

  explicit Recorded(std::uint64_t id, Operation operation = Operation::write_only_immediate) {
    const auto octets = wire::encode(
        wire::CompletionRecord{.request_id = id, .generation = 3, .data_length = 9, .block_offset = 0x7000});
    talk.target(operation, number_++, octets);
  }
  Recorded& then_completion(std::uint64_t id) {
    wire::Completion told;
    told.request_id = id;
    told.generation = 3;
    told.block_offset = 0x7000;
    talk.target(Operation::send_only, number_++, wire::encode(told));
    return *this;
  }
  Recorded& then_write(std::uint32_t key, Octets octets) {
    ib::Packet packet = Talk::of_target(Operation::write_only, number_++, octets);
    packet.reth->remote_key = key;
    talk.say(Side::target, packet);
    return *this;
  }
  [[nodiscard]] Grade grade(const Expectation& expectation) const {
    return talk.judged_by(expectation).grade;
  }

  Talk talk;

 private:
  std::uint32_t number_ = 0;
};

TEST(EventsIb, ARecordIsOneWriteOf24OctetsInItsPlace) {
  using wire::Status;
  const auto slot = Recorded::kSlot;
  Recorded good(7);
  EXPECT_EQ(good.grade(records("r", 1, 7, slot, Status::success)), Grade::exact);
  EXPECT_EQ(good.grade(records("r", 1, 8, slot, Status::success)), Grade::wrong);
  EXPECT_EQ(good.grade(records("r", 1, 7, slot, Status::not_bound)), Grade::wrong);
  EXPECT_EQ(good.grade(records("r", 1, 7, {kKey, 0x1008}, Status::success)), Grade::wrong);
  EXPECT_EQ(good.grade(records("r", 1, 7, {kKey + 1, 0x1000}, Status::success)), Grade::wrong);
  EXPECT_EQ(good.grade(stays_unanswered("r", 1, 7)), Grade::exact);
  good.then_completion(7);
  EXPECT_EQ(good.grade(stays_unanswered("r", 1, 7)), Grade::wrong);
  good.then_write(kKey, trace::test::pattern(24));
  EXPECT_EQ(good.grade(records("r", 1, 7, slot, Status::success)), Grade::wrong) << "two Writes";

  Talk long_one;
  long_one.target(Operation::write_only_immediate, 0, trace::test::pattern(32));
  EXPECT_EQ(long_one.judged_by(records("r", 1, 7, slot, Status::success)).grade, Grade::wrong);
}

TEST(EventsIb, ARecordTellsTheEntryOfTheCompletionBefore) {
  Recorded talk(7);
  talk.then_completion(6);
  EXPECT_EQ(talk.grade(records_entry("r", 1, 6, Recorded::kSlot, 9)), Grade::exact);
  EXPECT_EQ(talk.grade(records_entry("r", 1, 6, Recorded::kSlot, 10)), Grade::wrong);
  EXPECT_EQ(talk.grade(records_entry("r", 1, 5, Recorded::kSlot, 9)), Grade::unclear);
  Recorded other(7);
  wire::Completion told;
  told.request_id = 6;
  told.generation = 3;
  told.block_offset = 0x8000;
  other.talk.target(Operation::send_only, 1, wire::encode(told));
  EXPECT_EQ(other.grade(records_entry("r", 1, 6, Recorded::kSlot, 9)), Grade::wrong);
}

TEST(EventsIb, ImmediateDataOfARecordIsSeen) {
  const Recorded with(0x7'0102'0304), without(0x7'0102'0304, Operation::write_only);
  EXPECT_EQ(with.grade(records_with_immediate("r", 1, Recorded::kSlot)), Grade::exact);
  EXPECT_EQ(without.grade(records_with_immediate("r", 1, Recorded::kSlot)), Grade::wrong);
  EXPECT_EQ(with.grade(immediate_names("r", 1, 0x7'0102'0304, Recorded::kSlot)), Grade::exact);
  EXPECT_EQ(with.grade(immediate_names("r", 1, 0x7'0102'0305, Recorded::kSlot)), Grade::wrong);
  EXPECT_EQ(without.grade(immediate_names("r", 1, 0x7'0102'0304, Recorded::kSlot)), Grade::wrong);
}

TEST(EventsIb, TheDataStandsBeforeItsRecord) {
  const auto expectation = places_before_recording("r", 1, 0x55, Recorded::kSlot);
  Recorded late(7);
  EXPECT_EQ(late.grade(expectation), Grade::wrong) << "no data at all";
  late.then_write(0x55, trace::test::pattern(40));
  EXPECT_EQ(late.grade(expectation), Grade::wrong);

  Talk early;
  ib::Packet data = Talk::of_target(Operation::write_only, 0);
  const Bytes octets = trace::test::pattern(40);
  data.payload = octets;
  data.reth->remote_key = 0x55;
  early.say(Side::target, data);
  early.target(Operation::write_only_immediate, 1, wire::encode(wire::CompletionRecord{.request_id = 7}));
  EXPECT_EQ(early.judged_by(expectation).grade, Grade::exact);
}

TEST(EventsIb, ARefusalMayComeEitherWay) {
  using wire::Status;
  const auto refused = [](Status status) { return refuses_either_way("r", 1, 7, Recorded::kSlot, status); };
  EXPECT_EQ(Recorded(7).grade(refused(Status::invalid_request)), Grade::wrong) << "a record with SUCCESS";
  Talk message;
  wire::Completion told;
  told.request_id = 7;
  told.status = Status::invalid_request;
  message.target(Operation::send_only, 0, wire::encode(told));
  EXPECT_EQ(message.judged_by(refused(Status::invalid_request)).grade, Grade::exact);
  Talk record;
  record.target(Operation::write_only_immediate, 0,
                wire::encode(wire::CompletionRecord{.request_id = 7, .status = Status::invalid_request}));
  EXPECT_EQ(record.judged_by(refused(Status::invalid_request)).grade, Grade::exact);
  EXPECT_EQ(record.judged_by(refused(Status::access_denied)).grade, Grade::weak);
}

TEST(EventsIb, EndsAreToldByWhoEnds) {
  Talk finished;
  EXPECT_EQ(finished.judged_by(disconnects("r", 1)).grade, Grade::wrong);
  finished.say(Side::target, Talk::datagram(disconnect_request()));
  EXPECT_EQ(finished.judged_by(disconnects("r", 1)).grade, Grade::exact);

  Talk refused;
  refused.suite(Operation::send_only, 0, completion(1));
  ib::Packet nak = Talk::of_target(Operation::acknowledge, 0);
  nak.aeth = ib::Aeth{0x60, 1};  // a PSN sequence error: the suite's device sends it again
  refused.say(Side::target, nak);
  EXPECT_EQ(refused.judged_by(stays_open("r", 1)).grade, Grade::exact);
  nak.aeth = ib::Aeth{0x62, 1};  // a remote access error
  refused.say(Side::target, nak);
  EXPECT_EQ(refused.judged_by(stays_open("r", 1)).grade, Grade::wrong);
}

TEST(EventsIb, WhatItsReceiverDropsIsNoMessage) {
  Talk talk;
  talk.target(Operation::send_only, 0, completion(7));
  auto& octets = talk.frames.back().octets;
  octets[octets.size() - 8] ^= std::byte{1};
  EXPECT_TRUE(Evidence(talk.events().events).on(1).completions.empty());
}

TEST(EventsIb, ConversationsOfOtherPortsAreLeftOut) {
  Talk talk;
  talk.target(Operation::send_only, 0, completion(7));
  const std::vector<std::uint16_t> others = {1, 2};
  EXPECT_TRUE(events_from_capture(talk.frames, others).events.empty());
}

}  // namespace
}  // namespace kbtp::conformance
