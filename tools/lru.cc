#include "tools/lru.h"

#include <algorithm>
#include <limits>

namespace kbtp::tools {

namespace {
constexpr std::uint32_t kNone = std::numeric_limits<std::uint32_t>::max();
}

Lru::Lru(std::uint32_t capacity)
    : nodes_(std::max<std::uint32_t>(capacity, 1)), newest_(kNone), oldest_(kNone) {
  places_.reserve(nodes_.size());
}

void Lru::unlink(std::uint32_t place) {
  const Node& node = nodes_[place];
  (node.newer == kNone ? newest_ : nodes_[node.newer].older) = node.older;
  (node.older == kNone ? oldest_ : nodes_[node.older].newer) = node.newer;
}

void Lru::link_newest(std::uint32_t place) {
  nodes_[place].newer = kNone;
  nodes_[place].older = newest_;
  (newest_ == kNone ? oldest_ : nodes_[newest_].newer) = place;
  newest_ = place;
}

Lru::Touch Lru::touch(std::uint64_t id) {
  if (const auto held = places_.find(id); held != places_.end()) {
    unlink(held->second);
    link_newest(held->second);
    return {.hit = true, .place = held->second, .evicted = std::nullopt};
  }
  Touch touch;
  if (size() < capacity()) {
    touch.place = size();
  } else {
    touch.place = oldest_;
    touch.evicted = nodes_[oldest_].id;
    places_.erase(nodes_[oldest_].id);
    unlink(touch.place);
  }
  nodes_[touch.place].id = id;
  places_.emplace(id, touch.place);
  link_newest(touch.place);
  return touch;
}

}  // namespace kbtp::tools
