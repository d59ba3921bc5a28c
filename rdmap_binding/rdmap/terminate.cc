#include "rdmap_binding/rdmap/terminate.h"

#include "base/fault.h"

namespace kbtp::rdmap {
namespace {

constexpr std::uint8_t kSiwLengthValidFlag = 0x01;
constexpr std::uint8_t kSiwDdpHeaderFlag = 0x02;
constexpr std::uint8_t kSiwRdmaHeaderFlag = 0x04;

Expected<Terminate, WireError> too_short(std::size_t octet, std::string_view reason) {
  return unexpected(WireError{terminate::kRdmapOperationUnspecified, octet, reason});
}

}  // namespace

TerminateControl decode_terminate_control(std::span<const std::byte, kTerminateControlSize> octets) {
  const auto flags = std::to_integer<std::uint8_t>(octets[2]);
  return {TerminateCode::from_packed(load_be<std::uint16_t>(octets.data())), (flags & kLengthValidFlag) != 0,
          (flags & kDdpHeaderFlag) != 0, (flags & kRdmaHeaderFlag) != 0};
}

TerminateControl decode_siw_terminate_control(std::span<const std::byte, kTerminateControlSize> octets) {
  const auto first = std::to_integer<std::uint8_t>(octets[0]);
  const auto flags = std::to_integer<std::uint8_t>(octets[2]);
  return {{static_cast<std::uint8_t>(first & 0x0F), static_cast<std::uint8_t>(first >> 4),
           std::to_integer<std::uint8_t>(octets[1])},
          (flags & kSiwLengthValidFlag) != 0,
          (flags & kSiwDdpHeaderFlag) != 0,
          (flags & kSiwRdmaHeaderFlag) != 0};
}

Expected<Terminate, WireError> decode_terminate(Octets octets) {
  ByteReader reader(octets);
  const Octets control = reader.bytes(kTerminateControlSize);
  if (!reader.ok())
    return too_short(octets.size(), "shorter than the Terminate Control field (RFC 5040 4.8)");

  Terminate message;
  message.control = decode_terminate_control(control.first<kTerminateControlSize>());
  if (message.control.length_valid || message.control.ddp_header) {
    message.segment_length = reader.u16();
    if (!reader.ok()) return too_short(octets.size(), "no DDP Segment Length although M or D (RFC 5040 4.8)");
  }
  if (message.control.ddp_header) {
    const Octets rest = reader.rest();
    message.ddp_header = reader.bytes(rest.empty() ? ddp::kTaggedHeaderSize : ddp::header_size(rest[0]));
    if (!reader.ok()) return too_short(octets.size(), "no whole DDP header although D (RFC 5040 4.8)");
  }
  if (message.control.rdma_header) {
    const Octets header = reader.bytes(kReadRequestSize);
    if (!reader.ok()) return too_short(octets.size(), "no whole RDMA header although R (RFC 5040 4.8)");
    message.read_request = decode_read_request(header.first<kReadRequestSize>());
  }
  message.rest = reader.rest();
  return message;
}

Offender make_offender(Octets head, std::size_t ulpdu_length) {
  Offender offender;
  const auto header = ddp::read_header(head);
  if (!header) return offender;
  const std::size_t size = ddp::header_size(*header);
  offender.ddp_header = head.first(size);
  offender.segment_length = static_cast<std::uint16_t>(ulpdu_length);
  const bool is_read_request =
      std::holds_alternative<ddp::UntaggedHeader>(*header) &&
      decode_control(ddp::rsvdulp(*header)).opcode == static_cast<std::uint8_t>(Opcode::read_request);
  if (is_read_request && ulpdu_length == size + kReadRequestSize && head.size() >= ulpdu_length) {
    offender.read_request = decode_read_request(head.subspan(size).first<kReadRequestSize>());
  }
  return offender;
}

TerminateOctets make_terminate(TerminateCode code, const Offender& offender) {
  Terminate message;
  message.control.code = code;
  // "Local catastrophic" is error type 0 in RDMAP as in DDP; no error of the LLP shows a header either.
  const bool shows_header =
      code.layer != terminate::kLayerLlp && code.error_type != terminate::kRdmapLocalCatastrophicType;
  if (shows_header && !offender.ddp_header.empty() && !fault(Fault::terminate_without_header)) {
    message.control.length_valid = true;
    message.control.ddp_header = true;
    message.segment_length = offender.segment_length;
    message.ddp_header = offender.ddp_header;
    if (code.layer == terminate::kLayerRdmap && code.error_type == terminate::kRdmapProtectionType &&
        offender.read_request && !fault(Fault::read_terminate_without_request)) {
      message.control.rdma_header = true;
      message.read_request = offender.read_request;
    }
  }
  return encode_terminate(message);
}

TerminateOctets encode_terminate(const Terminate& message) {
  TerminateOctets out;
  ByteWriter writer(out.storage);
  const TerminateControl& control = message.control;
  if (fault(Fault::terminate_bits_swapped)) {
    writer.u8(static_cast<std::uint8_t>(control.code.error_type << 4 | control.code.layer));
    writer.u8(control.code.error_code);
  } else {
    writer.u16(control.code.packed());
  }
  writer.u16(static_cast<std::uint16_t>(((control.length_valid ? kLengthValidFlag : 0) |
                                         (control.ddp_header ? kDdpHeaderFlag : 0) |
                                         (control.rdma_header ? kRdmaHeaderFlag : 0))
                                            << 8 |
                                        (fault(Fault::terminate_reserved_bits_set) ? 1 : 0)));
  if (control.length_valid || control.ddp_header) writer.u16(message.segment_length);
  writer.bytes(message.ddp_header);
  if (message.read_request) writer.bytes(encode(*message.read_request));
  out.size = static_cast<std::uint8_t>(writer.position());
  return out;
}

}  // namespace kbtp::rdmap
