#include "pcap/esp_decrypt.h"

#include <algorithm>
#include <array>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <openssl/params.h>
#include <string>

namespace kbtp::trace {
namespace {

constexpr std::size_t kHeader = 8;   // SPI and sequence number
constexpr std::size_t kTrailer = 2;  // Pad Length and Next Header
constexpr std::size_t kSalt = 4;     // RFC 4106 4
constexpr std::size_t kGcmIv = 8;    // RFC 4106 3.1
constexpr std::size_t kAesBlock = 16;

struct Free {
  void operator()(EVP_CIPHER_CTX* context) const { EVP_CIPHER_CTX_free(context); }
  void operator()(EVP_MAC_CTX* context) const { EVP_MAC_CTX_free(context); }
  void operator()(EVP_MAC* mac) const { EVP_MAC_free(mac); }
};

const unsigned char* raw(Octets octets) { return reinterpret_cast<const unsigned char*>(octets.data()); }
unsigned char* raw(MutableOctets octets) { return reinterpret_cast<unsigned char*>(octets.data()); }

const EVP_CIPHER* cipher_of(EspCipher cipher, std::size_t key) {
  switch (cipher) {
    case EspCipher::null:
      return nullptr;
    case EspCipher::aes_cbc:
      return key == 16 ? EVP_aes_128_cbc() : key == 24 ? EVP_aes_192_cbc() : EVP_aes_256_cbc();
    case EspCipher::aes_gcm:
      return key == 16 ? EVP_aes_128_gcm() : key == 24 ? EVP_aes_192_gcm() : EVP_aes_256_gcm();
  }
  return nullptr;
}

const char* digest_of(EspIntegrity integrity) {
  switch (integrity) {
    case EspIntegrity::none:
      return nullptr;
    case EspIntegrity::hmac_sha1_96:
      return "SHA1";
    case EspIntegrity::hmac_sha256_128:
      return "SHA256";
    case EspIntegrity::hmac_sha384_192:
      return "SHA384";
    case EspIntegrity::hmac_sha512_256:
      return "SHA512";
  }
  return nullptr;
}

}  // namespace

/// The key schedules are made once; each packet begins anew with its IV.
struct EspOpener::Contexts {
  std::unique_ptr<EVP_CIPHER_CTX, Free> cipher;
  std::unique_ptr<EVP_MAC_CTX, Free> mac;
  std::array<std::byte, kSalt> salt{};
};

EspOpener::EspOpener(const EspTransform& transform)
    : cipher_(transform.cipher),
      icv_(transform.icv),
      iv_(0),
      block_(1),
      contexts_(std::make_unique<Contexts>()) {
  Octets key = transform.cipher_key;
  if (cipher_ == EspCipher::aes_gcm) {
    iv_ = kGcmIv;
    std::ranges::copy(key.last(kSalt), contexts_->salt.begin());
    key = key.first(key.size() - kSalt);
  } else if (cipher_ == EspCipher::aes_cbc) {
    iv_ = block_ = kAesBlock;
  }
  if (const EVP_CIPHER* cipher = cipher_of(cipher_, key.size())) {
    contexts_->cipher.reset(EVP_CIPHER_CTX_new());
    EVP_DecryptInit_ex(contexts_->cipher.get(), cipher, nullptr, raw(key), nullptr);
    EVP_CIPHER_CTX_set_padding(contexts_->cipher.get(), 0);
  }
  if (const char* digest = digest_of(transform.integrity)) {
    const std::unique_ptr<EVP_MAC, Free> hmac(EVP_MAC_fetch(nullptr, "HMAC", nullptr));
    if (hmac == nullptr) return;  // then no ICV fits
    contexts_->mac.reset(EVP_MAC_CTX_new(hmac.get()));
    std::string name(digest);
    const std::array parameters{OSSL_PARAM_construct_utf8_string("digest", name.data(), 0),
                                OSSL_PARAM_construct_end()};
    EVP_MAC_init(contexts_->mac.get(), raw(Octets(transform.integrity_key)), transform.integrity_key.size(),
                 parameters.data());
  }
}
EspOpener::EspOpener(EspOpener&&) noexcept = default;
EspOpener& EspOpener::operator=(EspOpener&&) noexcept = default;
EspOpener::~EspOpener() = default;

/// RFC 4106 3 to 5: the nonce is salt and IV, the additional data SPI and sequence number.
bool EspOpener::open_gcm(Octets packet, std::optional<std::uint32_t> high, MutableOctets to) {
  EVP_CIPHER_CTX* context = contexts_->cipher.get();
  std::array<std::byte, kSalt + kGcmIv> nonce{};
  ByteWriter nonce_out(nonce);
  nonce_out.bytes(contexts_->salt);
  nonce_out.bytes(packet.subspan(kHeader, kGcmIv));
  std::array<std::byte, kHeader + 4> additional{};
  ByteWriter additional_out(additional);
  additional_out.bytes(packet.first(4));
  if (high) additional_out.u32(*high);
  additional_out.bytes(packet.subspan(4, 4));
  std::array<std::byte, 16> icv{};
  std::ranges::copy(packet.last(icv_), icv.begin());
  const Octets from = packet.subspan(kHeader + kGcmIv, to.size());
  int n = 0;
  return EVP_DecryptInit_ex(context, nullptr, nullptr, nullptr, raw(Octets(nonce))) == 1 &&
         EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_AEAD_SET_TAG, static_cast<int>(icv_), icv.data()) == 1 &&
         EVP_DecryptUpdate(context, nullptr, &n, raw(Octets(additional)),
                           static_cast<int>(additional_out.position())) == 1 &&
         EVP_DecryptUpdate(context, raw(to), &n, raw(from), static_cast<int>(from.size())) == 1 &&
         EVP_DecryptFinal_ex(context, raw(to) + n, &n) == 1;
}

