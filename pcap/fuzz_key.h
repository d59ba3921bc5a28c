// The key that fuzz_trace opens every SA with; its seeds are sealed with it.

#pragma once

#include "pcap/esp_keys.h"

namespace kbtp::trace::test {

inline EspKey fuzz_key() {
  EspKey key;
  key.spi_mask = 0;
  key.transform.cipher = EspCipher::aes_gcm;
  key.transform.icv = 16;
  for (unsigned i = 0; i < 36; ++i) key.transform.cipher_key.push_back(static_cast<std::byte>(1 + i * 7));
  return key;
}

}  // namespace kbtp::trace::test
