// Makes ESP packets for tests, with OpenSSL used directly: nothing of what is tested takes part.

#pragma once

#include <array>
#include <cstdint>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/hmac.h>
#include <optional>

#include "pcap/esp_keys.h"
#include "pcap/test_frames.h"

namespace kbtp::trace::test {

inline const unsigned char* raw(Octets octets) {
  return reinterpret_cast<const unsigned char*>(octets.data());
}

inline EspTransform gcm(std::uint8_t icv = 16, std::size_t key = 32, std::uint8_t first = 1) {
  EspTransform transform;
  transform.cipher = EspCipher::aes_gcm;
  transform.icv = icv;
  transform.cipher_key = pattern(key + 4, first);
  return transform;
}
inline EspTransform with_hmac(EspCipher cipher, EspIntegrity integrity, std::size_t key = 16) {
  constexpr std::array<std::uint8_t, 5> kIcv{0, 12, 16, 24, 32};
  constexpr std::array<std::size_t, 5> kKey{0, 20, 32, 48, 64};
  EspTransform transform;
  transform.cipher = cipher;
  transform.integrity = integrity;
  transform.icv = kIcv[static_cast<std::size_t>(integrity)];
  if (cipher != EspCipher::null) transform.cipher_key = pattern(key, 3);
  transform.integrity_key = pattern(kKey[static_cast<std::size_t>(integrity)], 5);
  return transform;
}

/// SPI, sequence number, IV, what is encrypted with its trailer, ICV. `extended`: the ICV covers all 64 bits.
inline Bytes seal(const EspTransform& transform, std::uint32_t spi, std::uint64_t sequence,
                  std::uint8_t next_header, Octets payload, bool extended = false, bool odd_padding = false) {
  const bool is_gcm = transform.cipher == EspCipher::aes_gcm;
  const std::size_t block = transform.cipher == EspCipher::aes_cbc ? 16 : 4;
  Bytes text(payload.begin(), payload.end());
  std::uint8_t pad = 0;
  while ((text.size() + 2) % block != 0)
    text.push_back(static_cast<std::byte>(odd_padding ? 0xEE : pad + 1)), ++pad;
  text.push_back(std::byte{pad});
  text.push_back(std::byte{next_header});
  const Bytes iv = pattern(is_gcm                                   ? 8
                           : transform.cipher == EspCipher::aes_cbc ? 16
                                                                    : 0,
                           static_cast<std::uint8_t>(sequence));

  Bytes packet(8);
  store_be(packet.data(), spi);
  store_be(packet.data() + 4, static_cast<std::uint32_t>(sequence));
  Bytes high(4);
  store_be(high.data(), static_cast<std::uint32_t>(sequence >> 32));
  const Bytes additional =
      extended ? Bytes(packet.begin(), packet.begin() + 4) + high + Bytes(packet.begin() + 4, packet.end())
               : packet;
  append(packet, iv);

  Bytes cipher_text(text);
  Bytes icv(transform.icv);
  int n = 0;
  if (transform.cipher != EspCipher::null) {
    EVP_CIPHER_CTX* context = EVP_CIPHER_CTX_new();
    const std::size_t salt = is_gcm ? 4 : 0;
    const Octets key = Octets(transform.cipher_key).first(transform.cipher_key.size() - salt);
    const Bytes nonce = to_vector(Octets(transform.cipher_key).last(salt)) + iv;
    const EVP_CIPHER* cipher = is_gcm ? (key.size() == 16   ? EVP_aes_128_gcm()
                                         : key.size() == 24 ? EVP_aes_192_gcm()
                                                            : EVP_aes_256_gcm())
                                      : (key.size() == 16   ? EVP_aes_128_cbc()
                                         : key.size() == 24 ? EVP_aes_192_cbc()
                                                            : EVP_aes_256_cbc());
    EXPECT_EQ(EVP_EncryptInit_ex(context, cipher, nullptr, raw(key), raw(nonce)), 1);
    EVP_CIPHER_CTX_set_padding(context, 0);
    if (is_gcm) EVP_EncryptUpdate(context, nullptr, &n, raw(additional), static_cast<int>(additional.size()));
    EVP_EncryptUpdate(context, reinterpret_cast<unsigned char*>(cipher_text.data()), &n, raw(text),
                      static_cast<int>(text.size()));
    EVP_EncryptFinal_ex(context, reinterpret_cast<unsigned char*>(cipher_text.data()) + n, &n);
    if (is_gcm) EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_GET_TAG, transform.icv, icv.data());
    EVP_CIPHER_CTX_free(context);
  }
  append(packet, cipher_text);
  if (!is_gcm) {
    const std::array<const EVP_MD*, 5> digests{nullptr, EVP_sha1(), EVP_sha256(), EVP_sha384(), EVP_sha512()};
    const Bytes covered = extended ? packet + high : packet;
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned size = 0;
    HMAC(digests[static_cast<std::size_t>(transform.integrity)], transform.integrity_key.data(),
         static_cast<int>(transform.integrity_key.size()), raw(covered), covered.size(), digest.data(),
         &size);
    std::copy_n(reinterpret_cast<const std::byte*>(digest.data()), icv.size(), icv.begin());
  }
  append(packet, icv);
  return packet;
}

}  // namespace kbtp::trace::test
