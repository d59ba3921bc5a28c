// The block pool (3.1): F blocks of Block Size octets in one region. A block's identity is its Block Offset,
// which is the Tagged Offset itself (G-02): what stands in entries and slots needs no arithmetic.
//
// Threads: the geometry never changes; who may touch a block's octets is settled by table, ring and pins.

#pragma once

#include <cstdint>
#include <optional>

#include "base/bytes.h"
#include "base/result.h"
#include "proto/memory/mapping.h"

namespace kbtp::memory {

/// The Tagged Offset of a pool's first octet unless another is given. Not zero, so that a peer which mistakes
/// offsets for block numbers or adds a base fails at once, and so that Block Offset 0 is no block's (G-16).
inline constexpr std::uint64_t kPoolBase = std::uint64_t{1} << 40;

/// F is at most 2^28, since one ring must be able to hold all blocks (E-4).
inline constexpr std::uint64_t kMaxBlocks = std::uint64_t{1} << 28;

class Pool {
 public:
  /// `blocks` in 1..2^28, `block_size` a multiple of 8 in 8..2^32-8 (G-45), `base` a multiple of 4096 with
  /// room for the pool below 2^64.
  [[nodiscard]] static Result<Pool> create(std::uint64_t blocks, std::uint32_t block_size,
                                           std::uint64_t base = kPoolBase);

  /// The base is the address of the memory, for a provider that knows no other Tagged Offsets.
  [[nodiscard]] static Result<Pool> create_at_address(std::uint64_t blocks, std::uint32_t block_size);

  [[nodiscard]] std::uint64_t blocks() const { return blocks_; }
  [[nodiscard]] std::uint32_t block_size() const { return block_size_; }
  /// Tagged Offset of the first octet; the region is registered with it.
  [[nodiscard]] std::uint64_t base() const { return base_; }
  /// Octets of the whole pool.
  [[nodiscard]] std::uint64_t length() const { return blocks_ * block_size_; }
  /// All of it, to be registered.
  [[nodiscard]] MutableOctets memory() const { return mapping_.octets(); }

  /// The Block Offset of block `number` < blocks().
  [[nodiscard]] std::uint64_t offset_of(std::uint64_t number) const { return base_ + number * block_size_; }
  /// The number of the block that starts at `block_offset`; nothing when none does.
  [[nodiscard]] std::optional<std::uint64_t> number_of(std::uint64_t block_offset) const;
  /// The block's octets. `block_offset` must be that of a block. Peers that have a direct mode (6.6) may read
  /// or write them at the same time: then they are only to be touched by the copies of base/shared_memory.h.
  [[nodiscard]] MutableOctets block(std::uint64_t block_offset) const;

  /// Zeroes the whole block (6.4, G-43), before it returns to a ring. `shared`: a peer may be reading it.
  void scrub(std::uint64_t block_offset, bool shared = false) const;

 private:
  Pool(Mapping mapping, std::uint64_t blocks, std::uint32_t block_size, std::uint64_t base)
      : mapping_(std::move(mapping)), blocks_(blocks), block_size_(block_size), base_(base) {}

  Mapping mapping_;
  std::uint64_t blocks_;
  std::uint32_t block_size_;
  std::uint64_t base_;
};

}  // namespace kbtp::memory
