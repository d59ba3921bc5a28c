// Golden octets of MPA: start-up frames and FPDUs, written out by hand from the figures of RFC 5044 and RFC
// 6581 (CRCs by a bitwise program that shares nothing with the codec; those of RFC 5044 4.4 are the RFC's
// own). For tests, fuzz seeds, the dissector's tests and the comparison with tshark; no product code uses it.
// Hex text for from_hex() (base/hex.h), which skips the comments.

#pragma once

#include <array>
#include <cstddef>
#include <optional>
#include <string_view>

#include "base/hex.h"
#include "rdmap_binding/mpa/startup.h"

namespace kbtp::mpa::golden {

struct Startup {
  std::string_view name;
  std::string_view hex;
  StartupKind kind;
  bool markers;
  bool crc;
  bool reject;
  std::uint8_t reserved;
  std::uint8_t revision;
  std::optional<Enhanced> enhanced;
  std::string_view private_data;

  [[nodiscard]] StartupFrame frame() const {
    return {kind, markers, crc, reject, reserved, revision, enhanced, as_octets(private_data)};
  }
};

using enum StartupKind;

inline constexpr std::array<Startup, 11> kStartups{{
    {"request_rev1_crc",
     R"(4d504120 49442052 65712046 72616d65 # "MPA ID Req Frame"
        40 01 0000                          # C, Rev 1, no Private Data)",
     request, false, true, false, 0, 1, std::nullopt, ""},
    {"request_rev1_markers_private_data",
     R"(4d504120 49442052 65712046 72616d65 # "MPA ID Req Frame"
        80 01 0005                          # M, Rev 1, PD_Length 5
        68656c6c6f                          # "hello", no padding)",
     request, true, false, false, 0, 1, std::nullopt, "hello"},
    {"request_rev1_every_reserved_bit",
     R"(4d504120 49442052 65712046 72616d65 # "MPA ID Req Frame"
        5f 01 0002                          # C, Res 1Fh (RFC 5044: five bits), Rev 1, PD_Length 2
        6869                                # "hi")",
     request, false, true, false, 0x1F, 1, std::nullopt, "hi"},
    {"request_rev2_unenhanced",
     R"(4d504120 49442052 65712046 72616d65 # "MPA ID Req Frame"
        c0 02 0000                          # M, C, Rev 2, no Private Data)",
     request, true, true, false, 0, 2, std::nullopt, ""},
    {"request_rev2_client_server",
     R"(4d504120 49442052 65712046 72616d65 # "MPA ID Req Frame"
        50 02 0008                          # C, S, Rev 2, PD_Length 8
        0010 0020                           # A=0 B=0 IRD 16, C=0 D=0 ORD 32
        6b627470                            # "kbtp")",
     request, false, true, false, 0, 2, Enhanced{false, false, 16, false, false, 32}, "kbtp"},
    {"request_rev2_peer_to_peer_all_rtr",
     R"(4d504120 49442052 65712046 72616d65 # "MPA ID Req Frame"
        50 02 0004                          # C, S, Rev 2, PD_Length 4
        ffff fffe                           # A=1 B=1 IRD 3FFFh, C=1 D=1 ORD 3FFEh)",
     request, false, true, false, 0, 2, Enhanced{true, true, 0x3FFF, true, true, 0x3FFE}, ""},
    {"request_rev2_reserved_bits_and_reject",
     R"(4d504120 49442052 65712046 72616d65 # "MPA ID Req Frame"
        7f 02 0004                          # C, R (not checked in a Request), S, Res Fh, Rev 2, PD_Length 4
        0001 0001                           # IRD 1, ORD 1)",
     request, false, true, true, 0x0F, 2, Enhanced{false, false, 1, false, false, 1}, ""},
    {"reply_rev1_no_crc",
     R"(4d504120 49442052 65702046 72616d65 # "MPA ID Rep Frame"
        00 01 0000                          # nothing wanted, Rev 1, no Private Data)",
     reply, false, false, false, 0, 1, std::nullopt, ""},
    {"reply_rev2_client_server",
     R"(4d504120 49442052 65702046 72616d65 # "MPA ID Rep Frame"
        50 02 0004                          # C, S, Rev 2, PD_Length 4
        0020 0010                           # IRD 32, ORD 16)",
     reply, false, true, false, 0, 2, Enhanced{false, false, 32, false, false, 16}, ""},
    {"reply_rev2_rtr_send_and_read",
     R"(4d504120 49442052 65702046 72616d65 # "MPA ID Rep Frame"
        d0 02 0007                          # M, C, S, Rev 2, PD_Length 7
        c001 4000                           # A=1 B=1 IRD 1, C=0 D=1 ORD 0
        00ff00                              # binary Private Data)",
     reply, true, true, false, 0, 2, Enhanced{true, true, 1, false, true, 0},
     std::string_view("\x00\xff\x00", 3)},
    {"reply_rev2_reject",
     R"(4d504120 49442052 65702046 72616d65 # "MPA ID Rep Frame"
        70 02 000b                          # C, R, S, Rev 2, PD_Length 11
        0000 0004                           # IRD 0, ORD 4: what the responder would need
        6e6f2c20736972                      # "no, sir")",
     reply, false, true, true, 0, 2, Enhanced{false, false, 0, false, false, 4}, "no, sir"},
}};

/// Start-up octets that are refused, whichever kind is expected unless `expected` says which.
struct BadStartup {
  std::string_view name;
  std::string_view hex;
  std::optional<StartupKind> expected;
  StartupRule rule;
  std::size_t octet;
};

inline constexpr std::array<BadStartup, 9> kBadStartups{{
    {"bad_key_first_octet", "6d # 'm'", std::nullopt, StartupRule::bad_key, 0},
    {"bad_key_kind_octet", "4d504120 49442052 65 72 # \"MPA ID Rer\"", std::nullopt, StartupRule::bad_key, 9},
    {"bad_key_last_octet", "4d504120 49442052 65712046 72616d64 # \"MPA ID Req Framd\"", std::nullopt,
     StartupRule::bad_key, 15},
    {"fpdu_instead_of_key", "0012 4143 00000000 00000000 00000001 00000000 # a zero-length Send",
     std::nullopt, StartupRule::bad_key, 0},
    {"initiator_initiator", "4d504120 49442052 6571", StartupKind::reply, StartupRule::wrong_kind, 9},
    {"reply_for_request", "4d504120 49442052 6570", StartupKind::request, StartupRule::wrong_kind, 9},
    {"private_data_513", "4d504120 49442052 65712046 72616d65 40 01 0201 # PD_Length 513", std::nullopt,
     StartupRule::private_data_too_long, 18},
    {"private_data_65535", "4d504120 49442052 65702046 72616d65 50 02 ffff # PD_Length 65535", std::nullopt,
     StartupRule::private_data_too_long, 18},
    {"enhanced_3_octets", "4d504120 49442052 65712046 72616d65 50 02 0003 001000 # S=1, PD_Length 3",
     std::nullopt, StartupRule::enhanced_too_short, 18},
}};

/// An FPDU without markers. `hex` is all of it, `ulpdu_hex` what it carries.
struct Fpdu {
  std::string_view name;
  std::string_view hex;
  std::string_view ulpdu_hex;
  std::size_t pad;
};

inline constexpr std::array<Fpdu, 9> kFpdus{{
    {"send_24_octets_of_zeros",  // the ULPDU of RFC 5044 Figure 5, without its marker
     R"(002a                                             # ULPDU_Length 42
        41 43 00000000 00000000 00000001 00000000        # DDP untagged, last; Send, QN 0, MSN 1, MO 0
        000000000000000000000000000000000000000000000000 # payload
        b7243ec3                                         # CRC32C, least significant octet first)",
     "414300000000000000000000000100000000000000000000000000000000000000000000000000000000", 0},
    {"zero_length_send",
     R"(0012 41 43 00000000 00000000 00000001 00000000 # QN 0, MSN 1, MO 0
        587be8c4)",
     "414300000000000000000000000100000000", 0},
    {"write_1_octet_pad_3",
     R"(000f c1 40 1a2b3c4d 0000000100000010 aa # DDP tagged, last; RDMA Write, STag, TO, one octet
        000000                                  # PAD
        74113b60)",
     "c1401a2b3c4d0000000100000010aa", 3},
    {"write_2_octets_pad_2",
     R"(0010 c1 40 1a2b3c4d 0000000100000010 aabb
        0000
        5f4b75e0)",
     "c1401a2b3c4d0000000100000010aabb", 2},
    {"write_3_octets_pad_1",
     R"(0011 c1 40 1a2b3c4d 0000000100000010 aabbcc
        00
        2199048e)",
     "c1401a2b3c4d0000000100000010aabbcc", 1},
    {"write_4_octets_no_pad",
     R"(0012 c1 40 1a2b3c4d 0000000100000010 aabbccdd
        81975e2c)",
     "c1401a2b3c4d0000000100000010aabbccdd", 0},
    {"zero_length_read_response",
     R"(000e c1 42 00000001 00000000000000ff # STag 1, TO 255
        70f09593)",
     "c1420000000100000000000000ff", 0},
    {"read_request",
     R"(002e 41 41 00000000 00000001 00000007 00000000                         # QN 1, MSN 7, MO 0
        11111111 0000000000001000 00000010 22222222 ffffffff00000000 # sink, size 16, source
        14a46a1a)",
     "4141000000000000000100000007000000001111111100000000000010000000001022222222ffffffff00000000", 0},
    {"one_octet_ulpdu",  // legal for MPA, too short for DDP
     R"(0001 ff 00
        3afdc54e)",
     "ff", 1},
}};

