#include "tests/sim/content.h"

#include <algorithm>
#include <fmt/format.h>

namespace kbtp::sim {

namespace {

std::byte octet(StoreId id, std::size_t i) {
  return static_cast<std::byte>((id * 0x9E37'79B9'7F4A'7C15u + i * 0x2545'F491'4F6C'DD1Du) >> 40);
}

bool wrote(StoreId id, std::span<const std::byte> octets) {
  for (std::size_t i = 0; i < octets.size(); ++i) {
    if (octets[i] != octet(id, i)) return false;
  }
  return true;
}

}  // namespace

StoreId Content::begin(const HandleKey& key, std::span<std::byte> octets) {
  const StoreId id = stores_.size() + 1;
  for (std::size_t i = 0; i < octets.size(); ++i) octets[i] = octet(id, i);
  stores_.emplace(id, Store{key, octets.size(), {}, false});
  of_handle_[key].push_back(id);
  return id;
}

void Content::stored(StoreId id, std::uint16_t generation) { stores_.at(id).generation = generation; }

void Content::freed(const HandleKey& key, std::uint16_t generation) {
  const auto before = static_cast<std::uint16_t>(generation == 1 ? 0xFFFF : generation - 1);
  freed_[{key, before}] = ++moment_;
}

std::optional<std::string> Content::judge(const HandleKey& key, std::uint16_t generation,
                                          std::span<const std::byte> octets, std::uint64_t since) {
  ++judged_;
  const auto what = [&](std::string_view text) {
    return fmt::format("a LOAD of handle {}, Generation {}, {} octets: {}", key.handle, generation,
                       octets.size(), text);
  };
  const auto freed = freed_.find({key, generation});
  if (freed != freed_.end() && freed->second <= since) return what("freed before it began");

  std::set<StoreId> candidates;
  for (const StoreId id : of_handle_[key]) {
    const Store& store = stores_.at(id);
    if (store.refused || store.length != octets.size()) continue;
    if (store.generation && *store.generation != generation) continue;
    if (wrote(id, octets)) candidates.insert(id);
  }
  if (candidates.empty()) {
    for (const auto& [id, store] : stores_) {
      if (store.length >= octets.size() && octets.size() >= 8 && wrote(id, octets)) {
        return what(fmt::format("the octets of a store of {} octets to handle {}, Generation {}{}",
                                store.length, store.key.handle, store.generation.value_or(0),
                                store.refused ? ", which was refused" : ""));
      }
    }
    return what("not what any one store wrote");
  }
  // A sealed block stays as it is until it is freed (6.6), and every FREE changes the Generation.
  const auto [at, first] = seen_.try_emplace({key, generation}, octets.size(), candidates);
  if (first) return std::nullopt;
  std::set<StoreId> both;
  std::ranges::set_intersection(at->second.second, candidates, std::inserter(both, both.end()));
  if (at->second.first != octets.size() || both.empty())
    return what("another load of it returned other octets");
  at->second.second = std::move(both);
  return std::nullopt;
}

}  // namespace kbtp::sim
