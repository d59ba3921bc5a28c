// Golden octets of KBTP, written out by hand from the figures of 3.2, 3.3, 5.1, 5.2 and the layouts that the
// review proposes; never printed by our own encoder. For the tests of codecs, dissector and plugin, and as
// seeds of the fuzzer; no product code uses it. Hex text for from_hex() (base/hex.h), which skips the
// comments.

#pragma once

#include <optional>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "proto/wire/message.h"
#include "proto/wire/structures.h"

namespace kbtp::wire::golden {

struct GoldenMessage {
  std::string_view name;  ///< also the name of its fuzz seed
  std::string_view hex;
  Message message;
};

// What all requests below carry in their header, but for opcode and flags.
inline constexpr RequestHead kHead{0x1112131415161718, 0x2122232425262728, 0x3132, 0};
inline constexpr DataDescriptor kData{0x41424344, 0x5152535455565758, 0x00010000};
inline constexpr CompletionDescriptor kRecord{0x61626364, 0x7172737475767778};

/// One Uuid for HELLO: f81d4fae-7dec-11d0-a765-00a0c91e6bf6.
inline Uuid identity() { return *Uuid::parse("f81d4fae-7dec-11d0-a765-00a0c91e6bf6"); }

inline std::vector<GoldenMessage> messages() {
  return {
      {"hello",
       R"(01 01 0006                            # Version 1, HELLO, DIRECT_LOAD | DIRECT_ALLOC
          0102030405060708                      # Request ID
          ffffffffffffffff                      # wanted base handle: no preference
          0000 0000                             # Generation, Status
          01 01 0000                            # Min and Max Version, reserved
          00000020                              # Max Requests wanted: 32
          00000100                              # Receive Size: 256
          00000400                              # Quota wanted: 1024
          0000000000010000                      # Handle Count wanted: 65536
          f81d4fae7dec11d0a76500a0c91e6bf6      # Initiator Identity)",
       Hello{.request_id = 0x0102030405060708,
             .base_handle = kNoBaseHandle,
             .wanted = {.direct_load = true, .direct_alloc = true},
             .max_requests = 32,
             .receive_size = 256,
             .quota = 1024,
             .handle_count = 65536,
             .identity = identity()}},
      {"hello_anonymous_loads_only",
       R"(01 01 8001                            # RECORD_COMPLETION and a bit without a name (P-05)
          0000000000000001 0000000000000000     # Request ID 1, base handle 0
          0000 0000
          01 03 0000                            # Versions 1 to 3
          00000000                              # the target chooses (P-18)
          00000040                              # 64 octets
          00000000 0000000000000000             # Quota 0, Handle Count 0 (G-54)
          00000000000000000000000000000000)",
       Hello{.request_id = 1,
             .base_handle = 0,
             .wanted = {.record_completion = true, .unassigned = 0x8000},
             .max_version = 3,
             .receive_size = 64}},
      {"hello_ack",
       R"(01 02 0006                            # Version 1, HELLO_ACK, DIRECT_LOAD | DIRECT_ALLOC
          0102030405060708 0000000000001000     # Request ID, own base handle
          0000 0000                             # Generation, SUCCESS
          01 01 01 0a                           # Version, Min, Max, n = 10
          00000021 00001000 00010000            # Max Requests 33, Max Inline 4096, Block Size 65536
          0000000000000300                      # 40 Handle Count 768
          0000000000000800                      # 48 Table Base Handle 2048
          0000000000002000                      # 56 Table Handle Count 8192
          0000000000001234                      # 64 F
          00000301 00000002 00007530            # 72 Quota 769, Usage 2, Ticket Timeout 30000 ms
          a1a2a3a4                              # 84 Table STag
          b1b2b3b4b5b6b7b8                      # 88 Table Offset
          c1c2c3c4 d1d2d3d4 e1e2e3e4 f1f2f3f4   # 96 Pool, Partition, Ring, Head STag
          8182838485868788                      # 112 Ring Offset
          9192939495969798                      # 120 Head Offset
          0000010000000000 0000000012340000     # 128 Pool Offset and Length
          0000010000100000 0000000003010000     # 144 Partition Offset and Length)",
       HelloAck{.request_id = 0x0102030405060708,
                .base_handle = 0x1000,
                .granted = {.direct_load = true, .direct_alloc = true},
                .version = 1,
                .min_version = 1,
                .max_version = 1,
                .ring_log2 = 10,
                .max_requests = 33,
                .max_inline = 4096,
                .block_size = 65536,
                .handle_count = 768,
                .table_base_handle = 2048,
                .table_handle_count = 8192,
                .pool_blocks = 0x1234,
                .quota = 769,
                .usage = 2,
                .ticket_timeout_ms = 30000,
                .table_stag = 0xA1A2A3A4,
                .table_offset = 0xB1B2B3B4B5B6B7B8,
                .pool_stag = 0xC1C2C3C4,
                .partition_stag = 0xD1D2D3D4,
                .ring_stag = 0xE1E2E3E4,
                .head_stag = 0xF1F2F3F4,
                .ring_offset = 0x8182838485868788,
                .head_offset = 0x9192939495969798,
                .pool_offset = 0x0000010000000000,
                .pool_length = 0x12340000,
                .partition_offset = 0x0000010000100000,
                .partition_length = 0x03010000}},
      {"hello_ack_refused_version",
       R"(01 02 0000 0102030405060708 0000000000000000 0000 0002   # UNSUPPORTED_VERSION
          00 01 01 00 00000000 00000000 00000000                   # own Min and Max (P-09)
          0000000000000000 0000000000000000 0000000000000000 0000000000000000
          00000000 00000000 00000000 00000000 0000000000000000
          00000000 00000000 00000000 00000000 0000000000000000 0000000000000000
          0000000000000000 0000000000000000 0000000000000000 0000000000000000)",
       HelloAck{.request_id = 0x0102030405060708,
                .status = Status::unsupported_version,
                .status_code = 2,
                .min_version = 1,
                .max_version = 1}},
      {"load",
       R"(01 03 0000 1112131415161718 2122232425262728 3132 0000   # LOAD
          41424344 5152535455565758 00010000                       # Data Descriptor)",
       Load{.head = kHead, .destination = kData}},
      {"load_invalidate_allow_unsealed",
       R"(01 03 0018 1112131415161718 2122232425262728 3132 0000
          41424344 5152535455565758 00010000)",
       Load{.head = kHead, .destination = kData, .invalidate = true, .allow_unsealed = true}},
      {"load_record",
       R"(01 03 0004 1112131415161718 2122232425262728 3132 0000
          41424344 5152535455565758 00010000                       # Data Descriptor
          61626364 7172737475767778 00000000                       # Completion Descriptor)",
       Load{.head = kHead, .destination = kData, .record = kRecord}},
      {"store_invalidate",
       R"(01 04 0008 1112131415161718 2122232425262728 3132 0000   # STORE
          41424344 5152535455565758 00010000)",
       Store{kHead, {.source = kData, .invalidate = true}}},
      {"store_inline_seal",
       R"(01 04 0003 1112131415161718 2122232425262728 3132 0000
          00000000 0000000000000000 00000005                       # STag and TO 0, Length 5
          68656c6c6f                                               # "hello")",
       Store{kHead, {.source = {.length = 5}, .inline_data = as_octets("hello"), .seal = true}}},
      {"alloc_store_seal",
       R"(01 05 0002 1112131415161718 2122232425262728 3132 0000   # ALLOC_STORE
          41424344 5152535455565758 00010000)",
       AllocStore{kHead, {.source = kData, .seal = true}}},
      {"alloc_store_inline_record",
       R"(01 05 0005 1112131415161718 2122232425262728 3132 0000
          00000000 0000000000000000 00000003
          61626364 7172737475767778 00000000                       # before the data (G-09)
          616263                                                   # "abc")",
       AllocStore{kHead, {.source = {.length = 3}, .record = kRecord, .inline_data = as_octets("abc")}}},
      {"alloc_store_inline_empty",
       R"(01 05 0001 1112131415161718 2122232425262728 3132 0000
          00000000 0000000000000000 00000000                       # a zero-length INLINE is legal (P-12))",
       AllocStore{kHead, {.source = {}, .inline_data = Octets{}}}},
      {"free", R"(01 06 0000 1112131415161718 2122232425262728 3132 0000   # FREE)", Free{kHead, {}}},
      {"free_record",
       R"(01 06 0004 1112131415161718 2122232425262728 3132 0000
          61626364 7172737475767778 00000000)",
       Free{kHead, kRecord}},
      {"bind_seal",
       R"(01 07 0002 1112131415161718 2122232425262728 3132 0000   # BIND
          00abcdef 00001000 0000010000020000                       # Ticket, Data Length, Block Offset)",
       Bind{.head = kHead,
            .ticket = 0x00ABCDEF,
            .data_length = 4096,
            .block_offset = 0x0000010000020000,
            .seal = true}},
      {"bind_record",
       R"(01 07 0004 1112131415161718 2122232425262728 3132 0000
          ffffffff 00001000 0000010000020000
          61626364 7172737475767778 00000000)",
       Bind{.head = kHead,
            .ticket = 0xFFFFFFFF,
            .data_length = 4096,
            .block_offset = 0x0000010000020000,
            .record = kRecord}},
      {"completion",
       R"(01 08 0000 1112131415161718 2122232425262728 3133 0000   # COMPLETION, SUCCESS
          00001000 0000010000020000                                # Data Length, Block Offset)",
       Completion{.request_id = kHead.request_id,
                  .handle = kHead.handle,
                  .generation = 0x3133,
                  .data_length = 4096,
                  .block_offset = 0x0000010000020000}},
      {"completion_no_space",
       R"(01 08 0000 1112131415161718 2122232425262728 0001 000c   # NO_SPACE
          00000000 0000000000000000)",
       Completion{.request_id = kHead.request_id,
                  .handle = kHead.handle,
                  .status = Status::no_space,
                  .status_code = 12,
                  .generation = 1}},
      {"completion_unassigned_status",
       R"(01 08 0000 1112131415161718 2122232425262728 0001 8001
          00000000 0000000000000000)",
       Completion{.request_id = kHead.request_id,
                  .handle = kHead.handle,
                  .status = Status::unassigned,
                  .status_code = 0x8001,
                  .generation = 1}},
  };
}

