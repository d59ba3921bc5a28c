#include "verbs/regions.h"

#include <cerrno>
#include <functional>
#include <string>

namespace kbtp::verbs {

namespace {

constexpr std::size_t kPage = 4096;

std::string cannot_register(std::size_t size, int error) {
  std::string text =
      "the RDMA device cannot register " + std::to_string(size) + " octets: " + error_text(error);
  if (error == ENOMEM || error == EAGAIN) text += " (see ulimit -l)";
  return text;
}

}  // namespace

int verbs_access(rdma::Access access) {
  int rights = 0;
  if (allows(access, rdma::Access::remote_read)) rights |= IBV_ACCESS_REMOTE_READ;
  // What peers may write the device must be able to write (ibv_reg_mr(3)).
  if (allows(access, rdma::Access::remote_write)) rights |= IBV_ACCESS_REMOTE_WRITE | IBV_ACCESS_LOCAL_WRITE;
  if (allows(access, rdma::Access::remote_atomic))
    rights |= IBV_ACCESS_REMOTE_ATOMIC | IBV_ACCESS_LOCAL_WRITE;
  return rights;
}

Result<PinnedBuffer> PinnedBuffer::make(ibv_pd& pd, std::size_t size, int access) {
  PinnedBuffer buffer;
  buffer.size_ = size;
  const std::size_t whole = (size + kPage - 1) / kPage * kPage;
  buffer.memory_.reset(static_cast<std::byte*>(std::aligned_alloc(kPage, whole)));
  if (!buffer.memory_) return failure("there is no memory for " + std::to_string(size) + " octets of buffer");
  buffer.region_.reset(ibv_reg_mr(&pd, buffer.memory_.get(), size, access));
  if (!buffer.region_) return failure(cannot_register(size, errno));
  return buffer;
}

Result<rdma::Region> Regions::add(const rdma::RegionSpec& spec, bool through_window,
                                  std::shared_ptr<const void> keep) {
  if (const char* fault = rdma::fault_of(spec)) return failure(fault);
  if (spec.memory.empty()) return failure("an RDMA device registers no region of 0 octets");
  if (allows(spec.access, rdma::Access::remote_atomic) && !device_.facts.atomics)
    return failure("the RDMA device " + device_.facts.name + " has no atomics");
  const auto address = reinterpret_cast<std::uintptr_t>(spec.memory.data());
  // Devices translate whole pages: the place in a page is that of the memory.
  const std::uint64_t offset =
      device_.quirks.offset_is_address ? address : (spec.tagged_offset / kPage * kPage) + (address % kPage);
  Entry entry;
  entry.memory = spec.memory;
  entry.content = spec.content;
  entry.keep = std::move(keep);
  entry.tagged_offset = offset;
  entry.access = verbs_access(spec.access);
  const int region_access =
      through_window ? IBV_ACCESS_MW_BIND | (entry.access & IBV_ACCESS_LOCAL_WRITE) : entry.access;
  entry.region.reset(ibv_reg_mr_iova(&pd_, spec.memory.data(), spec.memory.size(), offset,
                                     static_cast<unsigned>(region_access)));
  if (!entry.region) return failure(cannot_register(spec.memory.size(), errno));
  rdma::STag stag = entry.region->rkey;
  if (through_window) {
    entry.window.reset(ibv_alloc_mw(&pd_, IBV_MW_TYPE_2));
    if (!entry.window) return failure("the RDMA device has no memory window left: " + error_text(errno));
    stag = ibv_inc_rkey(entry.window->rkey);
  }
  if (!entries_.emplace(stag, std::move(entry)).second)
    return failure("the RDMA device gave one STag to two regions");
  return rdma::Region{stag, offset, spec.memory.size()};
}

bool Regions::remove(rdma::STag stag) { return entries_.erase(stag) > 0; }

std::optional<Regions::Window> Regions::window(rdma::STag stag) const {
  const auto found = entries_.find(stag);
  if (found == entries_.end() || !found->second.window) return std::nullopt;
  const Entry& entry = found->second;
  return Window{entry.window.get(), entry.region.get(), stag, entry.tagged_offset,
                entry.access & ~IBV_ACCESS_LOCAL_WRITE};
}

std::optional<WorkQueue::InRegion> Regions::find(Octets octets) const {
  const std::less_equal<const std::byte*> not_after;
  for (const auto& [stag, entry] : entries_) {
    if (entry.content == rdma::Content::stable && not_after(entry.memory.data(), octets.data()) &&
        not_after(octets.data() + octets.size(), entry.memory.data() + entry.memory.size())) {
      const auto behind = static_cast<std::uint64_t>(octets.data() - entry.memory.data());
      return WorkQueue::InRegion{entry.region->lkey, entry.tagged_offset + behind};
    }
  }
  return std::nullopt;
}

}  // namespace kbtp::verbs
