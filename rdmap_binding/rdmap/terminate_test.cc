#include "rdmap_binding/rdmap/terminate.h"

#include <gtest/gtest.h>

#include "base/hex.h"
#include "rdmap_binding/rdmap/golden.h"

namespace kbtp::rdmap {
namespace {

std::vector<std::byte> octets_of(std::string_view hex) { return from_hex(hex).value(); }

std::string_view golden_hex(std::string_view name) {
  for (const auto& golden : golden::kMessages) {
    if (golden.name == name) return golden.hex;
  }
  return {};
}

/// A golden Terminate without its own DDP header.
std::string terminate_header(std::string_view name) {
  return to_hex(Octets(octets_of(golden_hex(name))).subspan(ddp::kUntaggedHeaderSize));
}

// Rules: RFC5040-4.8-03
TEST(Terminate, Rfc5040_4_8_03_DdpErrorOnTaggedShowsThatHeader) {
  const auto write = octets_of(golden_hex("rdma_write"));
  const auto offender = make_offender(write, write.size());
  EXPECT_EQ(to_hex(make_terminate(terminate::kDdpTaggedBaseOrBounds, offender).octets()),
            terminate_header("terminate_tagged_base_or_bounds"));
}

// Rules: RFC5040-4.8-03
TEST(Terminate, Rfc5040_4_8_03_DdpErrorOnUntaggedShowsThatHeader) {
  const auto send = octets_of(golden_hex("send"));
  EXPECT_EQ(
      to_hex(make_terminate(terminate::kDdpUntaggedNoBuffer, make_offender(send, send.size())).octets()),
      terminate_header("terminate_untagged_no_buffer"));
}

// Rules: RFC5040-7.1-04
TEST(Terminate, Rfc5040_7_1_04_ProtectionErrorOnAReadRequestShowsBothHeaders) {
  const auto request = octets_of(golden_hex("read_request"));
  EXPECT_EQ(
      to_hex(make_terminate(terminate::kRdmapAccessRights, make_offender(request, request.size())).octets()),
      terminate_header("terminate_read_request_access_rights"));
}

// Rules: RFC5040-4.8-03, RFC5040-4.8-08, RFC5040-7.1-02
TEST(Terminate, Rfc5040_4_8_03_LlpAndLocalErrorsShowNothing) {
  const auto send = octets_of(golden_hex("send"));
  const auto offender = make_offender(send, send.size());
  EXPECT_EQ(to_hex(make_terminate(terminate::kMpaCrcError, offender).octets()),
            terminate_header("terminate_crc_error"));
  EXPECT_EQ(to_hex(make_terminate(terminate::kRdmapLocalCatastrophic, offender).octets()), "00000000");
  EXPECT_EQ(to_hex(make_terminate(terminate::kDdpLocalCatastrophic, offender).octets()), "10000000");
}

// Rules: RFC5040-4.8-02, RFC5040-4.8-03, RFC5040-4.8-05, RFC5040-4.8-06, RFC5040-4.8-07, RFC5040-4.8-08
TEST(Terminate, Rfc5040_Figure10_OnlyAProtectionErrorShowsTheReadRequest) {
  const auto request = octets_of(golden_hex("read_request"));
  const auto offender = make_offender(request, request.size());
  for (const auto& row : terminate::kRows) {
    const auto terminate_octets = make_terminate(row.code, offender);
    const auto message = decode_terminate(terminate_octets.octets());
    ASSERT_TRUE(message.has_value());
    EXPECT_EQ(message->code(), row.code);
    const bool protection = row.code.layer == 0 && row.code.error_type == 1;
    const bool shows = row.code.layer != 2 && row.code.error_type != 0;
    EXPECT_EQ(message->control.rdma_header, protection) << to_string(row.code);
    EXPECT_EQ(message->control.ddp_header, shows) << to_string(row.code);
    EXPECT_EQ(message->control.length_valid, shows) << to_string(row.code);
    EXPECT_EQ(terminate_octets.octets().size(), protection ? 52u : shows ? 24u : 4u);
  }
}

TEST(Terminate, Rfc7306_8_1_02_AnAtomicsProtectionErrorShowsNoRdmaHeader) {
  const auto request = octets_of(golden_hex("atomic_request_fetch_add"));
  const auto offender = make_offender(request, request.size());
  const auto terminate_octets = make_terminate(terminate::kRdmapInvalidStag, offender);
  const auto message = decode_terminate(terminate_octets.octets());
  EXPECT_FALSE(message->control.rdma_header);
  EXPECT_EQ(to_hex(message->ddp_header), to_hex(Octets(request).first(18)));
  EXPECT_EQ(message->segment_length, 70);
}

// Rules: RFC5040-4.8-07
TEST(Terminate, Rfc5040_4_8_07_ReadRequestIsShownAdvanced) {
  const ReadRequest request{1, 0x1000, 5000, 2, 0xFFFFFFFFFFFFFF00};
  EXPECT_EQ(request.advanced(2048), (ReadRequest{1, 0x1800, 2952, 2, 0x700}));
  EXPECT_EQ(request.advanced(0), request);
}

TEST(Terminate, OffenderOfAHalfHeaderShowsNothing) {
  const auto send = octets_of(golden_hex("send"));
  const auto offender = make_offender(Octets(send).first(17), 17);
  EXPECT_TRUE(offender.ddp_header.empty());
  EXPECT_EQ(make_terminate(terminate::kDdpUntaggedInvalidQn, offender).octets().size(), 4u);
}

TEST(Terminate, OffenderTakesAReadRequestOnlyWhole) {
  const auto request = octets_of(golden_hex("read_request"));
  EXPECT_TRUE(make_offender(request, request.size()).read_request.has_value());
  EXPECT_FALSE(make_offender(Octets(request).first(18), request.size()).read_request.has_value());
  EXPECT_FALSE(make_offender(Octets(request).first(45), 45).read_request.has_value());
}

TEST(Terminate, EveryCombinationOfBitsIsReadByTheLengthLeft) {
  const ReadRequest request = golden::kReadRequest;
  const auto tagged = octets_of("c1401a2b3c4d0000000100000010");
  const auto untagged = octets_of("414300000000000000000000000100000000");
  for (unsigned bits = 0; bits < 8; ++bits) {
    for (const auto& header : {tagged, untagged}) {
      Terminate message;
      message.control = {terminate::kRdmapBaseOrBounds, (bits & 4) != 0, (bits & 2) != 0, (bits & 1) != 0};
      if (message.control.length_valid || message.control.ddp_header) message.segment_length = 0x0102;
      if (message.control.ddp_header) message.ddp_header = header;
      if (message.control.rdma_header) message.read_request = request;
      const auto encoded = encode_terminate(message);
      std::vector<std::byte> octets = to_vector(encoded.octets());
      for (std::size_t n = 0; n < octets.size(); ++n) {
        EXPECT_FALSE(decode_terminate(Octets(octets).first(n)).has_value()) << bits << " cut at " << n;
      }
      octets.push_back(std::byte{0});
      const auto decoded = decode_terminate(octets);
      ASSERT_TRUE(decoded.has_value()) << bits;
      EXPECT_EQ(decoded->control, message.control);
      EXPECT_EQ(decoded->segment_length, message.segment_length);
      EXPECT_EQ(to_hex(decoded->ddp_header), to_hex(message.ddp_header));
      EXPECT_EQ(decoded->read_request, message.read_request);
      EXPECT_EQ(decoded->rest.size(), 1u);
    }
  }
}

TEST(Terminate, SiwLayoutIsReadOnRequest) {
  const auto octets = octets_of("21 03 03 00");  // DDP, Untagged, MSN range, with length and DDP header
  const auto control = decode_siw_terminate_control(Octets(octets).first<4>());
  EXPECT_EQ(control, (TerminateControl{terminate::kDdpUntaggedMsnRange, true, true, false}));
  const auto rfc = octets_of("12 03 c0 00");
  EXPECT_EQ(decode_terminate_control(Octets(rfc).first<4>()), control);
}

TEST(Terminate, SizesOfWholeMessages) {
  // RFC 5040 4.8 with the 18 octets of its own DDP header: 22, 38, 42, 70.
  EXPECT_EQ(octets_of(golden_hex("terminate_crc_error")).size(), 22u);
  EXPECT_EQ(octets_of(golden_hex("terminate_tagged_base_or_bounds")).size(), 38u);
  EXPECT_EQ(octets_of(golden_hex("terminate_untagged_no_buffer")).size(), 42u);
  EXPECT_EQ(octets_of(golden_hex("terminate_read_request_access_rights")).size(), 70u);
}

}  // namespace
}  // namespace kbtp::rdmap