/// "completion" in the padded alternative of 40 octets (kPaddedCompletion).
inline constexpr std::string_view kPaddedCompletionHex =
    R"(01 08 0000 1112131415161718 2122232425262728 3133 0000
       00001000 00000000 0000010000020000)";

/// Messages that are not well formed, each in one way, with the target's answer.
struct Malformed {
  std::string_view name;
  std::string_view hex;
  std::optional<Status> status;  ///< nothing: disconnect
  std::size_t octet;
  std::string_view rule;
};

inline std::vector<Malformed> malformed() {
  return {
      {"empty", "", {}, 0, "G-38"},
      {"header_cut", "01 03 0000 1112131415161718 2122232425262728 3132 00", {}, 23, "G-38"},
      {"version_0_of_unknown_opcode", "00 55 ffff 1112131415161718 2122232425262728 3132 0000",
       Status::unsupported_version, 0, "KBTP-5.1-01"},
      {"version_2_hello", "02 01 0000 1112131415161718 2122232425262728 3132 0000",
       Status::unsupported_version, 0, "KBTP-5.1-01"},
      {"opcode_0", "01 00 0000 1112131415161718 2122232425262728 3132 0000", Status::unsupported_opcode, 1,
       "KBTP-5.1-02"},
      {"opcode_experimental_with_bad_flags", "01 80 ffff 1112131415161718 2122232425262728 3132 0000",
       Status::unsupported_opcode, 1, "KBTP-5.1-02"},
      {"load_with_inline",
       R"(01 03 0001 1112131415161718 2122232425262728 3132 0000
          41424344 5152535455565758 00010000)",
       Status::invalid_request, 3, "KBTP-5.1-07"},
      {"load_with_unassigned_flag",
       R"(01 03 0100 1112131415161718 2122232425262728 3132 0000
          41424344 5152535455565758 00010000)",
       Status::invalid_request, 2, "KBTP-5.1-07"},
      {"store_with_allow_unsealed",
       R"(01 04 0010 1112131415161718 2122232425262728 3132 0000
          41424344 5152535455565758 00010000)",
       Status::invalid_request, 3, "KBTP-5.1-07"},
      {"free_with_seal_and_cut", "01 06 0002 1112131415161718 2122232425262728 3132 0000",
       Status::invalid_request, 3, "KBTP-5.1-07"},
      {"bind_with_invalidate",
       R"(01 07 0008 1112131415161718 2122232425262728 3132 0000
          00abcdef 00001000 0000010000020000)",
       Status::invalid_request, 3, "KBTP-5.1-07"},
      {"store_invalidate_inline",
       R"(01 04 0009 1112131415161718 2122232425262728 3132 0000
          00000000 0000000000000000 00000005 68656c6c6f)",
       Status::invalid_request, 3, "G-11"},
      {"load_invalidate_record",
       R"(01 03 000c 1112131415161718 2122232425262728 3132 0000
          41424344 5152535455565758 00010000 61626364 7172737475767778 00000000)",
       Status::invalid_request, 3, "E-11"},
      {"load_without_descriptor", "01 03 0000 1112131415161718 2122232425262728 3132 0000",
       Status::invalid_request, 24, "G-09"},
      {"load_record_without_its_descriptor",
       R"(01 03 0004 1112131415161718 2122232425262728 3132 0000
          41424344 5152535455565758 00010000)",
       Status::invalid_request, 40, "G-09"},
      {"load_with_octet_behind",
       R"(01 03 0000 1112131415161718 2122232425262728 3132 0000
          41424344 5152535455565758 00010000 00)",
       Status::invalid_request, 40, "G-00"},
      {"store_inline_length_above_data",
       R"(01 04 0001 1112131415161718 2122232425262728 3132 0000
          00000000 0000000000000000 00000006 68656c6c6f)",
       Status::invalid_request, 36, "G-09"},
      {"store_inline_length_all_ones",
       R"(01 04 0001 1112131415161718 2122232425262728 3132 0000
          00000000 0000000000000000 ffffffff 68656c6c6f)",
       Status::invalid_request, 36, "G-09"},
      {"free_with_octets_behind", "01 06 0000 1112131415161718 2122232425262728 3132 0000 0000",
       Status::invalid_request, 24, "G-00"},
  };
}

