// Bounded big-endian ("network order") access to octets. Reader and writer latch the first overrun instead of
// throwing: a decoder reads a whole header and asks ok() once.

#pragma once

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace kbtp {

using Octets = std::span<const std::byte>;
using MutableOctets = std::span<std::byte>;

/// The unsigned integer in the first sizeof(T) octets at `p`, most significant octet first.
template <std::unsigned_integral T>
[[nodiscard]] constexpr T load_be(const std::byte* p) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    value = static_cast<T>((static_cast<std::uint64_t>(value) << 8) | std::to_integer<std::uint64_t>(p[i]));
  }
  return value;
}

/// Writes `value` to the first sizeof(T) octets at `p`, most significant octet first.
template <std::unsigned_integral T>
constexpr void store_be(std::byte* p, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) {
    p[i] = static_cast<std::byte>(value >> (8 * (sizeof(T) - 1 - i)));
  }
}

/// Host order to network order and back (a swap on little-endian hosts); for words touched by atomics.
[[nodiscard]] inline std::uint64_t to_be64(std::uint64_t host) {
  std::byte octets[8];
  store_be(octets, host);
  std::uint64_t word;
  std::memcpy(&word, octets, sizeof word);
  return word;
}
[[nodiscard]] inline std::uint64_t from_be64(std::uint64_t word) { return to_be64(word); }

class ByteReader {
 public:
  explicit constexpr ByteReader(Octets octets) : octets_(octets) {}

  constexpr std::uint8_t u8() { return integer<std::uint8_t>(); }
  constexpr std::uint16_t u16() { return integer<std::uint16_t>(); }
  constexpr std::uint32_t u32() { return integer<std::uint32_t>(); }
  constexpr std::uint64_t u64() { return integer<std::uint64_t>(); }

  /// The next `n` octets, or an empty span and !ok() when fewer are left.
  constexpr Octets bytes(std::size_t n) {
    if (!take(n)) return {};
    return octets_.subspan(position_ - n, n);
  }
  constexpr void skip(std::size_t n) { take(n); }

  [[nodiscard]] constexpr bool ok() const { return ok_; }
  [[nodiscard]] constexpr std::size_t position() const { return position_; }
  [[nodiscard]] constexpr std::size_t remaining() const { return octets_.size() - position_; }
  [[nodiscard]] constexpr Octets rest() const { return octets_.subspan(position_); }

 private:
  constexpr bool take(std::size_t n) {
    if (!ok_ || n > remaining()) {
      ok_ = false;
      return false;
    }
    position_ += n;
    return true;
  }
  template <std::unsigned_integral T>
  constexpr T integer() {
    if (!take(sizeof(T))) return 0;
    return load_be<T>(octets_.data() + position_ - sizeof(T));
  }

  Octets octets_;
  std::size_t position_ = 0;
  bool ok_ = true;
};

class ByteWriter {
 public:
  explicit constexpr ByteWriter(MutableOctets octets) : octets_(octets) {}

  constexpr void u8(std::uint8_t v) { integer(v); }
  constexpr void u16(std::uint16_t v) { integer(v); }
  constexpr void u32(std::uint32_t v) { integer(v); }
  constexpr void u64(std::uint64_t v) { integer(v); }
  constexpr void bytes(Octets source) {
    if (take(source.size())) std::copy(source.begin(), source.end(), octets_.begin() + offset(source.size()));
  }
  constexpr void zeros(std::size_t n) {
    if (take(n)) std::fill_n(octets_.begin() + offset(n), n, std::byte{0});
  }

  /// False once something did not fit; nothing is ever written past the end.
  [[nodiscard]] constexpr bool ok() const { return ok_; }
  [[nodiscard]] constexpr std::size_t position() const { return position_; }
  [[nodiscard]] constexpr Octets written() const { return octets_.first(position_); }

 private:
  constexpr std::ptrdiff_t offset(std::size_t n) const { return static_cast<std::ptrdiff_t>(position_ - n); }
  constexpr bool take(std::size_t n) {
    if (!ok_ || n > octets_.size() - position_) {
      ok_ = false;
      return false;
    }
    position_ += n;
    return true;
  }
  template <std::unsigned_integral T>
  constexpr void integer(T value) {
    if (take(sizeof(T))) store_be(octets_.data() + position_ - sizeof(T), value);
  }

  MutableOctets octets_;
  std::size_t position_ = 0;
  bool ok_ = true;
};

[[nodiscard]] inline Octets as_octets(std::string_view text) { return std::as_bytes(std::span(text)); }
[[nodiscard]] inline std::vector<std::byte> to_vector(Octets octets) {
  return {octets.begin(), octets.end()};
}

}  // namespace kbtp
