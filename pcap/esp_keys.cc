#include "pcap/esp_keys.h"

#include <algorithm>
#include <charconv>
#include <fmt/format.h>
#include <utility>

#include "base/hex.h"
#include "pcap/charon_log.h"

namespace kbtp::trace {
namespace {

constexpr std::size_t kSalt = 4;  // RFC 4106 4

/// One text of a line and where it begins, counted from 1.
struct Cell {
  std::string text;
  std::size_t column = 1;
};

/// What is wrong, and where in its line.
struct CellError {
  std::size_t column = 1;
  std::string text;
};
template <class T = void>
using Parsed = Expected<T, CellError>;

auto wrong(const Cell& cell, std::string text) { return unexpected(CellError{cell.column, std::move(text)}); }

template <class T>
std::optional<T> number(std::string_view text, int base) {
  T value{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, base);
  if (text.empty() || error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
  return value;
}

int hex_digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

/// The texts of one line: in quotes, where \xHH is an octet and \ takes the next character as it is, or bare.
class LineReader {
 public:
  explicit LineReader(std::string_view line) : line_(line) {}

  Parsed<std::vector<Cell>> cells() {
    std::vector<Cell> cells;
    for (;;) {
      skip_blanks();
      Cell cell{"", at_ + 1};
      if (at_ < line_.size() && line_[at_] == '"') {
        ++at_;
        if (auto read = quoted(cell); !read) return unexpected(read.error());
      } else {
        const std::size_t end = std::min(line_.find(',', at_), line_.size());
        cell.text = line_.substr(at_, end - at_);
        while (!cell.text.empty() && cell.text.back() == ' ') cell.text.pop_back();
        at_ = end;
      }
      cells.push_back(std::move(cell));
      skip_blanks();
      if (at_ == line_.size()) return cells;
      if (line_[at_] != ',') return unexpected(CellError{at_ + 1, "a comma is due here"});
      ++at_;
    }
  }

 private:
  void skip_blanks() {
    while (at_ < line_.size() && (line_[at_] == ' ' || line_[at_] == '\t')) ++at_;
  }
  Parsed<> quoted(Cell& cell) {
    while (at_ < line_.size() && line_[at_] != '"') {
      char c = line_[at_++];
      if (c == '\\' && at_ < line_.size()) {
        c = line_[at_++];
        if (c == 'x') {
          const std::string_view digits = line_.substr(at_, 2);
          const auto octet = number<std::uint8_t>(digits, 16);
          if (!octet || digits.size() != 2)
            return unexpected(CellError{at_ - 1, "two hexadecimal digits are due behind \\x"});
          c = static_cast<char>(*octet);
          at_ += digits.size();
        }
      }
      cell.text.push_back(c);
    }
    if (at_ == line_.size()) return unexpected(CellError{cell.column, "the quote is not closed"});
    ++at_;
    return {};
  }

  std::string_view line_;
  std::size_t at_ = 0;
};

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  for (;;) {
    const std::size_t end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

bool parse_v4(std::string_view text, AddressPattern& pattern) {
  const auto parts = split(text, '.');
  if (parts.size() != 4) return false;
  for (std::size_t i = 0; i < 4; ++i) {
    if (parts[i] == "*") continue;
    const auto octet = number<std::uint8_t>(parts[i], 10);
    if (!octet) return false;
    pattern.value[i] = *octet;
    pattern.mask[i] = 0xFF;
  }
  return true;
}

/// Groups from octet `at` on.
bool parse_groups(std::string_view text, std::size_t at, AddressPattern& pattern) {
  if (text.empty()) return true;
  for (const std::string_view group : split(text, ':')) {
    if (group.empty() || group.size() > 4) return false;
    std::uint16_t value = 0;
    std::uint16_t mask = 0xFFFF;
    for (const char c : group) {
      const int digit = c == '*' ? 0 : hex_digit(c);
      if (digit < 0) return false;
      value = static_cast<std::uint16_t>(value << 4 | digit);
      mask = static_cast<std::uint16_t>(mask << 4 | (c == '*' ? 0 : 0xF));
    }
    if (group == "*") mask = 0;
    pattern.value[at] = static_cast<std::uint8_t>(value >> 8);
    pattern.value[at + 1] = static_cast<std::uint8_t>(value);
    pattern.mask[at] = static_cast<std::uint8_t>(mask >> 8);
    pattern.mask[at + 1] = static_cast<std::uint8_t>(mask);
    at += 2;
  }
  return true;
}

bool parse_v6(std::string_view text, AddressPattern& pattern) {
  const auto groups = [](std::string_view part) {
    return part.empty() ? 0 : static_cast<std::size_t>(std::ranges::count(part, ':')) + 1;
  };
  const std::size_t gap = text.find("::");
  if (gap == std::string_view::npos) return groups(text) == 8 && parse_groups(text, 0, pattern);
  const std::string_view head = text.substr(0, gap);
  const std::string_view tail = text.substr(gap + 2);
  if (groups(head) + groups(tail) > 7) return false;
  pattern.mask.fill(0xFF);
  return parse_groups(head, 0, pattern) && parse_groups(tail, 16 - 2 * groups(tail), pattern);
}

Parsed<AddressPattern> parse_address(const Cell& cell, bool v6) {
  AddressPattern pattern;
  pattern.v6 = v6;
  const std::string_view text = cell.text;
  const std::size_t slash = text.find('/');
  const std::string_view address = text.substr(0, slash);
  unsigned bits = v6 ? 128 : 32;
  if (slash != std::string_view::npos) {
    const auto given = number<unsigned>(text.substr(slash + 1), 10);
    if (!given || *given > bits)
      return wrong(cell, fmt::format("'{}' does not end in 0 to {} bits", text, bits));
    bits = *given;
  }
  if (address != "*" && !(v6 ? parse_v6(address, pattern) : parse_v4(address, pattern)))
    return wrong(cell, fmt::format("'{}' is no {} address", text, v6 ? "IPv6" : "IPv4"));
  for (std::size_t i = 0; i < pattern.mask.size(); ++i) {
    const unsigned counted =
        std::clamp<unsigned>(bits, 8 * static_cast<unsigned>(i), 8 * (static_cast<unsigned>(i) + 1)) -
        8 * static_cast<unsigned>(i);
    pattern.mask[i] = static_cast<std::uint8_t>(pattern.mask[i] & (0xFF00U >> counted));
    pattern.value[i] &= pattern.mask[i];
  }
  return pattern;
}

Parsed<> parse_spi(const Cell& cell, EspKey& key) {
  const std::string_view text = cell.text;
  const bool hex = text.starts_with("0x") || text.starts_with("0X");
  if (text == "*") {
    key.spi_mask = 0;
    return {};
  }
  if (text.find('*') == std::string_view::npos) {
    const auto value = hex ? number<std::uint32_t>(text.substr(2), 16) : number<std::uint32_t>(text, 10);
    if (!value) return wrong(cell, fmt::format("'{}' is no SPI", text));
    key.spi = *value;
    return {};
  }
  if (!hex || text.size() != 10)
    return wrong(cell, fmt::format("an SPI with * is written 0x and 8 digits; '{}' is not", text));
  key.spi_mask = 0;
  for (const char c : text.substr(2)) {
    const int digit = c == '*' ? 0 : hex_digit(c);
    if (digit < 0) return wrong(cell, fmt::format("'{}' is no SPI", text));
    key.spi = key.spi << 4 | static_cast<std::uint32_t>(digit);
    key.spi_mask = key.spi_mask << 4 | (c == '*' ? 0 : 0xF);
  }
  return {};
}

Parsed<std::vector<std::byte>> parse_key(const Cell& cell) {
  const std::string_view text = cell.text;
  if (!text.starts_with("0x") && !text.starts_with("0X")) return to_vector(as_octets(text));
  auto octets = from_hex(std::string(text.size() % 2, '0') + std::string(text.substr(2)));
  if (!octets) return wrong(cell, "the key is not hexadecimal");
  return std::move(*octets);
}

/// "AES-CBC" of "AES-CBC [RFC3602]".
std::string_view plain_name(std::string_view text) {
  text = text.substr(0, text.find('['));
  while (text.ends_with(' ')) text.remove_suffix(1);
  return text;
}

Parsed<> parse_cipher(const Cell& cell, EspTransform& transform) {
  const std::string_view name = plain_name(cell.text);
  transform.cipher = EspCipher::aes_gcm;
  if (name == "NULL") {
    transform.cipher = EspCipher::null;
  } else if (name == "AES-CBC") {
    transform.cipher = EspCipher::aes_cbc;
  } else if (name == "AES-GCM with 8 octet ICV") {
    transform.icv = 8;
  } else if (name == "AES-GCM with 12 octet ICV") {
    transform.icv = 12;
  } else if (name == "AES-GCM with 16 octet ICV" || name == "AES-GCM") {
    transform.icv = 16;
  } else {
    return wrong(cell,
                 fmt::format("encryption '{}' is not known here; known are AES-GCM with 8, 12 or 16 octet "
                             "ICV, AES-CBC and NULL",
                             cell.text));
  }
  return {};
}

Parsed<> parse_integrity(const Cell& cell, EspTransform& transform) {
  const std::string_view name = plain_name(cell.text);
  if (transform.cipher == EspCipher::aes_gcm) {
    // Its ICV is its own; older files say its size here.
    if (name == "NULL" || name == "ANY 128 bit authentication") return {};
    if (name == "ANY 96 bit authentication") {
      transform.icv = 12;
      return {};
    }
    return wrong(cell, "AES-GCM needs no authentication: write NULL");
  }
  if (name == "HMAC-SHA-1-96") {
    transform.integrity = EspIntegrity::hmac_sha1_96;
    transform.icv = 12;
  } else if (name == "HMAC-SHA-256-128") {
    transform.integrity = EspIntegrity::hmac_sha256_128;
    transform.icv = 16;
  } else if (name == "HMAC-SHA-384-192") {
    transform.integrity = EspIntegrity::hmac_sha384_192;
    transform.icv = 24;
  } else if (name == "HMAC-SHA-512-256") {
    transform.integrity = EspIntegrity::hmac_sha512_256;
    transform.icv = 32;
  } else {
    return wrong(cell, fmt::format("authentication '{}' is not known here; known are HMAC-SHA-1-96, "
                                   "HMAC-SHA-256-128, HMAC-SHA-384-192 and HMAC-SHA-512-256",
                                   cell.text));
  }
  return {};
}

Parsed<> parse_sequence(const std::vector<Cell>& cells, EspTransform& transform) {
  if (cells.size() > 8) {
    if (cells[8].text != "32-bit" && cells[8].text != "64-bit")
      return wrong(cells[8], fmt::format("'{}' is neither 32-bit nor 64-bit", cells[8].text));
    transform.extended = cells[8].text == "64-bit";
  }
  if (cells.size() > 9 && !cells[9].text.empty() && transform.extended.value_or(false)) {
    const std::string_view text = cells[9].text;
    transform.sequence_high =
        text.starts_with("0x") ? number<std::uint32_t>(text.substr(2), 16) : number<std::uint32_t>(text, 10);
    if (!transform.sequence_high) return wrong(cells[9], fmt::format("'{}' is no number of 32 bits", text));
  }
  return {};
}

Parsed<EspKey> parse_line(std::string_view line) {
  const auto cells = LineReader(line).cells();
  if (!cells) return unexpected(cells.error());
  const std::vector<Cell>& cell = *cells;
  if (cell.size() < 8 || cell.size() > 10)
    return wrong(cell.front(), fmt::format("an esp_sa line has 8 to 10 parts, this one {}", cell.size()));
  if (cell[0].text != "IPv4" && cell[0].text != "IPv6")
    return wrong(cell[0], fmt::format("'{}' is neither IPv4 nor IPv6", cell[0].text));
  EspKey key;
  const bool v6 = cell[0].text == "IPv6";
  for (const auto& [from, pattern] : {std::pair(1, &key.source), std::pair(2, &key.destination)}) {
    const auto address = parse_address(cell[static_cast<std::size_t>(from)], v6);
    if (!address) return unexpected(address.error());
    *pattern = *address;
  }
  if (const auto read = parse_spi(cell[3], key); !read) return unexpected(read.error());
  if (const auto read = parse_cipher(cell[4], key.transform); !read) return unexpected(read.error());
  if (const auto read = parse_integrity(cell[6], key.transform); !read) return unexpected(read.error());
  auto cipher_key = parse_key(cell[5]);
  if (!cipher_key) return unexpected(cipher_key.error());
  auto integrity_key = parse_key(cell[7]);
  if (!integrity_key) return unexpected(integrity_key.error());
  if (key.transform.cipher != EspCipher::null) key.transform.cipher_key = std::move(*cipher_key);
  if (key.transform.integrity != EspIntegrity::none) key.transform.integrity_key = std::move(*integrity_key);
  if (const auto read = parse_sequence(cell, key.transform); !read) return unexpected(read.error());
  if (const std::string text = check_cipher_key(key.transform); !text.empty()) return wrong(cell[5], text);
  if (const std::string text = check_integrity_key(key.transform); !text.empty()) return wrong(cell[7], text);
  return key;
}

/// "SOURCE -> DESTINATION spi SPI key KEY": AES-GCM with an ICV of 16 octets.
Parsed<EspKey> parse_short_line(std::string_view line) {
  std::vector<Cell> words;
  for (std::size_t at = 0; (at = line.find_first_not_of(" \t", at)) != std::string_view::npos;) {
    const std::size_t end = std::min(line.find_first_of(" \t", at), line.size());
    words.push_back({std::string(line.substr(at, end - at)), at + 1});
    at = end;
  }
  if (words.size() != 7 || words[1].text != "->" || words[3].text != "spi" || words[5].text != "key")
    return unexpected(CellError{1, "this is not SOURCE -> DESTINATION spi SPI key KEY"});
  EspKey key;
  key.transform.cipher = EspCipher::aes_gcm;
  key.transform.icv = 16;
  const bool v6 = words[0].text.find(':') != std::string::npos;
  for (const auto& [word, pattern] : {std::pair(0, &key.source), std::pair(2, &key.destination)}) {
    const auto address = parse_address(words[static_cast<std::size_t>(word)], v6);
    if (!address) return unexpected(address.error());
    *pattern = *address;
  }
  if (const auto read = parse_spi(words[4], key); !read) return unexpected(read.error());
  auto octets = parse_key(words[6]);
  if (!octets) return unexpected(octets.error());
  key.transform.cipher_key = std::move(*octets);
  if (const std::string text = check_cipher_key(key.transform); !text.empty()) return wrong(words[6], text);
  return key;
}

}  // namespace

std::string check_cipher_key(const EspTransform& transform) {
  const std::size_t salt = transform.cipher == EspCipher::aes_gcm ? kSalt : 0;
  const std::size_t size = transform.cipher_key.size();
  if (transform.cipher == EspCipher::null || size == 16 + salt || size == 24 + salt || size == 32 + salt)
    return {};
  return fmt::format(
      "a key of {} octets: {}", size,
      salt == 0 ? "AES-CBC has 16, 24 or 32" : "AES-GCM has 20, 28 or 36, the last 4 of which are the salt");
}

std::string check_integrity_key(const EspTransform& transform) {
  constexpr std::array<std::size_t, 5> kSizes{0, 20, 32, 48, 64};  // RFC 2404 3, RFC 4868 2.1.1
  const std::size_t due = kSizes[static_cast<std::size_t>(transform.integrity)];
  if (transform.integrity_key.size() == due) return {};
  return fmt::format("a key of {} octets: this HMAC has {}", transform.integrity_key.size(), due);
}

bool AddressPattern::matches(const TransportAddress& address) const {
  if (address.v6 != v6) return false;
  for (std::size_t i = 0; i < mask.size(); ++i) {
    if ((address.host[i] & mask[i]) != value[i]) return false;
  }
  return true;
}

bool EspKey::matches(std::uint32_t spi_seen, const TransportAddress& from, const TransportAddress& to) const {
  return ((spi_seen ^ spi) & spi_mask) == 0 && source.matches(from) && destination.matches(to);
}

Result<std::vector<EspKey>> read_esp_keys(std::string_view text, std::string_view name) {
  std::vector<EspKey> keys;
  if (is_charon_log(text)) {
    keys = read_charon_log(text);
    if (keys.empty())
      return failure(fmt::format("{}: a charon log without keys of ESP SAs: it needs chd = 4", name));
    return keys;
  }
  std::size_t line_number = 0;
  for (std::string_view line : split(text, '\n')) {
    ++line_number;
    if (line.ends_with('\r')) line.remove_suffix(1);
    const std::size_t first = line.find_first_not_of(" \t");
    if (first == std::string_view::npos || line[first] == '#') continue;
    auto key = line.find(" -> ") != std::string_view::npos ? parse_short_line(line) : parse_line(line);
    if (!key)
      return failure(
          fmt::format("{}: line {}, column {}: {}", name, line_number, key.error().column, key.error().text));
    key->line = line_number;
    keys.push_back(std::move(*key));
  }
  if (keys.empty()) return failure(fmt::format("{}: no keys in it", name));
  return keys;
}

}  // namespace kbtp::trace
