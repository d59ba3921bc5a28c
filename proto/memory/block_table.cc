#include "proto/memory/block_table.h"

#include <atomic>
#include <fmt/format.h>
#include <limits>

namespace kbtp::memory {

namespace {

using wire::TableEntry;
using Word = std::atomic_ref<std::uint64_t>;

// An entry's words: [0] Flags, Generation, Data Length; [1] Block Offset.
constexpr std::size_t kState = 0;
constexpr std::size_t kOffset = 1;

TableEntry snapshot(std::uint64_t* words) {
  Word state(words[kState]);
  Word offset(words[kOffset]);
  std::uint64_t before = state.load(std::memory_order_acquire);
  for (;;) {
    const std::uint64_t block = offset.load(std::memory_order_acquire);
    // Whoever sees the Block Offset of a later binding sees, because both are released and acquired, at least
    // the FREE before it, which changed the Generation: equal states mean that the offset belongs to them.
    const std::uint64_t after = state.load(std::memory_order_acquire);
    if (after == before) return wire::unpack_entry({before, block});
    before = after;
  }
}

void publish(std::uint64_t* words, const TableEntry& entry) {
  Word(words[kState]).store(wire::pack(entry).first, std::memory_order_release);
}

}  // namespace

Result<BlockTable> BlockTable::create(std::uint64_t base_handle, std::uint64_t count) {
  constexpr std::uint64_t kMaxCount = std::uint64_t{1} << 40;
  if (count == 0 || count > kMaxCount) {
    return failure(fmt::format("a block table has 1 to {} handles, not {}", kMaxCount, count));
  }
  if (base_handle > std::numeric_limits<std::uint64_t>::max() - (count - 1)) {
    return failure(fmt::format("{} handles from {} on do not fit 64 bits", count, base_handle));
  }
  return Mapping::create(count * wire::kTableEntrySize, "block table").map([&](Mapping mapping) {
    BlockTable table(std::move(mapping), base_handle, count);
    for (std::uint64_t i = 0; i < count; ++i) publish(table.entry(base_handle + i), TableEntry{});
    return table;
  });
}

std::uint64_t* BlockTable::entry(std::uint64_t handle) const {
  return mapping_.words().data() + 2 * (handle - base_handle_);
}

MutableOctets BlockTable::memory(std::uint64_t first_handle, std::uint64_t handles) const {
  return mapping_.octets().subspan((first_handle - base_handle_) * wire::kTableEntrySize,
                                   handles * wire::kTableEntrySize);
}

TableEntry BlockTable::read(std::uint64_t handle) const { return snapshot(entry(handle)); }

TableEntry BlockTable::bind(std::uint64_t handle, std::uint64_t block_offset, std::uint32_t data_length,
                            bool seal) {
  std::uint64_t* words = entry(handle);
  TableEntry e = snapshot(words);
  e.generation = wire::next_generation(e.generation);
  e.flags = static_cast<std::uint16_t>(wire::kEntryValid | (seal ? wire::kEntrySealed : 0));
  e.data_length = data_length;
  e.block_offset = block_offset;
  // 3.2: Data Length and Block Offset before Flags and Generation; 6.3: the entry after the data. The release
  // of the second store orders both, and Data Length comes with Flags and Generation in one (E-2).
  Word(words[kOffset]).store(wire::pack(e).second, std::memory_order_release);
  publish(words, e);
  return e;
}

TableEntry BlockTable::update(std::uint64_t handle, std::uint32_t data_length, bool seal) {
  std::uint64_t* words = entry(handle);
  TableEntry e = snapshot(words);
  e.data_length = data_length;
  if (seal) e.flags |= wire::kEntrySealed;
  // 6.2 step 3 and G-18: Data Length and SEALED in one store, after the data.
  publish(words, e);
  return e;
}

TableEntry BlockTable::unbind(std::uint64_t handle) {
  std::uint64_t* words = entry(handle);
  TableEntry e = snapshot(words);
  e.flags = 0;
  e.generation = wire::next_generation(e.generation);
  e.data_length = 0;
  // 6.4 step 2: one store; step 3 (Ring::free) comes after it.
  publish(words, e);
  return e;
}

void BlockTable::preset_generation(std::uint64_t handle, std::uint16_t generation) {
  std::uint64_t* words = entry(handle);
  TableEntry e = snapshot(words);
  e.generation = generation;
  publish(words, e);
}

}  // namespace kbtp::memory