/// RFC 4303 2.8: over all in front of the ICV, and the upper half of an extended sequence number behind it.
bool EspOpener::icv_fits(Octets packet, std::optional<std::uint32_t> high) {
  EVP_MAC_CTX* context = contexts_->mac.get();
  const Octets covered = packet.first(packet.size() - icv_);
  std::array<std::byte, 4> upper{};
  store_be(upper.data(), high.value_or(0));
  std::array<std::byte, EVP_MAX_MD_SIZE> digest{};
  std::size_t n = 0;
  return context != nullptr && EVP_MAC_init(context, nullptr, 0, nullptr) == 1 &&
         EVP_MAC_update(context, raw(covered), covered.size()) == 1 &&
         (!high || EVP_MAC_update(context, raw(Octets(upper)), upper.size()) == 1) &&
         EVP_MAC_final(context, raw(MutableOctets(digest)), &n, digest.size()) == 1 && n >= icv_ &&
         CRYPTO_memcmp(digest.data(), packet.last(icv_).data(), icv_) == 0;
}

/// RFC 3602 3.
bool EspOpener::decrypt_cbc(Octets packet, MutableOctets to) {
  EVP_CIPHER_CTX* context = contexts_->cipher.get();
  const Octets from = packet.subspan(kHeader + kAesBlock, to.size());
  int n = 0;
  return EVP_DecryptInit_ex(context, nullptr, nullptr, nullptr, raw(packet.subspan(kHeader, kAesBlock))) ==
             1 &&
         EVP_DecryptUpdate(context, raw(to), &n, raw(from), static_cast<int>(from.size())) == 1 &&
         static_cast<std::size_t>(n) == to.size();
}

Expected<EspContent, EspFailure> EspOpener::open(Octets packet, std::optional<std::uint32_t> high,
                                                 MutableOctets scratch) {
  const std::size_t around = kHeader + iv_ + icv_;
  if (packet.size() < around + kTrailer || packet.size() > kLongestEsp ||
      (packet.size() - around) % block_ != 0)
    return unexpected(EspFailure::malformed);
  const MutableOctets text = scratch.first(packet.size() - around);
  if (cipher_ == EspCipher::aes_gcm) {
    if (!open_gcm(packet, high, text)) return unexpected(EspFailure::icv);
  } else {
    if (!icv_fits(packet, high)) return unexpected(EspFailure::icv);
    if (cipher_ == EspCipher::null) {
      std::ranges::copy(packet.subspan(kHeader, text.size()), text.begin());
    } else if (!decrypt_cbc(packet, text)) {
      return unexpected(EspFailure::malformed);
    }
  }
  const std::size_t padding = std::to_integer<std::size_t>(text[text.size() - kTrailer]);
  if (padding + kTrailer > text.size()) return unexpected(EspFailure::malformed);
  EspContent content;
  content.next_header = std::to_integer<std::uint8_t>(text.back());
  content.payload = text.first(text.size() - kTrailer - padding);
  for (std::size_t i = 0; i < padding; ++i)
    content.padding_as_due =
        content.padding_as_due && text[content.payload.size() + i] == static_cast<std::byte>(i + 1);
  return content;
}

}  // namespace kbtp::trace
