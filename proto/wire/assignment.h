// Everything that the draft's excerpt leaves open and the project had to assign, as one value: numbers of
// opcodes, statuses and features, which flags an opcode may carry, and where the fields of HELLO, HELLO_ACK,
// BIND and COMPLETION lie. Codecs take it by reference; a profile may hold another one.
// Offsets and lengths are octets from the start of the message. Integers on the wire are in network order.

#pragma once

#include <array>
#include <cstdint>
#include <optional>

#include "base/result.h"
#include "proto/wire/terms.h"

namespace kbtp::wire {

inline constexpr std::size_t kHeaderSize = 24;                // 5.1
inline constexpr std::size_t kDataDescriptorSize = 16;        // 5.2
inline constexpr std::size_t kCompletionDescriptorSize = 16;  // 5.2
inline constexpr std::size_t kCompletionRecordSize = 24;      // 6.5
inline constexpr std::size_t kTableEntrySize = 16;            // 3.2
inline constexpr std::size_t kSlotSize = 16;                  // 3.3

/// Both sides accept this much before HELLO_ACK (G-07).
inline constexpr std::size_t kInitialReceiveSize = 256;
/// The longest COMPLETION ever (G-07); also the least Receive Size of a HELLO (P-18).
inline constexpr std::size_t kMaxCompletionSize = 64;

struct HelloLayout {
  std::uint16_t min_version = 24;   // 8 bits
  std::uint16_t max_version = 25;   // 8
  std::uint16_t max_requests = 28;  // 32
  std::uint16_t receive_size = 32;  // 32
  std::uint16_t quota = 36;         // 32
  std::uint16_t handle_count = 40;  // 64
  std::uint16_t identity = 48;      // 16 octets
  std::uint16_t length = 64;
  friend bool operator==(const HelloLayout&, const HelloLayout&) = default;
};

struct HelloAckLayout {
  std::uint16_t version = 24;             // 8 bits
  std::uint16_t min_version = 25;         // 8
  std::uint16_t max_version = 26;         // 8
  std::uint16_t ring_log2 = 27;           // 8
  std::uint16_t max_requests = 28;        // 32
  std::uint16_t max_inline = 32;          // 32
  std::uint16_t block_size = 36;          // 32
  std::uint16_t handle_count = 40;        // 64
  std::uint16_t table_base_handle = 48;   // 64
  std::uint16_t table_handle_count = 56;  // 64
  std::uint16_t pool_blocks = 64;         // 64
  std::uint16_t quota = 72;               // 32
  std::uint16_t usage = 76;               // 32
  std::uint16_t ticket_timeout_ms = 80;   // 32
  std::uint16_t table_stag = 84;          // 32
  std::uint16_t table_offset = 88;        // 64
  std::uint16_t pool_stag = 96;           // 32
  std::uint16_t partition_stag = 100;     // 32
  std::uint16_t ring_stag = 104;          // 32
  std::uint16_t head_stag = 108;          // 32
  std::uint16_t ring_offset = 112;        // 64
  std::uint16_t head_offset = 120;        // 64
  std::uint16_t pool_offset = 128;        // 64
  std::uint16_t pool_length = 136;        // 64
  std::uint16_t partition_offset = 144;   // 64
  std::uint16_t partition_length = 152;   // 64
  std::uint16_t length = 160;
  friend bool operator==(const HelloAckLayout&, const HelloAckLayout&) = default;
};

struct BindLayout {
  std::uint16_t ticket = 24;        // 32 bits
  std::uint16_t data_length = 28;   // 32
  std::uint16_t block_offset = 32;  // 64
  std::uint16_t length = 40;        // a Completion Descriptor follows when RECORD is set
  friend bool operator==(const BindLayout&, const BindLayout&) = default;
};

struct CompletionLayout {
  std::uint16_t data_length = 24;   // 32 bits
  std::uint16_t block_offset = 28;  // 64
  std::uint16_t length = 36;
  friend bool operator==(const CompletionLayout&, const CompletionLayout&) = default;
};

struct Assignment {
  std::array<std::uint8_t, kOpcodeCount> opcodes{};       ///< indexed by Opcode
  std::array<std::uint16_t, kStatusCount> statuses{};     ///< indexed by Status
  std::array<std::uint16_t, kFeatureCount> features{};    ///< indexed by Feature; one bit each
  std::array<std::uint16_t, kOpcodeCount> legal_flags{};  ///< indexed by Opcode (G-11); requests only
  HelloLayout hello;
  HelloAckLayout hello_ack;
  BindLayout bind;
  CompletionLayout completion;

  [[nodiscard]] constexpr std::uint8_t code(Opcode opcode) const {
    return opcodes[static_cast<std::size_t>(opcode)];
  }
  /// Status::unassigned has no code; asking for it gives that of TARGET_ERROR.
  [[nodiscard]] constexpr std::uint16_t code(Status status) const {
    return statuses[status == Status::unassigned ? static_cast<std::size_t>(Status::target_error)
                                                 : static_cast<std::size_t>(status)];
  }
  [[nodiscard]] constexpr std::uint16_t code(Feature feature) const {
    return features[static_cast<std::size_t>(feature)];
  }
  [[nodiscard]] constexpr std::uint16_t flags_of(Opcode opcode) const {
    return legal_flags[static_cast<std::size_t>(opcode)];
  }
  [[nodiscard]] constexpr std::optional<Opcode> opcode(std::uint8_t code) const {
    for (std::size_t i = 0; i < kOpcodeCount; ++i) {
      if (opcodes[i] == code) return static_cast<Opcode>(i);
    }
    return std::nullopt;
  }
  [[nodiscard]] constexpr Status status(std::uint16_t code) const {
    for (std::size_t i = 0; i < kStatusCount; ++i) {
      if (statuses[i] == code) return static_cast<Status>(i);
    }
    return Status::unassigned;
  }
  [[nodiscard]] Features features_from(std::uint16_t bits) const;
  [[nodiscard]] std::uint16_t bits_of(const Features& granted) const;

  friend bool operator==(const Assignment&, const Assignment&) = default;
};

/// The values that the review proposes.
inline constexpr Assignment kProposed = [] {
  Assignment a;
  a.opcodes = {0x01, 0x02, 0x03, 0x04, 0x05, 0x06, 0x07, 0x08};
  a.statuses = {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17};
  a.features = {0x0001, 0x0002, 0x0004, 0x0008};
  constexpr std::uint16_t store =
      bit(Flag::inline_data) | bit(Flag::seal) | bit(Flag::record) | bit(Flag::invalidate);
  a.legal_flags[static_cast<std::size_t>(Opcode::load)] =
      bit(Flag::record) | bit(Flag::invalidate) | bit(Flag::allow_unsealed);
  a.legal_flags[static_cast<std::size_t>(Opcode::store)] = store;
  a.legal_flags[static_cast<std::size_t>(Opcode::alloc_store)] = store;
  a.legal_flags[static_cast<std::size_t>(Opcode::free)] = bit(Flag::record);
  a.legal_flags[static_cast<std::size_t>(Opcode::bind)] = bit(Flag::seal) | bit(Flag::record);
  return a;
}();

/// The main alternative for COMPLETION: a pad of four octets after Data Length.
inline constexpr CompletionLayout kPaddedCompletion{24, 32, 40};

/// Whether codecs can work with `assignment`: codes are distinct, 0 is no opcode and is SUCCESS, features are
/// single bits, fields lie behind the header, inside their message and apart from each other.
[[nodiscard]] Result<> check(const Assignment& assignment);

}  // namespace kbtp::wire
