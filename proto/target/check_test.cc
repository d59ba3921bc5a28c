// G-15: requests that break exactly one rule each, and the status that step asks for.

#include <gtest/gtest.h>

#include "proto/target/testing.h"

namespace kbtp::target {
namespace {

using testing::pattern;
using testing::RawInitiator;
using testing::small_config;
using testing::World;
using wire::Status;

class CheckOrder : public ::testing::Test {
 protected:
  CheckOrder() {
    EXPECT_EQ(one.hello(3, 8).status, Status::success);
    const auto ack = two.hello(2, 4);
    other_base = ack.base_handle;
    sink = one.expose(memory);
    EXPECT_EQ(one.answer(one.alloc_inline(kUnsealed, pattern(40, 1))).status, Status::success);
    EXPECT_EQ(one.answer(one.alloc_inline(kSealed, pattern(40, 2), true)).status, Status::success);
    EXPECT_EQ(two.answer(two.alloc_inline(other_base, pattern(40, 3), true)).status, Status::success);
  }

  /// Sends the octets, changed by `change`, and expects the session to go on afterwards.
  template <class Change>
  wire::Completion spoiled(const wire::Request& request, Change change) {
    auto octets = wire::encode(request);
    change(octets);
    one.send(std::move(octets));
    const auto completion = one.completion();
    EXPECT_EQ(one.answer(one.probe(kSealed)).status, Status::length_error) << "the session goes on";
    return completion;
  }

