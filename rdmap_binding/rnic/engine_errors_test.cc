// What a Responder in full operation answers to frames that break one rule each: the Terminate of
// wire-reference 6 with its header copies, nothing placed, nothing delivered, nothing sent afterwards.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/hex.h"
#include "rdmap_binding/rnic/engine_rig.h"

namespace kbtp::rnic::test {
namespace {

using rdma::Access;
using rdma::CloseReason;
using rdma::Content;

/// A responder with memory of each kind, which has had one good Send, so that a Terminate may go out.
class EngineErrors : public testing::Test {
 protected:
  EngineErrors() : target(options(), {}), memory(4096, std::byte{0x5A}), words(8, 7) {
    auto& stream = target.stream();
    writable = stream.register_region({memory, Access::remote_write, Content::octets, 0x1000, false})->stag;
    readable = stream.register_region({memory, Access::remote_read, Content::octets, 0x1000, false})->stag;
    counters = stream
                   .register_region({std::as_writable_bytes(std::span(words)), Access::remote_atomic,
                                     Content::words, 0, false})
                   ->stag;
    const rdma::RegionSpec shared{memory, Access::remote_write | Access::remote_read, Content::octets, 0x1000,
                                  false};
    of_domain = target.host.stags.add(rdma::DomainId{7}, shared)->stag;
    other_domain = target.host.stags.add(rdma::DomainId{8}, shared)->stag;
    other_stream = target.host.stags.add(StreamId{999}, shared)->stag;
    EXPECT_TRUE(target.answer(Untagged{.body = pattern(24)}.fpdu()).empty());
    EXPECT_EQ(target.recorder().received.size(), 1U);
  }

  static rdma::StreamOptions options() {
    rdma::StreamOptions o;
    o.domain = rdma::DomainId{7};
    o.initial_receives = 2;
    o.receive_size = 64;
    o.ird = 2;
    o.ord = 2;
    return o;
  }

  enum class Copy {
    none,
    header,       // M, D
    header_read,  // M, D, R
  };

  /// `ulpdu` must be answered by this Terminate alone.
  void expect(const std::vector<std::byte>& ulpdu, TerminateCode code, Copy copy = Copy::header) {
    const auto answers = target.answer(mpa::encode_fpdu(ulpdu));
    expect_terminate(answers, ulpdu, code, copy);
  }

  void expect_terminate(const std::vector<std::vector<std::byte>>& answers,
                        const std::vector<std::byte>& ulpdu, TerminateCode code, Copy copy) {
    ASSERT_EQ(answers.size(), 1U);
    std::vector<std::byte> expected(22);
    ByteWriter w(expected);
    w.u8(0x41);
    w.u8(0x47);
    w.u32(0);
    w.u32(2);
    w.u32(1);
    w.u32(0);
    w.u16(code.packed());
    w.u16(copy == Copy::none ? 0 : copy == Copy::header ? 0xC000 : 0xE000);
    if (copy != Copy::none) {
      const std::size_t header = (std::to_integer<int>(ulpdu[0]) & 0x80) != 0 ? 14 : 18;
      expected.push_back(static_cast<std::byte>(ulpdu.size() >> 8));
      expected.push_back(static_cast<std::byte>(ulpdu.size()));
      expected.insert(expected.end(), ulpdu.begin(), ulpdu.begin() + static_cast<std::ptrdiff_t>(header));
      if (copy == Copy::header_read) expected.insert(expected.end(), ulpdu.begin() + 18, ulpdu.end());
    }
    EXPECT_EQ(to_hex(answers[0]), to_hex(expected)) << to_string(code);
    EXPECT_TRUE(target.end->fin);

    // RFC 5041 7.1-13, RFC 5040 7-01, 5.4-04: what follows is neither placed, delivered nor answered.
    const std::size_t delivered = target.recorder().received.size();
    target.end->feed(joined({Tagged{.stag = writable, .to = 0x1000, .body = pattern(16)}.fpdu(),
                             Untagged{.msn = 2, .body = pattern(24)}.fpdu(), bad_crc()}));
    EXPECT_TRUE(target.end->drain().empty());
    EXPECT_EQ(target.recorder().received.size(), delivered);
    EXPECT_THAT(memory, testing::Each(std::byte{0x5A}));
    EXPECT_THAT(words, testing::Each(7U));
    target.end->engine.peer_finished();
    target.end->settle();
    ASSERT_TRUE(target.recorder().closed.has_value());
    EXPECT_EQ(target.recorder().closed_count, 1);
    EXPECT_EQ(target.recorder().closed->kind, CloseReason::Kind::local_error);
    EXPECT_EQ(target.recorder().closed->terminate, code.packed());
    EXPECT_FALSE(target.host.stags.exists(writable));
    EXPECT_TRUE(target.host.stags.exists(of_domain));
  }