struct GoldenEntry {
  std::string_view hex;
  TableEntry entry;
};
inline std::vector<GoldenEntry> entries() {
  return {
      {"0000 0001 00000000 0000000000000000  # never bound (G-14)", TableEntry{}},
      {"0001 3132 00001000 0000010000020000  # VALID",
       TableEntry{kEntryValid, 0x3132, 4096, 0x0000010000020000}},
      {"0003 ffff ffffffff 0102030405060708  # VALID, SEALED",
       TableEntry{kEntryValid | kEntrySealed, 0xFFFF, 0xFFFFFFFF, 0x0102030405060708}},
  };
}

struct GoldenSlot {
  std::string_view hex;
  Slot slot;
};
inline std::vector<GoldenSlot> slots() {
  return {
      {"00000005 00000000 0000010000020000  # ticket 5", Slot{5, 0x0000010000020000}},
      {"fffffffe 00000000 ffffffffffffffff  # consumed; s - N for s = 2, N = 4", Slot{0xFFFFFFFE, kNoBlock}},
  };
}

/// Completion record (6.5): Request ID, Status, Generation, Data Length, Block Offset.
inline constexpr std::string_view kCompletionRecordHex =
    "1112131415161718 000a 3132 00001000 0000010000020000  # GENERATION_MISMATCH";
inline CompletionRecord completion_record() {
  return {.request_id = 0x1112131415161718,
          .status = Status::generation_mismatch,
          .status_code = 10,
          .generation = 0x3132,
          .data_length = 4096,
          .block_offset = 0x0000010000020000};
}

}  // namespace kbtp::wire::golden
