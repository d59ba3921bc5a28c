// The keys that strongSwan's charon logs with `chd = 4`: for each CHILD_SA the algorithms ("using AES_GCM_16
// for encryption"), the keys of initiator and responder as hexadecimal dumps, then the SPIs and addresses of
// both directions ("SPI 0x1148feed, src 192.0.2.2 dst 192.0.2.1").

#pragma once

#include <string_view>
#include <vector>

#include "pcap/esp_keys.h"

namespace kbtp::trace {

[[nodiscard]] bool is_charon_log(std::string_view text);

/// Each SPI with both directions' keys. SAs with other algorithms than esp_keys.h names are passed over.
[[nodiscard]] std::vector<EspKey> read_charon_log(std::string_view text);

}  // namespace kbtp::trace
