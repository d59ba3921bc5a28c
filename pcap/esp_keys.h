// Keys of ESP security associations, as a user has them: Wireshark's `esp_sa` file, one SA a line, or the log
// of strongSwan's charon with `chd = 4`, which holds the keys of every CHILD_SA that it made.
//
// An esp_sa line is a list of quoted texts with commas between them: "IPv4" or "IPv6", source, destination,
// SPI, encryption, its key, authentication, its key; newer versions add "32-bit" or "64-bit" sequence numbers
// and the upper 32 bits of those. Addresses may be *, have * for an octet (IPv6: a group or a digit), or end
// in /bits; an SPI may be * or have * for a hexadecimal digit. Keys are hexadecimal behind 0x, else the
// octets of the text. Lines that begin with # are passed over. The algorithms are AES-GCM with 8, 12 or 16
// octets of ICV (RFC 4106; the key ends in 4 octets of salt), AES-CBC (RFC 3602) and NULL (RFC 2410) with
// HMAC-SHA-1-96 (RFC 2404), HMAC-SHA-256-128, -384-192 or -512-256 (RFC 4868).
// A line may also be written by hand: SOURCE -> DESTINATION spi SPI key KEY, for AES-GCM with an ICV of 16
// octets.
//
// A charon log says which keys are the initiator's and which SPIs there are, not which belongs to which: both
// keys are given for both SPIs, and the ICV decides.

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "pcap/frame.h"

namespace kbtp::trace {

enum class EspCipher : std::uint8_t {
  null,
  aes_cbc,
  aes_gcm,
};

enum class EspIntegrity : std::uint8_t {
  none,  ///< the cipher has it built in
  hmac_sha1_96,
  hmac_sha256_128,
  hmac_sha384_192,
  hmac_sha512_256,
};

/// How packets of one SA are protected. Sizes fit the algorithms.
struct EspTransform {
  EspCipher cipher = EspCipher::null;
  EspIntegrity integrity = EspIntegrity::none;
  std::uint8_t icv = 0;               ///< octets
  std::vector<std::byte> cipher_key;  ///< AES-GCM: with its salt
  std::vector<std::byte> integrity_key;
  std::optional<bool> extended;  ///< 64-bit sequence numbers; nothing: to be found out
  std::optional<std::uint32_t> sequence_high;

  bool operator==(const EspTransform&) const = default;
};

/// The octets of an address that count, and what they must be.
struct AddressPattern {
  bool v6 = false;
  std::array<std::uint8_t, 16> value{}, mask{};

  [[nodiscard]] bool matches(const TransportAddress& address) const;
  bool operator==(const AddressPattern&) const = default;
};

struct EspKey {
  AddressPattern source, destination;
  std::uint32_t spi = 0;
  std::uint32_t spi_mask = 0xFFFFFFFF;
  EspTransform transform;
  std::size_t line = 0;  ///< of the file, counted from 1

  [[nodiscard]] bool matches(std::uint32_t spi_seen, const TransportAddress& from,
                             const TransportAddress& to) const;
};

/// Reads any of these. An error names line and column, behind `name`.
[[nodiscard]] Result<std::vector<EspKey>> read_esp_keys(std::string_view text, std::string_view name);

/// Empty when the size of the key fits the algorithm; else what is wrong, for a user.
[[nodiscard]] std::string check_cipher_key(const EspTransform& transform);
[[nodiscard]] std::string check_integrity_key(const EspTransform& transform);

}  // namespace kbtp::trace
