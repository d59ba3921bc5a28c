#include "pcap/output.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <unistd.h>

namespace kbtp::trace {
namespace {

constexpr std::string_view kDigits = "0123456789abcdef";
constexpr std::size_t kMostDigits = 20;  // of 2^64 - 1

constexpr bool continues(unsigned char c) { return (c & 0xC0U) == 0x80U; }

/// The size of the well-formed UTF-8 sequence at the start of `text`; 0 when there is none (RFC 3629 4).
std::size_t utf8_size(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(i < text.size() ? text[i] : 0); };
  const unsigned char first = at(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return continues(at(1)) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    const bool fits = !(first == 0xE0 && at(1) < 0xA0) && !(first == 0xED && at(1) > 0x9F);
    return fits && continues(at(1)) && continues(at(2)) ? 3 : 0;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    const bool fits = !(first == 0xF0 && at(1) < 0x90) && !(first == 0xF4 && at(1) > 0x8F);
    return fits && continues(at(1)) && continues(at(2)) && continues(at(3)) ? 4 : 0;
  }
  return 0;
}

constexpr bool plain(char c) { return c >= 0x20 && c < 0x7F && c != '"' && c != '\\'; }

}  // namespace

Output::Output(int fd, bool colour) : fd_(fd), colour_(colour), buffer_(2 * kBig) {}

Output& Output::spaces(std::size_t n) {
  std::memset(room(n), ' ', n);
  used_ += n;
  return *this;
}

Output& Output::long_number(std::uint64_t value) {
  char* to = room(kMostDigits);
  used_ += static_cast<std::size_t>(std::to_chars(to, to + kMostDigits, value).ptr - to);
  return *this;
}

Output& Output::number(std::uint64_t value, std::size_t width) {
  std::array<char, kMostDigits> digits;
  const auto n = static_cast<std::size_t>(
      std::to_chars(digits.data(), digits.data() + digits.size(), value).ptr - digits.data());
  if (n < width) spaces(width - n);
  return text({digits.data(), n});
}

Output& Output::hex(std::uint64_t value, std::size_t digits) {
  while (digits < 16 && (value >> (4 * digits)) != 0) ++digits;
  char* to = room(2 + digits);
  *to++ = '0';
  *to++ = 'x';
  for (std::size_t i = digits; i-- > 0;) *to++ = kDigits[(value >> (4 * i)) & 0x0F];
  used_ += 2 + digits;
  return *this;
}

Output& Output::octets(Octets octets, std::string_view between) {
  bool first = true;
  for (const std::byte octet : octets) {
    if (!first) text(between);
    first = false;
    sign(kDigits[std::to_integer<unsigned>(octet) >> 4]).sign(kDigits[std::to_integer<unsigned>(octet) & 15]);
  }
  return *this;
}

Output& Output::fixed(std::int64_t value, unsigned decimals, unsigned shown) {
  constexpr std::array<std::uint64_t, 10> kPowers{1,       10,        100,        1'000,       10'000,
                                                  100'000, 1'000'000, 10'000'000, 100'000'000, 1'000'000'000};
  auto size = static_cast<std::uint64_t>(value);
  if (value < 0) {
    sign('-');
    size = 0 - size;
  }
  const std::uint64_t unit = kPowers[decimals];
  number(size / unit);
  if (shown == 0) return *this;
  std::uint64_t rest = size % unit / kPowers[decimals - shown];
  char* to = room(1 + shown);
  *to = '.';
  for (unsigned i = shown; i > 0; --i) {
    to[i] = static_cast<char>('0' + rest % 10);
    rest /= 10;
  }
  used_ += 1 + shown;
  return *this;
}

Output& Output::json_key(char before, std::string_view name, std::string_view ending) {
  char* to = room(name.size() + ending.size() + 4);
  *to++ = before;
  *to++ = '"';
  to = put(put(to, name), ending);
  *to++ = '"';
  *to = ':';
  used_ += name.size() + ending.size() + 4;
  return *this;
}

Output& Output::json_string(std::string_view text) {
  sign('"');
  while (!text.empty()) {
    std::size_t n = 0;
    while (n < text.size() && plain(text[n])) ++n;
    this->text(text.substr(0, n));
    text.remove_prefix(n);
    if (text.empty()) break;
    const char c = text.front();
    std::size_t size = 1;
    if (c == '"' || c == '\\') {
      sign('\\').sign(c);
    } else if (c == '\n') {
      this->text("\\n");
    } else if (const auto code = static_cast<unsigned char>(c); code < 0x20 || code == 0x7F) {
      this->text("\\u00").sign(kDigits[code >> 4]).sign(kDigits[code & 15]);
    } else if (size = utf8_size(text); size != 0) {
      this->text(text.substr(0, size));
    } else {
      this->text("\\ufffd");
      size = 1;
    }
    text.remove_prefix(size);
  }
  return sign('"');
}

Output& Output::xml_text(std::string_view text) {
  while (!text.empty()) {
    const char c = text.front();
    const std::size_t size = utf8_size(text);
    const auto code = static_cast<unsigned char>(c);
    // XML 1.0 2.2: no controls but tab and ends of lines, nor U+FFFE and U+FFFF.
    const bool control = code < 0x20 && c != '\t' && c != '\n' && c != '\r';
    if (size == 0 || control || text.starts_with("\xEF\xBF\xBE") || text.starts_with("\xEF\xBF\xBF")) {
      this->text("\xEF\xBF\xBD");
    } else if (c == '<') {
      this->text("&lt;");
    } else if (c == '>') {
      this->text("&gt;");
    } else if (c == '&') {
      this->text("&amp;");
    } else if (c == '"') {
      this->text("&quot;");
    } else {
      this->text(text.substr(0, size));
    }
    text.remove_prefix(std::max<std::size_t>(size, 1));
  }
  return *this;
}

Output& Output::colour(Colour colour) {
  if (!colour_) return *this;
  constexpr std::array<std::string_view, 9> kCodes{"\x1b[0m",  "\x1b[1m",  "\x1b[2m",  "\x1b[31m", "\x1b[32m",
                                                   "\x1b[33m", "\x1b[34m", "\x1b[35m", "\x1b[36m"};
  return text(kCodes[static_cast<std::size_t>(colour)]);
}

void Output::flush() {
  std::string_view rest = held();
  while (!rest.empty() && !broken()) {
    const ssize_t n = write(fd_, rest.data(), rest.size());
    if (n >= 0) {
      rest.remove_prefix(static_cast<std::size_t>(n));
    } else if (errno != EINTR) {
      error_ = errno;
    }
  }
  used_ = 0;
}

}  // namespace kbtp::trace
