#include <array>

#include "pcap/esp.h"
#include "pcap/fields.h"

namespace kbtp::trace {
namespace {

constexpr std::array<std::string_view, 2> kModes{"transport", "tunnel"};

constexpr std::array kFields{
    FieldInfo{"esp.spi", Kind::number, "SPI of the ESP packet that its frame was (RFC 4303 2.1)",
              Base::hex32},
    FieldInfo{"esp.sequence", Kind::number, "its sequence number, 64 bits where those are (RFC 4303 2.2)"},
    FieldInfo{"esp.mode", Kind::text, "whether an IP packet stood in it (RFC 4303 3.1)", Base::decimal, 0,
              kModes},
    FieldInfo{"esp.in_udp", Kind::boolean, "ESP in UDP (RFC 3948)"},
};

consteval const FieldInfo* f(std::string_view name) { return field_of(kFields, name); }

}  // namespace

std::span<const FieldInfo> esp_fields() { return kFields; }

void add_esp(const EspSeen& seen, std::vector<Field>& fields) {
  fields.push_back(number_field(f("esp.spi"), seen.spi));
  fields.push_back(number_field(f("esp.sequence"), seen.sequence));
  fields.push_back(text_field(f("esp.mode"), kModes[seen.tunnel ? 1 : 0]));
  fields.push_back(boolean_field(f("esp.in_udp"), seen.in_udp));
}

}  // namespace kbtp::trace
