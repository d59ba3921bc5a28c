// HELLO, HELLO_ACK and COMPLETION beyond their golden octets, and other assignments than the proposed one.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/hex.h"
#include "proto/wire/golden.h"

namespace kbtp::wire {
namespace {

TEST(KbtpHello, P_04_WhateverIsNotAHelloDisconnects) {
  auto octets = encode(Hello{});
  EXPECT_TRUE(decode_hello(octets));
  octets[0] = std::byte{2};
  EXPECT_EQ(decode_hello(octets).error().octet, 0u);
  EXPECT_TRUE(decode_hello(octets).error().disconnects());
  octets[0] = std::byte{1};
  octets[1] = std::byte{3};
  EXPECT_EQ(decode_hello(octets).error().octet, 1u);
  EXPECT_TRUE(decode_hello(octets).error().disconnects());
}

TEST(KbtpHello, DefaultSaysNoPreferenceAndVersion1) {
  const auto hello = decode_hello(encode(Hello{}));
  ASSERT_TRUE(hello);
  EXPECT_EQ(hello->base_handle, ~std::uint64_t{0});
  EXPECT_EQ(hello->min_version, 1);
  EXPECT_EQ(hello->max_version, 1);
  EXPECT_TRUE(hello->identity.is_zero());
}

TEST(KbtpCompletion, LenientReceiversTakeBothLayoutsByLength) {
  const Completion expected =
      std::get<Completion>(*decode_message(*from_hex("01 08 0000 1112131415161718 2122232425262728 3133 0000"
                                                     "00001000 0000010000020000")));
  const auto padded = *from_hex(golden::kPaddedCompletionHex);
  EXPECT_TRUE(decode_completion(padded).error().disconnects());
  EXPECT_EQ(decode_completion(padded).error().octet, 36u);
  EXPECT_EQ(decode_completion(padded, kProposed, Lengths::lenient), expected);

  Assignment alternative = kProposed;
  alternative.completion = kPaddedCompletion;
  EXPECT_EQ(to_hex(encode(expected, alternative)), to_hex(padded));
  EXPECT_EQ(decode_completion(padded, alternative), expected);
  EXPECT_FALSE(decode_completion(encode(expected), alternative));
  EXPECT_EQ(decode_completion(encode(expected), alternative, Lengths::lenient), expected);
}

TEST(KbtpCompletion, G_48_FlagsAreIgnoredAndTold) {
  auto octets = encode(Completion{.request_id = 1});
  octets[3] = std::byte{0x08};
  const auto completion = decode_completion(octets);
  ASSERT_TRUE(completion);
  EXPECT_EQ(completion->flags, 0x0008);
}

TEST(KbtpCompletion, KBTP_5_1_03_AllOfARequestIdComesBack) {
  for (const std::uint64_t id : {std::uint64_t{0}, ~std::uint64_t{0}, std::uint64_t{0x8000000000000001}}) {
    EXPECT_EQ(decode_completion(encode(Completion{.request_id = id}))->request_id, id);
  }
}

TEST(KbtpAssignment, ProposedValuesAreConsistent) {
  const auto result = check(kProposed);
  EXPECT_TRUE(result) << result.error().text;
}

TEST(KbtpAssignment, EveryStatusAndOpcodeHasItsCode) {
  for (std::size_t i = 0; i < kStatusCount; ++i) {
    EXPECT_EQ(kProposed.code(static_cast<Status>(i)), i);
    EXPECT_EQ(kProposed.status(static_cast<std::uint16_t>(i)), static_cast<Status>(i));
    EXPECT_NE(to_string(static_cast<Status>(i)), "?");
  }
  EXPECT_EQ(kProposed.status(18), Status::unassigned);
  for (std::size_t i = 0; i < kOpcodeCount; ++i) {
    EXPECT_EQ(kProposed.opcode(static_cast<std::uint8_t>(i + 1)), static_cast<Opcode>(i));
    EXPECT_NE(to_string(static_cast<Opcode>(i)), "?");
  }
  EXPECT_EQ(kProposed.opcode(0), std::nullopt);
  EXPECT_EQ(kProposed.opcode(9), std::nullopt);
}

TEST(KbtpAssignment, ContradictionsAreFound) {
  const auto broken = [](auto change) {
    Assignment a = kProposed;
    change(a);
    return !check(a).has_value();
  };
  EXPECT_TRUE(broken([](Assignment& a) { a.opcodes[2] = 4; }));
  EXPECT_TRUE(broken([](Assignment& a) { a.opcodes[0] = 0; }));
  EXPECT_TRUE(broken([](Assignment& a) { a.statuses[3] = 2; }));
  EXPECT_TRUE(broken([](Assignment& a) { a.statuses[0] = 100; }));
  EXPECT_TRUE(broken([](Assignment& a) { a.features[1] = 3; }));
  EXPECT_TRUE(broken([](Assignment& a) { a.legal_flags[2] |= bit(Flag::inline_data); }));
  EXPECT_TRUE(broken([](Assignment& a) { a.hello.min_version = 23; }));
  EXPECT_TRUE(broken([](Assignment& a) { a.hello_ack.quota = 65; }));
  EXPECT_TRUE(broken([](Assignment& a) { a.bind.length = 39; }));
  EXPECT_TRUE(broken([](Assignment& a) { a.completion.length = 65; }));
  EXPECT_FALSE(broken([](Assignment& a) { a.completion = kPaddedCompletion; }));
}

TEST(KbtpAssignment, CodecsFollowIt) {
  Assignment other = kProposed;
  std::swap(other.opcodes[static_cast<std::size_t>(Opcode::load)],
            other.opcodes[static_cast<std::size_t>(Opcode::free)]);
  other.statuses[static_cast<std::size_t>(Status::no_space)] = 0x0100;
  other.features[static_cast<std::size_t>(Feature::direct_alloc)] = 0x4000;
  other.bind = BindLayout{.ticket = 32, .data_length = 36, .block_offset = 24, .length = 40};
  ASSERT_TRUE(check(other));

  const auto free = encode(Request(Free{golden::kHead, {}}), other);
  EXPECT_EQ(free[1], std::byte{0x03});
  EXPECT_EQ(opcode(*decode_request(free, Features{}, other)), Opcode::free);

  const auto completion = encode(Completion{.status = Status::no_space}, other);
  EXPECT_EQ(completion[22], std::byte{0x01});
  EXPECT_EQ(decode_completion(completion, other)->status, Status::no_space);

  EXPECT_EQ(other.bits_of(Features{.direct_alloc = true}), 0x4000);
  EXPECT_EQ(other.features_from(0x4004), (Features{.direct_alloc = true, .unassigned = 0x0004}));

  const Bind bind{.head = golden::kHead, .ticket = 1, .data_length = 2, .block_offset = 3};
  const auto octets = encode(Request(bind), other);
  EXPECT_EQ(octets[31], std::byte{3});
  EXPECT_EQ(std::get<Bind>(*decode_request(octets, Features{.direct_alloc = true}, other)), bind);
}

TEST(KbtpTerms, FlagsAndFeaturesAreReadable) {
  EXPECT_EQ(flags_to_string(0), "0");
  EXPECT_EQ(flags_to_string(0x0103), "INLINE|SEAL|0x0100");
  EXPECT_EQ(to_string(Features{.direct_load = true, .unassigned = 0x80}), "DIRECT_LOAD|0x0080");
  EXPECT_EQ(to_string(Features{}), "0");
}

TEST(KbtpWireError, SaysWhatWhereAndTheAnswer) {
  const auto decoded =
      decode_request(*from_hex("01 06 0002 1112131415161718 2122232425262728 3132 0000"), {});
  EXPECT_EQ(decoded.error().to_string(),
            "flag not legal for this opcode at octet 3 (KBTP-5.1-07): INVALID_REQUEST");
}

}  // namespace
}  // namespace kbtp::wire
