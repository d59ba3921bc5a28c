#include "proto/memory/pool.h"

#include <cstring>
#include <fmt/format.h>
#include <limits>

#include "base/shared_memory.h"

namespace kbtp::memory {

Result<Pool> Pool::create(std::uint64_t blocks, std::uint32_t block_size, std::uint64_t base) {
  constexpr std::uint64_t kBaseAlignment = 4096;
  if (blocks == 0 || blocks > kMaxBlocks) {
    return failure(fmt::format("a pool has 1 to {} blocks, not {}", kMaxBlocks, blocks));
  }
  if (block_size == 0 || block_size % 8 != 0) {
    return failure(
        fmt::format("the block size must be a multiple of 8 octets and below 2^32, not {}", block_size));
  }
  const std::uint64_t length = blocks * block_size;  // below 2^60
  if (base % kBaseAlignment != 0 || base > std::numeric_limits<std::uint64_t>::max() - length) {
    return failure(fmt::format("the pool's base {:#x} must be a multiple of {} and leave room for {} octets",
                               base, kBaseAlignment, length));
  }
  return Mapping::create(length, "block pool").map([&](Mapping mapping) {
    return Pool(std::move(mapping), blocks, block_size, base);
  });
}

Result<Pool> Pool::create_at_address(std::uint64_t blocks, std::uint32_t block_size) {
  return create(blocks, block_size).map([](Pool pool) {
    pool.base_ = reinterpret_cast<std::uintptr_t>(pool.memory().data());
    return pool;
  });
}

std::optional<std::uint64_t> Pool::number_of(std::uint64_t block_offset) const {
  if (block_offset < base_) return std::nullopt;
  const std::uint64_t distance = block_offset - base_;
  if (distance >= length() || distance % block_size_ != 0) return std::nullopt;
  return distance / block_size_;
}

MutableOctets Pool::block(std::uint64_t block_offset) const {
  return memory().subspan(block_offset - base_, block_size_);
}

void Pool::scrub(std::uint64_t block_offset, bool shared) const {
  const MutableOctets octets = block(block_offset);
  if (shared) return fill_shared(octets, std::byte{0});
  std::memset(octets.data(), 0, octets.size());
}

}  // namespace kbtp::memory
