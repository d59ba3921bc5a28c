// Fuzzes the readers of ESP keys and what opens packets with them: text up to the first zero octet, then a
// packet from 192.0.2.1 to 192.0.2.2.

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "pcap/esp.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kbtp::trace;
  const std::uint8_t* end = std::find(data, data + size, std::uint8_t{0});
  const std::string_view text(reinterpret_cast<const char*>(data), static_cast<std::size_t>(end - data));
  auto keys = read_esp_keys(text, "keys");
  if (!keys || end == data + size) return 0;
  EspPacket packet;
  packet.source.host = {192, 0, 2, 1};
  packet.destination.host = {192, 0, 2, 2};
  packet.payload = {reinterpret_cast<const std::byte*>(end + 1),
                    static_cast<std::size_t>(data + size - end - 1)};
  packet.payload_length = static_cast<std::uint32_t>(packet.payload.size());
  EspStage stage(std::move(*keys));
  // Twice: what is known of an SA decides how its next packet is tried.
  for (int i = 0; i < 2; ++i) {
    stage.begin_frame();
    static_cast<void>(stage.open(packet));
  }
  return account_of(stage).size() > 2 ? -1 : 0;
}
