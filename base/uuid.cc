#include "base/uuid.h"

#include "base/hex.h"
#include "base/random.h"

namespace kbtp {

namespace {
constexpr std::size_t kTextLength = 36;
constexpr bool is_dash_position(std::size_t i) { return i == 8 || i == 13 || i == 18 || i == 23; }
constexpr bool is_hex_digit(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f') || (c >= 'A' && c <= 'F');
}
}  // namespace

std::optional<Uuid> Uuid::parse(std::string_view text) {
  if (text.size() != kTextLength) return std::nullopt;
  std::string digits;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (is_dash_position(i)) {
      if (text[i] != '-') return std::nullopt;
    } else if (is_hex_digit(text[i])) {
      digits.push_back(text[i]);
    } else {
      return std::nullopt;
    }
  }
  const auto octets = from_hex(digits);
  if (!octets || octets->size() != 16) return std::nullopt;
  Uuid uuid;
  std::copy(octets->begin(), octets->end(), uuid.octets.begin());
  return uuid;
}

Uuid Uuid::random() {
  Uuid uuid;
  random_octets(uuid.octets);
  uuid.octets[6] = (uuid.octets[6] & std::byte{0x0F}) | std::byte{0x40};  // RFC 9562 5.4: version 4
  uuid.octets[8] = (uuid.octets[8] & std::byte{0x3F}) | std::byte{0x80};  // RFC 9562 4.1: variant
  return uuid;
}

std::string Uuid::to_string() const {
  const std::string digits = to_hex(octets);
  std::string text;
  for (const char digit : digits) {
    if (is_dash_position(text.size())) text.push_back('-');
    text.push_back(digit);
  }
  return text;
}

}  // namespace kbtp
