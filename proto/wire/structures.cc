#include "proto/wire/structures.h"

#include <cstring>

namespace kbtp::wire {

namespace {

std::array<std::byte, 16> octets_of(const Words& words) {
  std::array<std::byte, 16> octets;
  std::memcpy(octets.data(), &words.first, 8);
  std::memcpy(octets.data() + 8, &words.second, 8);
  return octets;
}

Words words_of(std::span<const std::byte, 16> octets) {
  Words words;
  std::memcpy(&words.first, octets.data(), 8);
  std::memcpy(&words.second, octets.data() + 8, 8);
  return words;
}

}  // namespace

Words pack(const TableEntry& entry) {
  return {to_be64((std::uint64_t{entry.flags} << 48) | (std::uint64_t{entry.generation} << 32) |
                  entry.data_length),
          to_be64(entry.block_offset)};
}

TableEntry unpack_entry(const Words& words) {
  const std::uint64_t state = from_be64(words.first);
  return {static_cast<std::uint16_t>(state >> 48), static_cast<std::uint16_t>(state >> 32),
          static_cast<std::uint32_t>(state), from_be64(words.second)};
}

std::array<std::byte, kTableEntrySize> encode(const TableEntry& entry) { return octets_of(pack(entry)); }

TableEntry decode_entry(std::span<const std::byte, kTableEntrySize> octets) {
  return unpack_entry(words_of(octets));
}

Words pack(const Slot& slot) {
  return {to_be64(std::uint64_t{slot.sequence} << 32), to_be64(slot.block_offset)};
}

Slot unpack_slot(const Words& words) {
  return {static_cast<std::uint32_t>(from_be64(words.first) >> 32), from_be64(words.second)};
}

std::array<std::byte, kSlotSize> encode(const Slot& slot) { return octets_of(pack(slot)); }

Slot decode_slot(std::span<const std::byte, kSlotSize> octets) { return unpack_slot(words_of(octets)); }

}  // namespace kbtp::wire
