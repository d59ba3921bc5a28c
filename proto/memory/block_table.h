// The block table (3.2): one 16-octet entry per handle, two 64-bit words in network order each, touched only
// by atomics and so laid out that an initiator may RDMA-read it at any moment (region content `words`).
//
// Threads: read() from any thread. The writers (bind, update, unbind) of one handle are serialized by the
// target, which queues operations on a handle in arrival order (G-22); those of different handles are free.

#pragma once

#include <cstdint>

#include "base/bytes.h"
#include "base/result.h"
#include "proto/memory/mapping.h"
#include "proto/wire/structures.h"

namespace kbtp::memory {

class BlockTable {
 public:
  /// Entries for `base_handle` .. `base_handle + count - 1`, which must not wrap; `count` at least 1. All
  /// unbound with Generation 1 (G-14).
  [[nodiscard]] static Result<BlockTable> create(std::uint64_t base_handle, std::uint64_t count);

  [[nodiscard]] std::uint64_t base_handle() const { return base_handle_; }
  [[nodiscard]] std::uint64_t count() const { return count_; }
  [[nodiscard]] bool contains(std::uint64_t handle) const {
    return handle >= base_handle_ && handle - base_handle_ < count_;
  }
  /// All entries, to be registered. 16 octets a handle.
  [[nodiscard]] MutableOctets memory() const {
    return mapping_.octets().first(count_ * wire::kTableEntrySize);
  }
  /// The part that holds `handles` entries from `first_handle` on (Table STags cover one domain only, G-25).
  [[nodiscard]] MutableOctets memory(std::uint64_t first_handle, std::uint64_t handles) const;

  // `handle` must be contained in all that follow. Each writer returns the entry as it now stands.

  /// One consistent snapshot: all 16 octets are of one moment.
  [[nodiscard]] wire::TableEntry read(std::uint64_t handle) const;

  /// ALLOC_STORE and BIND (6.3 step 4): binds the unbound entry, next Generation.
  wire::TableEntry bind(std::uint64_t handle, std::uint64_t block_offset, std::uint32_t data_length,
                        bool seal);
  /// STORE (6.2 step 3): replaces Data Length and, with `seal`, sets SEALED, in one store (G-18).
  wire::TableEntry update(std::uint64_t handle, std::uint32_t data_length, bool seal);
  /// FREE (6.4 step 2): clears VALID, SEALED and Data Length, next Generation, in one store (P-13).
  wire::TableEntry unbind(std::uint64_t handle);

  /// Sets the Generation of an unbound entry, for tests of its wrap and for persistent targets (G-14).
  void preset_generation(std::uint64_t handle, std::uint16_t generation);

 private:
  BlockTable(Mapping mapping, std::uint64_t base_handle, std::uint64_t count)
      : mapping_(std::move(mapping)), base_handle_(base_handle), count_(count) {}
  [[nodiscard]] std::uint64_t* entry(std::uint64_t handle) const;

  Mapping mapping_;
  std::uint64_t base_handle_;
  std::uint64_t count_;
};

}  // namespace kbtp::memory
