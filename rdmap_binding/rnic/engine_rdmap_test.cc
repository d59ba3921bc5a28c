// RFC 5040 4 and 5 at a Responder: control field, headers, Reads, Sends and Terminates that a peer sends.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/hex.h"
#include "rdmap_binding/rnic/engine_target_rig.h"

namespace kbtp::rnic::test {
namespace {

using rdma::CloseReason;

/// A segment of any opcode with a body of that opcode's length, legal but for what `change` does.
std::vector<std::byte> segment_of(const rdmap::OpcodeFacts& facts, const MemoryTarget& t,
                                  const std::function<void(Untagged&, Tagged&)>& change) {
  const std::vector<std::byte> body =
      facts.opcode == rdmap::Opcode::read_request
          ? to_vector(rdmap::encode(reading(t.readable, kBase, 8)))
          : std::vector<std::byte>(std::max<std::size_t>(facts.header_size, 8));
  const auto control = rdmap::control_octet(facts.opcode);
  Untagged untagged{.rdmap_control = control, .qn = facts.queue_number, .body = body};
  Tagged tagged{.rdmap_control = control, .stag = t.writable, .to = kBase, .body = body};
  change(untagged, tagged);
  return facts.tagged ? tagged.fpdu() : untagged.fpdu();
}

// --- 4.1: the control field ------------------------------------------------------------------------------

// Rules: RFC5040-4.1-03
TEST(EngineRdmap, TaggedFlagIsThatOfTheOpcode) {
  for (const rdmap::OpcodeFacts& facts : rdmap::kOpcodes) {
    SCOPED_TRACE(facts.name);
    MemoryTarget t;
    const auto before = t.memory;
    const auto control = rdmap::control_octet(facts.opcode);
    // Queue 0 is where an untagged segment of a tagged message does most harm.
    const auto fpdu =
        facts.tagged
            ? Untagged{.rdmap_control = control, .body = pattern(8)}.fpdu()
            : Tagged{.rdmap_control = control, .stag = t.both, .to = kBase, .body = pattern(64, 9)}.fpdu();
    const auto told = t.told(fpdu);
    ASSERT_TRUE(told);
    EXPECT_EQ(to_string(told->code), to_string(terminate::kRdmapUnexpectedOpcode));
    EXPECT_EQ(t.memory, before);
    EXPECT_TRUE(t.recorder().received.empty());
  }
}

// Rules: RFC5040-4.1-04
TEST(EngineRdmap, QueueIsThatOfTheOpcode) {
  for (const rdmap::OpcodeFacts& facts : rdmap::kOpcodes) {
    if (facts.tagged) continue;
    for (std::uint32_t queue = 0; queue < rdmap::kQueueCount; ++queue) {
      if (queue == facts.queue_number) continue;
      SCOPED_TRACE(std::string(facts.name) + " on queue " + std::to_string(queue));
      MemoryTarget t;
      const auto told =
          t.told(segment_of(facts, t, [queue](Untagged& untagged, Tagged&) { untagged.qn = queue; }));
      ASSERT_TRUE(told);
      EXPECT_EQ(to_string(told->code), to_string(terminate::kRdmapUnexpectedOpcode));
      EXPECT_TRUE(t.recorder().received.empty());
      EXPECT_THAT(t.words, testing::Each(7U));
    }
  }
}

// Rules: RFC5040-4.1-05, RFC5040-7.2-03
TEST(EngineRdmap, VersionIsOneInEveryMessage) {
  for (const rdmap::OpcodeFacts& facts : rdmap::kOpcodes) {
    for (const std::uint8_t version : {0, 2, 3}) {
      SCOPED_TRACE(std::string(facts.name) + " of version " + std::to_string(version));
      MemoryTarget t;
      const auto told = t.told(segment_of(facts, t, [&](Untagged& untagged, Tagged& tagged) {
        untagged.rdmap_control = tagged.rdmap_control =
            rdmap::encode_control({version, 0, static_cast<std::uint8_t>(facts.opcode)});
      }));
      ASSERT_TRUE(told);
      EXPECT_EQ(to_string(told->code), to_string(terminate::kRdmapInvalidVersion));
    }
  }
}

// Rules: RFC5040-7.2-02
TEST(EngineRdmap, OpcodesWithoutAMeaningAreRefused) {
  for (std::uint8_t opcode = 0xC; opcode <= 0xF; ++opcode) {
    const auto control = rdmap::encode_control({rdmap::kVersion, 0, opcode});
    for (const bool tagged : {false, true}) {
      MemoryTarget t;
      const auto told = t.told(
          tagged
              ? Tagged{.rdmap_control = control, .stag = t.writable, .to = kBase, .body = pattern(8)}.fpdu()
              : Untagged{.rdmap_control = control, .body = pattern(8)}.fpdu());
      ASSERT_TRUE(told);
      EXPECT_EQ(to_string(told->code), to_string(terminate::kRdmapUnexpectedOpcode));
    }
  }
}

// Rules: RFC5040-4.1-06
TEST(EngineRdmap, ReservedBitsMeanNothing) {
  MemoryTarget t;
  EXPECT_TRUE(t.answer(Untagged{.rdmap_control = 0x73, .body = pattern(8)}.fpdu()).empty());
  EXPECT_EQ(t.recorder().received.size(), 1U);
  const auto write =
      Tagged{.rdmap_control = 0x70, .stag = t.writable, .to = kBase, .body = pattern(8, 99)}.fpdu();
  EXPECT_TRUE(t.answer(write).empty());
  EXPECT_EQ(to_hex(Octets(t.memory).first(8)), to_hex(pattern(8, 99)));
  auto read = read_request(1, reading(t.readable, kBase, 8));
  read.rdmap_control = 0x71;
  const auto answers = t.answer(read.fpdu());
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(answers[0][1], std::byte{0x42}) << "sent as zero";
}

// Rules: RFC5040-4.1-07
TEST(EngineRdmap, InvalidateStagMeansNothingInOtherMessages) {
  MemoryTarget t;
  for (const std::uint8_t control : {0x43, 0x45}) {
    const auto msn = static_cast<std::uint32_t>(t.recorder().received.size() + 1);
    t.answer(Untagged{.rdmap_control = control, .invalidate = t.open, .msn = msn, .body = pattern(8)}.fpdu());
    ASSERT_EQ(t.recorder().received.size(), msn);
    EXPECT_FALSE(t.recorder().received.back().invalidated);
  }
  auto read = read_request(1, reading(t.open, kBase, 8));
  read.invalidate = t.open;
  EXPECT_EQ(t.answer(read.fpdu()).size(), 1U);
  EXPECT_TRUE(t.target.host.stags.exists(t.open));
  EXPECT_FALSE(t.stopped());
}

// --- 4.4, 5.2: Reads -------------------------------------------------------------------------------------

// Rules: RFC5040-4.4-01, RFC5040-5.2.1-03
TEST(EngineRdmap, ReadRequestHasExactly28Octets) {
  for (const std::size_t size : {0U, 27U, 29U, 56U}) {
    SCOPED_TRACE(size);
    MemoryTarget t;
    auto request = read_request(1, reading(t.readable, kBase, 8));
    request.body.resize(size);
    const auto told = t.told(request.fpdu());
    ASSERT_TRUE(told);
    EXPECT_EQ(to_string(told->code), to_string(terminate::kRdmapOperationUnspecified));
  }
}

// Rules: RFC5040-4.4-02, RFC5040-4.4-03, RFC5040-5.2.1-07
TEST(EngineRdmap, ResponseOfEverySizeGoesToTheSinkAsItWasNamed) {
  constexpr std::uint32_t kMost = 1440;  // payload of a Read Response at an EMSS of 1460 (RFC 5044 4.5)
  constexpr std::uint64_t kOddOffset = 0x0123'4567'89AB'CDEF;
  std::uint32_t msn = 0;
  MemoryTarget t;
  for (const std::uint32_t size : {1U, 2U, kMost - 1, kMost, kMost + 1, 3 * kMost, 3 * kMost + 1, 8192U}) {
    SCOPED_TRACE(size);
    const rdmap::ReadRequest request{0xDEAD'BEE1, kOddOffset, size, t.readable, kBase + 8192 - size};
    const auto answers = t.answer(read_request(++msn, request).fpdu());
    std::vector<std::byte> octets;
    for (const auto& ulpdu : answers) {
      const auto segment = rdmap::decode_segment(ulpdu);
      ASSERT_TRUE(segment);
      ASSERT_EQ(segment->head.opcode, rdmap::Opcode::read_response);
      EXPECT_EQ(segment->head.tagged().stag, request.sink_stag);
      EXPECT_EQ(segment->head.tagged().tagged_offset, kOddOffset + octets.size());
      const Octets payload = std::get_if<rdmap::Payload>(&segment->body)->octets;
      octets.insert(octets.end(), payload.begin(), payload.end());
      EXPECT_EQ(segment->head.last(), octets.size() == size);
    }
    EXPECT_EQ(answers.size(), (size + kMost - 1) / kMost);
    EXPECT_EQ(octets, to_vector(Octets(t.memory).last(size)));
  }
}

// Rules: RFC5040-4.4-02
TEST(EngineRdmap, SinkOffsetThatWrapsIsTheRequestersAffair) {
  MemoryTarget t;
  const rdmap::ReadRequest request{0xFFFF'FFFF, ~std::uint64_t{0} - 3, 2000, t.readable, kBase};
  const auto answers = t.answer(read_request(1, request).fpdu());
  ASSERT_EQ(answers.size(), 2U);
  EXPECT_EQ(load_be<std::uint32_t>(answers[1].data() + 2), 0xFFFF'FFFFU);
  EXPECT_EQ(load_be<std::uint64_t>(answers[1].data() + 6), 1440U - 4);
}

// Rules: RFC5040-5.2.1-09, RFC5040-5.2.1-10
TEST(EngineRdmap, ReadOfNothingIsAnsweredByOneEmptySegment) {
  MemoryTarget t;
  std::uint32_t msn = 0;
  for (const auto& [stag, offset] : {std::pair{t.readable, kBase},
                                     {t.writable, kBase},
                                     {0xDEADU, ~std::uint64_t{0}},
                                     {t.other_stream, std::uint64_t{0}}}) {
    const auto answers = t.answer(read_request(++msn, reading(stag, offset, 0)).fpdu());
    ASSERT_EQ(answers.size(), 1U);
    EXPECT_EQ(to_hex(answers[0]), "c1420000abcd0000000000000077");
  }
}

// Rules: RFC5040-5.2.1-02
TEST(EngineRdmap, ReadsTakeNoReceiveAndAreNotShown) {
  auto options = MemoryTarget::options();
  options.initial_receives = 2;
  MemoryTarget t(options);
  for (std::uint32_t msn = 1; msn <= 5; ++msn) {
    EXPECT_EQ(t.answer(read_request(msn, reading(t.readable, kBase, 8)).fpdu()).size(), 1U);
  }
  EXPECT_TRUE(t.recorder().received.empty());
  t.answer(Untagged{.msn = 1, .body = pattern(8)}.fpdu());
  EXPECT_EQ(t.answer(read_request(6, reading(t.readable, kBase, 8)).fpdu()).size(), 1U);
  t.answer(Untagged{.msn = 2, .body = pattern(8)}.fpdu());
  EXPECT_EQ(t.recorder().received.size(), 2U);
  EXPECT_FALSE(t.stopped());
  const auto told = t.told(read_request(6, reading(t.readable, kBase, 8)).fpdu());
  ASSERT_TRUE(told) << "a queue of its own counts on";
  EXPECT_EQ(to_string(told->code), to_string(terminate::kDdpUntaggedMsnRange));
}

struct ReadFault {
  const char* what;
  rdma::STag MemoryTarget::* stag;  // nullptr: one that was never told
  std::uint64_t offset;
  std::uint32_t size;
  TerminateCode code;
};
const ReadFault kReadFaults[] = {
    {"unknown", nullptr, kBase, 8, terminate::kRdmapInvalidStag},
    {"no right", &MemoryTarget::writable, kBase, 8, terminate::kRdmapAccessRights},
    {"words without the right", &MemoryTarget::counters, 0, 8, terminate::kRdmapAccessRights},
    {"other stream", &MemoryTarget::other_stream, kBase, 8, terminate::kRdmapStagNotAssociated},
    {"other domain", &MemoryTarget::other_domain, kBase, 8, terminate::kRdmapStagNotAssociated},
    {"below", &MemoryTarget::readable, kBase - 1, 8, terminate::kRdmapBaseOrBounds},
    {"behind", &MemoryTarget::readable, kBase + 8192, 1, terminate::kRdmapBaseOrBounds},
    {"ends behind", &MemoryTarget::readable, kBase + 8192 - 7, 8, terminate::kRdmapBaseOrBounds},
    {"larger", &MemoryTarget::readable, kBase, 0xFFFF'FFFF, terminate::kRdmapBaseOrBounds},
    {"wraps", &MemoryTarget::readable, ~std::uint64_t{0} - 6, 8, terminate::kRdmapToWrap},
};

// Rules: RFC5040-5.2.1-03, RFC5040-5.2.1-08, RFC5040-7.1-04, RFC5040-7.2-06, RFC5040-7.2-07, RFC5040-7.2-08
// Rules: RFC5040-7.2-09, RFC5040-7.2-10, RFC5040-7.2-11
TEST(EngineRdmap, SourceOfAReadIsValidatedBeforeAnOctetIsSent) {
  for (const ReadFault& fault : kReadFaults) {
    SCOPED_TRACE(fault.what);
    MemoryTarget t;
    const rdma::STag stag = fault.stag == nullptr ? 0x1234 : t.*fault.stag;
    const auto request = read_request(1, reading(stag, fault.offset, fault.size));
    const auto answers = t.answer(request.fpdu());
    ASSERT_EQ(answers.size(), 1U);
    const auto told = terminate_in(answers);
    ASSERT_TRUE(told);
    EXPECT_EQ(to_string(told->code), to_string(fault.code));
    EXPECT_TRUE(told->control.length_valid && told->control.ddp_header && told->control.rdma_header);
    EXPECT_EQ(told->ddp_header, to_vector(Octets(request.ulpdu()).first(18)));
    EXPECT_EQ(told->segment_length, 46);
    EXPECT_EQ(told->read_request, reading(stag, fault.offset, fault.size));
    EXPECT_TRUE(t.stopped());
  }
}

// Rules: RFC5040-7.1-04
TEST(EngineRdmap, ReadRequestThatDdpRefusesIsShownWithoutItsRdmapHeader) {
  MemoryTarget t;
  const auto request = read_request(2, reading(t.readable, kBase, 8));  // MSN 1 is due
  const auto told = t.told(request.fpdu());
  ASSERT_TRUE(told);
  EXPECT_EQ(to_string(told->code), to_string(terminate::kDdpUntaggedMsnRange));
  EXPECT_TRUE(told->control.ddp_header);
  EXPECT_FALSE(told->control.rdma_header);
  EXPECT_EQ(told->ddp_header, to_vector(Octets(request.ulpdu()).first(18)));
}

// Rules: RFC5040-5.2.1-05, RFC5040-5.5-20
TEST(EngineRdmap, ReadsAreAnsweredInTheOrderAsked) {
  MemoryTarget t;
  std::vector<std::byte> requests;
  const std::uint32_t sizes[] = {8000, 1, 3000, 16};
  for (std::uint32_t i = 0; i < 4; ++i) {
    const auto fpdu = read_request(i + 1, {0x100 + i, 0, sizes[i], t.readable, kBase}).fpdu();
    requests.insert(requests.end(), fpdu.begin(), fpdu.end());
  }
  const auto answers = t.answer(requests);
  std::vector<std::uint32_t> order;
  for (const auto& ulpdu : answers) {
    const auto stag = load_be<std::uint32_t>(ulpdu.data() + 2);
    if (order.empty() || order.back() != stag) order.push_back(stag);
  }
  EXPECT_THAT(order, testing::ElementsAre(0x100, 0x101, 0x102, 0x103));
}

// Rules: RFC5040-5.2.2-02, RFC5040-6.1-02, RFC5040-6.1-04, RFC5040-8.1.1-11, RFC5042-6.4.3.3-02
TEST(EngineRdmap, AsManyReadsAsAgreedAndNotOneMore) {
  for (const std::uint32_t depth : {1U, 4U, 7U}) {
    auto options = MemoryTarget::options();
    options.ird = depth;
    MemoryTarget t(options);
    ASSERT_EQ(t.stream().capabilities().ird, depth);
    std::vector<std::byte> octets;
    for (std::uint32_t msn = 1; msn <= depth; ++msn) {
      const auto fpdu = read_request(msn, reading(t.readable, kBase, 8)).fpdu();
      octets.insert(octets.end(), fpdu.begin(), fpdu.end());
    }
    EXPECT_EQ(t.answer(octets).size(), depth);
    EXPECT_FALSE(t.stopped()) << "and the places are free again";
    octets.clear();
    for (std::uint32_t msn = depth + 1; msn <= 2 * depth + 1; ++msn) {
      const auto fpdu = read_request(msn, reading(t.readable, kBase, 8)).fpdu();
      octets.insert(octets.end(), fpdu.begin(), fpdu.end());
    }
    const auto answers = t.answer(octets);
    EXPECT_EQ(answers.size(), depth + 1);
    const auto told = terminate_in(answers);
    ASSERT_TRUE(told);
    EXPECT_EQ(to_string(told->code), to_string(terminate::kDdpUntaggedNoBuffer));
  }
}

// --- 5.3: Sends ------------------------------------------------------------------------------------------

// Rules: RFC5040-5.3-02, RFC5040-5.3-03
TEST(EngineRdmap, EverySendTakesOneReceiveOfItsSize) {
  auto options = MemoryTarget::options();
  options.initial_receives = 2;
  options.receive_size = 64;
  {
    MemoryTarget t(options);
    t.answer(joined({Untagged{.msn = 1}.fpdu(), Untagged{.msn = 2, .body = pattern(64)}.fpdu()}));
    EXPECT_EQ(t.recorder().received.size(), 2U);
    const auto told = t.told(Untagged{.msn = 3, .body = pattern(1)}.fpdu());
    ASSERT_TRUE(told) << "an empty Send takes one too";
    EXPECT_EQ(to_string(told->code), to_string(terminate::kDdpUntaggedNoBuffer));
  }
  MemoryTarget t(options);
  const auto told = t.told(Untagged{.msn = 1, .body = pattern(65)}.fpdu());
  ASSERT_TRUE(told);
  EXPECT_EQ(to_string(told->code), to_string(terminate::kDdpUntaggedTooLong));
  EXPECT_TRUE(t.recorder().received.empty());
}

// Rules: RFC5040-5.3-04, RFC5040-5.3-05, RFC5040-5.5-10
TEST(EngineRdmap, SendsOfEveryKindAndSizeComeInOrder) {
  MemoryTarget t;
  const auto stags = std::array{t.add(rdma::Access::remote_read), t.open};
  std::vector<std::byte> octets;
  const auto append = [&octets](const std::vector<std::byte>& fpdu) {
    octets.insert(octets.end(), fpdu.begin(), fpdu.end());
  };
  append(Untagged{.rdmap_control = 0x43, .msn = 1, .body = pattern(0)}.fpdu());
  append(Untagged{.rdmap_control = 0x45, .msn = 2, .body = pattern(1000, 2)}.fpdu());
  append(Untagged{.ddp_control = 0x01, .rdmap_control = 0x43, .msn = 3, .body = pattern(1400, 3)}.fpdu());
  append(Untagged{.rdmap_control = 0x43, .msn = 3, .mo = 1400, .body = pattern(9, 4)}.fpdu());
  append(Untagged{.rdmap_control = 0x46, .invalidate = stags[1], .msn = 4, .body = pattern(3, 5)}.fpdu());
  append(Untagged{.rdmap_control = 0x43, .msn = 5, .body = pattern(7, 6)}.fpdu());
  EXPECT_TRUE(t.answer(octets).empty());
  const auto& got = t.recorder().received;
  ASSERT_EQ(got.size(), 5U);
  EXPECT_TRUE(got[0].payload.empty());
  EXPECT_EQ(got[1].payload, pattern(1000, 2));
  EXPECT_EQ(got[2].payload, joined({pattern(1400, 3), pattern(9, 4)}));
  EXPECT_EQ(got[3].payload, pattern(3, 5));
  EXPECT_EQ(got[3].invalidated, stags[1]);
  EXPECT_EQ(got[4].payload, pattern(7, 6));
  std::vector<bool> events;
  for (const Message& message : got) events.push_back(message.solicited);
  EXPECT_THAT(events, testing::ElementsAre(false, true, false, true, false));
}

// Rules: RFC5040-5.3-08, RFC5040-7.2-04
TEST(EngineRdmap, InvalidatedStagIsGoneForEveryOperation) {
  for (const bool by_read : {false, true}) {
    MemoryTarget t;
    const auto before = t.memory;
    EXPECT_TRUE(t.answer(Untagged{.rdmap_control = 0x44, .invalidate = t.open}.fpdu()).empty());
    ASSERT_EQ(t.recorder().received.size(), 1U);
    EXPECT_EQ(t.recorder().received[0].invalidated, t.open);
    const auto told = by_read ? t.told(read_request(1, reading(t.open, kBase, 8)).fpdu())
                              : t.told(Tagged{.stag = t.open, .to = kBase, .body = pattern(8, 99)}.fpdu());
    ASSERT_TRUE(told);
    EXPECT_EQ(to_string(told->code),
              to_string(by_read ? terminate::kRdmapInvalidStag : terminate::kDdpTaggedInvalidStag));
    EXPECT_EQ(t.memory, before);
  }
}

// Rules: RFC5040-5.3-08, RFC5040-7.2-04, RFC5040-7.2-05, RFC5040-8.1.1-07, RFC5042-6.4.5-01
TEST(EngineRdmap, StagThatCannotBeInvalidatedEndsTheStreamAndIsLeftAlone) {
  for (const auto stag : {&MemoryTarget::writable, &MemoryTarget::of_domain, &MemoryTarget::other_domain,
                          &MemoryTarget::other_stream}) {
    MemoryTarget t;
    const rdma::STag named = t.*stag;
    const auto send = Untagged{.rdmap_control = 0x44, .invalidate = named, .body = pattern(8)};
    const auto told = t.told(send.fpdu());
    ASSERT_TRUE(told);
    EXPECT_EQ(to_string(told->code), to_string(terminate::kRdmapStagCannotBeInvalidated));
    EXPECT_TRUE(told->control.length_valid && told->control.ddp_header);
    EXPECT_FALSE(told->control.rdma_header);
    EXPECT_EQ(told->ddp_header, to_vector(Octets(send.ulpdu()).first(18)));
    EXPECT_TRUE(t.recorder().received.empty()) << "no success at the upper layer";
    EXPECT_TRUE(t.target.host.stags.exists(named));
  }
}

// --- 4.8, 5.4: Terminates --------------------------------------------------------------------------------

// Rules: RFC5040-4.8-04, RFC5040-5.4-03
TEST(EngineRdmap, ReservedBitsOfATerminateMeanNothing) {
  const auto control =
      std::vector<std::byte>{std::byte{0x11}, std::byte{0x00}, std::byte{0x1F}, std::byte{0xFF}};
  auto full = control;
  full[2] = std::byte{0xDF};  // M and D as well
  const auto header = Tagged{.stag = 5, .to = 6, .body = pattern(8)}.ulpdu();
  full.resize(6);
  store_be(full.data() + 4, static_cast<std::uint16_t>(header.size()));
  full.insert(full.end(), header.begin(), header.begin() + 14);
  for (const auto& body : {control, full}) {
    MemoryTarget t;
    EXPECT_TRUE(t.answer(Untagged{.rdmap_control = 0x47, .qn = 2, .body = body}.fpdu()).empty());
    EXPECT_TRUE(t.stopped());
    t.target.end->engine.peer_finished();
    t.target.end->settle();
    ASSERT_TRUE(t.recorder().closed);
    EXPECT_EQ(t.recorder().closed->kind, CloseReason::Kind::remote_error);
    EXPECT_EQ(t.recorder().closed->terminate, 0x1100);
  }
}

// Rules: RFC5040-5.4-02, RFC5040-5.4-03
TEST(EngineRdmap, TerminateIsTakenWithoutAnyReceive) {
  auto options = MemoryTarget::options();
  options.initial_receives = 1;
  MemoryTarget t(options);
  t.answer(Untagged{.body = pattern(8)}.fpdu());
  const auto terminate =
      Untagged{.rdmap_control = 0x47, .qn = 2, .body = {std::byte{0x00}, std::byte{0x00}, {}, {}}};
  auto second = terminate;
  second.msn = 2;
  EXPECT_TRUE(t.answer(joined({terminate.fpdu(), second.fpdu()})).empty()) << "the second is dropped";
  t.target.end->engine.peer_finished();
  t.target.end->settle();
  ASSERT_TRUE(t.recorder().closed);
  EXPECT_EQ(t.recorder().closed->kind, CloseReason::Kind::remote_error);
  EXPECT_EQ(t.recorder().closed_count, 1);
}

// Rules: RFC5040-5.4-06
TEST(EngineRdmap, MalformedTerminateEndsTheStreamAsAnError) {
  const auto good =
      Untagged{.rdmap_control = 0x47, .qn = 2, .body = {std::byte{0x12}, std::byte{0x03}, {}, {}}};
  auto msn = good;
  msn.msn = 2;
  auto offset = good;
  offset.mo = 4;
  auto short_control = good;
  short_control.body.pop_back();
  auto no_copy = good;
  no_copy.body[2] = std::byte{0xC0};  // M and D, and nothing behind
  auto half_copy = no_copy;
  half_copy.body.resize(4 + 2 + 13);
  auto not_last = good;
  not_last.ddp_control = 0x01;
  for (const auto& bad : {msn, offset, short_control, no_copy, half_copy, not_last}) {
    SCOPED_TRACE(to_hex(bad.ulpdu()));
    MemoryTarget t;
    t.answer(bad.fpdu());
    EXPECT_TRUE(t.stopped());
    t.target.end->engine.peer_finished();
    t.target.end->settle();
    ASSERT_TRUE(t.recorder().closed);
    EXPECT_EQ(t.recorder().closed->kind, CloseReason::Kind::local_error);
  }
}

}  // namespace
}  // namespace kbtp::rnic::test