  static std::vector<std::byte> bad_crc() {
    auto fpdu = Untagged{.msn = 2, .body = pattern(24)}.fpdu();
    fpdu.back() ^= std::byte{1};
    return fpdu;
  }

  Responder target;
  std::vector<std::byte> memory;
  std::vector<std::uint64_t> words;
  rdma::STag writable = 0, readable = 0, counters = 0, of_domain = 0, other_domain = 0, other_stream = 0;
};

rdmap::ReadRequest reading(rdma::STag stag, std::uint64_t to, std::uint32_t size) {
  return {0xABCD, 0x77, size, stag, to};
}
rdmap::AtomicRequest adding(rdma::STag stag, std::uint64_t to) {
  return {rdmap::AtomicOpcode::fetch_add, 42, stag, to, 1, 0};
}

// --- MPA -------------------------------------------------------------------------------------------------

// Rules: RFC5044-4.4-11, RFC5044-8-02
TEST_F(EngineErrors, Rfc5044_4_4_11_BadCrcIs2_0_02) {
  expect_terminate(ulpdus([&] {
                     target.end->feed(bad_crc());
                     return target.end->drain();
                   }()),
                   {}, terminate::kMpaCrcError, Copy::none);
}

// Rules: RFC5044-3-09
TEST_F(EngineErrors, Rfc5044_3_05_UlpduLengthAbove64768Is2_0_03) {
  const auto length = mpa::encode_length(0xFD01);
  expect_terminate(target.answer(length), {}, terminate::kMpaMarkerMismatch, Copy::none);
}

// --- DDP, tagged -----------------------------------------------------------------------------------------

TEST_F(EngineErrors, Rfc5041_7_1_06_UnknownStagIs1_1_00) {
  expect(Tagged{.stag = 0x12345678, .to = 0x1000, .body = pattern(8)}.ulpdu(),
         terminate::kDdpTaggedInvalidStag);
}
TEST_F(EngineErrors, Rfc5041_7_1_07_WriteToReadOnlyStagIs1_1_00) {
  expect(Tagged{.stag = readable, .to = 0x1000, .body = pattern(8)}.ulpdu(),
         terminate::kDdpTaggedInvalidStag);
}
TEST_F(EngineErrors, Rfc5041_7_1_07_WriteToWordsIs1_1_00) {
  expect(Tagged{.stag = counters, .to = 0, .body = pattern(8)}.ulpdu(), terminate::kDdpTaggedInvalidStag);
}
TEST_F(EngineErrors, Rfc5041_7_1_08_BelowTheBaseIs1_1_01) {
  expect(Tagged{.stag = writable, .to = 0xFFF, .body = pattern(8)}.ulpdu(),
         terminate::kDdpTaggedBaseOrBounds);
}
TEST_F(EngineErrors, Rfc5041_7_1_09_OneOctetBeyondIs1_1_01) {
  expect(Tagged{.stag = writable, .to = 0x1000 + 4096 - 7, .body = pattern(8)}.ulpdu(),
         terminate::kDdpTaggedBaseOrBounds);
}
TEST_F(EngineErrors, Rfc5041_7_1_10_WrapIs1_1_03) {
  expect(Tagged{.stag = writable, .to = ~std::uint64_t{0} - 3, .body = pattern(16)}.ulpdu(),
         terminate::kDdpTaggedToWrap);
}
TEST_F(EngineErrors, Rfc5041_8_2_01_StagOfAnotherDomainIs1_1_02) {
  expect(Tagged{.stag = other_domain, .to = 0x1000, .body = pattern(8)}.ulpdu(),
         terminate::kDdpTaggedStagNotAssociated);
}
TEST_F(EngineErrors, Rfc5041_8_2_02_StagOfAnotherStreamIs1_1_02) {
  expect(Tagged{.stag = other_stream, .to = 0x1000, .body = pattern(8)}.ulpdu(),
         terminate::kDdpTaggedStagNotAssociated);
}
TEST_F(EngineErrors, Rfc5041_4_1_06_TaggedVersionIs1_1_04) {
  expect(Tagged{.ddp_control = 0xC2, .stag = writable, .to = 0x1000, .body = pattern(8)}.ulpdu(),
         terminate::kDdpTaggedInvalidVersion);
}
// Rules: RFC5040-8.1.1-06, RFC5042-6.2.2-02
TEST_F(EngineErrors, Rfc5041_8_3_1_06_RevokedStagIs1_1_00) {
  target.stream().revoke(writable);
  expect(Tagged{.stag = writable, .to = 0x1000, .body = pattern(8)}.ulpdu(),
         terminate::kDdpTaggedInvalidStag);
}

// --- DDP, untagged ---------------------------------------------------------------------------------------

TEST_F(EngineErrors, Rfc5041_7_1_01_QueueNumber4Is1_2_01) {
  expect(Untagged{.qn = 4, .msn = 1, .body = pattern(8)}.ulpdu(), terminate::kDdpUntaggedInvalidQn);
}
TEST_F(EngineErrors, Rfc5041_7_1_02_NoReceiveIs1_2_02) {
  EXPECT_TRUE(target.answer(Untagged{.msn = 2}.fpdu()).empty());
  expect(Untagged{.msn = 3, .body = pattern(8)}.ulpdu(), terminate::kDdpUntaggedNoBuffer);
}
TEST_F(EngineErrors, Rfc5041_4_3_05_MsnGapIs1_2_03) {
  expect(Untagged{.msn = 3, .body = pattern(8)}.ulpdu(), terminate::kDdpUntaggedMsnRange);
}
TEST_F(EngineErrors, Rfc5041_4_3_05_RepeatedMsnIs1_2_03) {
  expect(Untagged{.msn = 1, .body = pattern(8)}.ulpdu(), terminate::kDdpUntaggedMsnRange);
}
TEST_F(EngineErrors, Rfc5041_7_1_03_MoGapIs1_2_04) {
  expect(Untagged{.msn = 2, .mo = 8, .body = pattern(8)}.ulpdu(), terminate::kDdpUntaggedInvalidMo);
}
// Rules: RFC5040-5.3-03
TEST_F(EngineErrors, Rfc5041_7_1_04_LongerThanTheReceiveIs1_2_05) {
  expect(Untagged{.msn = 2, .body = pattern(65)}.ulpdu(), terminate::kDdpUntaggedTooLong);
}
TEST_F(EngineErrors, Rfc5041_7_1_04_SecondSegmentBeyondTheReceiveIs1_2_05) {
  EXPECT_TRUE(target.answer(Untagged{.ddp_control = 0x01, .msn = 2, .body = pattern(40)}.fpdu()).empty());
  expect(Untagged{.msn = 2, .mo = 40, .body = pattern(25)}.ulpdu(), terminate::kDdpUntaggedTooLong);
}
TEST_F(EngineErrors, Rfc5041_4_1_06_UntaggedVersionIs1_2_06) {
  expect(Untagged{.ddp_control = 0x40, .msn = 2, .body = pattern(8)}.ulpdu(),
         terminate::kDdpUntaggedInvalidVersion);
}
TEST_F(EngineErrors, Rfc5041_4_4_01_ShorterThanADdpHeaderIs1_0_00) {
  expect(to_vector(Octets(Untagged{}.ulpdu()).first(5)), terminate::kDdpLocalCatastrophic, Copy::none);
}

// --- RDMAP -----------------------------------------------------------------------------------------------

// Rules: RFC5040-7.2-03
TEST_F(EngineErrors, Rfc5040_7_2_03_VersionIs0_2_05) {
  expect(Untagged{.rdmap_control = 0x83, .msn = 2, .body = pattern(8)}.ulpdu(),
         terminate::kRdmapInvalidVersion);
}
// Rules: RFC5040-7.2-02
TEST_F(EngineErrors, Rfc5040_7_2_02_OpcodesWithoutAMeaningAre0_2_06) {
  expect(Untagged{.rdmap_control = 0x4C, .msn = 2, .body = pattern(8)}.ulpdu(),
         terminate::kRdmapUnexpectedOpcode);
}
// Rules: RFC5040-4.1-03
TEST_F(EngineErrors, Rfc5040_4_1_03_TaggedSendIs0_2_06) {
  expect(Tagged{.rdmap_control = 0x43, .stag = writable, .to = 0x1000, .body = pattern(8)}.ulpdu(),
         terminate::kRdmapUnexpectedOpcode);
}
// Rules: RFC5040-4.1-04
TEST_F(EngineErrors, Rfc5040_4_1_04_SendOnTheRequestQueueIs0_2_06) {
  expect(Untagged{.qn = 1, .msn = 1, .body = pattern(8)}.ulpdu(), terminate::kRdmapUnexpectedOpcode);
}
// Rules: RFC5040-7.2-06, RFC5040-7.1-04
TEST_F(EngineErrors, Rfc5040_7_2_06_ReadOfAnUnknownStagIs0_1_00) {
  expect(read_request(1, reading(0x1234, 0x1000, 8)).ulpdu(), terminate::kRdmapInvalidStag,
         Copy::header_read);
}
// Rules: RFC5040-7.2-09
TEST_F(EngineErrors, Rfc5040_7_2_09_ReadOneOctetBeyondIs0_1_01) {
  expect(read_request(1, reading(readable, 0x1001, 4096)).ulpdu(), terminate::kRdmapBaseOrBounds,
         Copy::header_read);
}
// Rules: RFC5040-7.2-11
TEST_F(EngineErrors, Rfc5040_7_2_11_ReadWithoutReadRightIs0_1_02) {
  expect(read_request(1, reading(writable, 0x1000, 8)).ulpdu(), terminate::kRdmapAccessRights,
         Copy::header_read);
}
// Rules: RFC5040-7.2-07, RFC5040-8.1.1-02, RFC5040-5.2.1-08
TEST_F(EngineErrors, Rfc5040_7_2_07_ReadOfAnotherStreamsStagIs0_1_03) {
  expect(read_request(1, reading(other_stream, 0x1000, 8)).ulpdu(), terminate::kRdmapStagNotAssociated,
         Copy::header_read);
}
// Rules: RFC5040-8.1.1-01
TEST_F(EngineErrors, Rfc5040_8_1_1_01_ReadOfAnotherDomainsStagIs0_1_03) {
  expect(read_request(1, reading(other_domain, 0x1000, 8)).ulpdu(), terminate::kRdmapStagNotAssociated,
         Copy::header_read);
}
// Rules: RFC5040-7.2-10
TEST_F(EngineErrors, Rfc5040_7_2_10_ReadThatWrapsIs0_1_04) {
  expect(read_request(1, reading(readable, ~std::uint64_t{0} - 3, 8)).ulpdu(), terminate::kRdmapToWrap,
         Copy::header_read);
}
// Rules: RFC5040-5.2.2-02, RFC5040-6.1-04
TEST_F(EngineErrors, Rfc5040_5_2_2_02_MoreReadsThanTheIrdIs1_2_02) {
  // All in one run of octets, so that no answer goes out between them.
  const auto third = read_request(3, reading(readable, 0x1000, 8));
  target.end->feed(joined({read_request(1, reading(readable, 0x1000, 8)).fpdu(),
                           read_request(2, reading(readable, 0x1000, 8)).fpdu(), third.fpdu()}));
  auto answers = ulpdus(target.end->drain());
  ASSERT_EQ(answers.size(), 3U);  // the good ones are answered first
  EXPECT_EQ(std::to_integer<int>(answers[0][1]), 0x42);
  EXPECT_EQ(std::to_integer<int>(answers[1][1]), 0x42);
  answers.erase(answers.begin(), answers.begin() + 2);
  expect_terminate(answers, third.ulpdu(), terminate::kDdpUntaggedNoBuffer, Copy::header);
}
// Rules: RFC5040-4.4-01
TEST_F(EngineErrors, Rfc5040_4_4_01_ReadRequestOf27OctetsIs0_2_FF) {
  auto request = read_request(1, reading(readable, 0x1000, 8));
  request.body.pop_back();
  expect(request.ulpdu(), terminate::kRdmapOperationUnspecified);
}
// Rules: RFC5040-7.2-04
TEST_F(EngineErrors, Rfc5040_7_2_04_InvalidateOfAnUnknownStagIs0_1_09) {
  expect(Untagged{.rdmap_control = 0x44, .invalidate = 0x1234, .msn = 2, .body = pattern(8)}.ulpdu(),
         terminate::kRdmapStagCannotBeInvalidated);
}
// Rules: RFC5040-8.1.1-07
TEST_F(EngineErrors, Rfc5040_8_1_1_07_InvalidateOfADomainsStagIs0_1_09) {
  expect(Untagged{.rdmap_control = 0x44, .invalidate = of_domain, .msn = 2, .body = pattern(8)}.ulpdu(),
         terminate::kRdmapStagCannotBeInvalidated);
}
// Rules: RFC5040-7.2-05
TEST_F(EngineErrors, Rfc5040_7_2_05_InvalidateOfAnotherStreamsStagIs0_1_09) {
  expect(Untagged{.rdmap_control = 0x46, .invalidate = other_stream, .msn = 2, .body = pattern(8)}.ulpdu(),
         terminate::kRdmapStagCannotBeInvalidated);
}
// Rules: RFC5040-5.3-08
TEST_F(EngineErrors, Rfc5040_5_3_08_InvalidateWithoutTheRightToItIs0_1_09) {
  expect(Untagged{.rdmap_control = 0x44, .invalidate = writable, .msn = 2, .body = pattern(8)}.ulpdu(),
         terminate::kRdmapStagCannotBeInvalidated);
}
// Rules: RFC5040-5.2.2-04
TEST_F(EngineErrors, Rfc5040_5_2_2_04_ReadResponseToAnUnknownStagIs1_1_00) {
  expect(Tagged{.rdmap_control = 0x42, .stag = 0x1234, .body = pattern(8)}.ulpdu(),
         terminate::kDdpTaggedInvalidStag);
}
// Rules: RFC5040-5.2.2-04
TEST_F(EngineErrors, Rfc5040_5_2_2_04_UnsolicitedReadResponseToAGoodStagIs0_2_06) {
  expect(Tagged{.rdmap_control = 0x42, .stag = writable, .to = 0x1000, .body = pattern(8)}.ulpdu(),
         terminate::kRdmapUnexpectedOpcode);
}

// --- RFC 7306 --------------------------------------------------------------------------------------------

TEST_F(EngineErrors, Rfc7306_5_1_1_03_UnalignedAtomicIs0_2_07) {
  for (const std::uint64_t to : {4U}) {
    expect(atomic_request(1, adding(counters, to)).ulpdu(), terminate::kRdmapCatastrophicStream);
  }
}
TEST_F(EngineErrors, Rfc7306_8_2_03_AtomicOnAnUnknownStagIs0_1_00) {
  expect(atomic_request(1, adding(0x1234, 0)).ulpdu(), terminate::kRdmapInvalidStag);
}
TEST_F(EngineErrors, Rfc7306_8_2_03_AtomicBeyondTheEndIs0_1_01) {
  expect(atomic_request(1, adding(counters, 64)).ulpdu(), terminate::kRdmapBaseOrBounds);
}
TEST_F(EngineErrors, Rfc7306_8_2_03_AtomicWithoutTheRightIs0_1_02) {
  expect(atomic_request(1, adding(writable, 0x1000)).ulpdu(), terminate::kRdmapAccessRights);
}
TEST_F(EngineErrors, Rfc7306_8_2_03_AtomicOnAnotherStreamsStagIs0_1_03) {
  expect(atomic_request(1, adding(other_stream, 0x1000)).ulpdu(), terminate::kRdmapStagNotAssociated);
}
TEST_F(EngineErrors, Rfc7306_5_2_1_08_AtomicOpcode1Is0_2_06) {
  auto request = adding(counters, 0);
  request.operation = static_cast<rdmap::AtomicOpcode>(1);
  expect(atomic_request(1, request).ulpdu(), terminate::kRdmapUnexpectedOpcode);
}
TEST_F(EngineErrors, Rfc7306_5_2_2_05_UnsolicitedAtomicResponseIs1_2_02) {
  expect(Untagged{.rdmap_control = 0x4B, .qn = 3, .msn = 1, .body = pattern(12)}.ulpdu(),
         terminate::kDdpUntaggedNoBuffer);
}
TEST_F(EngineErrors, Rfc7306_6_3_05_ImmediateOf7OctetsIs0_2_FF) {
  expect(Untagged{.rdmap_control = 0x48, .msn = 2, .body = pattern(7)}.ulpdu(),
         terminate::kRdmapOperationUnspecified);
}

// --- Order and tolerance ---------------------------------------------------------------------------------

// Rules: RFC5040-7.1-05
TEST_F(EngineErrors, Rfc5040_7_1_05_TheFirstOfTwoBadFramesIsTold) {
  const auto first = Tagged{.stag = 0x1, .to = 0x1000, .body = pattern(8)};
  target.end->feed(joined({first.fpdu(), Untagged{.qn = 4, .body = pattern(8)}.fpdu()}));
  expect_terminate(ulpdus(target.end->drain()), first.ulpdu(), terminate::kDdpTaggedInvalidStag,
                   Copy::header);
}

// Rules: RFC5040-4.8-07
TEST_F(EngineErrors, Rfc5040_4_8_07_RevokedWhileAnsweringTellsTheProgress) {
  // 4096 octets take three segments at an EMSS of 1460; the region goes after the first has been taken.
  const auto request = read_request(1, reading(readable, 0x1000, 4096));
  std::vector<std::byte> large(400'000);
  const auto stag =
      target.stream().register_region({large, Access::remote_read, Content::octets, 0, false})->stag;
  const auto long_read = read_request(1, {0xABCD, 0x77, 400'000, stag, 0});
  target.end->feed(long_read.fpdu());
  const std::vector<std::byte> first = target.end->drain(1000);
  target.stream().revoke(stag);
  std::vector<std::byte> all = first;
  const auto rest = target.end->drain();
  all.insert(all.end(), rest.begin(), rest.end());
  const auto answers = ulpdus(all);
  ASSERT_GT(answers.size(), 1U);
  std::uint32_t sent = 0;
  for (std::size_t i = 0; i + 1 < answers.size(); ++i)
    sent += static_cast<std::uint32_t>(answers[i].size() - 14);
  const auto& last = answers.back();
  ASSERT_EQ(last.size(), 18U + 52U);
  EXPECT_EQ(load_be<std::uint16_t>(last.data() + 18), terminate::kRdmapInvalidStag.packed());
  EXPECT_EQ(to_hex(Octets(last).subspan(24, 18)), to_hex(Octets(long_read.ulpdu()).first(18)));
  const auto copy = rdmap::decode_read_request(Octets(last).subspan(42).first<28>());
  EXPECT_EQ(copy, (rdmap::ReadRequest{0xABCD, 0x77, 400'000, stag, 0}.advanced(sent)));
  EXPECT_GT(sent, 0U);
}

// Rules: RFC5040-5.1-05
TEST_F(EngineErrors, Rfc5041_5_2_09_ZeroLengthWriteNamesNoMemory) {
  EXPECT_TRUE(target.answer(Tagged{.stag = 0xDEAD, .to = ~std::uint64_t{0}}.fpdu()).empty());
  EXPECT_FALSE(target.recorder().closed.has_value());
}

// Rules: RFC5040-5.2.1-09, RFC5040-5.2.1-10
TEST_F(EngineErrors, Rfc5040_5_2_1_09_ZeroLengthReadValidatesNothing) {
  const auto answers = target.answer(read_request(1, reading(0xDEAD, ~std::uint64_t{0}, 0)).fpdu());
  ASSERT_EQ(answers.size(), 1U);
  EXPECT_EQ(to_hex(answers[0]), "c1420000abcd0000000000000077");
}

// Rules: RFC5040-4.1-06, RFC5040-4.1-07
TEST_F(EngineErrors, ReservedBitsAreIgnored) {
  EXPECT_TRUE(
      target.answer(Untagged{.ddp_control = 0x7D, .rdmap_control = 0x73, .invalidate = 9, .msn = 2}.fpdu())
          .empty());
  EXPECT_EQ(target.recorder().received.size(), 2U);
}

// Rules: RFC5044-4.1-03
TEST_F(EngineErrors, Rfc5044_4_1_03_PadValueIsIgnored) {
  auto fpdu = Untagged{.msn = 2, .body = pattern(3)}.fpdu();  // 2 + 21 octets: one of padding
  fpdu[fpdu.size() - 5] = std::byte{0xA5};
  store_crc32c(fpdu.data() + fpdu.size() - 4, crc32c(Octets(fpdu).first(fpdu.size() - 4)));
  EXPECT_TRUE(target.answer(fpdu).empty());
  EXPECT_EQ(target.recorder().received.size(), 2U);
}

// Rules: RFC5040-5.4-03
TEST_F(EngineErrors, Rfc5040_5_4_03_TerminateEndsTheStream) {
  target.stream().post({rdma::Send{1, pattern(4), false, std::nullopt}});
  EXPECT_TRUE(
      target
          .answer(Untagged{.rdmap_control = 0x47, .qn = 2, .body = {std::byte{0x12}, std::byte{0x03}, {}, {}}}
                      .fpdu())
          .empty());
  EXPECT_TRUE(target.end->fin);
  target.end->engine.peer_finished();
  target.end->settle();
  ASSERT_TRUE(target.recorder().closed.has_value());
  EXPECT_EQ(target.recorder().closed->kind, CloseReason::Kind::remote_error);
  EXPECT_EQ(target.recorder().closed->terminate, 0x1203);
  ASSERT_EQ(target.recorder().completions.size(), 1U);
  EXPECT_EQ(target.recorder().completions[0].status, rdma::WorkStatus::flushed);
}

// Rules: RFC5040-5.3-08
TEST_F(EngineErrors, Rfc5040_5_3_08_GoodInvalidateRevokes) {
  const auto stag =
      target.stream().register_region({memory, Access::remote_write, Content::octets, 0, true})->stag;
  EXPECT_TRUE(target.answer(Untagged{.rdmap_control = 0x44, .invalidate = stag, .msn = 2}.fpdu()).empty());
  EXPECT_EQ(target.recorder().received.back().invalidated, stag);
  expect(Tagged{.stag = stag, .to = 0, .body = pattern(8)}.ulpdu(), terminate::kDdpTaggedInvalidStag);
}

// --- The sink of our own Reads (G-52) --------------------------------------------------------------------

class EngineSink : public EngineErrors {
 protected:
  EngineSink() : sink(100, std::byte{0x11}) {
    target.stream().post({rdma::Read{1, MutableOctets(sink).first(80), {0x99, 0x500}}});
    const auto requests = ulpdus(target.end->drain());
    EXPECT_EQ(requests.size(), 1U);
    const auto request = rdmap::decode_read_request(Octets(requests.at(0)).subspan(18).first<28>());
    EXPECT_EQ(request.size, 80U);
    EXPECT_EQ(request.source_stag, 0x99U);
    EXPECT_EQ(request.source_to, 0x500U);
    stag = request.sink_stag;
    to = request.sink_to;
  }
  void expect_sink_untouched() const { EXPECT_THAT(sink, testing::Each(std::byte{0x11})); }

  std::vector<std::byte> sink;
  rdma::STag stag = 0;
  std::uint64_t to = 0;
};

TEST_F(EngineSink, TakesTheMatchingResponse) {
  target.answer(
      Tagged{.ddp_control = 0x81, .rdmap_control = 0x42, .stag = stag, .to = to, .body = pattern(50)}.fpdu());
  EXPECT_TRUE(target.recorder().completions.empty());
  target.answer(Tagged{.rdmap_control = 0x42, .stag = stag, .to = to + 50, .body = pattern(30)}.fpdu());
  ASSERT_EQ(target.recorder().completions.size(), 1U);
  EXPECT_EQ(target.recorder().completions[0].status, rdma::WorkStatus::success);
  EXPECT_EQ(to_hex(Octets(sink).first(50)), to_hex(pattern(50)));
}
TEST_F(EngineSink, G52_RefusesAWrite) {
  expect(Tagged{.stag = stag, .to = to, .body = pattern(80)}.ulpdu(), terminate::kDdpTaggedInvalidStag);
  expect_sink_untouched();
}
TEST_F(EngineSink, RefusesAnotherOffset) {
  expect(Tagged{.rdmap_control = 0x42, .stag = stag, .to = to + 1, .body = pattern(79)}.ulpdu(),
         terminate::kDdpTaggedBaseOrBounds);
  expect_sink_untouched();
}
// Rules: RFC5040-5.2.2-04
TEST_F(EngineSink, RefusesMoreThanWasAskedFor) {
  expect(Tagged{.rdmap_control = 0x42, .stag = stag, .to = to, .body = pattern(81)}.ulpdu(),
         terminate::kDdpTaggedBaseOrBounds);
  expect_sink_untouched();
}
TEST_F(EngineSink, AResponseThatNeverEndsCannotWritePastIt) {
  target.answer(
      Tagged{.ddp_control = 0x81, .rdmap_control = 0x42, .stag = stag, .to = to, .body = pattern(80)}.fpdu());
  expect(Tagged{.ddp_control = 0x81, .rdmap_control = 0x42, .stag = stag, .to = to + 80, .body = pattern(8)}
             .ulpdu(),
         terminate::kDdpTaggedBaseOrBounds);
  EXPECT_EQ(sink[80], std::byte{0x11});
}
// Rules: RFC5040-5.2.2-04
TEST_F(EngineSink, AShortResponseIsAnError) {
  expect(Tagged{.rdmap_control = 0x42, .stag = stag, .to = to, .body = pattern(8)}.ulpdu(),
         terminate::kRdmapOperationUnspecified);
  ASSERT_EQ(target.recorder().completions.size(), 1U);
  EXPECT_EQ(target.recorder().completions[0].status, rdma::WorkStatus::flushed);
}
// Rules: RFC5042-6.2.2-01, RFC5042-A-01
TEST_F(EngineSink, IsGoneAfterTheResponse) {
  target.answer(Tagged{.rdmap_control = 0x42, .stag = stag, .to = to, .body = pattern(80)}.fpdu());
  expect(Tagged{.rdmap_control = 0x42, .stag = stag, .to = to, .body = pattern(80)}.ulpdu(),
         terminate::kDdpTaggedInvalidStag);
}

}  // namespace
}  // namespace kbtp::rnic::test
