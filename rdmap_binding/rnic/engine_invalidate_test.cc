// Send with Invalidate of STags that something is still under way with: once the upper layer has heard of it,
// the memory is its own, and whatever the peer still asks of it is refused (RFC 5040 5.3, 8.1.1).

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rdmap_binding/rnic/engine_target_rig.h"

namespace kbtp::rnic::test {
namespace {

using rdma::Access;
using rdma::Content;

Untagged invalidate(rdma::STag stag, std::uint32_t msn = 1) {
  return {.rdmap_control = 0x44, .invalidate = stag, .msn = msn, .body = pattern(8)};
}

/// A target with `size` octets behind an STag that the peer may revoke, and its owner taking them back then.
struct Owner {
  explicit Owner(std::size_t size, Content content = Content::octets, bool crc = true)
      : t(MemoryTarget::options(), with(crc)), memory(pattern(size, 3)) {
    stag = t.stream()
               .register_region({memory, Access::remote_read | Access::remote_write, content, 0,
                                 /*remote_invalidate=*/true})
               ->stag;
    t.recorder().when_received = [this](const rdma::Received& received) {
      if (received.invalidated == stag) std::ranges::fill(memory, std::byte{0xEE});
    };
  }
  static RnicOptions with(bool crc) {
    RnicOptions rnic;
    rnic.crc = crc;
    return rnic;
  }
  void expect_untouched() const {
    EXPECT_TRUE(std::ranges::all_of(memory, [](std::byte o) { return o == std::byte{0xEE}; }));
  }

