#include "proto/memory/partition.h"

#include <algorithm>
#include <utility>

namespace kbtp::memory {

Result<std::unique_ptr<Partition>> Partition::create(std::uint64_t offset, std::uint64_t blocks,
                                                     std::uint32_t block_size, FetchAdd fetch_add,
                                                     RingOptions options) {
  std::unique_ptr<Partition> partition(
      new Partition(offset, blocks, block_size, std::move(fetch_add), options));
  if (auto ring = partition->renew(); !ring) return unexpected(std::move(ring.error()));
  return partition;
}

void Partition::free(std::uint64_t block_offset) {
  held_[number_of(block_offset)] = false;
  ring_->free(block_offset);
}

std::uint64_t Partition::free_blocks() const {
  return static_cast<std::uint64_t>(std::count(held_.begin(), held_.end(), false));
}

Result<> Partition::renew() {
  std::vector<std::uint64_t> free;
  for (std::size_t i = 0; i < held_.size(); ++i) {
    if (!held_[i]) free.push_back(offset_ + i * block_size_);
  }
  auto ring = Ring::create(free, held_.size(), fetch_add_, options_);
  if (!ring) return unexpected(std::move(ring.error()));
  ring_ = std::move(*ring);
  handed_out_ = false;
  return {};
}

}  // namespace kbtp::memory
