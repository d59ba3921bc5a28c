#include "pcap/charon_log.h"

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <utility>

namespace kbtp::trace {
namespace {

constexpr std::string_view kGroup = "[CHD]";

/// What a thread has said of the CHILD_SA that it makes. Lines of threads may be mixed.
struct Making {
  std::optional<EspTransform> transform;  ///< without keys; nothing: an algorithm that is not known here
  std::array<std::vector<std::byte>, 2> cipher_keys, integrity_keys;  ///< of initiator and responder
  std::vector<std::byte>* dumped = nullptr;                           ///< the key whose octets follow
  std::size_t expected = 0;                                           ///< octets of it
};

void set_cipher(std::string_view name, Making& making) {
  making.transform = EspTransform{};
  const auto gcm = [&](std::uint8_t icv) {
    making.transform->cipher = EspCipher::aes_gcm;
    making.transform->icv = icv;
  };
  if (name == "AES_GCM_8") return gcm(8);
  if (name == "AES_GCM_12") return gcm(12);
  if (name == "AES_GCM_16") return gcm(16);
  if (name == "AES_CBC") {
    making.transform->cipher = EspCipher::aes_cbc;
  } else if (name != "NULL") {
    making.transform.reset();
  }
}

void set_integrity(std::string_view name, Making& making) {
  if (!making.transform) return;
  const auto hmac = [&](EspIntegrity integrity, std::uint8_t icv) {
    making.transform->integrity = integrity;
    making.transform->icv = icv;
  };
  if (name == "HMAC_SHA1_96") return hmac(EspIntegrity::hmac_sha1_96, 12);
  if (name == "HMAC_SHA2_256_128") return hmac(EspIntegrity::hmac_sha256_128, 16);
  if (name == "HMAC_SHA2_384_192") return hmac(EspIntegrity::hmac_sha384_192, 24);
  if (name == "HMAC_SHA2_512_256") return hmac(EspIntegrity::hmac_sha512_256, 32);
  making.transform.reset();
}

std::string_view until(std::string_view text, std::string_view what) {
  return text.substr(0, text.find(what));
}

/// "encryption initiator key => 36 bytes @ 0x7f..."; false when it is something else.
bool begin_key(std::string_view text, Making& making) {
  const bool cipher = text.starts_with("encryption ");
  if (!cipher && !text.starts_with("integrity ")) return false;
  text.remove_prefix(text.find(' ') + 1);
  const bool initiator = text.starts_with("initiator key => ");
  if (!initiator && !text.starts_with("responder key => ")) return false;
  text.remove_prefix(std::string_view("initiator key => ").size());
  if (cipher && initiator) {
    making.cipher_keys = {};
    making.integrity_keys = {};
  }
  making.expected = 0;
  std::from_chars(text.data(), text.data() + text.size(), making.expected);
  making.dumped = &(cipher ? making.cipher_keys : making.integrity_keys)[initiator ? 0 : 1];
  making.dumped->clear();
  return true;
}

/// "  16: 3D 79 11 90 5F 60 DA 05  =y.._`.."; false when it is no row of a dump.
bool take_row(std::string_view text, Making& making) {
  std::size_t at = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), at);
  if (error != std::errc{} || making.dumped == nullptr || at != making.dumped->size()) return false;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (!text.starts_with(": ")) return false;
  text.remove_prefix(2);
  for (int i = 0; i < 16 && making.dumped->size() < making.expected && text.size() >= 2; ++i) {
    std::uint8_t octet = 0;
    const auto [behind, bad] = std::from_chars(text.data(), text.data() + 2, octet, 16);
    if (bad != std::errc{} || behind != text.data() + 2) break;
    making.dumped->push_back(static_cast<std::byte>(octet));
    text.remove_prefix(std::min<std::size_t>(3, text.size()));
  }
  return true;
}

std::optional<AddressPattern> exact(std::string_view text) {
  AddressPattern pattern;
  const std::string address(text);
  pattern.v6 = address.find(':') != std::string::npos;
  if (inet_pton(pattern.v6 ? AF_INET6 : AF_INET, address.c_str(), pattern.value.data()) != 1)
    return std::nullopt;
  std::fill_n(pattern.mask.begin(), pattern.v6 ? 16 : 4, std::uint8_t{0xFF});
  return pattern;
}

/// "SPI 0x1148feed, src 192.0.2.2 dst 192.0.2.1".
void add_sa(std::string_view text, std::size_t line, const Making& making, std::vector<EspKey>& keys) {
  EspKey key;
  key.line = line;
  text.remove_prefix(std::string_view("SPI 0x").size());
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), key.spi, 16);
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (error != std::errc{} || !making.transform || !text.starts_with(", src ")) return;
  text.remove_prefix(std::string_view(", src ").size());
  const std::string_view from = until(text, " dst ");
  if (from.size() == text.size()) return;
  const auto source = exact(from);
  const auto destination = exact(until(text.substr(from.size() + 5), " "));
  if (!source || !destination) return;
  key.source = *source;
  key.destination = *destination;
  for (std::size_t side = 0; side < 2; ++side) {
    key.transform = *making.transform;
    key.transform.cipher_key = making.cipher_keys[side];
    key.transform.integrity_key = making.integrity_keys[side];
    if (key.transform.icv != 0 && check_cipher_key(key.transform).empty() &&
        check_integrity_key(key.transform).empty())
      keys.push_back(key);
  }
}

/// "13" of "10:11:12 13": the thread.
std::string thread_of(std::string_view in_front) {
  const std::size_t space = in_front.find_last_of(' ');
  return std::string(space == std::string_view::npos ? in_front : in_front.substr(space + 1));
}

}  // namespace

bool is_charon_log(std::string_view text) { return text.find(kGroup) != std::string_view::npos; }

std::vector<EspKey> read_charon_log(std::string_view text) {
  std::vector<EspKey> keys;
  std::map<std::string, Making> threads;
  for (std::size_t line = 1; !text.empty(); ++line) {
    std::string_view said = until(text, "\n");
    text.remove_prefix(std::min(said.size() + 1, text.size()));
    if (said.ends_with('\r')) said.remove_suffix(1);
    const std::size_t group = said.find(kGroup);
    if (group == std::string_view::npos) continue;
    Making& making = threads[thread_of(said.substr(0, group))];
    said.remove_prefix(group + kGroup.size());
    if (said.starts_with(" <")) said.remove_prefix(std::min(said.find('>') + 1, said.size()));
    said.remove_prefix(std::min(said.find_first_not_of(' '), said.size()));
    if (take_row(said, making) || begin_key(said, making)) continue;
    making.dumped = nullptr;
    constexpr std::string_view kUsing = "using ";
    if (said.starts_with("SPI 0x")) {
      add_sa(said, line, making, keys);
    } else if (said.starts_with(kUsing) && said.ends_with(" for encryption")) {
      set_cipher(until(said.substr(kUsing.size()), " "), making);
    } else if (said.starts_with(kUsing) && said.ends_with(" for integrity")) {
      set_integrity(until(said.substr(kUsing.size()), " "), making);
    }
  }
  return keys;
}

}  // namespace kbtp::trace
