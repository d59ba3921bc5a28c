// Registered memory: a protection domain, the regions of the upper layer in it, and buffers of our own.

#pragma once

#include <cstdlib>
#include <memory>
#include <optional>
#include <unordered_map>

#include "base/bytes.h"
#include "base/result.h"
#include "proto/rdma/region.h"
#include "verbs/device.h"
#include "verbs/work_queue.h"

namespace kbtp::verbs {

/// A buffer of our own, registered for as long as it lives.
class PinnedBuffer {
 public:
  /// `access` as of ibv_reg_mr(3). The error is a sentence.
  [[nodiscard]] static Result<PinnedBuffer> make(ibv_pd& pd, std::size_t size, int access);

  [[nodiscard]] MutableOctets octets() const { return {memory_.get(), size_}; }
  [[nodiscard]] std::uint32_t key() const { return region_->lkey; }

 private:
  struct Free {
    void operator()(std::byte* memory) const { std::free(memory); }
  };
  std::unique_ptr<std::byte, Free> memory_;
  std::size_t size_ = 0;
  MrHandle region_;
};

/// Regions of the upper layer in one protection domain. Not thread-safe.
class Regions {
 public:
  Regions(const Device& device, ibv_pd& pd) : device_(device), pd_(pd) {}

  struct Window {
    ibv_mw* window = nullptr;
    ibv_mr* region = nullptr;
    rdma::STag stag = 0;              ///< once bound
    std::uint64_t tagged_offset = 0;  ///< of the region's first octet
    int access = 0;
  };

  /// With `through_window` peers get at the memory through a window of type 2 alone, which has yet to be
  /// bound (window()).
  /// `keep` is held until the region is gone.
  [[nodiscard]] Result<rdma::Region> add(const rdma::RegionSpec& spec, bool through_window = false,
                                         std::shared_ptr<const void> keep = nullptr);
  /// False when there is no such region.
  bool remove(rdma::STag stag);
  void clear() { entries_.clear(); }
  /// Peers reach nothing through windows any more; the regions stay registered.
  void release_windows() {
    for (auto& [stag, entry] : entries_) entry.window.reset();
  }

  [[nodiscard]] std::optional<Window> window(rdma::STag stag) const;
  /// A `stable` region around `octets`.
  [[nodiscard]] std::optional<WorkQueue::InRegion> find(Octets octets) const;

 private:
  struct Entry {
    std::span<std::byte> memory;
    rdma::Content content = rdma::Content::octets;
    std::uint64_t tagged_offset = 0;
    int access = 0;
    std::shared_ptr<const void> keep;
    MrHandle region;
    MwHandle window;  // goes before its region
  };
  const Device& device_;
  ibv_pd& pd_;
  std::unordered_map<rdma::STag, Entry> entries_;
};

/// The rights of ibv_reg_mr(3) that `access` stands for.
[[nodiscard]] int verbs_access(rdma::Access access);

}  // namespace kbtp::verbs
