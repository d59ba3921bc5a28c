// What printers write into: one buffer, written out in big pieces, or at once when somebody waits for it.
// Once the reader has gone (a closed pipe) it says so and takes nothing more. One thread.

#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

#include "base/bytes.h"

namespace kbtp::trace {

enum class Colour : std::uint8_t {
  none,  ///< back to what was before
  bold,
  dim,
  red,
  green,
  yellow,
  blue,
  magenta,
  cyan,
};

class Output {
 public:
  /// Writes to `fd`, which stays the caller's. With `colour` the escape sequences of terminals are used.
  explicit Output(int fd, bool colour = false);

  Output& text(std::string_view text) {
    put(room(text.size()), text);
    used_ += text.size();
    return *this;
  }
  Output& sign(char c) {
    *room(1) = c;
    ++used_;
    return *this;
  }
  Output& spaces(std::size_t n);
  Output& number(std::uint64_t value) {
    return value < 10 ? sign(static_cast<char>('0' + value)) : long_number(value);
  }
  /// At least `width` columns, filled with spaces on the left.
  Output& number(std::uint64_t value, std::size_t width);
  /// "0x" and at least `digits` digits.
  Output& hex(std::uint64_t value, std::size_t digits = 1);
  /// Two digits an octet, `between` them.
  Output& octets(Octets octets, std::string_view between = {});
  /// In units of the last of `decimals` places (9 at most), of which `shown` are told.
  Output& fixed(std::int64_t value, unsigned decimals, unsigned shown);
  /// Between quotes, escaped as JSON wants it (RFC 8259 7); what is not UTF-8 becomes U+FFFD.
  Output& json_string(std::string_view text);
  /// The same of what needs no escapes.
  Output& json_word(std::string_view word) {
    char* to = room(word.size() + 2);
    *to = '"';
    *put(to + 1, word) = '"';
    used_ += word.size() + 2;
    return *this;
  }
  /// `before`, then name and ending between quotes, then ":"; both need no escapes.
  Output& json_key(char before, std::string_view name, std::string_view ending = {});
  /// As XML wants text and values between quotes; what XML cannot hold becomes U+FFFD.
  Output& xml_text(std::string_view text);
  Output& colour(Colour colour);

  /// A line ends here: a good place to write.
  void end_line() {
    sign('\n');
    if (used_ >= kBig) flush();
  }
  /// Writes what there is.
  void flush();
  /// Forgets what there is.
  void drop() { used_ = 0; }
  [[nodiscard]] bool pending() const { return used_ != 0; }
  /// The reader has gone, or writing failed; errno tells which.
  [[nodiscard]] bool broken() const { return error_ != 0; }
  [[nodiscard]] int error() const { return error_; }
  /// What has been written into it and not yet out.
  [[nodiscard]] std::string_view held() const { return {buffer_.data(), used_}; }

 private:
  static constexpr std::size_t kBig = std::size_t{64} << 10;

  Output& long_number(std::uint64_t value);
  /// Copies without a call when there is little to copy, as there mostly is; returns what is behind it.
  static char* put(char* to, std::string_view text) {
    const char* from = text.data();
    std::size_t n = text.size();
    if (n > 32) return std::copy_n(from, n, to);
    for (; n >= 8; n -= 8, from += 8, to += 8) std::memcpy(to, from, 8);
    if (n >= 4) {
      std::memcpy(to, from, 4);
      n -= 4;
      from += 4;
      to += 4;
    }
    for (; n > 0; --n) *to++ = *from++;
    return to;
  }
  char* room(std::size_t n) {
    if (buffer_.size() - used_ < n) buffer_.resize(2 * buffer_.size() + n);
    return buffer_.data() + used_;
  }

  int fd_;
  bool colour_;
  int error_ = 0;
  std::vector<char> buffer_;
  std::size_t used_ = 0;
};

}  // namespace kbtp::trace
