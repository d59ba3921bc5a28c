// Untagged messages: Sends for the upper layer, Read and Atomic Requests, Atomic Responses, Terminate (RFC
// 5041 7.1, RFC 5040 5 and 7, RFC 7306).

#include <algorithm>

#include "base/fault.h"
#include "base/masked_add.h"
#include "rdmap_binding/rnic/engine.h"

namespace kbtp::rnic {

namespace {

WireError protection_error(StagFault fault) {
  switch (fault) {
    case StagFault::invalid:
      return {terminate::kRdmapInvalidStag, 0, "unknown STag (RFC 5040 7.2)"};
    case StagFault::not_associated:
      return {terminate::kRdmapStagNotAssociated, 0, "STag of another stream or domain (RFC 5040 7.2)"};
    case StagFault::access:
      return {terminate::kRdmapAccessRights, 0, "the STag does not grant this access (RFC 5040 7.2)"};
    case StagFault::bounds:
      return {terminate::kRdmapBaseOrBounds, 0, "octets outside the STag's range (RFC 5040 7.2)"};
    case StagFault::wrap:
      return {terminate::kRdmapToWrap, 0, "Tagged Offset plus length passes 2^64 (RFC 5040 7.2)"};
  }
  return {terminate::kRdmapLocalCatastrophic, 0, "unreachable"};
}

}  // namespace

void Engine::on_untagged(const rdmap::SegmentView& segment, Octets ulpdu) {
  const ddp::UntaggedHeader& header = segment.head.untagged();
  Fault fault = check_msn(header);
  if (kbtp::fault(kbtp::Fault::read_request_on_any_queue) &&
      std::holds_alternative<rdmap::ReadRequest>(segment.body))
    fault.reset();
  if (!fault) {
    if (const auto* payload = std::get_if<rdmap::Payload>(&segment.body)) {
      fault = on_send_segment(segment.head, payload->octets, std::nullopt);
    } else if (const auto* immediate = std::get_if<rdmap::Immediate>(&segment.body)) {
      fault = on_send_segment(segment.head, {}, immediate->data);
    } else if (const auto* read = std::get_if<rdmap::ReadRequest>(&segment.body)) {
      fault = on_read_request(*read, ulpdu);
    } else if (const auto* atomic = std::get_if<rdmap::AtomicRequest>(&segment.body)) {
      fault = on_atomic_request(*atomic, ulpdu);
    } else if (const auto* response = std::get_if<rdmap::AtomicResponse>(&segment.body)) {
      fault = on_atomic_response(*response);
    } else if (const auto* terminate = std::get_if<rdmap::Terminate>(&segment.body)) {
      on_terminate(*terminate);
      return;
    }
  }
  if (fault) fail(*fault, rdmap::make_offender(ulpdu, static_cast<std::uint16_t>(ulpdu.size())));
}

/// TCP keeps order, so the only MSN in range is the next one.
Engine::Fault Engine::check_msn(const ddp::UntaggedHeader& header) const {
  const std::uint32_t due = in_msn_[header.queue_number];
  if (header.msn == due) return std::nullopt;
  if (kbtp::fault(kbtp::Fault::msn_gap_accepted) && header.msn > due) return std::nullopt;
  if (kbtp::fault(kbtp::Fault::msn_repeat_accepted) && header.msn + 1 == due) return std::nullopt;
  return WireError{terminate::kDdpUntaggedMsnRange, 10, "MSN is not the next one (RFC 5041 7.1)"};
}

// --- Queue 0 ---------------------------------------------------------------------------------------------

Engine::Fault Engine::on_send_segment(const rdmap::SegmentHead& head, Octets payload,
                                      std::optional<std::uint64_t> immediate) {
  const ddp::UntaggedHeader& header = head.untagged();
  if (rtr_send_agreed_ && !first_fpdu_seen_ && head.opcode == rdmap::Opcode::send && head.last() &&
      payload.empty()) {
    // An RTR Send takes a receive, which nobody but us has seen: it is posted again (RFC 6581 5).
    in_msn_[rdmap::kSendQueue] = ddp::next_msn(header.msn);
    return std::nullopt;
  }
  if (receives_ == 0) {
    return WireError{terminate::kDdpUntaggedNoBuffer, 10, "no receive is posted for it (RFC 5041 7.1)"};
  }
  if (message_opcode_ && *message_opcode_ != head.opcode) {
    return WireError{terminate::kRdmapUnexpectedOpcode, 1,
                     "another opcode inside an unfinished message (RFC 5041 4.3)"};
  }
  if (header.message_offset != message_.size() && !kbtp::fault(kbtp::Fault::message_offset_not_checked)) {
    return WireError{terminate::kDdpUntaggedInvalidMo, 14, "MO is not the next octet (RFC 5041 7.1)"};
  }
  if (payload.size() > options_.receive_size - message_.size()) {
    return WireError{kbtp::fault(kbtp::Fault::too_long_told_as_no_buffer) ? terminate::kDdpUntaggedNoBuffer
                                                                          : terminate::kDdpUntaggedTooLong,
                     14, "longer than the receive (RFC 5041 7.1)"};
  }
  if (!head.last()) {
    message_opcode_ = head.opcode;
    message_.insert(message_.end(), payload.begin(), payload.end());
    return std::nullopt;
  }
  message_opcode_.reset();
  if (message_.empty()) return deliver_send(head, payload, immediate);
  message_.insert(message_.end(), payload.begin(), payload.end());
  const std::vector<std::byte> message = std::move(message_);
  message_ = {};
  return deliver_send(head, message, immediate);
}

Engine::Fault Engine::deliver_send(const rdmap::SegmentHead& head, Octets message,
                                   std::optional<std::uint64_t> immediate) {
  const ddp::UntaggedHeader& header = head.untagged();
  rdma::Received received;
  received.payload = message;
  received.solicited = head.facts().solicited;
  received.immediate = immediate;
  if (head.facts().invalidates) {
    // RFC 5040 5.3: verified before the ULP hears of the message.
    if (!setup_.stags.invalidate_by_peer(setup_.id, header.rsvdulp_stag) &&
        !kbtp::fault(kbtp::Fault::invalidated_stag_not_checked)) {
      return WireError{terminate::kRdmapStagCannotBeInvalidated, 2,
                       "the STag cannot be invalidated by this peer (RFC 5040 7.2, 8.1.1)"};
    }
    own_.erase(header.rsvdulp_stag);
    window_.make_private(header.rsvdulp_stag);
    received.invalidated = header.rsvdulp_stag;
  }
  in_msn_[rdmap::kSendQueue] = ddp::next_msn(header.msn);
  --receives_;
  handler_->on_received(received);
  return std::nullopt;
}

// --- Queue 1 ---------------------------------------------------------------------------------------------

tl::expected<Target, WireError> Engine::source_of(const rdmap::ReadRequest& request, std::uint32_t done,
                                                  std::uint32_t length) const {
  const auto target = setup_.stags.find(scope_, request.source_stag, request.source_to + done, length,
                                        rdma::Access::remote_read);
  if (!target && kbtp::fault(kbtp::Fault::read_right_not_checked) && !outstanding_.empty() &&
      outstanding_.front().sink_stag == request.source_stag &&
      done + length <= outstanding_.front().sink.memory.size())
    return Target{outstanding_.front().sink.memory.subspan(done, length), rdma::Content::octets};
  if (!target && kbtp::fault(kbtp::Fault::read_stag_told_as_rights))
    return unexpected(protection_error(StagFault::access));
  if (!target) return unexpected(protection_error(target.error()));
  return *target;
}

tl::expected<std::uint64_t*, WireError> Engine::word_of(const rdmap::AtomicRequest& request) const {
  constexpr std::uint64_t kWord = 8;  // RFC 7306 5
  const auto target =
      setup_.stags.find(scope_, request.remote_stag, request.remote_to, kWord, rdma::Access::remote_atomic);
  if (!target && kbtp::fault(kbtp::Fault::atomic_stag_told_as_rights))
    return unexpected(protection_error(StagFault::access));
  if (!target) return unexpected(protection_error(target.error()));
  if (reinterpret_cast<std::uintptr_t>(target->memory.data()) % kWord != 0) {
    return unexpected(WireError{terminate::kRdmapCatastrophicStream, 0,
                                "the Atomic's word is not 64-bit aligned (RFC 7306 8.2)"});
  }
  return reinterpret_cast<std::uint64_t*>(target->memory.data());
}

Engine::Fault Engine::on_read_request(const rdmap::ReadRequest& request, Octets ulpdu) {
  if (inbound_.size() >= ird_) {
    return WireError{terminate::kDdpUntaggedNoBuffer, 10, "more Reads than the IRD (RFC 5040 6.1)"};
  }
  // RFC 5040 5.2.1: a Read of nothing validates nothing.
  if (request.size != 0 || kbtp::fault(kbtp::Fault::empty_read_checked)) {
    if (const auto source = source_of(request, 0, request.size); !source) return source.error();
  }
  Inbound& entry = inbound_.emplace_back();
  entry.request = request;
  std::copy_n(ulpdu.begin(), entry.ddp_header.size(), entry.ddp_header.begin());
  entry.segment_length = static_cast<std::uint16_t>(ulpdu.size());
  in_msn_[rdmap::kRequestQueue] = ddp::next_msn(in_msn_[rdmap::kRequestQueue]);
  return std::nullopt;
}

Engine::Fault Engine::on_atomic_request(const rdmap::AtomicRequest& request, Octets ulpdu) {
  if (inbound_.size() >= ird_) {
    return WireError{terminate::kDdpUntaggedNoBuffer, 10,
                     "more Atomics and Reads than the IRD (RFC 7306 5.2)"};
  }
  if (const auto word = word_of(request); !word) return word.error();
  Inbound& entry = inbound_.emplace_back();
  entry.request = request;
  std::copy_n(ulpdu.begin(), entry.ddp_header.size(), entry.ddp_header.begin());
  entry.segment_length = static_cast<std::uint16_t>(ulpdu.size());
  in_msn_[rdmap::kRequestQueue] = ddp::next_msn(in_msn_[rdmap::kRequestQueue]);
  return std::nullopt;
}

// --- Queues 2 and 3 --------------------------------------------------------------------------------------

Engine::Fault Engine::on_atomic_response(const rdmap::AtomicResponse& response) {
  if (outstanding_.empty()) {
    return WireError{terminate::kDdpUntaggedNoBuffer, 10,
                     "an Atomic Response that was not asked for (RFC 7306 5.2.2)"};
  }
  if (!outstanding_.front().atomic) {
    return WireError{terminate::kRdmapUnexpectedOpcode, 1,
                     "an Atomic Response where a Read Response is due (RFC 7306 5.2.2)"};
  }
  if (outstanding_.front().identifier != response.request_identifier) {
    return WireError{terminate::kRdmapOperationUnspecified, 18,
                     "an Atomic Response with another Request Identifier (RFC 7306 5.2.2)"};
  }
  in_msn_[rdmap::kAtomicResponseQueue] = ddp::next_msn(in_msn_[rdmap::kAtomicResponseQueue]);
  complete(outstanding_.front().number, rdma::WorkStatus::success, response.original_value);
  outstanding_.pop_front();
  return std::nullopt;
}

void Engine::on_terminate(const rdmap::Terminate& terminate) {
  if (kbtp::fault(kbtp::Fault::terminate_ignored)) return;
  // RFC 5040 5.4, 6.2.1: the stream is over; what is queued is not sent any more.
  window_.reset();
  rdma::CloseReason reason = make_reason(rdma::CloseReason::Kind::remote_error,
                                         "the peer sent a Terminate: " + to_string(terminate.code()));
  reason.terminate = terminate.code().packed();
  leave(std::move(reason));
}

}  // namespace kbtp::rnic
