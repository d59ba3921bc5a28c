// Atomic operations of RFC 7306 between engines and with hand-made frames: masks against a reference that
// adds bit by bit, alignment, resources shared with Reads, order, and what either side tells its upper layer.

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <random>

#include "base/hex.h"
#include "rdmap_binding/rnic/engine_target_rig.h"

namespace kbtp::rnic::test {
namespace {

using rdma::Access;
using rdma::CloseReason;
using rdma::Content;
using rdma::WorkStatus;

constexpr std::uint64_t kAll = ~std::uint64_t{0};
constexpr std::uint64_t bit(unsigned n) { return std::uint64_t{1} << n; }

/// RFC 7306 5.1.1 as it is written: from the lowest bit up, no carry out of a marked bit.
std::uint64_t add_bit_by_bit(std::uint64_t original, std::uint64_t add, std::uint64_t mask) {
  std::uint64_t result = 0;
  unsigned carry = 0;
  for (unsigned i = 0; i < 64; ++i) {
    const unsigned sum =
        static_cast<unsigned>(original >> i & 1) + static_cast<unsigned>(add >> i & 1) + carry;
    result |= std::uint64_t{sum & 1} << i;
    carry = (mask >> i & 1) != 0 ? 0 : sum >> 1;
  }
  return result;
}
std::uint64_t swap_bit_by_bit(std::uint64_t original, const rdma::CompareSwap& op) {
  std::uint64_t result = 0;
  bool equal = true;
  for (unsigned i = 0; i < 64; ++i) {
    if ((op.compare_mask >> i & 1) != 0 && (original >> i & 1) != (op.compare >> i & 1)) equal = false;
    const std::uint64_t from = (op.swap_mask >> i & 1) != 0 ? op.swap : original;
    result |= (from >> i & 1) << i;
  }
  return equal ? result : original;
}

/// Two engines in full operation; `b` has one word.
class Word {
 public:
  Word() {
    pair.run();
    auto& b = *pair.b->recorder.stream;
    stag = b.register_region({std::as_writable_bytes(std::span(words)), Access::remote_atomic, Content::words,
                              0x5000, false})
               ->stag;
  }
  std::uint64_t run(rdma::WorkRequest request) {
    const std::size_t before = pair.a->recorder.completions.size();
    pair.a->recorder.stream->post({std::move(request)});
    pair.run();
    EXPECT_EQ(pair.a->recorder.completions.size(), before + 1);
    EXPECT_EQ(pair.a->recorder.completions.back().status, WorkStatus::success);
    return pair.a->recorder.completions.back().original;
  }
  rdma::RemoteBuffer at() const { return {stag, 0x5000}; }

