// The REQ of a kernel's rping (IBTA Volume 1, 12.6.5), and what a MAD that is no CM message yields.

#include "ib_binding/wire/cm.h"

#include <gtest/gtest.h>

#include "base/hex.h"

namespace kbtp::ib {
namespace {

std::vector<std::byte> request() {
  auto mad = from_hex(R"(
    01 07 02 03 0000 0000 000000022e03efdd 0010 0000 00000000  # MAD header: CM, Send, attribute REQ
    ddef032e 00000000 0000000001061c06 505400fffe000001        # ids, Service ID of TCP port 7174, CA GUID
    00000000 00000000 000011 01 000000 01 000000 a0            # QPN 0x11, 1 responder resource, depth 1
    ac0f62 a7 ffff 37 f0 ffff ffff                             # PSN, retry 7, P_Key, MTU 3, RNR retry 7
    00000000000000000000ffff0a090001 00000000000000000000ffff0a090002
    004b920b 00 40 00 98)")
                 .value();
  mad.resize(kMadHeaderSize + 140);
  const auto ip =
      from_hex("00 40 aa3b 000000000000000000000000 0a090001 000000000000000000000000 0a090002 77").value();
  mad.insert(mad.end(), ip.begin(), ip.end());
  mad.resize(kMadSize);
  return mad;
}

TEST(CmMessage, RequestOfRping) {
  const auto mad = request();
  const auto message = decode_cm(mad);
  ASSERT_TRUE(message);
  EXPECT_EQ(message->kind, CmKind::connect_request);
  EXPECT_EQ(message->transaction, 0x22E03EFDDU);
  EXPECT_EQ(message->local_id, 0xDDEF032EU);
  EXPECT_EQ(message->qp, 0x11U);
  EXPECT_EQ(message->starting_psn, 0xAC0F62U);
  EXPECT_EQ(message->responder_resources, 1);
  EXPECT_EQ(message->initiator_depth, 1);
  EXPECT_EQ(message->retry_count, 7);
  EXPECT_EQ(message->rnr_retry_count, 7);
  EXPECT_EQ(message->path_mtu, 3);
  ASSERT_TRUE(message->ip);
  EXPECT_EQ(message->ip->version, 4);
  EXPECT_EQ(message->ip->protocol, 6);
  EXPECT_EQ(message->ip->source_port, 0xAA3B);
  EXPECT_EQ(message->ip->destination_port, 7174);
  EXPECT_EQ(message->ip->source[12], std::byte{10});
  EXPECT_EQ(message->private_data.size(), 92U - kIpAddressingSize);
  EXPECT_EQ(message->private_data[0], std::byte{0x77});
}

TEST(CmMessage, PrivateDataOfEachKindFillsTheMad) {
  const std::vector<std::pair<CmKind, std::size_t>> sizes{
      {CmKind::message_received, 222}, {CmKind::connect_reject, 148},     {CmKind::connect_reply, 196},
      {CmKind::ready_to_use, 224},     {CmKind::disconnect_request, 220}, {CmKind::disconnect_reply, 224}};
  for (const auto& [kind, size] : sizes) {
    auto mad = request();
    store_be(mad.data() + 16, static_cast<std::uint16_t>(kind));
    const auto message = decode_cm(mad);
    ASSERT_TRUE(message);
    EXPECT_EQ(message->private_data.size(), size) << to_string(kind);
  }
}

TEST(CmMessage, RejectReasonIsToldInWords) {
  auto mad = request();
  store_be<std::uint16_t>(mad.data() + 16, 0x12);
  store_be<std::uint16_t>(mad.data() + kMadHeaderSize + 10, 28);
  const auto message = decode_cm(mad);
  ASSERT_TRUE(message);
  EXPECT_EQ(describe_reject(*message->reject_reason), "rejected by the consumer");
}

TEST(CmMessage, AnyOtherMadIsNone) {
  auto mad = request();
  EXPECT_FALSE(decode_cm(Octets(mad).first(kMadSize - 1)));
  mad[1] = std::byte{0x03};  // subnet administration
  EXPECT_FALSE(decode_cm(mad));
  mad = request();
  store_be<std::uint16_t>(mad.data() + 16, 0x17);  // SIDR_REQ
  EXPECT_FALSE(decode_cm(mad));
}

TEST(CmMessage, OfAnotherServiceHasNoIpAddressing) {
  auto mad = request();
  mad[kMadHeaderSize + 8] = std::byte{0x10};
  const auto message = decode_cm(mad);
  ASSERT_TRUE(message);
  EXPECT_FALSE(message->ip);
  EXPECT_EQ(message->private_data.size(), 92U);
}

}  // namespace
}  // namespace kbtp::ib