  MemoryTarget t;
  std::vector<std::byte> memory;
  rdma::STag stag = 0;
};

// Rules: RFC5040-5.3-08, RFC5040-8.1.1-06
TEST(EngineInvalidate, AReadThatIsBeingAnsweredStopsAndSaysHowFarItCame) {
  for (const Content content : {Content::octets, Content::stable, Content::shared}) {
    for (const bool crc : {true, false}) {
      SCOPED_TRACE(testing::Message() << int(content) << " " << crc);
      constexpr std::uint32_t kSize = 1'500'000;  // more than a window holds
      Owner o(kSize, content, crc);
      const auto request = read_request(1, {0xABCD, 0x77, kSize, o.stag, 0});
      o.t.target.end->feed(request.fpdu());
      auto octets = o.t.target.end->drain(5000);
      o.t.target.end->feed(invalidate(o.stag).fpdu());
      ASSERT_EQ(o.t.recorder().received.size(), 1U);
      EXPECT_FALSE(o.t.target.host.stags.exists(o.stag));
      const auto rest = o.t.target.end->drain();
      octets.insert(octets.end(), rest.begin(), rest.end());
      auto answers = ulpdus(octets, crc ? mpa::CrcUse::check : mpa::CrcUse::ignore);
      const auto told = terminate_in(answers);
      ASSERT_TRUE(told);
      EXPECT_EQ(to_string(told->code), to_string(terminate::kRdmapInvalidStag));
      answers.pop_back();
      std::vector<std::byte> data;
      for (const auto& answer : answers) data.insert(data.end(), answer.begin() + 14, answer.end());
      ASSERT_LT(data.size(), kSize);
      EXPECT_EQ(data, pattern(data.size(), 3)) << "what went out is what was there before";
      ASSERT_TRUE(told->read_request.has_value());
      EXPECT_EQ(*told->read_request, (rdmap::ReadRequest{0xABCD, 0x77, kSize, o.stag, 0}.advanced(
                                         static_cast<std::uint32_t>(data.size()))));
      EXPECT_EQ(told->ddp_header, to_vector(Octets(request.ulpdu()).first(18)));
      o.expect_untouched();
    }
  }
}

// Rules: RFC5040-5.3-08
TEST(EngineInvalidate, ReadsThatWaitForTheirTurnAreRefusedInOrder) {
  Owner o(64);
  // One of other memory, one of nothing, one of the STag that goes; and one behind, which is not answered.
  o.t.target.end->feed(
      joined({read_request(1, reading(o.t.readable, kBase, 8)).fpdu(),
              read_request(2, {0xABCD, 0x77, 0, o.stag, 0}).fpdu(),
              read_request(3, {0xABCD, 0x77, 8, o.stag, 0}).fpdu(),
              read_request(4, reading(o.t.readable, kBase, 8)).fpdu(), invalidate(o.stag).fpdu()}));
  const auto answers = o.t.target.drained();
  ASSERT_EQ(answers.size(), 3U);
  EXPECT_EQ(answers[0].size(), 14U + 8U);
  EXPECT_EQ(answers[1].size(), 14U);
  const auto told = terminate_in(answers);
  ASSERT_TRUE(told);
  EXPECT_EQ(to_string(told->code), to_string(terminate::kRdmapInvalidStag));
  EXPECT_EQ(load_be<std::uint32_t>(told->ddp_header.data() + 10), 3U) << "MSN of the one that failed";
  o.expect_untouched();
}

// Rules: RFC5040-5.3-08, RFC5041-8.3.1-06
TEST(EngineInvalidate, WritesBehindItFindNothing) {
  for (const bool crc : {true, false}) {
    Owner o(20'000, Content::octets, crc);
    const auto large = Tagged{.ddp_control = 0x81, .stag = o.stag, .body = pattern(9000)}.fpdu();
    const auto told = o.t.told(joined({large, invalidate(o.stag).fpdu(),
                                       Tagged{.stag = o.stag, .to = 9000, .body = pattern(9000)}.fpdu()}));
    ASSERT_TRUE(told);
    EXPECT_EQ(to_string(told->code), to_string(terminate::kDdpTaggedInvalidStag));
    o.expect_untouched();
  }
}

/// An Atomic's STag can be revoked by a peer too; what it had asked for before is then not done.
// Rules: RFC5040-5.3-08
TEST(EngineInvalidate, AnAtomicThatIsNotAnsweredIsNotDone) {
  MemoryTarget t;
  const auto stag = t.stream()
                        .register_region({std::as_writable_bytes(std::span(t.words)), Access::remote_atomic,
                                          Content::words, 0, true})
                        ->stag;
  const auto told =
      t.told(joined({atomic_request(1, {rdmap::AtomicOpcode::fetch_add, 1, stag, 0, 1, 0}).fpdu(),
                     invalidate(stag).fpdu()}));
  ASSERT_TRUE(told);
  EXPECT_EQ(to_string(told->code), to_string(terminate::kRdmapInvalidStag));
  EXPECT_FALSE(told->control.rdma_header);
  EXPECT_THAT(t.words, testing::Each(7U));
  EXPECT_EQ(t.recorder().received.size(), 1U);
}

// Rules: RFC5040-5.3-08
TEST(EngineInvalidate, OnlyADeliveredMessageRevokes) {
  {  // unfinished
    Owner o(64);
    auto first = invalidate(o.stag);
    first.ddp_control = 0x01;
    EXPECT_TRUE(o.t.answer(first.fpdu()).empty());
    EXPECT_TRUE(o.t.target.host.stags.exists(o.stag));
    auto second = invalidate(o.stag);
    second.mo = 8;
    EXPECT_TRUE(o.t.answer(second.fpdu()).empty());
    EXPECT_FALSE(o.t.target.host.stags.exists(o.stag));
  }
  {  // refused
    auto options = MemoryTarget::options();
    options.initial_receives = 0;
    MemoryTarget t(options);
    EXPECT_TRUE(t.told(invalidate(t.open).fpdu()));
    EXPECT_TRUE(t.target.host.stags.exists(t.open)) << "until the stream has ended";
    EXPECT_TRUE(t.recorder().received.empty());
  }
}

// Rules: RFC5040-5.3-08, RFC5040-7.2-04
TEST(EngineInvalidate, TheSecondTimeThereIsNothingToRevoke) {
  Owner o(64);
  const auto told = o.t.told(joined({invalidate(o.stag).fpdu(), invalidate(o.stag, 2).fpdu()}));
  ASSERT_TRUE(told);
  EXPECT_EQ(to_string(told->code), to_string(terminate::kRdmapStagCannotBeInvalidated));
  EXPECT_EQ(o.t.recorder().received.size(), 1U);
}

}  // namespace
}  // namespace kbtp::rnic::test
