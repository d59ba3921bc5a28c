// Golden octets of DDP: whole ULPDUs written out by hand from RFC 5041 Figures 4 and 5, with what they mean.
// For tests, fuzz seeds and the dissector's tests; no product code uses it. Hex for from_hex() (base/hex.h).

#pragma once

#include <array>
#include <cstddef>
#include <string_view>

#include "base/hex.h"
#include "rdmap_binding/ddp/segment.h"

namespace kbtp::ddp::golden {

struct Segment {
  std::string_view name;
  std::string_view hex;
  Header header;
  std::string_view payload;
};

inline constexpr std::array<Segment, 8> kSegments{{
    {"tagged_last",
     R"(c1               # T=1 L=1 Rsvd=0 DV=1
        40               # RsvdULP
        1a2b3c4d         # STag
        0123456789abcdef # TO
        78797a           # payload)",
     TaggedHeader{true, 0, 1, 0x40, 0x1A2B3C4D, 0x0123456789ABCDEF}, "xyz"},
    {"tagged_not_last",
     R"(81 42 ffffffff fffffffffffffff8 # T=1 L=0; the highest STag, TO 8 below the wrap
        3031323334353637)",
     TaggedHeader{false, 0, 1, 0x42, 0xFFFFFFFF, 0xFFFFFFFFFFFFFFF8}, "01234567"},
    {"tagged_zero_length", "c1 40 00000000 0000000000000000", TaggedHeader{true, 0, 1, 0x40, 0, 0}, ""},
    {"tagged_every_reserved_bit", "fd 40 00000001 0000000000000002 61 # Rsvd=Fh, not checked",
     TaggedHeader{true, 0xF, 1, 0x40, 1, 2}, "a"},
    {"untagged_last",
     R"(41       # T=0 L=1 Rsvd=0 DV=1
        43       # RsvdULP, first octet
        00000000 # RsvdULP, the other four
        00000000 # QN
        00000001 # MSN
        00000000 # MO
        68656c6c6f)",
     UntaggedHeader{true, 0, 1, 0x43, 0, 0, 1, 0}, "hello"},
    {"untagged_not_last",
     R"(01 44 deadbeef 00000000 ffffffff 00010203 # L=0; the last MSN before the wrap to 0; MO 66051
        2e)",
     UntaggedHeader{false, 0, 1, 0x44, 0xDEADBEEF, 0, 0xFFFFFFFF, 0x00010203}, "."},
    {"untagged_zero_length", "41 45 00000000 00000003 00000000 00000000 # QN 3, MSN 0",
     UntaggedHeader{true, 0, 1, 0x45, 0, 3, 0, 0}, ""},
    {"untagged_every_reserved_bit", "7d 43 01020304 05060708 090a0b0c 0d0e0f10 # Rsvd=Fh, not checked",
     UntaggedHeader{true, 0xF, 1, 0x43, 0x01020304, 0x05060708, 0x090A0B0C, 0x0D0E0F10}, ""},
}};

struct BadSegment {
  std::string_view name;
  std::string_view hex;
  TerminateCode code;
  std::size_t octet;
};

inline constexpr std::array<BadSegment, 7> kBadSegments{{
    {"tagged_13_octets", "c1 40 1a2b3c4d 0123456789abcd", terminate::kDdpLocalCatastrophic, 13},
    {"untagged_17_octets", "41 43 00000000 00000000 00000001 000000", terminate::kDdpLocalCatastrophic, 17},
    {"tagged_version_0", "c0 40 1a2b3c4d 0123456789abcdef 78", terminate::kDdpTaggedInvalidVersion, 0},
    {"tagged_version_2", "c2 40 1a2b3c4d 0123456789abcdef 78", terminate::kDdpTaggedInvalidVersion, 0},
    {"tagged_version_3_zero_length", "c3 40 1a2b3c4d 0123456789abcdef", terminate::kDdpTaggedInvalidVersion,
     0},
    {"untagged_version_0", "40 43 00000000 00000000 00000001 00000000", terminate::kDdpUntaggedInvalidVersion,
     0},
    {"untagged_version_3", "43 43 00000000 00000000 00000001 00000000", terminate::kDdpUntaggedInvalidVersion,
     0},
}};

}  // namespace kbtp::ddp::golden