/// The two annotated dumps of RFC 5044 4.4: octets of the TCP stream with one marker each.
struct MarkedFpdu {
  std::string_view name;
  std::string_view hex;
  std::size_t stream_offset;  ///< of the first octet, counted from the direction's first
  std::size_t marker_at;      ///< offset of the marker within `hex`
  std::string_view ulpdu_hex;
};

inline constexpr std::array<MarkedFpdu, 2> kMarkedFpdus{{
    {"rfc5044_figure_5",
     R"(0000 0000                                        # Marker: Reserved, FPDUPTR 0
        002a                                             # ULPDU Length
        41 43 00000000                                   # DDP Control Field, Send with Last; Reserved
        00000000 00000001 00000000                       # Queue 0, MSN 1, MO 0
        000000000000000000000000000000000000000000000000 # 24 octets of zeros
        52239983)",
     0x0000, 0, "414300000000000000000000000100000000000000000000000000000000000000000000000000000000"},
    {"rfc5044_figure_6",
     R"(002a                                             # Length
        41 43 00000000                                   # DDP Control Field, Send with Last; Reserved
        00000000 00000002 00000000                       # Queue 0, MSN 2, MO 0
        0000 0014                                        # Marker: Reserved, FPDUPTR 20
        000000000000000000000000000000000000000000000000 # 24 octets of zeros
        84925898)",
     0x01ec, 20, "414300000000000000000000000200000000000000000000000000000000000000000000000000000000"},
}};

