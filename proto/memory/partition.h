// The part of the pool that belongs to one DIRECT_ALLOC initiator for good (3.4): as many blocks as its
// quota, in one piece so that a Partition STag can name them, and a ring of their own. Whoever allocates from
// it, by DIRECT_ALLOC or by ALLOC_STORE, uses that ring, and its blocks return to no other (6.4, G-26).
//
// Threads: the session that holds the initiator's range, one after the other. ring() may be used as ring.h
// says while no renew() is under way.

#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/result.h"
#include "proto/memory/ring.h"

namespace kbtp::memory {

class Partition {
 public:
  /// `blocks` blocks of `block_size` octets, the first one at Tagged Offset `offset`. All are free.
  [[nodiscard]] static Result<std::unique_ptr<Partition>> create(std::uint64_t offset, std::uint64_t blocks,
                                                                 std::uint32_t block_size, FetchAdd fetch_add,
                                                                 RingOptions options);

  Partition(const Partition&) = delete;
  Partition& operator=(const Partition&) = delete;

  [[nodiscard]] std::uint64_t offset() const { return offset_; }
  /// Octets.
  [[nodiscard]] std::uint64_t length() const { return held_.size() * block_size_; }
  [[nodiscard]] bool contains(std::uint64_t block_offset) const {
    return block_offset >= offset_ && block_offset - offset_ < length();
  }
  [[nodiscard]] Ring& ring() const { return *ring_; }

  /// The block has been taken out of the ring.
  void took(std::uint64_t block_offset) { held_[number_of(block_offset)] = true; }
  /// The block returns to the ring.
  void free(std::uint64_t block_offset);
  /// Blocks that nobody has taken, whether a ticket stands for them or not.
  [[nodiscard]] std::uint64_t free_blocks() const;

  /// A new ring with the k blocks that nobody has taken, Head at ticket 0 and Tail at k (G-24): every ticket
  /// of the old one is void. Only once no peer reaches the old ring or the partition any more, and nobody
  /// waits for a block.
  [[nodiscard]] Result<> renew();
  /// A peer gets at ring and partition, and may leave tickets open.
  void hand_out() { handed_out_ = true; }
  /// Whether that has happened since the ring was made.
  [[nodiscard]] bool handed_out() const { return handed_out_; }

 private:
  Partition(std::uint64_t offset, std::uint64_t blocks, std::uint32_t block_size, FetchAdd fetch_add,
            RingOptions options)
      : offset_(offset),
        block_size_(block_size),
        fetch_add_(std::move(fetch_add)),
        options_(options),
        held_(blocks) {}
  [[nodiscard]] std::size_t number_of(std::uint64_t block_offset) const {
    return static_cast<std::size_t>((block_offset - offset_) / block_size_);
  }

  std::uint64_t offset_;
  std::uint32_t block_size_;
  FetchAdd fetch_add_;
  RingOptions options_;
  std::vector<bool> held_;  ///< by block: bound, or being stored to
  bool handed_out_ = false;
  std::unique_ptr<Ring> ring_;
};

}  // namespace kbtp::memory
