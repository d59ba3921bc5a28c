#include "proto/target/handle_queue.h"

#include <utility>

namespace kbtp::target {

bool HandleQueue::enter(std::uint64_t handle, const std::shared_ptr<Work>& work) {
  Shard& here = shard(handle);
  const std::scoped_lock lock(here.mutex);
  const auto [line, free] = here.lines.try_emplace(handle);
  if (!free) line->second.push_back(work);
  return free;
}

void HandleQueue::leave(std::uint64_t handle) {
  std::shared_ptr<Work> next;
  {
    Shard& here = shard(handle);
    const std::scoped_lock lock(here.mutex);
    const auto line = here.lines.find(handle);
    if (line->second.empty()) {
      here.lines.erase(line);
      return;
    }
    next = std::move(line->second.front());
    line->second.pop_front();
  }
  rdma::Loop& loop = next->loop();
  loop.post([next = std::move(next)] { next->turn(); });
}

}  // namespace kbtp::target
