// What fills a Record: one function for each kind of event, beside the array that describes its fields. A new
// kind gets a function here, its array in field_groups(), and a place in RecordBuilder::build()
// (record_builder.cc).

#pragma once

#include <algorithm>
#include <array>
#include <cstddef>
#include <functional>
#include <span>
#include <string_view>

#include "pcap/event.h"
#include "pcap/record.h"
#include "pcap/terminate_reading.h"
#include "proto/wire/assignment.h"
#include "rdmap_binding/rdmap/opcode.h"

namespace kbtp::trace {

struct EspSeen;

/// By opcode, for the fields that hold one of RDMAP.
inline constexpr auto kOpcodeNames = [] {
  std::array<std::string_view, rdmap::kOpcodes.size()> names;
  for (std::size_t i = 0; i < names.size(); ++i) names[i] = rdmap::kOpcodes[i].name;
  return names;
}();

/// Text that a Record points to, kept until the next event. What it has given out never moves; what does not
/// fit is cut off.
class TextStore {
 public:
  void clear() { used_ = 0; }
  [[nodiscard]] std::string_view keep(std::string_view text) {
    const std::size_t n = std::min(text.size(), storage_.size() - used_);
    std::copy_n(text.data(), n, storage_.data() + used_);
    used_ += n;
    return {storage_.data() + used_ - n, n};
  }

 private:
  std::array<char, 4096> storage_{};
  std::size_t used_ = 0;
};

/// From an octet of a body and a size to the place in the event's octets.
using PlaceOf = std::function<Place(std::size_t at, std::size_t size)>;

void add_startup(const Startup& startup, Record& record);
void add_bad_startup(const BadStartup& bad, Record& record);
/// `stream` is what the FPDU was read from, with its markers.
void add_fpdu(const Fpdu& fpdu, Octets stream, Record& record, TextStore& texts);
/// `place` counts from the Terminate's first octet.
void add_terminate(const TerminateReading& reading, const PlaceOf& place, Record& record, TextStore& texts);
/// `kbtp_seen`: the connection has shown a KBTP message, so that one that cannot be decoded is told as far as
/// its header goes.
void add_message(const Message& message, const wire::Assignment& assignment, bool kbtp_seen, Record& record,
                 TextStore& texts);
/// `packet`: from the BTH on, as far as captured.
void add_ib_packet(const IbPacket& ib, Octets packet, Record& record);
void add_cm(const CmMessage& message, Octets mad, Record& record, TextStore& texts);
/// Less the zeros at its end.
[[nodiscard]] Octets without_zeros(Octets octets);

/// Of the ESP packet in which the event's last octets came.
void add_esp(const EspSeen& seen, std::vector<Field>& fields);

[[nodiscard]] std::span<const FieldInfo> frame_fields();
[[nodiscard]] std::span<const FieldInfo> esp_fields();
[[nodiscard]] std::span<const FieldInfo> iwarp_fields();
[[nodiscard]] std::span<const FieldInfo> terminate_fields();
[[nodiscard]] std::span<const FieldInfo> kbtp_fields();
[[nodiscard]] std::span<const FieldInfo> ib_fields();

}  // namespace kbtp::trace
