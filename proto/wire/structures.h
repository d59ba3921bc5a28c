// What lies in the target's memory: table entries (3.2), ring slots (3.3), ring counters (3.3, 9.2).
//
// Entries and slots are 16 octets in network order (G-01), kept as two 64-bit words so that atomics can touch
// them. `Words` holds the words as they lie in memory; pack and unpack go between them and values.

#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "base/bytes.h"
#include "proto/wire/assignment.h"

namespace kbtp::wire {

/// The Block Offset of an empty (consumed) slot (3.3). It can never be a block's (G-02).
inline constexpr std::uint64_t kNoBlock = ~std::uint64_t{0};

inline constexpr std::uint16_t kEntryValid = 0x0001;   // 3.2
inline constexpr std::uint16_t kEntrySealed = 0x0002;  // 3.2

/// Two words in network order, first octets first.
struct Words {
  std::uint64_t first = 0;
  std::uint64_t second = 0;
  friend bool operator==(const Words&, const Words&) = default;
};

/// 0 Flags16 | 2 Generation16 | 4 Data Length32 | 8 Block Offset64 (3.2).
struct TableEntry {
  std::uint16_t flags = 0;
  std::uint16_t generation = 1;   ///< never 0; 1 in an entry that was never bound (G-14)
  std::uint32_t data_length = 0;  ///< octets
  std::uint64_t block_offset = 0;

  [[nodiscard]] constexpr bool valid() const { return (flags & kEntryValid) != 0; }
  [[nodiscard]] constexpr bool sealed() const { return (flags & kEntrySealed) != 0; }
  friend bool operator==(const TableEntry&, const TableEntry&) = default;
};

[[nodiscard]] Words pack(const TableEntry& entry);
[[nodiscard]] TableEntry unpack_entry(const Words& words);
[[nodiscard]] std::array<std::byte, kTableEntrySize> encode(const TableEntry& entry);
/// The first 16 octets; there must be that many.
[[nodiscard]] TableEntry decode_entry(std::span<const std::byte, kTableEntrySize> octets);

/// The generation after `generation`: one more, skipping zero (6.3 step 4).
[[nodiscard]] constexpr std::uint16_t next_generation(std::uint16_t generation) {
  return generation == 0xFFFF ? std::uint16_t{1} : static_cast<std::uint16_t>(generation + 1);
}

/// 0 Sequence32 | 4 Reserved32 | 8 Block Offset64 (3.3).
struct Slot {
  std::uint32_t sequence = 0;
  std::uint64_t block_offset = kNoBlock;

  [[nodiscard]] constexpr bool consumed() const { return block_offset == kNoBlock; }
  /// The slot holds the block for `ticket` (3.3 Allocation). Tickets compare by equality only (G-32).
  [[nodiscard]] constexpr bool ready_for(std::uint32_t ticket) const {
    return sequence == ticket && !consumed();
  }
  /// A free with ticket `ticket` may write here in a ring of `slots`: consumed, and by the ticket just one
  /// lap earlier (E-3).
  [[nodiscard]] constexpr bool free_for(std::uint32_t ticket, std::uint64_t slots) const {
    return consumed() && sequence == static_cast<std::uint32_t>(ticket - slots);
  }
  friend bool operator==(const Slot&, const Slot&) = default;
};

[[nodiscard]] Words pack(const Slot& slot);
[[nodiscard]] Slot unpack_slot(const Words& words);
[[nodiscard]] std::array<std::byte, kSlotSize> encode(const Slot& slot);
[[nodiscard]] Slot decode_slot(std::span<const std::byte, kSlotSize> octets);

/// Head or Tail, taken apart: a ticket and the octet offset of its slot.
struct Counter {
  std::uint32_t ticket = 0;
  std::uint32_t slot_offset = 0;  ///< 16 * slot number
  friend bool operator==(const Counter&, const Counter&) = default;
};

/// How the counters of a ring of 2^n slots are packed into a word (host order) and advanced, n in 1..28
/// (E-4).
class CounterFormat {
 public:
  enum class Kind : std::uint8_t {
    masked,    ///< 3.3: Ticket in bits 63-32, Slot Offset in the low n+4 bits, masked FetchAdd
    unmasked,  ///< 9.2: Ticket in bits 63-32, the rest zero, plain FetchAdd; slot = 16 * (ticket mod N)
  };
  static constexpr unsigned kMinLog2 = 1;
  static constexpr unsigned kMaxLog2 = 28;

  constexpr explicit CounterFormat(unsigned log2, Kind kind = Kind::masked) : log2_(log2), kind_(kind) {}

  [[nodiscard]] constexpr unsigned log2() const { return log2_; }
  [[nodiscard]] constexpr Kind kind() const { return kind_; }
  [[nodiscard]] constexpr std::uint64_t slots() const { return std::uint64_t{1} << log2_; }
  [[nodiscard]] constexpr std::uint64_t add_data() const {
    return kind_ == Kind::masked ? 0x0000'0001'0000'0010u : 0x0000'0001'0000'0000u;
  }
  /// bit 63 | bit 31 | bit n+3 (3.3); 0, one 64-bit addition, for 9.2.
  [[nodiscard]] constexpr std::uint64_t add_mask() const {
    return kind_ == Kind::masked
               ? (std::uint64_t{1} << 63) | (std::uint64_t{1} << 31) | (std::uint64_t{1} << (log2_ + 3))
               : 0;
  }
  /// The slot of `ticket`: N divides 2^32, so it is ticket mod N for ever.
  [[nodiscard]] constexpr std::uint64_t slot_of(std::uint32_t ticket) const { return ticket & (slots() - 1); }
  /// The counter word that stands at `ticket`.
  [[nodiscard]] constexpr std::uint64_t pack(std::uint32_t ticket) const {
    const std::uint64_t high = std::uint64_t{ticket} << 32;
    return kind_ == Kind::masked ? high | (slot_of(ticket) * kSlotSize) : high;
  }
  /// What a FetchAdd returned, taken apart; for 9.2 the Slot Offset is computed from the ticket.
  [[nodiscard]] constexpr Counter unpack(std::uint64_t word) const {
    const auto ticket = static_cast<std::uint32_t>(word >> 32);
    if (kind_ == Kind::unmasked) return {ticket, static_cast<std::uint32_t>(slot_of(ticket) * kSlotSize)};
    return {ticket, static_cast<std::uint32_t>(word & ((slots() * kSlotSize) - 1))};
  }
  /// The bits between the two fields, which stay 0 (KBTP-3.3-06); for 9.2 the whole low half.
  [[nodiscard]] constexpr std::uint64_t zero_bits() const {
    constexpr std::uint64_t low = 0xFFFF'FFFFu;
    return kind_ == Kind::masked ? low & ~((slots() * kSlotSize) - 1) : low;
  }

 private:
  unsigned log2_;
  Kind kind_;
};

/// The n of the smallest ring for `blocks` blocks: N = 2^n >= blocks, n >= 1 (3.3, E-4); nothing above 2^28.
[[nodiscard]] constexpr std::optional<unsigned> ring_log2(std::uint64_t blocks) {
  for (unsigned n = CounterFormat::kMinLog2; n <= CounterFormat::kMaxLog2; ++n) {
    if ((std::uint64_t{1} << n) >= blocks) return n;
  }
  return std::nullopt;
}

}  // namespace kbtp::wire