/// An FPDU with its markers, `zeros` zero octets of payload between `head` and `tail`; `until` octets of the
/// stream are left before a marker when it begins.
struct MarkedStream {
  std::string_view name;
  std::string_view head;
  std::size_t zeros;
  std::string_view tail;
  std::size_t until;
  std::string_view ulpdu_head;  ///< the ULPDU is this, then `ulpdu_zeros` zero octets
  std::size_t ulpdu_zeros;
};

inline constexpr std::array<MarkedStream, 6> kMarkedStreams{{
    {"leading",
     R"(0000 0000                                     # Marker in front of the FPDU: FPDUPTR 0
        0012 41 43 00000000 00000000 00000001 00000000 # a zero-length Send
        88c1d6fc                                      # CRC32C, the marker covered)",
     0, "", 0, "414300000000000000000000000100000000", 0},
    {"between_pad_and_crc",
     R"(000f c1 40 1a2b3c4d 0000000100000010 aa # RDMA Write of one octet
        000000                                  # PAD
        0000 0014                               # Marker: FPDUPTR 20
        21d5fe2c)",
     0, "", 20, "c1401a2b3c4d0000000100000010aa", 0},
    {"in_front_of_the_crc_without_pad",
     R"(0012 41 43 00000000 00000000 00000001 00000000
        0000 0014                                      # Marker: FPDUPTR 20
        e6c3854d)",
     0, "", 20, "414300000000000000000000000100000000", 0},
    {"behind_the_first_four_octets",
     R"(0012 41 43                                   # ULPDU_Length and two octets of the ULPDU stay together
        0000 0004                                    # Marker: FPDUPTR 4
        00000000 00000000 00000001 00000000 ff2d112c)",
     0, "", 4, "414300000000000000000000000100000000", 0},
    {"leading_and_between_pad_and_crc",
     R"(0000 0000                                     # Marker in front: FPDUPTR 0
        01f9 c1 40 1a2b3c4d 0000000100000010          # RDMA Write of 491 octets)",
     491,
     R"(00                                            # PAD
        0000 01fc                                     # Marker: FPDUPTR 508, the leading one not counted
        80653f12)",
     0, "c1401a2b3c4d0000000100000010", 491},
    {"third_marker_is_the_next_fpdus",
     R"(03f6 c1 40                                   # ULPDU_Length 1014: RDMA Write of 1000 octets
        0000 0004                                    # Marker: FPDUPTR 4
        1a2b3c4d 0000000100000010
        000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000
        000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000
        000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000
        000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000
        000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000
        000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000
        000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000
        000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000
        000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000
        000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000000
        00000000000000000000000000000000           # 496 octets of payload
        0000 0204                                    # Marker: FPDUPTR 516, the first one counted)",
     504, "729b7b0d", 4, "c1401a2b3c4d0000000100000010", 1000},
}};

}  // namespace kbtp::mpa::golden
