// What every store wrote, and what a load may therefore return: octets of one store to that handle, of the
// binding whose Generation it tells, all of them and no others. Each octet names its store and its place.

#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

namespace kbtp::sim {

using StoreId = std::uint64_t;

/// A handle in one life of the target's process.
struct HandleKey {
  std::uint64_t life = 0;
  std::uint64_t handle = 0;
  auto operator<=>(const HandleKey&) const = default;
};

class Content {
 public:
  /// A store is about to be sent; fills what it sends.
  StoreId begin(const HandleKey& key, std::span<std::byte> octets);
  /// It ended with SUCCESS, the entry having this Generation.
  void stored(StoreId id, std::uint16_t generation);
  /// It was refused: nobody may ever see it.
  void refused(StoreId id) { stores_.at(id).refused = true; }
  /// A FREE ended with SUCCESS and told this (new) Generation.
  void freed(const HandleKey& key, std::uint16_t generation);

  /// A moment before which frees and seals count as seen by what starts now.
  [[nodiscard]] std::uint64_t moment() const { return moment_; }

  /// What is wrong with a LOAD that began at `since` and returned `octets` of a sealed block; nothing when
  /// all is right.
  [[nodiscard]] std::optional<std::string> judge(const HandleKey& key, std::uint16_t generation,
                                                 std::span<const std::byte> octets, std::uint64_t since);

  [[nodiscard]] std::uint64_t loads_judged() const { return judged_; }

 private:
  struct Store {
    HandleKey key;
    std::size_t length = 0;
    std::optional<std::uint16_t> generation;
    bool refused = false;
  };
  using Binding = std::pair<HandleKey, std::uint16_t>;

  std::map<StoreId, Store> stores_;
  std::map<HandleKey, std::vector<StoreId>> of_handle_;
  std::map<Binding, std::uint64_t> freed_;                             // when
  std::map<Binding, std::pair<std::size_t, std::set<StoreId>>> seen_;  // sealed length, and whose it may be
  std::uint64_t moment_ = 0;
  std::uint64_t judged_ = 0;
};

}  // namespace kbtp::sim
