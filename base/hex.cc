#include "base/hex.h"

namespace kbtp {

std::string to_hex(Octets octets) {
  constexpr std::string_view kDigits = "0123456789abcdef";
  std::string text;
  text.reserve(octets.size() * 2);
  for (const std::byte octet : octets) {
    const auto value = std::to_integer<unsigned>(octet);
    text += kDigits[value >> 4];
    text += kDigits[value & 15];
  }
  return text;
}

std::optional<std::vector<std::byte>> from_hex(std::string_view text) {
  std::vector<std::byte> octets;
  int high = -1;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '#') {
      while (i + 1 < text.size() && text[i + 1] != '\n') ++i;
      continue;
    }
    if (c == ' ' || c == '\n' || c == '\t' || c == '\r') continue;
    int digit;
    if (c >= '0' && c <= '9') {
      digit = c - '0';
    } else if (c >= 'a' && c <= 'f') {
      digit = c - 'a' + 10;
    } else if (c >= 'A' && c <= 'F') {
      digit = c - 'A' + 10;
    } else {
      return std::nullopt;
    }
    if (high < 0) {
      high = digit;
    } else {
      octets.push_back(static_cast<std::byte>(high * 16 + digit));
      high = -1;
    }
  }
  if (high >= 0) return std::nullopt;
  return octets;
}

}  // namespace kbtp