  Pair pair;
  std::vector<std::uint64_t> words = std::vector<std::uint64_t>(2);
  rdma::STag stag = 0;
};

std::vector<std::uint64_t> masks() {
  std::vector<std::uint64_t> all{
      0, kAll, bit(63) | bit(31), bit(63) | bit(31) | bit(62), bit(62) | bit(30), 0x8080'8080'8080'8080};
  for (const unsigned boundary : {0U, 1U, 30U, 31U, 32U, 33U, 62U, 63U}) all.push_back(bit(boundary));
  for (unsigned n = 1; n <= 28; ++n) all.push_back(bit(63) | bit(31) | bit(n + 3));  // KBTP's counters
  return all;
}
const std::vector<std::uint64_t> kValues = {0,
                                            1,
                                            bit(31) - 1,
                                            bit(31),
                                            bit(32) - 1,
                                            bit(32),
                                            bit(63) - 1,
                                            bit(63),
                                            kAll,
                                            0x7FFF'FFFF'7FFF'FFFF,
                                            0x0123'4567'89AB'CDEF};

// Rules: RFC7306-5.1.1-01, RFC7306-5.1.1-06, RFC7306-5-02, RFC7306-5.2.1-02
TEST(EngineAtomic, FetchAddKeepsCarriesInsideTheFields) {
  Word word;
  const auto check = [&word](std::uint64_t original, std::uint64_t add, std::uint64_t mask) {
    word.words[0] = original;
    ASSERT_EQ(word.run(rdma::FetchAdd{1, word.at(), add, mask}), original);
    ASSERT_EQ(word.words[0], add_bit_by_bit(original, add, mask)) << original << " " << add << " " << mask;
  };
  for (const std::uint64_t mask : masks()) {
    for (const std::uint64_t original : kValues) {
      for (const std::uint64_t add : kValues) check(original, add, mask);
    }
  }
  check(kAll, 1, 0);
  EXPECT_EQ(word.words[0], 0U) << "a plain addition wraps";
  std::mt19937_64 random(7306);
  for (int i = 0; i < 3000; ++i) check(random(), random(), random() & random());
  EXPECT_EQ(word.words[1], 0U);
}

// Rules: RFC7306-5.1.2-01, RFC7306-5.1.2-02, RFC7306-5-02, RFC7306-5.2.1-02
TEST(EngineAtomic, CompareSwapMindsBothMasks) {
  Word word;
  const auto check = [&word](std::uint64_t original, rdma::CompareSwap op) {
    op.word = word.at();
    word.words[0] = original;
    ASSERT_EQ(word.run(op), original) << "what was there before, match or not";
    ASSERT_EQ(word.words[0], swap_bit_by_bit(original, op))
        << original << " " << op.compare << "/" << op.compare_mask << " " << op.swap << "/" << op.swap_mask;
  };
  for (const std::uint64_t compare_mask : masks()) {
    for (const std::uint64_t swap_mask : {std::uint64_t{0}, kAll, bit(30), bit(31), bit(32), bit(62), bit(63),
                                          bit(31) - 1, compare_mask, ~compare_mask}) {
      for (const std::uint64_t original : kValues) {
        check(original, {1, {}, original, compare_mask, ~original, swap_mask});
        check(original, {1, {}, original ^ compare_mask, compare_mask, ~original, swap_mask});
        check(original, {1, {}, original ^ bit(31), compare_mask, 0x55AA, swap_mask});
      }
    }
  }
  std::mt19937_64 random(7306);
  for (int i = 0; i < 3000; ++i) {
    const std::uint64_t original = random();
    const std::uint64_t mask = random() & random() & random();
    check(original,
          {1, {}, original ^ (random() & random() & random() & random()), mask, random(), random()});
  }
}

rdmap::AtomicRequest adding(rdma::STag stag, std::uint64_t to, std::uint64_t add = 1) {
  return {rdmap::AtomicOpcode::fetch_add, 42, stag, to, add, 0};
}
rdmap::AtomicRequest swapping(rdma::STag stag, std::uint64_t to) {
  return {rdmap::AtomicOpcode::compare_swap, 43, stag, to, 99, kAll, 7, kAll};
}

// Rules: RFC7306-5.1.1-03, RFC7306-5.1.1-04, RFC7306-5.1.1-05, RFC7306-5.1.2-04, RFC7306-5.1.2-05
// Rules: RFC7306-8.2-02
TEST(EngineAtomic, TheAddressIsToBeAlignedNotTheOffset) {
  for (const std::uint64_t base : {0U, 3U, 4U}) {  // Tagged Offset of an aligned address
    for (const std::uint64_t past : {0U, 1U, 2U, 3U, 4U, 5U, 6U, 7U, 8U}) {
      for (const bool swap : {false, true}) {
        SCOPED_TRACE(testing::Message() << base << " " << past << " " << swap);
        MemoryTarget t;
        const auto stag = t.stream()
                              .register_region({std::as_writable_bytes(std::span(t.words)),
                                                Access::remote_atomic, Content::words, base, false})
                              ->stag;
        const auto request =
            atomic_request(1, swap ? swapping(stag, base + past) : adding(stag, base + past));
        const auto answers = t.answer(request.fpdu());
        ASSERT_EQ(answers.size(), 1U);
        const auto told = terminate_in(answers);
        if (past % 8 == 0) {
          EXPECT_FALSE(told);
          EXPECT_EQ(t.words[past / 8], swap ? 99U : 8U);
          continue;
        }
        ASSERT_TRUE(told);
        EXPECT_EQ(to_string(told->code), to_string(terminate::kRdmapCatastrophicStream));
        EXPECT_TRUE(told->control.length_valid);
        EXPECT_TRUE(told->control.ddp_header);
        EXPECT_FALSE(told->control.rdma_header);
        EXPECT_EQ(told->ddp_header, to_vector(Octets(request.ulpdu()).first(18)));
        EXPECT_THAT(t.words, testing::Each(7U));
      }
    }
  }
}

// Rules: RFC7306-5.1.1-07, RFC7306-5.1.2-06, RFC7306-5.2.1-03, RFC7306-5.2.1-11
TEST(EngineAtomic, NumbersAreTheHostsInMemoryAndBigEndianOnTheWire) {
  MemoryTarget t;
  t.words[2] = 0x0102'0304'0506'0708;
  auto request = adding(t.counters, 16, 0x1000'0000'0000'0000);
  request.request_identifier = 0xCAFE'F00D;
  auto answers = t.answer(atomic_request(1, request).fpdu());
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(to_hex(answers[0]),
            "414b000000000000000300000001000000"
            "00cafef00d0102030405060708");
  EXPECT_EQ(t.words[2], 0x1102'0304'0506'0708U);
  // Compared and swapped in the same order: only the most significant octet.
  rdmap::AtomicRequest swap{rdmap::AtomicOpcode::compare_swap,
                            7,
                            t.counters,
                            16,
                            0x2233'0000'0000'0000,
                            0xFF00'0000'0000'0000,
                            0x1100'0000'0000'0000,
                            0xFF00'0000'0000'0000};
  answers = t.answer(atomic_request(2, swap).fpdu());
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(to_hex(answers[0]),
            "414b000000000000000300000002000000"
            "00000000071102030405060708");
  EXPECT_EQ(t.words[2], 0x2202'0304'0506'0708U);
}

// Rules: RFC7306-4.1-03, RFC7306-5.2.1-01, RFC7306-5.2.1-05
TEST(EngineAtomic, WhatAFetchAddHasNoUseForIsNotLookedAt) {
  MemoryTarget t;
  auto request = adding(t.counters, 0, 5);
  request.compare_data = 0x1234;
  request.compare_mask = 0;
  auto message = atomic_request(1, request);
  message.invalidate = t.open;
  message.body[0] = std::byte{0xAB};  // 28 reserved bits
  message.body[1] = message.body[2] = std::byte{0xFF};
  message.body[3] |= std::byte{0xF0};
  const auto answers = t.answer(message.fpdu());
  EXPECT_EQ(answers.size(), 1U);
  EXPECT_FALSE(terminate_in(answers));
  EXPECT_EQ(t.words[0], 12U);
  EXPECT_TRUE(t.target.host.stags.exists(t.open));
}

// Rules: RFC7306-4.1-01, RFC7306-4.1-03, RFC7306-5.2.1-01, RFC7306-5.2.1-05
TEST(EngineAtomic, OurRequestsAreAsWritten) {
  Pair pair;
  pair.run();
  pair.a->recorder.stream->post(
      {rdma::FetchAdd{1, {0x01020304, 0x10}, 5, 0x80}, rdma::CompareSwap{2, {0x01020304, 0x18}, 1, 2, 3, 4}});
  const auto out = ulpdus(pair.a->drain());
  ASSERT_EQ(out.size(), 2U);
  const std::string reserved =
      "414a00000000"
      "00000001";
  EXPECT_EQ(to_hex(out[0]), reserved +
                                "00000001"
                                "00000000"
                                "00000000"
                                "00000000"
                                "01020304"
                                "0000000000000010"
                                "0000000000000005"
                                "0000000000000080"
                                "0000000000000000"
                                "ffffffffffffffff");
  EXPECT_EQ(to_hex(out[1]), reserved +
                                "00000002"
                                "00000000"
                                "00000002"
                                "00000001"
                                "01020304"
                                "0000000000000018"
                                "0000000000000003"
                                "0000000000000004"
                                "0000000000000001"
                                "0000000000000002");
}

// Rules: RFC7306-5.2-01, RFC7306-5.4-08, RFC7306-5.2.1-09, RFC7306-5.2.1-10, RFC7306-5.2.1-11
TEST(EngineAtomic, ReadsAndAtomicsShareOneSequenceAndAreAnsweredInIt) {
  MemoryTarget t;
  std::vector<std::byte> octets;
  // Each Atomic doubles what the ones before must have left.
  std::uint64_t expected = 7;
  std::vector<std::uint64_t> originals;
  std::uint32_t msn = 0;
  for (int i = 0; i < 12; ++i) {
    if (i % 3 == 1) {
      ++msn;
      octets = read_request(msn, reading(t.readable, kBase + msn, 8)).fpdu();
    } else {
      rdmap::AtomicRequest request = adding(t.counters, 8, expected);
      request.request_identifier = msn + 1;
      octets = atomic_request(++msn, request).fpdu();
      originals.push_back(expected);
      expected *= 2;
    }
    t.target.end->feed(octets);
    if (i % 4 != 3) continue;  // four of them in flight at a time: the IRD
    const auto answers = t.target.drained();
    ASSERT_EQ(answers.size(), 4U);
    for (int k = 0; k < 4; ++k) {
      const int which = i - 3 + k;
      EXPECT_EQ(answers[static_cast<std::size_t>(k)][1], which % 3 == 1 ? std::byte{0x42} : std::byte{0x4B})
          << which;
      if (which % 3 == 1) continue;
      const auto response =
          rdmap::decode_atomic_response(Octets(answers[static_cast<std::size_t>(k)]).subspan(18).first<12>());
      EXPECT_EQ(response.request_identifier, static_cast<std::uint32_t>(which) + 1);
      EXPECT_EQ(response.original_value, originals.front());
      originals.erase(originals.begin());
    }
  }
  EXPECT_EQ(t.words[1], expected);
  EXPECT_FALSE(t.stopped());
}

// Rules: RFC7306-5.2.2-02, RFC7306-5.2.2-03, RFC7306-5.2-01
TEST(EngineAtomic, AllThatWasAgreedMayBeUnderWayAtOnce) {
  for (const std::uint32_t depth : {1U, 2U, 5U}) {
    rdma::StreamOptions options;
    options.ord = depth;
    Pair pair(options, {});
    pair.run();
    std::vector<std::uint64_t> words(1);
    const auto stag =
        pair.b->recorder.stream
            ->register_region({std::as_writable_bytes(std::span(words)),
                               Access::remote_atomic | Access::remote_read, Content::words, 0, false})
            ->stag;
    std::vector<std::byte> into(8);
    std::vector<rdma::WorkRequest> requests;
    for (std::uint64_t i = 0; i < 20; ++i) {
      if (i % 2 == 0) {
        requests.emplace_back(rdma::FetchAdd{i, {stag, 0}, 1, 0});
      } else {
        requests.emplace_back(rdma::Read{i, into, {stag, 0}});
      }
    }
    pair.a->recorder.stream->post(std::move(requests));
    const auto octets = pair.a->drain();
    EXPECT_EQ(ulpdus(octets).size(), depth) << "the rest waits";
    pair.b->feed(octets);  // all at once
    pair.run();
    ASSERT_EQ(pair.a->recorder.completions.size(), 20U);
    for (std::uint64_t i = 0; i < 20; ++i) {
      EXPECT_EQ(pair.a->recorder.completions[i].id, i);
      EXPECT_EQ(pair.a->recorder.completions[i].status, WorkStatus::success);
      if (i % 2 == 0) {
        EXPECT_EQ(pair.a->recorder.completions[i].original, i / 2);
      }
    }
    EXPECT_EQ(words[0], 10U);
  }
}

// Rules: RFC7306-5.2.1-07
TEST(EngineAtomic, TheTargetsUpperLayerHearsNothing) {
  auto options = MemoryTarget::options();
  options.initial_receives = 1;
  MemoryTarget t(options);
  for (std::uint32_t msn = 1; msn <= 20; ++msn) {
    EXPECT_EQ(t.answer(atomic_request(msn, adding(t.counters, 0)).fpdu()).size(), 1U);
  }
  EXPECT_TRUE(t.recorder().received.empty());
  EXPECT_TRUE(t.recorder().completions.empty());
  EXPECT_TRUE(t.answer(Untagged{.body = pattern(8)}.fpdu()).empty()) << "the receive is still there";
  EXPECT_EQ(t.recorder().received.size(), 1U);
}

// Rules: RFC7306-5.2.2-04, RFC7306-5.4-01, RFC7306-5.4-07
TEST(EngineAtomic, TheRequesterHearsWhenTheResponseIsThere) {
  Word word;
  word.words[0] = 41;
  word.pair.a->recorder.stream->post({rdma::FetchAdd{9, word.at(), 1, 0}});
  const auto request = word.pair.a->drain();
  word.pair.b->feed(request);
  const auto response = word.pair.b->drain();
  EXPECT_EQ(word.words[0], 42U);
  word.pair.a->feed(Octets(response).first(response.size() - 1));
  EXPECT_TRUE(word.pair.a->recorder.completions.empty());
  word.pair.a->feed(Octets(response).last(1));
  ASSERT_EQ(word.pair.a->recorder.completions.size(), 1U);
  EXPECT_EQ(word.pair.a->recorder.completions[0].id, 9U);
  EXPECT_EQ(word.pair.a->recorder.completions[0].original, 41U);
}

// Rules: RFC7306-5.4-03, RFC7306-5.4-05, RFC7306-7-01
TEST(EngineAtomic, AnAtomicSeesTheWritesInFrontOfIt) {
  MemoryTarget t;
  const auto written = t.stream()
                           .register_region({std::as_writable_bytes(std::span(t.words)), Access::remote_write,
                                             Content::shared, 0, false})
                           ->stag;
  std::vector<std::byte> value(8);
  const std::uint64_t number = 1000;
  std::memcpy(value.data(), &number, 8);
  const auto request = atomic_request(1, adding(t.counters, 8, 1)).fpdu();
  const auto octets = joined({Tagged{.ddp_control = 0x81, .stag = written, .to = 8, .body = value}.fpdu(),
                              Tagged{.stag = written, .to = 16, .body = value}.fpdu(), request});
  // Nothing begins before the request is whole.
  t.target.end->feed(Octets(octets).first(octets.size() - 1));
  EXPECT_TRUE(t.target.drained().empty());
  EXPECT_EQ(t.words[1], 1000U);
  const auto answers = t.answer(Octets(octets).last(1));
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(rdmap::decode_atomic_response(Octets(answers[0]).subspan(18).first<12>()).original_value, 1000U);
  EXPECT_EQ(t.words[1], 1001U);
}

/// Nothing of an Atomic is done when its region is gone, or when a Read in front of it cannot be answered.
TEST(EngineAtomic, RevocationBetweenRequestAndAnswer) {
  for (const bool behind_a_read : {false, true}) {
    MemoryTarget t;
    std::uint32_t msn = 0;
    std::vector<std::byte> octets = Untagged{}.fpdu();
    if (behind_a_read) {
      octets = joined({octets, read_request(++msn, reading(t.readable, kBase, 8)).fpdu()});
    }
    const auto request = atomic_request(++msn, adding(t.counters, 0));
    for (std::uint32_t more = 0; more < 3; ++more) {
      octets =
          joined({octets, more == 0 ? request.fpdu() : atomic_request(++msn, adding(t.counters, 8)).fpdu()});
    }
    t.target.end->feed(octets);
    t.stream().revoke(behind_a_read ? t.readable : t.counters);
    const auto answers = t.target.drained();
    ASSERT_EQ(answers.size(), 1U);
    const auto told = terminate_in(answers);
    ASSERT_TRUE(told);
    EXPECT_EQ(to_string(told->code), to_string(terminate::kRdmapInvalidStag));
    EXPECT_EQ(told->control.rdma_header, behind_a_read);
    if (!behind_a_read) {
      EXPECT_EQ(told->ddp_header, to_vector(Octets(request.ulpdu()).first(18)));
    }
    EXPECT_THAT(t.words, testing::Each(7U));
  }
}

// --- What a requester makes of answers -------------------------------------------------------------------

/// A stream whose FetchAdd of 0, the probe for RFC 7306, is on its way to a peer of hand-made frames.
class Probe {
 public:
  Probe() {
    t.answer(Untagged{}.fpdu());
    t.stream().post({rdma::FetchAdd{5, {0x99, 0x40}, 0, 0}, rdma::Send{6, pattern(4), false, std::nullopt}});
    const auto out = t.target.drained();
    request = out.at(0);
    identifier = rdmap::decode_atomic_request(Octets(request).subspan(18).first<52>()).request_identifier;
  }
  std::vector<std::byte> response(std::uint32_t id, std::uint32_t msn = 1) const {
    const auto body = rdmap::encode(rdmap::AtomicResponse{id, 1234});
    return Untagged{.rdmap_control = 0x4B, .qn = 3, .msn = msn, .body = to_vector(body)}.fpdu();
  }
  MemoryTarget t;
  std::vector<std::byte> request;
  std::uint32_t identifier = 0;
};

// Rules: RFC7306-1.1-03
TEST(EngineAtomic, AddingNothingFindsOutWhetherThePeerHasAtomics) {
  Word word;
  word.words[0] = 0x1234;
  EXPECT_EQ(word.run(rdma::FetchAdd{1, word.at(), 0, 0}), 0x1234U);
  EXPECT_EQ(word.run(rdma::FetchAdd{1, word.at(), 0, kAll}), 0x1234U);
  EXPECT_EQ(word.words[0], 0x1234U);
  Probe probe;
  EXPECT_TRUE(probe.t.answer(probe.response(probe.identifier)).empty());
  ASSERT_EQ(probe.t.recorder().completions.size(), 2U);
  EXPECT_EQ(probe.t.recorder().completions[0].id, 5U);
  EXPECT_EQ(probe.t.recorder().completions[0].status, WorkStatus::success);
  EXPECT_EQ(probe.t.recorder().completions[0].original, 1234U);
}

/// A peer without RFC 7306: the Terminate that it answers with is a reason that says so, and the probe ends.
// Rules: RFC7306-1.1-02
TEST(EngineAtomic, APeerWithoutAtomicsEndsTheProbeWithAReasonThatSaysSo) {
  for (const bool with_header : {true, false}) {
    Probe probe;
    std::vector<std::byte> body = {std::byte{0x02}, std::byte{0x06}, std::byte{}, std::byte{}};
    if (with_header) {
      body[2] = std::byte{0xC0};
      body.push_back(std::byte{0});
      body.push_back(std::byte{70});
      body.insert(body.end(), probe.request.begin(), probe.request.begin() + 18);
    }
    EXPECT_TRUE(probe.t.answer(Untagged{.rdmap_control = 0x47, .qn = 2, .body = body}.fpdu()).empty());
    probe.t.target.end->engine.peer_finished();
    probe.t.target.end->settle();
    ASSERT_EQ(probe.t.recorder().completions.size(), 2U);
    EXPECT_EQ(probe.t.recorder().completions[0].status, WorkStatus::flushed);
    ASSERT_TRUE(probe.t.recorder().closed.has_value());
    EXPECT_EQ(probe.t.recorder().closed->kind, CloseReason::Kind::remote_error);
    EXPECT_EQ(probe.t.recorder().closed->terminate, terminate::kRdmapUnexpectedOpcode.packed());
    EXPECT_THAT(probe.t.recorder().closed->text, testing::HasSubstr("unexpected opcode"));
  }
}

// Rules: RFC7306-5-05, RFC7306-5.2.2-05
TEST(EngineAtomic, AnswersThatDoNotFitTheRequestEndTheStream) {
  struct Case {
    std::uint32_t id_more, msn;
    TerminateCode code;
  };
  for (const Case& c :
       {Case{1, 1, terminate::kRdmapOperationUnspecified}, Case{0, 0, terminate::kDdpUntaggedMsnRange},
        Case{0, 2, terminate::kDdpUntaggedMsnRange}}) {
    Probe probe;
    const auto told = probe.t.told(probe.response(probe.identifier + c.id_more, c.msn));
    ASSERT_TRUE(told);
    EXPECT_EQ(to_string(told->code), to_string(c.code));
    ASSERT_EQ(probe.t.recorder().completions.size(), 2U);
    EXPECT_EQ(probe.t.recorder().completions[0].status, WorkStatus::flushed);
  }
  Probe twice;
  const auto told =
      twice.t.told(joined({twice.response(twice.identifier), twice.response(twice.identifier, 2)}));
  ASSERT_TRUE(told);
  EXPECT_EQ(to_string(told->code), to_string(terminate::kDdpUntaggedNoBuffer));
  EXPECT_EQ(twice.t.recorder().completions.size(), 2U);
}

}  // namespace
}  // namespace kbtp::rnic::test
