// Golden octets of RDMAP: one or more whole ULPDUs for each message of RFC 5040 and RFC 7306, written out by
// hand from the figures (DDP header included), with what they mean, and ULPDUs that are refused, with the
// answer. For tests, fuzz seeds, the dissector's tests and the comparison with tshark; no product code uses
// it. Hex for from_hex() (base/hex.h), which skips the comments.

#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>
#include <variant>

#include "base/hex.h"
#include "rdmap_binding/rdmap/segment.h"

namespace kbtp::rdmap::golden {

/// A Terminate with its copies as hex.
struct TerminateValue {
  TerminateControl control;
  std::uint16_t segment_length = 0;
  std::string_view ddp_header_hex;
  std::optional<ReadRequest> read_request;
  std::string_view rest_hex;
};

using Value =
    std::variant<std::string_view, ReadRequest, Immediate, AtomicRequest, AtomicResponse, TerminateValue>;

struct Message {
  std::string_view name;
  std::string_view hex;
  Opcode opcode;
  ddp::Header ddp;
  Value value;  ///< a string is the payload's text
  /// Set when some bits are ones that a receiver ignores and our encoder therefore sends as zero.
  bool has_ignored_bits = false;
};

inline constexpr std::uint64_t kAllOnes = ~std::uint64_t{0};
inline constexpr ReadRequest kReadRequest{0x11111111, 0x1000, 16, 0x22222222, 0xFFFFFFFF00000000};

inline constexpr std::array<Message, 27> kMessages{{
    {"rdma_write",
     R"(c1 40                  # DDP T L DV=1; RV=1, opcode 0
        1a2b3c4d               # STag
        0000000100000010       # TO
        61626364)",
     Opcode::rdma_write, ddp::TaggedHeader{true, 0, 1, 0x40, 0x1A2B3C4D, 0x100000010}, "abcd"},
    {"rdma_write_middle", "81 40 1a2b3c4d 0000000100000014 65 # L=0", Opcode::rdma_write,
     ddp::TaggedHeader{false, 0, 1, 0x40, 0x1A2B3C4D, 0x100000014}, "e"},
    {"rdma_write_zero_length", "c1 40 00000000 0000000000000000", Opcode::rdma_write,
     ddp::TaggedHeader{true, 0, 1, 0x40, 0, 0}, ""},
    {"read_request",
     R"(41 41 00000000         # DDP L DV=1; RV=1, opcode 1; RsvdULP
        00000001 00000007 00000000 # QN 1, MSN 7, MO 0
        11111111               # SinkSTag
        0000000000001000       # SinkTO
        00000010               # RDMARDSZ 16
        22222222               # SrcSTag
        ffffffff00000000       # SrcTO)",
     Opcode::read_request, ddp::UntaggedHeader{true, 0, 1, 0x41, 0, 1, 7, 0}, kReadRequest},
    {"read_request_zero_length",
     R"(41 41 00000000 00000001 00000001 00000000
        00000001 0000000000000000 00000000 00000001 ffffffffffffffff)",
     Opcode::read_request, ddp::UntaggedHeader{true, 0, 1, 0x41, 0, 1, 1, 0},
     ReadRequest{1, 0, 0, 1, kAllOnes}},
    {"read_response", "c1 42 11111111 0000000000001000 30313233343536373839616263646566",
     Opcode::read_response, ddp::TaggedHeader{true, 0, 1, 0x42, 0x11111111, 0x1000}, "0123456789abcdef"},
    {"read_response_zero_length", "c1 42 00000001 0000000000000000", Opcode::read_response,
     ddp::TaggedHeader{true, 0, 1, 0x42, 1, 0}, ""},
    {"send", "41 43 00000000 00000000 00000001 00000000 68656c6c6f", Opcode::send,
     ddp::UntaggedHeader{true, 0, 1, 0x43, 0, 0, 1, 0}, "hello"},
    {"send_zero_length", "41 43 00000000 00000000 00000001 00000000", Opcode::send,
     ddp::UntaggedHeader{true, 0, 1, 0x43, 0, 0, 1, 0}, ""},
    {"send_first_of_two", "01 43 00000000 00000000 00000002 00000000 616263", Opcode::send,
     ddp::UntaggedHeader{false, 0, 1, 0x43, 0, 0, 2, 0}, "abc"},
    {"send_second_of_two", "41 43 00000000 00000000 00000002 00000003 646566", Opcode::send,
     ddp::UntaggedHeader{true, 0, 1, 0x43, 0, 0, 2, 3}, "def"},
    {"send_ignored_stag_and_reserved_bits",
     "7d 73 deadbeef 00000000 00000001 00000000 21 # DDP Rsvd=Fh, RDMAP Rsvd=3, Invalidate STag of no "
     "meaning",
     Opcode::send, ddp::UntaggedHeader{true, 0xF, 1, 0x73, 0xDEADBEEF, 0, 1, 0}, "!"},
    {"send_with_invalidate", "41 44 cafe0001 00000000 00000003 00000000 6f6b", Opcode::send_invalidate,
     ddp::UntaggedHeader{true, 0, 1, 0x44, 0xCAFE0001, 0, 3, 0}, "ok"},
    {"send_with_se", "41 45 00000000 00000000 ffffffff 00000000 6f6b", Opcode::send_se,
     ddp::UntaggedHeader{true, 0, 1, 0x45, 0, 0, 0xFFFFFFFF, 0}, "ok"},
    {"send_with_se_and_invalidate", "41 46 cafe0002 00000000 00000000 00000000 6f6b",
     Opcode::send_se_invalidate, ddp::UntaggedHeader{true, 0, 1, 0x46, 0xCAFE0002, 0, 0, 0}, "ok"},
    {"terminate_crc_error",
     R"(41 47 00000000 00000002 00000001 00000000 # QN 2, MSN 1, MO 0
        20 02 0000                                # LLP, MPA, CRC error; M=D=R=0)",
     Opcode::terminate, ddp::UntaggedHeader{true, 0, 1, 0x47, 0, 2, 1, 0},
     TerminateValue{{terminate::kMpaCrcError, false, false, false}, 0, "", std::nullopt, ""}},
    {"terminate_tagged_base_or_bounds",
     R"(41 47 00000000 00000002 00000001 00000000
        11 01 c000                                # DDP, Tagged, base or bounds; M=1 D=1 R=0
        0012                                      # DDP Segment Length 18
        c1 40 1a2b3c4d 0000000100000010           # the Write's header)",
     Opcode::terminate, ddp::UntaggedHeader{true, 0, 1, 0x47, 0, 2, 1, 0},
     TerminateValue{{terminate::kDdpTaggedBaseOrBounds, true, true, false},
                    18,
                    "c1401a2b3c4d0000000100000010",
                    std::nullopt,
                    ""}},
    {"terminate_untagged_no_buffer",
     R"(41 47 00000000 00000002 00000001 00000000
        12 02 c000                                # DDP, Untagged, no buffer; M=1 D=1 R=0
        0017                                      # DDP Segment Length 23
        41 43 00000000 00000000 00000001 00000000 # the Send's header)",
     Opcode::terminate, ddp::UntaggedHeader{true, 0, 1, 0x47, 0, 2, 1, 0},
     TerminateValue{{terminate::kDdpUntaggedNoBuffer, true, true, false},
                    23,
                    "414300000000000000000000000100000000",
                    std::nullopt,
                    ""}},
    {"terminate_read_request_access_rights",
     R"(41 47 00000000 00000002 00000001 00000000
        01 02 e000                                # RDMAP, Protection, access rights; M=1 D=1 R=1
        002e                                      # DDP Segment Length 46
        41 41 00000000 00000001 00000007 00000000 # the Read Request's DDP header
        11111111 0000000000001000 00000010 22222222 ffffffff00000000 # and its RDMAP header)",
     Opcode::terminate, ddp::UntaggedHeader{true, 0, 1, 0x47, 0, 2, 1, 0},
     TerminateValue{{terminate::kRdmapAccessRights, true, true, true},
                    46,
                    "414100000000000000010000000700000000",
                    kReadRequest,
                    ""}},
    {"terminate_reserved_bits_and_padding",
     R"(41 47 00000000 00000002 00000001 00000000
        00 00 1fff                                # RDMAP, Local Catastrophic; M=D=R=0, Reserved all ones
        0000000000000000                          # a peer that sets unused fields to zero)",
     Opcode::terminate, ddp::UntaggedHeader{true, 0, 1, 0x47, 0, 2, 1, 0},
     TerminateValue{
         {terminate::kRdmapLocalCatastrophic, false, false, false}, 0, "", std::nullopt, "0000000000000000"},
     true},
    {"terminate_length_only",
     R"(41 47 00000000 00000002 00000001 00000000
        02 06 8000 0020                           # RDMAP, Operation, unexpected opcode; M=1; length 32)",
     Opcode::terminate, ddp::UntaggedHeader{true, 0, 1, 0x47, 0, 2, 1, 0},
     TerminateValue{{terminate::kRdmapUnexpectedOpcode, true, false, false}, 32, "", std::nullopt, ""}},
    {"terminate_header_without_length",
     R"(41 47 00000000 00000002 00000001 00000000
        02 05 4000 0000                           # invalid RDMAP version; D=1 alone: length there, not valid
        c1 00 1a2b3c4d 0000000100000010)",
     Opcode::terminate, ddp::UntaggedHeader{true, 0, 1, 0x47, 0, 2, 1, 0},
     TerminateValue{{terminate::kRdmapInvalidVersion, false, true, false},
                    0,
                    "c1001a2b3c4d0000000100000010",
                    std::nullopt,
                    ""}},
    {"immediate", "41 48 00000000 00000000 00000004 00000000 0123456789abcdef", Opcode::immediate,
     ddp::UntaggedHeader{true, 0, 1, 0x48, 0, 0, 4, 0}, Immediate{0x0123456789ABCDEF}},
    {"immediate_with_se", "41 49 00000000 00000000 00000005 00000000 ffffffffffffffff", Opcode::immediate_se,
     ddp::UntaggedHeader{true, 0, 1, 0x49, 0, 0, 5, 0}, Immediate{kAllOnes}},
    {"atomic_request_fetch_add",
     R"(41 4a 00000000 00000001 00000002 00000000 # QN 1, MSN 2, MO 0
        00000000                                  # Reserved 28 bits, AOpCode 0
        abcd0001                                  # Request Identifier
        33333333                                  # Remote STag
        0000000000000008                          # Remote TO
        0000000100000010                          # Add Data
        8000000080000000                          # Add Mask
        0000000000000000                          # Compare Data
        ffffffffffffffff                          # Compare Mask)",
     Opcode::atomic_request, ddp::UntaggedHeader{true, 0, 1, 0x4A, 0, 1, 2, 0},
     AtomicRequest{AtomicOpcode::fetch_add, 0xABCD0001, 0x33333333, 8, 0x0000000100000010, 0x8000000080000000,
                   0, kAllOnes}},
    {"atomic_request_compare_swap",
     R"(41 4a 00000000 00000001 00000003 00000000
        fffffff2                                  # Reserved all ones (ignored), AOpCode 2
        00000000 44444444 fffffffffffffff8
        1111111111111111 2222222222222222         # Swap Data, Swap Mask
        3333333333333333 4444444444444444         # Compare Data, Compare Mask)",
     Opcode::atomic_request, ddp::UntaggedHeader{true, 0, 1, 0x4A, 0, 1, 3, 0},
     AtomicRequest{AtomicOpcode::compare_swap, 0, 0x44444444, 0xFFFFFFFFFFFFFFF8, 0x1111111111111111,
                   0x2222222222222222, 0x3333333333333333, 0x4444444444444444},
     true},
    {"atomic_response",
     R"(41 4b 00000000 00000003 00000001 00000000 # QN 3, MSN 1, MO 0
        abcd0001                                  # Original Request Identifier
        00000007fffffff0                          # Original Remote Data Value)",
     Opcode::atomic_response, ddp::UntaggedHeader{true, 0, 1, 0x4B, 0, 3, 1, 0},
     AtomicResponse{0xABCD0001, 0x00000007FFFFFFF0}},
}};

