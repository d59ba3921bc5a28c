#include "rdmap_binding/rdmap/segment.h"

#include <algorithm>

#include "base/fault.h"

namespace kbtp::rdmap {
namespace {

// Offsets in the ULPDU of what is judged here (RFC 5041 4.1, 4.3).
constexpr std::size_t kRsvdulpOctet = 1;
constexpr std::size_t kQueueNumberOctet = 6;
constexpr std::size_t kMessageOffsetOctet = 14;

/// What holds for the messages that are an RDMAP header and nothing else.
std::optional<WireError> check_header_message(const ddp::UntaggedHeader& ddp, const OpcodeFacts& facts,
                                              std::size_t payload_size) {
  if (ddp.message_offset != 0) {
    return WireError{terminate::kDdpUntaggedInvalidMo, kMessageOffsetOctet,
                     "MO is not 0 in a message of one segment (RFC 5041 4.3)"};
  }
  if (!ddp.last) {
    return WireError{terminate::kRdmapOperationUnspecified, 0,
                     "L is 0 in a message of one segment (RFC 5041 4.1)"};
  }
  // The shortest Terminate is known; how long this one has to be is for decode_terminate().
  const std::size_t due = facts.header_size;
  const bool fits = facts.opcode == Opcode::terminate ? payload_size >= due : payload_size == due;
  if (!fits) {
    return WireError{terminate::kRdmapOperationUnspecified,
                     ddp::kUntaggedHeaderSize + std::min(payload_size, due),
                     "length is not that of its RDMAP header (RFC 5040 4.2, RFC 7306 4.2)"};
  }
  return std::nullopt;
}

}  // namespace

Expected<Opcode, WireError> check_head(const ddp::Header& header, std::size_t ulpdu_length) {
  if (const auto error = ddp::check_version(header)) return unexpected(*error);

  const auto* untagged = std::get_if<ddp::UntaggedHeader>(&header);
  const auto reserved = std::visit([](const auto& h) { return h.reserved; }, header);
  if (fault(Fault::ddp_reserved_bits_checked) && reserved != 0) {
    return unexpected(WireError{terminate::kDdpUntaggedInvalidVersion, 0, "reserved bits"});
  }
  if (untagged != nullptr && untagged->queue_number >= kQueueCount &&
      !fault(Fault::queue_number_not_checked)) {
    return unexpected(WireError{terminate::kDdpUntaggedInvalidQn, kQueueNumberOctet,
                                "QN is above 3 (RFC 5040 3.1, RFC 7306 5.2)"});
  }
  const Control control = decode_control(ddp::rsvdulp(header));
  if (fault(Fault::rdmap_reserved_bits_checked) && control.reserved != 0) {
    return unexpected(WireError{terminate::kRdmapInvalidVersion, kRsvdulpOctet, "reserved bits"});
  }
  if (control.version != kVersion && !fault(Fault::rdmap_version_not_checked)) {
    return unexpected(
        WireError{terminate::kRdmapInvalidVersion, kRsvdulpOctet, "RV is not 01b (RFC 5040 4.1)"});
  }
  const OpcodeFacts* opcode = find_opcode(control.opcode);
  if (opcode == nullptr) {
    return unexpected(WireError{fault(Fault::unknown_opcode_told_as_version)
                                    ? terminate::kRdmapInvalidVersion
                                    : terminate::kRdmapUnexpectedOpcode,
                                kRsvdulpOctet, "opcode is not assigned (RFC 5040 4.1, RFC 7306 4.1)"});
  }
  if (opcode->tagged != (untagged == nullptr)) {
    return unexpected(WireError{terminate::kRdmapUnexpectedOpcode, 0,
                                "T is not that of the opcode (RFC 5040 4.1, RFC 7306 4.1)"});
  }
  const bool any_queue = fault(Fault::read_request_on_any_queue) &&
                         control.opcode == static_cast<std::uint8_t>(Opcode::read_request);
  if (untagged != nullptr && untagged->queue_number != opcode->queue_number && !any_queue) {
    return unexpected(WireError{terminate::kRdmapUnexpectedOpcode, kQueueNumberOctet,
                                "QN is not that of the opcode (RFC 5040 4.1, RFC 7306 4.1)"});
  }
  if (!opcode->has_payload && untagged != nullptr) {
    const std::size_t payload_size = ulpdu_length - ddp::header_size(header);
    if (const auto error = check_header_message(*untagged, *opcode, payload_size)) return unexpected(*error);
  }
  return opcode->opcode;
}

Expected<SegmentHead, WireError> decode_head(Octets head, std::size_t ulpdu_length) {
  Expected<SegmentHead, WireError> result;
  const auto error = ddp::read_header(head.first(std::min(head.size(), ulpdu_length)), result->ddp);
  if (error) return unexpected(*error);
  const auto opcode = check_head(result->ddp, ulpdu_length);
  if (!opcode) return unexpected(opcode.error());
  result->opcode = *opcode;
  result->payload_size = ulpdu_length - ddp::header_size(result->ddp);
  return result;
}

Expected<SegmentView, WireError> decode_segment(Octets ulpdu) {
  const auto head = decode_head(ulpdu, ulpdu.size());
  if (!head) return unexpected(head.error());
  const std::size_t at = ulpdu.size() - head->payload_size;
  const Octets octets = ulpdu.subspan(at);
  SegmentView view{*head, Payload{octets}};
  // decode_head() has made sure of the lengths.
  switch (head->opcode) {
    case Opcode::rdma_write:
    case Opcode::read_response:
    case Opcode::send:
    case Opcode::send_invalidate:
    case Opcode::send_se:
    case Opcode::send_se_invalidate:
      break;
    case Opcode::read_request:
      view.body = decode_read_request(octets.first<kReadRequestSize>());
      break;
    case Opcode::immediate:
    case Opcode::immediate_se:
      view.body = decode_immediate(octets.first<kImmediateSize>());
      break;
    case Opcode::atomic_request: {
      const AtomicRequest request = decode_atomic_request(octets.first<kAtomicRequestSize>());
      constexpr std::size_t kOperationOctet = 3;
      if (!is_known(request.operation)) {
        return unexpected(WireError{terminate::kRdmapUnexpectedOpcode, at + kOperationOctet,
                                    "AOpCode is not assigned (RFC 7306 5.2.1)"});
      }
      view.body = request;
      break;
    }
    case Opcode::atomic_response:
      view.body = decode_atomic_response(octets.first<kAtomicResponseSize>());
      break;
    case Opcode::terminate: {
      auto message = decode_terminate(octets);
      if (!message) {
        message.error().octet += at;
        return unexpected(message.error());
      }
      view.body = *message;
      break;
    }
  }
  return view;
}

std::vector<std::byte> encode_segment(const SegmentView& segment) {
  std::vector<std::byte> ulpdu(ddp::header_size(segment.head.ddp));
  ddp::encode(segment.head.ddp, ulpdu);
  const auto append = [&ulpdu](Octets octets) { ulpdu.insert(ulpdu.end(), octets.begin(), octets.end()); };
  if (const auto* payload = std::get_if<Payload>(&segment.body)) {
    append(payload->octets);
  } else if (const auto* request = std::get_if<ReadRequest>(&segment.body)) {
    append(encode(*request));
  } else if (const auto* immediate = std::get_if<Immediate>(&segment.body)) {
    append(encode(*immediate));
  } else if (const auto* atomic = std::get_if<AtomicRequest>(&segment.body)) {
    append(encode(*atomic));
  } else if (const auto* response = std::get_if<AtomicResponse>(&segment.body)) {
    append(encode(*response));
  } else if (const auto* message = std::get_if<Terminate>(&segment.body)) {
    append(encode_terminate(*message).octets());
    append(message->rest);
  }
  return ulpdu;
}

}  // namespace kbtp::rdmap
