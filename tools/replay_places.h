// Where the blocks of a replay are held. Every held block has a place, a number below capacity(); each place
// is one handle, of one lane's range.

#pragma once

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "tools/lru.h"

namespace kbtp::tools {

class ReplayPlaces {
 public:
  virtual ~ReplayPlaces() = default;
  /// Request number `request` (from 0) refers to block `id`: least recently used out, like Lru::touch().
  virtual Lru::Touch touch(std::uint64_t request, std::uint64_t id) = 0;
  /// The lane that loads what the request refers to.
  [[nodiscard]] virtual std::uint32_t reader(std::uint64_t request) const = 0;
  /// The lane that stores to and frees the place.
  [[nodiscard]] virtual std::uint32_t owner(std::uint32_t place) const = 0;
  [[nodiscard]] virtual std::uint32_t capacity() const = 0;
};

/// One pool, shared by `lanes` sessions in turn: place p belongs to lane p mod lanes.
class SharedPlaces : public ReplayPlaces {
 public:
  SharedPlaces(std::uint32_t capacity, std::uint32_t lanes) : lru_(capacity), lanes_(lanes) {}
  Lru::Touch touch(std::uint64_t, std::uint64_t id) override { return lru_.touch(id); }
  [[nodiscard]] std::uint32_t reader(std::uint64_t request) const override {
    return static_cast<std::uint32_t>(request % lanes_);
  }
  [[nodiscard]] std::uint32_t owner(std::uint32_t place) const override { return place % lanes_; }
  [[nodiscard]] std::uint32_t capacity() const override { return lru_.capacity(); }

 private:
  Lru lru_;
  std::uint32_t lanes_;
};

/// A pool at each of `nodes` nodes. Request r is decoded by node r mod nodes and prefilled by one of the
/// others, each in turn. Its prefill node loads the blocks that are held, wherever they are, and stores those
/// that are not into the decode node's pool, which is going to use them; there they stay until they are
/// evicted by blocks of the same pair of nodes. Each pair has `share` places.
class PeerPlaces : public ReplayPlaces {
 public:
  PeerPlaces(std::uint32_t nodes, std::uint32_t share);
  Lru::Touch touch(std::uint64_t request, std::uint64_t id) override;
  /// The prefill node.
  [[nodiscard]] std::uint32_t reader(std::uint64_t request) const override;
  /// The prefill node that stored there.
  [[nodiscard]] std::uint32_t owner(std::uint32_t place) const override;
  [[nodiscard]] std::uint32_t capacity() const override {
    return static_cast<std::uint32_t>(pairs_.size()) * share_;
  }
  /// The node in whose pool the place is.
  [[nodiscard]] std::uint32_t home(std::uint32_t place) const { return place / share_ / (nodes_ - 1); }
  /// The place's number among those of its pair.
  [[nodiscard]] std::uint32_t index(std::uint32_t place) const { return place % share_; }

 private:
  [[nodiscard]] std::uint32_t decoder(std::uint64_t request) const {
    return static_cast<std::uint32_t>(request % nodes_);
  }
  /// The pair's prefill node is (home + 1 + turn) mod nodes.
  [[nodiscard]] std::uint32_t turn(std::uint64_t request) const {
    return static_cast<std::uint32_t>(request / nodes_ % (nodes_ - 1));
  }

  std::uint32_t nodes_;
  std::uint32_t share_;
  std::vector<Lru> pairs_;                                    // number home * (nodes - 1) + turn
  std::unordered_map<std::uint64_t, std::uint32_t> pair_of_;  // of each held block
};

}  // namespace kbtp::tools
