#include "pcap/terminate_reading.h"

namespace kbtp::trace {
namespace {

constexpr std::uint8_t kRfcFlags = rdmap::kLengthValidFlag | rdmap::kDdpHeaderFlag | rdmap::kRdmaHeaderFlag;
constexpr std::uint8_t kSiwFlags = 0x07;

BitOrder recognise(std::span<const std::byte, rdmap::kTerminateControlSize> control) {
  const auto flags = std::to_integer<std::uint8_t>(control[2]);
  if ((flags & kRfcFlags) != 0) return BitOrder::rfc;
  if ((flags & kSiwFlags) != 0) return BitOrder::siw;
  // No copies, so no flags: the code decides.
  const bool rfc = terminate::find(rdmap::decode_terminate_control(control).code) != nullptr;
  const bool siw = terminate::find(rdmap::decode_siw_terminate_control(control).code) != nullptr;
  return siw && !rfc ? BitOrder::siw : BitOrder::rfc;
}

}  // namespace

std::optional<TerminateReading> read_terminate(Octets body) {
  if (body.size() < rdmap::kTerminateControlSize) return std::nullopt;
  const auto control = body.first<rdmap::kTerminateControlSize>();
  TerminateReading reading;
  reading.order = recognise(control);
  reading.control = reading.order == BitOrder::rfc ? rdmap::decode_terminate_control(control)
                                                   : rdmap::decode_siw_terminate_control(control);
  ByteReader reader(body.subspan(control.size()));
  if (reading.control.length_valid || reading.control.ddp_header) {
    const std::uint16_t length = reader.u16();
    if (reader.ok()) reading.segment_length = length;
  }
  if (reading.control.ddp_header) {
    const Octets rest = reader.rest();
    reading.ddp_header = reader.bytes(rest.empty() ? ddp::kTaggedHeaderSize : ddp::header_size(rest[0]));
  }
  if (reading.control.rdma_header) {
    const Octets copy = reader.bytes(rdmap::kReadRequestSize);
    if (reader.ok()) reading.read_request = rdmap::decode_read_request(copy.first<rdmap::kReadRequestSize>());
  }
  reading.cut_short = !reader.ok();
  reading.rest = reader.rest();
  return reading;
}

}  // namespace kbtp::trace
