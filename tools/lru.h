// Which of the trace's blocks are held: least recently used out, at a fixed capacity. Every held block has a
// place, a number below the capacity, that stays with it until it is evicted; the newcomer inherits the
// place.

#pragma once

#include <cstdint>
#include <optional>
#include <unordered_map>
#include <vector>

namespace kbtp::tools {

class Lru {
 public:
  /// Room for `capacity` blocks, at least 1.
  explicit Lru(std::uint32_t capacity);

  struct Touch {
    bool hit = false;
    std::uint32_t place = 0;
    std::optional<std::uint64_t> evicted;  ///< the block that had to leave `place`; set on some misses
  };
  /// Looks `id` up, holds it from now on, and makes it the most recently used.
  Touch touch(std::uint64_t id);

  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(places_.size()); }
  [[nodiscard]] std::uint32_t capacity() const { return static_cast<std::uint32_t>(nodes_.size()); }

 private:
  struct Node {
    std::uint64_t id = 0;
    std::uint32_t newer = 0;
    std::uint32_t older = 0;
  };
  void unlink(std::uint32_t place);
  void link_newest(std::uint32_t place);

  std::vector<Node> nodes_;
  std::unordered_map<std::uint64_t, std::uint32_t> places_;
  std::uint32_t newest_;
  std::uint32_t oldest_;
};

}  // namespace kbtp::tools
