#include "rdmap_binding/rnic/stag_table.h"

#include <limits>
#include <mutex>

#include "base/random.h"

namespace kbtp::rnic {

using rdma::Access;
using rdma::DomainId;
using rdma::Region;
using rdma::RegionSpec;
using rdma::STag;

Result<Region> StagTable::add(DomainId domain, const RegionSpec& spec) {
  if (spec.remote_invalidate) {
    return failure("a region of a protection domain cannot be open to remote invalidation (RFC 5040 8.1.1)");
  }
  return insert(spec, StreamId{}, domain);
}

Result<Region> StagTable::add(StreamId stream, const RegionSpec& spec) {
  return insert(spec, stream, DomainId{});
}

Result<Region> StagTable::insert(const RegionSpec& spec, StreamId stream, DomainId domain) {
  if (const char* fault = rdma::fault_of(spec)) return failure(fault);
  const std::unique_lock lock(mutex_);
  STag stag = 0;
  do {
    stag = random_u32();
  } while (stag == 0 || entries_.contains(stag));
  entries_.emplace(stag, Entry{spec.memory, spec.tagged_offset, spec.access, spec.content,
                               spec.remote_invalidate, stream, domain});
  return Region{stag, spec.tagged_offset, spec.memory.size()};
}

bool StagTable::remove_of_domain(STag stag) {
  const std::unique_lock lock(mutex_);
  const auto it = entries_.find(stag);
  if (it == entries_.end() || it->second.stream != StreamId{}) return false;
  entries_.erase(it);
  return true;
}

bool StagTable::remove_of_stream(StreamId stream, STag stag) {
  const std::unique_lock lock(mutex_);
  const auto it = entries_.find(stag);
  if (it == entries_.end() || it->second.stream != stream) return false;
  entries_.erase(it);
  return true;
}

bool StagTable::invalidate_by_peer(StreamId stream, STag stag) {
  const std::unique_lock lock(mutex_);
  const auto it = entries_.find(stag);
  if (it == entries_.end() || it->second.stream != stream || !it->second.remote_invalidate) return false;
  entries_.erase(it);
  return true;
}

tl::expected<Target, StagFault> StagTable::find(StreamScope who, STag stag, std::uint64_t offset,
                                                std::uint64_t length, Access wanted) const {
  const std::shared_lock lock(mutex_);
  const auto it = entries_.find(stag);
  if (it == entries_.end()) return unexpected(StagFault::invalid);
  const Entry& entry = it->second;
  const bool ours = entry.stream != StreamId{} ? entry.stream == who.stream : entry.domain == who.domain;
  if (!ours) return unexpected(StagFault::not_associated);
  if (!rdma::allows(entry.access, wanted)) return unexpected(StagFault::access);
  // RFC 5041 7.1: first that the sum stays below 2^64, then that it stays inside.
  if (length - 1 > std::numeric_limits<std::uint64_t>::max() - offset) return unexpected(StagFault::wrap);
  if (offset < entry.tagged_offset) return unexpected(StagFault::bounds);
  const std::uint64_t start = offset - entry.tagged_offset;
  if (start > entry.memory.size() || length > entry.memory.size() - start) {
    return unexpected(StagFault::bounds);
  }
  return Target{entry.memory.subspan(start, length), entry.content};
}

bool StagTable::exists(STag stag) const {
  const std::shared_lock lock(mutex_);
  return entries_.contains(stag);
}

std::size_t StagTable::size() const {
  const std::shared_lock lock(mutex_);
  return entries_.size();
}

}  // namespace kbtp::rnic
