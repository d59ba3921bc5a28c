// A 16-octet identity (RFC 9562 text form), for Initiator Identities. All zero means "anonymous" (G-24).

#pragma once

#include <array>
#include <compare>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "base/bytes.h"

namespace kbtp {

struct Uuid {
  std::array<std::byte, 16> octets{};  ///< in the order of the text form, which is network order

  /// "f81d4fae-7dec-11d0-a765-00a0c91e6bf6", either case of digits; nothing on any other form.
  [[nodiscard]] static std::optional<Uuid> parse(std::string_view text);
  /// A random one (version 4).
  [[nodiscard]] static Uuid random();

  /// The text form in lower case.
  [[nodiscard]] std::string to_string() const;
  [[nodiscard]] bool is_zero() const { return *this == Uuid{}; }

  friend bool operator==(const Uuid&, const Uuid&) = default;
  friend auto operator<=>(const Uuid&, const Uuid&) = default;
};

}  // namespace kbtp

template <>
struct std::hash<kbtp::Uuid> {
  std::size_t operator()(const kbtp::Uuid& uuid) const noexcept {
    return static_cast<std::size_t>(
        kbtp::load_be<std::uint64_t>(uuid.octets.data()) ^
        (kbtp::load_be<std::uint64_t>(uuid.octets.data() + 8) * 0x9E3779B97F4A7C15u));
  }
};