  static constexpr std::uint64_t kUnsealed = 0, kSealed = 1, kUnbound = 2;
  std::vector<std::byte> data = pattern(40, 9);
  std::vector<std::byte> memory = std::vector<std::byte>(256);
  World world{small_config()};
  RawInitiator one{world};
  RawInitiator two{world, 1};
  std::uint64_t other_base = 0;
  rdma::Region sink;
};

TEST_F(CheckOrder, Step1_LessThanAHeaderDisconnects) {
  one.send(std::vector<std::byte>(23));
  EXPECT_TRUE(one.ended());
  EXPECT_EQ(one.messages.size(), one.taken) << "no status";
}

TEST_F(CheckOrder, Step2_Version) {
  const auto c = spoiled(one.load(kSealed, sink, 64), [](auto& octets) { octets[0] = std::byte{2}; });
  EXPECT_EQ(c.status, Status::unsupported_version);
  EXPECT_EQ(c.generation, 2) << "P-13";
  EXPECT_EQ(c.data_length, 40u) << "P-13";
}

TEST_F(CheckOrder, Step3_Opcode) {
  const auto c = spoiled(one.load(kSealed, sink, 64), [](auto& octets) { octets[1] = std::byte{0x55}; });
  EXPECT_EQ(c.status, Status::unsupported_opcode);
  EXPECT_EQ(c.generation, 2);
}

TEST_F(CheckOrder, Step3_P04_MessagesOfTheTargetDisconnect) {
  one.send(wire::encode(wire::Completion{}));
  EXPECT_TRUE(one.ended());
}

TEST_F(CheckOrder, Step4_BindWithoutDirectAllocIsAccessDenied) {
  wire::Bind bind;
  bind.head = one.head(kUnbound);
  EXPECT_EQ(one.answer(bind).status, Status::access_denied);
}

TEST_F(CheckOrder, Step5_Flags) {
  const auto c = spoiled(one.free(kSealed), [](auto& octets) { octets[3] |= std::byte{0x02}; });
  EXPECT_EQ(c.status, Status::invalid_request);
}

TEST_F(CheckOrder, Step6_Length) {
  const auto c = spoiled(one.load(kSealed, sink, 64), [](auto& octets) { octets.push_back(std::byte{0}); });
  EXPECT_EQ(c.status, Status::invalid_request);
}

TEST_F(CheckOrder, Step7_P22_SecondRequestWithOneRequestIdIsAnsweredFirst) {
  auto source = pattern(64, 4);
  const auto region = one.expose(source);
  const auto store = one.alloc_read(kUnbound, region, 64);
  auto twin = one.probe(kSealed);
  twin.head.request_id = store.head.request_id;
  one.send(wire::encode(store));
  one.send(wire::encode(twin));
  const auto first = one.completion();
  EXPECT_EQ(first.status, Status::invalid_request);
  EXPECT_EQ(first.handle, kSealed);
  EXPECT_EQ(one.completion().status, Status::success);
}

TEST_F(CheckOrder, Step8_InvisibleHandles) {
  for (const std::uint64_t handle : {std::uint64_t{31}, std::uint64_t{32}, ~std::uint64_t{0}}) {
    const auto c = one.answer(one.probe(handle));
    EXPECT_EQ(c.status, Status::no_such_handle) << handle;
    EXPECT_EQ(c.generation, 0) << "G-16";
    EXPECT_EQ(c.data_length, 0u);
    EXPECT_EQ(one.answer(one.free(handle)).status, Status::no_such_handle) << handle;
  }
}

TEST_F(CheckOrder, Step9_ForeignRange) {
  EXPECT_EQ(one.answer(one.store_inline(other_base, data)).status, Status::not_owner);
  EXPECT_EQ(one.answer(one.alloc_inline(other_base + 1, data)).status, Status::not_owner);
  const auto c = one.answer(one.free(other_base));
  EXPECT_EQ(c.status, Status::not_owner);
  EXPECT_EQ(c.data_length, 40u) << "visible: G-16";
  EXPECT_EQ(one.answer(one.load(other_base, sink, 64)).status, Status::success) << "G-25: LOAD is free";
}

TEST_F(CheckOrder, Step10_BoundState) {
  EXPECT_EQ(one.answer(one.load(kUnbound, sink, 64)).status, Status::not_bound);
  EXPECT_EQ(one.answer(one.store_inline(kUnbound, data)).status, Status::not_bound);
  EXPECT_EQ(one.answer(one.free(kUnbound)).status, Status::not_bound);
  EXPECT_EQ(one.answer(one.alloc_inline(kSealed, data)).status, Status::already_bound);
}

TEST_F(CheckOrder, Step11_Generation) {
  auto load = one.load(kSealed, sink, 64);
  load.head.generation = 7;
  const auto c = one.answer(load);
  EXPECT_EQ(c.status, Status::generation_mismatch);
  EXPECT_EQ(c.generation, 2);
  EXPECT_EQ(one.answer(one.free(kSealed, 7)).status, Status::generation_mismatch);
  auto alloc = one.alloc_inline(kUnbound, data);
  alloc.head.generation = 2;  // the unbound entry has 1 (G-14)
  EXPECT_EQ(one.answer(alloc).status, Status::generation_mismatch);
  alloc = one.alloc_inline(kUnbound, data);
  alloc.head.generation = 1;
  EXPECT_EQ(one.answer(alloc).status, Status::success);
}

TEST_F(CheckOrder, Step12_SealedState) {
  EXPECT_EQ(one.answer(one.load(kUnsealed, sink, 64)).status, Status::not_sealed);
  EXPECT_EQ(one.answer(one.store_inline(kSealed, data)).status, Status::sealed);
}

TEST_F(CheckOrder, Step13_Lengths) {
  EXPECT_EQ(one.answer(one.load(kSealed, sink, 39)).status, Status::length_error);
  EXPECT_EQ(memory, std::vector<std::byte>(256)) << "nothing was written";
  EXPECT_EQ(one.answer(one.store_inline(kUnsealed, pattern(65, 1))).status, Status::length_error);
  EXPECT_EQ(one.answer(one.store_inline(kUnsealed, pattern(97, 1))).status, Status::length_error) << "P-12";
  EXPECT_EQ(one.answer(one.alloc_read(kUnbound, sink, 65)).status, Status::length_error);
}

TEST_F(CheckOrder, Step14_Quota) {
  EXPECT_EQ(one.answer(one.alloc_inline(kUnbound, data)).status, Status::success);
  const auto c = one.answer(one.alloc_inline(kUnbound + 1, data));
  EXPECT_EQ(c.status, Status::no_space);
  EXPECT_EQ(c.generation, 1) << "the entry is as it was (G-21)";
  EXPECT_EQ(one.answer(one.free(kUnbound)).status, Status::success);
  EXPECT_EQ(one.answer(one.alloc_inline(kUnbound + 1, data)).status, Status::success) << "3.4-05";
}

TEST_F(CheckOrder, EarlierStepsWin) {
  // Foreign, unbound, wrong Generation and too long at once: step 9 decides.
  auto store = one.store_inline(other_base + 1, pattern(97, 1));
  store.head.generation = 9;
  EXPECT_EQ(one.answer(store).status, Status::not_owner);
  // Own, bound, wrong Generation, sealed, too long: step 11.
  store = one.store_inline(kSealed, pattern(97, 1));
  store.head.generation = 9;
  EXPECT_EQ(one.answer(store).status, Status::generation_mismatch);
  store = one.store_inline(kSealed, pattern(97, 1));
  EXPECT_EQ(one.answer(store).status, Status::sealed);
}

TEST(CheckOrderWithoutReads, G35_P12_NoResourcesComesLast) {
  World world(small_config());
  rdma::StreamOptions options;
  options.ird = 0;
  RawInitiator one(world, 0, options);
  ASSERT_EQ(one.hello(1, 4).status, Status::success);
  auto source = pattern(64, 1);
  const auto region = one.expose(source);
  EXPECT_EQ(one.answer(one.alloc_read(0, region, 65)).status, Status::length_error);
  EXPECT_EQ(one.answer(one.alloc_read(0, region, 64)).status, Status::no_resources);
  EXPECT_EQ(one.answer(one.alloc_inline(0, source)).status, Status::success) << "the unit was given back";
  EXPECT_EQ(one.answer(one.alloc_read(1, region, 64)).status, Status::no_space);
}

}  // namespace
}  // namespace kbtp::target
