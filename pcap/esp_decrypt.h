// Takes ESP packets (RFC 4303) apart with the key of their SA: the ICV is checked, then what is encrypted is
// decrypted, then the trailer is read. Pure but for OpenSSL; one thread for each EspOpener.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/bytes.h"
#include "base/result.h"
#include "pcap/esp_keys.h"

namespace kbtp::trace {

/// Longer packets are not opened: no capture has longer frames.
inline constexpr std::size_t kLongestEsp = std::size_t{256} << 10;

/// What stands in an ESP packet.
struct EspContent {
  std::uint8_t next_header = 0;  ///< RFC 4303 2.6
  Octets payload;                ///< lies in the scratch
  bool padding_as_due = true;    ///< 1, 2, 3 ... (RFC 4303 2.4)
};

enum class EspFailure : std::uint8_t {
  malformed,  ///< lengths that contradict each other, or the algorithms; padding longer than what is there
  icv,        ///< it does not fit: another key, another sequence number's upper half, or damage
};

/// One key, ready for use.
class EspOpener {
 public:
  /// `transform` must have keys of the right sizes.
  explicit EspOpener(const EspTransform& transform);
  EspOpener(EspOpener&&) noexcept;
  EspOpener& operator=(EspOpener&&) noexcept;
  ~EspOpener();

  /// `packet` is whole, from the SPI to the ICV. `high`: the upper half of an extended sequence number, which
  /// the ICV covers (RFC 4303 2.2.1). `scratch` has at least the packet's size and is not where that lies.
  [[nodiscard]] Expected<EspContent, EspFailure> open(Octets packet, std::optional<std::uint32_t> high,
                                                      MutableOctets scratch);

 private:
  struct Contexts;

  [[nodiscard]] bool open_gcm(Octets packet, std::optional<std::uint32_t> high, MutableOctets to);
  [[nodiscard]] bool icv_fits(Octets packet, std::optional<std::uint32_t> high);
  [[nodiscard]] bool decrypt_cbc(Octets packet, MutableOctets to);

  EspCipher cipher_;
  std::size_t icv_;
  std::size_t iv_;
  std::size_t block_;
  std::unique_ptr<Contexts> contexts_;
};

}  // namespace kbtp::trace
