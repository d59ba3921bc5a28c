#include "tools/replay_places.h"

namespace kbtp::tools {

PeerPlaces::PeerPlaces(std::uint32_t nodes, std::uint32_t share)
    : nodes_(nodes), share_(share), pairs_(std::size_t{nodes} * (nodes - 1), Lru(share)) {}

std::uint32_t PeerPlaces::reader(std::uint64_t request) const {
  return (decoder(request) + 1 + turn(request)) % nodes_;
}

std::uint32_t PeerPlaces::owner(std::uint32_t place) const {
  const std::uint32_t pair = place / share_;
  return (home(place) + 1 + pair % (nodes_ - 1)) % nodes_;
}

Lru::Touch PeerPlaces::touch(std::uint64_t request, std::uint64_t id) {
  const auto found = pair_of_.find(id);
  const std::uint32_t pair =
      found != pair_of_.end() ? found->second : decoder(request) * (nodes_ - 1) + turn(request);
  Lru::Touch touch = pairs_[pair].touch(id);
  if (touch.evicted) pair_of_.erase(*touch.evicted);
  if (!touch.hit) pair_of_[id] = pair;
  touch.place += pair * share_;
  return touch;
}

}  // namespace kbtp::tools