struct BadMessage {
  std::string_view name;
  std::string_view hex;
  TerminateCode code;
  std::size_t octet;  ///< offset in the ULPDU
};

inline constexpr std::array<BadMessage, 27> kBadMessages{{
    {"ulpdu_1_octet", "ff", terminate::kDdpLocalCatastrophic, 1},
    {"ddp_version_0", "c0 40 1a2b3c4d 0000000100000010 61", terminate::kDdpTaggedInvalidVersion, 0},
    {"queue_4", "41 43 00000000 00000004 00000001 00000000 61", terminate::kDdpUntaggedInvalidQn, 6},
    {"queue_ffffffff", "41 43 00000000 ffffffff 00000001 00000000 61", terminate::kDdpUntaggedInvalidQn, 6},
    {"rdmap_version_0", "41 03 00000000 00000000 00000001 00000000 61", terminate::kRdmapInvalidVersion, 1},
    {"rdmap_version_2", "c1 80 1a2b3c4d 0000000100000010 61", terminate::kRdmapInvalidVersion, 1},
    {"rdmap_version_3", "41 c3 00000000 00000000 00000001 00000000 61", terminate::kRdmapInvalidVersion, 1},
    {"atomic_request_version_0",
     R"(41 0a 00000000 00000001 00000001 00000000
        00000000 00000001 33333333 0000000000000008 0000000000000001 0000000000000000 0000000000000000
        ffffffffffffffff)",
     terminate::kRdmapInvalidVersion, 1},
    {"opcode_c", "41 4c 00000000 00000000 00000001 00000000 61", terminate::kRdmapUnexpectedOpcode, 1},
    {"opcode_f_tagged", "c1 4f 1a2b3c4d 0000000100000010 61", terminate::kRdmapUnexpectedOpcode, 1},
    {"send_tagged", "c1 43 1a2b3c4d 0000000100000010 61", terminate::kRdmapUnexpectedOpcode, 0},
    {"write_untagged", "41 40 00000000 00000000 00000001 00000000 61", terminate::kRdmapUnexpectedOpcode, 0},
    {"send_on_queue_2", "41 43 00000000 00000002 00000001 00000000 61", terminate::kRdmapUnexpectedOpcode, 6},
    {"read_request_on_queue_0",
     R"(41 41 00000000 00000000 00000001 00000000
        11111111 0000000000001000 00000010 22222222 ffffffff00000000)",
     terminate::kRdmapUnexpectedOpcode, 6},
    {"immediate_on_queue_1", "41 48 00000000 00000001 00000001 00000000 0123456789abcdef",
     terminate::kRdmapUnexpectedOpcode, 6},
    {"read_request_27_octets",
     R"(41 41 00000000 00000001 00000001 00000000
        11111111 0000000000001000 00000010 22222222 ffffffff000000)",
     terminate::kRdmapOperationUnspecified, 45},
    {"read_request_29_octets",
     R"(41 41 00000000 00000001 00000001 00000000
        11111111 0000000000001000 00000010 22222222 ffffffff00000000 00)",
     terminate::kRdmapOperationUnspecified, 46},
    {"read_request_not_last",
     R"(01 41 00000000 00000001 00000001 00000000
        11111111 0000000000001000 00000010 22222222 ffffffff00000000)",
     terminate::kRdmapOperationUnspecified, 0},
    {"read_request_offset_4",
     R"(41 41 00000000 00000001 00000001 00000004
        11111111 0000000000001000 00000010 22222222 ffffffff00000000)",
     terminate::kDdpUntaggedInvalidMo, 14},
    {"immediate_7_octets", "41 48 00000000 00000000 00000001 00000000 0123456789abcd",
     terminate::kRdmapOperationUnspecified, 25},
    {"immediate_9_octets", "41 49 00000000 00000000 00000001 00000000 0123456789abcdef 00",
     terminate::kRdmapOperationUnspecified, 26},
    {"atomic_request_reserved_operation",
     R"(41 4a 00000000 00000001 00000001 00000000
        00000001 00000001 33333333 0000000000000008 0000000000000001 0000000000000000 0000000000000000
        ffffffffffffffff)",
     terminate::kRdmapUnexpectedOpcode, 21},
    {"atomic_response_11_octets", "41 4b 00000000 00000003 00000001 00000000 abcd0001 00000007ffffff",
     terminate::kRdmapOperationUnspecified, 29},
    {"terminate_3_octets", "41 47 00000000 00000002 00000001 00000000 200200",
     terminate::kRdmapOperationUnspecified, 21},
    {"terminate_without_length", "41 47 00000000 00000002 00000001 00000000 11018000 00",
     terminate::kRdmapOperationUnspecified, 23},
    {"terminate_without_ddp_header", "41 47 00000000 00000002 00000001 00000000 1101c000 0012",
     terminate::kRdmapOperationUnspecified, 24},
    {"terminate_without_rdma_header",
     R"(41 47 00000000 00000002 00000001 00000000
        0102e000 002e 41 41 00000000 00000001 00000007 00000000 11111111)",
     terminate::kRdmapOperationUnspecified, 46},
}};

}  // namespace kbtp::rdmap::golden
