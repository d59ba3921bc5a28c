// Page-aligned, zeroed memory from the kernel, backed lazily: what pool, table, rings and counters lie in.

#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/result.h"

namespace kbtp::memory {

class Mapping {
 public:
  Mapping() = default;
  ~Mapping();
  Mapping(Mapping&& other) noexcept;
  Mapping& operator=(Mapping&& other) noexcept;
  Mapping(const Mapping&) = delete;
  Mapping& operator=(const Mapping&) = delete;

  /// `size` octets, at least one. `what` names the memory in the error.
  [[nodiscard]] static Result<Mapping> create(std::uint64_t size, const char* what);

  [[nodiscard]] std::span<std::byte> octets() const { return octets_; }
  /// The same memory as 64-bit words (the size rounded down).
  [[nodiscard]] std::span<std::uint64_t> words() const {
    return {reinterpret_cast<std::uint64_t*>(octets_.data()), octets_.size() / sizeof(std::uint64_t)};
  }

 private:
  explicit Mapping(std::span<std::byte> octets) : octets_(octets) {}
  std::span<std::byte> octets_;
};

}  // namespace kbtp::memory
