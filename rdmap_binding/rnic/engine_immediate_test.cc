// Immediate Data of RFC 7306 6: alone and behind a Write, with and without Solicited Event.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/hex.h"
#include "rdmap_binding/rnic/engine_target_rig.h"

namespace kbtp::rnic::test {
namespace {

using rdma::Access;
using rdma::Content;
using rdma::WorkStatus;

Untagged immediate(std::uint32_t msn, std::uint64_t data, std::uint8_t rdmap_control = 0x48) {
  const auto body = rdmap::encode(rdmap::Immediate{data});
  return {.rdmap_control = rdmap_control, .msn = msn, .body = to_vector(body)};
}

// Rules: RFC7306-6.3-04, RFC7306-6.4-01, RFC7306-4.2-01, RFC7306-4.1-01
TEST(EngineImmediate, OursAreAsWrittenAndInTheOrderPosted) {
  Pair pair;
  pair.run();
  const auto source = pattern(3);
  pair.a->recorder.stream->post({rdma::Immediate{1, 0x0102'0304'0506'0708},
                                 rdma::Send{2, pattern(1), false, std::nullopt}, rdma::Immediate{3, 9, true},
                                 rdma::WriteImmediate{{4, source, {0xAB, 0x10}, nullptr}, 10, false},
                                 rdma::WriteImmediate{{5, {}, {0, 0}, nullptr}, 11, true}});
  const auto out = ulpdus(pair.a->drain());
  ASSERT_EQ(out.size(), 7U);
  EXPECT_EQ(to_hex(out[0]), "4148000000000000000000000001000000000102030405060708");
  EXPECT_EQ(to_hex(out[1]),
            "414300000000000000000000000200000000"
            "00");
  EXPECT_EQ(to_hex(out[2]), "4149000000000000000000000003000000000000000000000009");
  EXPECT_EQ(to_hex(out[3]), "c140000000ab0000000000000010" + to_hex(source));
  EXPECT_EQ(to_hex(out[4]), "414800000000000000000000000400000000000000000000000a");
  EXPECT_EQ(to_hex(out[5]), "c140000000000000000000000000");
  EXPECT_EQ(to_hex(out[6]), "414900000000000000000000000500000000000000000000000b");
  ASSERT_EQ(pair.a->recorder.completions.size(), 5U);
  for (std::uint64_t i = 0; i < 5; ++i) {
    EXPECT_EQ(pair.a->recorder.completions[i].id, i + 1);
    EXPECT_EQ(pair.a->recorder.completions[i].status, WorkStatus::success);
  }
}

// Rules: RFC7306-6.1-01, RFC7306-6.4-01, RFC7306-6.3-03
TEST(EngineImmediate, TheUpperLayerIsToldTheOctetsTheEventAndFindsTheWriteInPlace) {
  for (const bool crc : {true, false}) {
    for (const std::size_t size : {std::size_t{0}, std::size_t{1}, std::size_t{5000}, std::size_t{70'000}}) {
      SCOPED_TRACE(testing::Message() << crc << " " << size);
      RnicOptions rnic;
      rnic.crc = crc;
      Pair pair({}, {}, rnic, rnic);
      pair.emss = size > 10'000 ? 65'483 : kEmss;
      pair.run();
      auto& b = *pair.b->recorder.stream;
      b.post_receives(10);
      std::vector<std::byte> memory(size);
      const auto stag = b.register_region({memory, Access::remote_write, Content::octets, 0, false})->stag;
      const auto source = pattern(size, 4);
      std::vector<bool> in_place;
      pair.b->recorder.when_received = [&](const rdma::Received&) { in_place.push_back(memory == source); };
      pair.a->recorder.stream->post({rdma::WriteImmediate{{1, source, {stag, 0}, nullptr}, 77, size % 2 == 1},
                                     rdma::Immediate{2, 78, size % 2 == 0}});
      pair.run();
      ASSERT_EQ(pair.b->recorder.received.size(), 2U);
      EXPECT_THAT(in_place, testing::Each(true));
      EXPECT_EQ(pair.b->recorder.received[0].immediate, 77U);
      EXPECT_EQ(pair.b->recorder.received[0].solicited, size % 2 == 1);
      EXPECT_EQ(pair.b->recorder.received[1].immediate, 78U);
      EXPECT_EQ(pair.b->recorder.received[1].solicited, size % 2 == 0);
      EXPECT_TRUE(pair.b->recorder.received[1].payload.empty());
      EXPECT_EQ(pair.a->recorder.completions.size(), 2U);
    }
  }
}

// Rules: RFC7306-6.3-02
TEST(EngineImmediate, EachTakesOneReceiveAndAWriteNone) {
  auto options = MemoryTarget::options();
  options.initial_receives = 3;
  MemoryTarget t(options);
  EXPECT_TRUE(t.answer(joined({immediate(1, 1).fpdu(),
                               Tagged{.stag = t.writable, .to = kBase, .body = pattern(8)}.fpdu(),
                               immediate(2, 2, 0x49).fpdu(), Untagged{.msn = 3, .body = pattern(5)}.fpdu()}))
                  .empty());
  EXPECT_EQ(t.recorder().received.size(), 3U);
  const auto told = t.told(immediate(4, 4).fpdu());
  ASSERT_TRUE(told);
  EXPECT_EQ(to_string(told->code), to_string(terminate::kDdpUntaggedNoBuffer));
  EXPECT_EQ(t.recorder().received.size(), 3U);
}

// Rules: RFC7306-6.3-03, RFC7306-6.4-01
TEST(EngineImmediate, TheyAreDeliveredInOneOrderWithSends) {
  auto options = MemoryTarget::options();
  options.initial_receives = 100;
  MemoryTarget t(options);
  std::vector<std::byte> octets;
  for (std::uint32_t msn = 1; msn <= 60; ++msn) {
    if (msn % 3 == 0) {
      octets = joined({octets, Untagged{.msn = msn, .body = pattern(msn)}.fpdu()});
    } else {
      octets = joined({octets, immediate(msn, msn, msn % 3 == 1 ? 0x48 : 0x49).fpdu()});
    }
  }
  t.target.end->feed(octets, 100);
  ASSERT_EQ(t.recorder().received.size(), 60U);
  for (std::uint32_t msn = 1; msn <= 60; ++msn) {
    const Message& message = t.recorder().received[msn - 1];
    EXPECT_EQ(message.immediate, msn % 3 == 0 ? std::nullopt : std::optional<std::uint64_t>(msn));
    EXPECT_EQ(message.payload, pattern(msn % 3 == 0 ? msn : 0));
    EXPECT_EQ(message.solicited, msn % 3 == 2);
  }
}

// Rules: RFC7306-4.1-03
TEST(EngineImmediate, TheInvalidateStagIsNotLookedAt) {
  MemoryTarget t;
  auto message = immediate(1, 5);
  message.invalidate = t.open;
  EXPECT_TRUE(t.answer(message.fpdu()).empty());
  ASSERT_EQ(t.recorder().received.size(), 1U);
  EXPECT_FALSE(t.recorder().received[0].invalidated.has_value());
  EXPECT_TRUE(t.target.host.stags.exists(t.open));
}

// Rules: RFC7306-6.3-05, RFC7306-6.1-01, RFC7306-8.1-02
TEST(EngineImmediate, OneThatFailsEndsTheStreamAndIsNotDelivered) {
  for (const std::size_t size : {0U, 7U, 9U, 16U}) {
    MemoryTarget t;
    auto message = immediate(1, 5);
    message.body.resize(size);
    const auto told = t.told(message.fpdu());
    ASSERT_TRUE(told);
    EXPECT_EQ(to_string(told->code), to_string(terminate::kRdmapOperationUnspecified));
    EXPECT_TRUE(told->control.ddp_header);
    EXPECT_FALSE(told->control.rdma_header);
    EXPECT_TRUE(t.recorder().received.empty());
  }
  // Behind a Write that is refused it is not delivered either.
  MemoryTarget t;
  const auto told = t.told(
      joined({Tagged{.stag = t.readable, .to = kBase, .body = pattern(8)}.fpdu(), immediate(1, 5).fpdu()}));
  ASSERT_TRUE(told);
  EXPECT_EQ(to_string(told->code), to_string(terminate::kDdpTaggedInvalidStag));
  EXPECT_TRUE(t.recorder().received.empty());
}

}  // namespace
}  // namespace kbtp::rnic::test
