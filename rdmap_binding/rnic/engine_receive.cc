// Receiving: where octets belong, FPDUs out of the stream, tagged placement (RFC 5044 4 and 6, RFC 5041 5).
//
// CRCs on: octets are read into the loop's staging buffer; an FPDU is checked there and then placed, so
// nothing of it is placed before its CRC is known to be good. CRCs off: a large tagged payload is read
// straight into place, and its trailer with the next FPDU's header behind it into the staging buffer, in one
// readv().

#include <algorithm>
#include <cstring>

#include "base/crc32c.h"
#include "base/fault.h"
#include "base/shared_memory.h"
#include "rdmap_binding/mpa/marker.h"
#include "rdmap_binding/rnic/engine.h"

namespace kbtp::rnic {

namespace {

// Below this, a second copy is cheaper than a read of its own.
constexpr std::size_t kDirectFrom = 4096;
// CRCs off: what is read without knowing where it belongs; the more, the less can go straight into place.
constexpr std::size_t kReadAhead = 16 * 1024;
constexpr std::size_t kTaggedFront = mpa::kLengthSize + ddp::kTaggedHeaderSize;
constexpr std::size_t kLongestFront = mpa::kLengthSize + ddp::kMaxHeaderSize;

WireError tagged_error(StagFault fault) {
  // RFC 5041 7.2 has no code for rights: an STag that does not allow placement is invalid for it (7.1).
  switch (fault) {
    case StagFault::invalid:
      return {terminate::kDdpTaggedInvalidStag, 2, "unknown STag (RFC 5041 7.1)"};
    case StagFault::not_associated:
      return {terminate::kDdpTaggedStagNotAssociated, 2, "STag of another stream or domain (RFC 5041 8.2)"};
    case StagFault::access:
      return {terminate::kDdpTaggedInvalidStag, 2, "the STag allows no placement (RFC 5041 7.1)"};
    case StagFault::bounds:
      return {terminate::kDdpTaggedBaseOrBounds, 6, "payload outside the STag's range (RFC 5041 7.1)"};
    case StagFault::wrap:
      return {terminate::kDdpTaggedToWrap, 6, "Tagged Offset plus length passes 2^64 (RFC 5041 7.1)"};
  }
  return {terminate::kDdpLocalCatastrophic, 0, "unreachable"};
}

// What the mutants of this file look at.
bool begins_with_whole_fpdu(Octets octets) {
  return octets.size() >= mpa::kLengthSize &&
         octets.size() >= mpa::fpdu_size(load_be<std::uint16_t>(octets.data()));
}
bool pad_is_zero(Octets fpdu, std::uint16_t ulpdu_length) {
  const Octets pad = fpdu.subspan(mpa::kLengthSize + ulpdu_length, mpa::pad_size(ulpdu_length));
  return std::ranges::all_of(pad, [](std::byte octet) { return octet == std::byte{0}; });
}

void put(const Target& place, Octets payload) {
  if (place.content == rdma::Content::shared) {
    copy_to_shared(place.memory, payload);
  } else {
    std::memcpy(place.memory.data(), payload.data(), payload.size());
  }
}

/// Over all but the CRC field, markers included where there are any (RFC 5044 4.4).
CrcVerdict verdict_of(Octets fpdu) {
  return mpa::check_marked_crc(fpdu) ? CrcVerdict::good : CrcVerdict::bad;
}

iovec piece(MutableOctets octets) { return {octets.data(), octets.size()}; }

}  // namespace

std::span<const iovec> Engine::receive_plan() {
  if (direct_.active && direct_.done < direct_.head.payload_size) {
    // Looked up again at each resume: the region may be gone meanwhile.
    const auto place = place_for(direct_.head);
    if (place) {
      plan_[0] = piece(place->memory.subspan(direct_.done));
      plan_[1] = piece(input_.room().first(direct_.trailer + kLongestFront));
      return plan_;
    }
    fail(place.error(), rdmap::make_offender(direct_.header, direct_.ulpdu_length));
  }
  const MutableOctets room = input_.room();
  const bool all = crc_ || in_markers_.has_value();  // markers: nothing goes straight into place
  plan_[0] = piece(all ? room : room.first(std::min(room.size(), kReadAhead)));
  return std::span(plan_).first(1);
}

void Engine::received(std::size_t n) {
  if (state_ == State::terminating || state_ == State::leaving || state_ == State::ended) return;
  if (direct_.active && direct_.done < direct_.head.payload_size) {
    const std::size_t placed = std::min(n, direct_.head.payload_size - direct_.done);
    direct_.done += placed;
    received_octets_ += placed;
    n -= placed;
  }
  input_.filled(n);
  parse();
}

void Engine::parse() {
  if (state_ == State::startup && !parse_startup()) return;
  while (state_ == State::open) {
    const bool first = !first_fpdu_seen_;
    if (!parse_fpdu()) return;
    if (first && kbtp::fault(kbtp::Fault::octets_after_first_fpdu_stall)) return;
    if (!posted_.empty() && posted_.front().done) tell_completions();
  }
}

/// True when an FPDU was used up and there may be another.
bool Engine::parse_fpdu() {
  const Octets octets = input_.unread();
  if (kbtp::fault(kbtp::Fault::fpdus_must_be_aligned) && !octets.empty() && !begins_with_whole_fpdu(octets)) {
    fail({terminate::kMpaMarkerMismatch, 0, "a mutant wants whole FPDUs"}, {});
    return false;
  }
  if (direct_.active) {
    if (direct_.done < direct_.head.payload_size) return false;
    const std::size_t n = std::min(direct_.trailer, octets.size());
    direct_.trailer -= n;
    input_.consume(n);
    received_octets_ += n;
    if (direct_.trailer != 0) return false;
    finish_direct();
    return true;
  }
  if (in_markers_) return parse_marked_fpdu(octets);
  if (octets.size() < mpa::kLengthSize) return false;
  const auto ulpdu_length = load_be<std::uint16_t>(octets.data());
  if (const auto error = mpa::check_length(ulpdu_length)) {
    fail(*error, {});
    return false;
  }
  const std::size_t size = mpa::fpdu_size(ulpdu_length);
  if (octets.size() < size) return !crc_ && start_direct(octets, ulpdu_length);
  const Octets fpdu = octets.first(size);
  on_fpdu(fpdu, ulpdu_length, !crc_ ? CrcVerdict::ignored : verdict_of(fpdu));
  if (state_ == State::open) {
    input_.consume(size);
    received_octets_ += size;
  }
  return true;
}

/// Markers and all of an FPDU lie in the staging buffer, where the CRC runs over them as they stand; then the
/// FPDU is copied together without them.
bool Engine::parse_marked_fpdu(Octets octets) {
  const mpa::MarkerClock at = *in_markers_;
  const auto measured = mpa::measure_marked(octets, at);
  if (const auto* error = std::get_if<WireError>(&measured)) {
    fail(*error, {});
    return false;
  }
  const auto* found = std::get_if<mpa::MarkedFpdu>(&measured);
  if (found == nullptr) return false;
  const Octets marked = octets.first(found->size);
  const CrcVerdict verdict = !crc_ ? CrcVerdict::ignored : verdict_of(marked);
  if (verdict != CrcVerdict::bad) {
    if (const auto error = mpa::check_markers(marked, at)) {
      fail(*error, {});
      return false;
    }
  }
  received_octets_ += found->length_at;
  const MutableOctets clean = setup_.staging.scratch(mpa::fpdu_size(found->ulpdu_length));
  on_fpdu(mpa::remove_markers(clean, marked, at), found->ulpdu_length, verdict);
  if (state_ == State::open) {
    input_.consume(found->size);
    received_octets_ += found->size - found->length_at;
    in_markers_->advance(found->size);
  }
  return true;
}

void Engine::on_fpdu(Octets fpdu, std::uint16_t ulpdu_length, CrcVerdict verdict) {
  const Octets ulpdu = fpdu.subspan(mpa::kLengthSize, ulpdu_length);
  if (kbtp::fault(kbtp::Fault::pad_octets_checked) && !pad_is_zero(fpdu, ulpdu_length)) {
    verdict = CrcVerdict::bad;
  }
  if (kbtp::fault(kbtp::Fault::crc_not_checked)) verdict = CrcVerdict::good;
  if (setup_.options.fpdu_observer) observe_received(fpdu.data(), ulpdu_length, verdict);
  if (verdict == CrcVerdict::bad && kbtp::fault(kbtp::Fault::delivers_after_crc_error)) {
    ++in_msn_[rdmap::kSendQueue];
    return;
  }
  if (verdict == CrcVerdict::bad && kbtp::fault(kbtp::Fault::places_before_crc_check)) {
    const auto early = rdmap::decode_segment(ulpdu);
    if (early && early->head.facts().tagged && early->head.payload_size != 0) {
      if (const auto place = place_for(early->head))
        put(*place, std::get_if<rdmap::Payload>(&early->body)->octets);
    }
  }
  if (verdict == CrcVerdict::bad) {
    fail({terminate::kMpaCrcError, fpdu.size() - mpa::kCrcSize, "CRC error (RFC 5044 8)"}, {});
    return;
  }
  may_send_ = true;  // RFC 5044 7.1.2: one valid FPDU has come
  auto segment = rdmap::decode_segment(ulpdu);
  if (!segment) {
    fail(segment.error(), rdmap::make_offender(ulpdu, ulpdu_length));
    return;
  }
  if (!segment->head.facts().tagged) {
    on_untagged(*segment, ulpdu);
    first_fpdu_seen_ = true;
    return;
  }
  first_fpdu_seen_ = true;
  if (segment->head.payload_size != 0 || kbtp::fault(kbtp::Fault::empty_write_checked)) {
    const auto place = place_for(segment->head);
    if (!place && kbtp::fault(kbtp::Fault::unknown_stag_ignored)) return;
    if (!place) {
      fail(place.error(), rdmap::make_offender(ulpdu, ulpdu_length));
      return;
    }
    put(*place, std::get_if<rdmap::Payload>(&segment->body)->octets);
  }
  tagged_arrived(segment->head, ulpdu, ulpdu_length);
}

// --- Tagged placement ------------------------------------------------------------------------------------

tl::expected<Target, WireError> Engine::place_for(const rdmap::SegmentHead& head) {
  if (head.opcode == rdmap::Opcode::read_response) return place_for_response(head);
  const ddp::TaggedHeader& header = head.tagged();
  if (kbtp::fault(kbtp::Fault::read_sink_open_to_writes) && !outstanding_.empty() &&
      outstanding_.front().sink_stag == header.stag)
    return Target{outstanding_.front().sink.memory.first(head.payload_size), rdma::Content::octets};
  const auto target = setup_.stags.find(scope_, header.stag, header.tagged_offset, head.payload_size,
                                        rdma::Access::remote_write);
  if (!target) return unexpected(tagged_error(target.error()));
  return *target;
}

/// The sink of a Read is open to the Response that is due now, at the offset that is due now, and to nothing
/// beyond what was asked for (G-52): a Response that never ends cannot write past it.
tl::expected<Target, WireError> Engine::place_for_response(const rdmap::SegmentHead& head) {
  const ddp::TaggedHeader& header = head.tagged();
  if (outstanding_.empty() || outstanding_.front().atomic || outstanding_.front().sink_stag != header.stag) {
    if (setup_.stags.exists(header.stag)) {
      return unexpected(WireError{terminate::kRdmapUnexpectedOpcode, 1,
                                  "a Read Response that was not asked for (RFC 5040 5.2.2)"});
    }
    return unexpected(tagged_error(StagFault::invalid));
  }
  const Outstanding& read = outstanding_.front();
  if (head.payload_size - 1 > ~std::uint64_t{0} - header.tagged_offset) {
    return unexpected(
        tagged_error(kbtp::fault(kbtp::Fault::wrap_told_as_bad_stag) ? StagFault::invalid : StagFault::wrap));
  }
  if (header.tagged_offset != read.received || head.payload_size > read.sink.memory.size() - read.received) {
    return unexpected(tagged_error(kbtp::fault(kbtp::Fault::bounds_told_as_bad_stag) ? StagFault::invalid
                                                                                     : StagFault::bounds));
  }
  return Target{read.sink.memory.subspan(read.received, head.payload_size), read.sink.content};
}

void Engine::tagged_arrived(const rdmap::SegmentHead& head, Octets ulpdu_head, std::uint16_t ulpdu_length) {
  if (head.opcode == rdmap::Opcode::read_response) read_response_arrived(head, ulpdu_head, ulpdu_length);
}

void Engine::read_response_arrived(const rdmap::SegmentHead& head, Octets ulpdu_head,
                                   std::uint16_t ulpdu_length) {
  if (outstanding_.empty() || outstanding_.front().atomic) {
    // Zero-length, so no STag was looked at (RFC 5041 5.2).
    fail({terminate::kRdmapUnexpectedOpcode, 1, "a Read Response that was not asked for (RFC 5040 5.2.2)"},
         rdmap::make_offender(ulpdu_head, ulpdu_length));
    return;
  }
  Outstanding& read = outstanding_.front();
  read.received += static_cast<std::uint32_t>(head.payload_size);
  if (!head.last()) return;
  if (read.received != read.sink.memory.size()) {
    fail(
        {terminate::kRdmapOperationUnspecified, 0, "a Read Response shorter than asked for (RFC 5040 5.2.2)"},
        rdmap::make_offender(ulpdu_head, ulpdu_length));
    return;
  }
  complete(read.number, rdma::WorkStatus::success, 0);
  outstanding_.pop_front();
}

// --- Straight into place (CRCs off) ----------------------------------------------------------------------

bool Engine::start_direct(Octets octets, std::uint16_t ulpdu_length) {
  if (octets.size() < kTaggedFront || !ddp::is_tagged(octets[mpa::kLengthSize])) return false;
  if (ulpdu_length < ddp::kTaggedHeaderSize) return false;
  const Octets header = octets.subspan(mpa::kLengthSize, ddp::kTaggedHeaderSize);
  const Octets payload = octets.subspan(kTaggedFront);
  const std::size_t payload_size = ulpdu_length - ddp::kTaggedHeaderSize;
  if (payload.size() >= payload_size || payload_size - payload.size() < kDirectFrom) return false;
  const auto head = rdmap::decode_head(header, ulpdu_length);
  if (!head) {
    may_send_ = true;
    fail(head.error(), rdmap::make_offender(header, ulpdu_length));
    return false;
  }
  const auto place = place_for(*head);
  if (!place) {
    may_send_ = true;
    fail(place.error(), rdmap::make_offender(header, ulpdu_length));
    return false;
  }
  if (place->content == rdma::Content::shared) return false;  // by way of the staging buffer
  put({place->memory.first(payload.size()), place->content}, payload);
  direct_.active = true;
  std::copy(header.begin(), header.end(), direct_.header.begin());
  direct_.head = *head;
  direct_.ulpdu_length = ulpdu_length;
  direct_.done = payload.size();
  direct_.trailer = mpa::trailer_size(ulpdu_length);
  received_octets_ += octets.size();
  input_.consume(octets.size());
  return false;
}

void Engine::finish_direct() {
  const Direct direct = direct_;
  direct_.active = false;
  may_send_ = true;
  first_fpdu_seen_ = true;
  if (setup_.options.fpdu_observer) {
    std::array<std::byte, kTaggedFront> front;
    store_be(front.data(), direct.ulpdu_length);
    std::copy(direct.header.begin(), direct.header.end(), front.begin() + mpa::kLengthSize);
    received_octets_ -= mpa::fpdu_size(direct.ulpdu_length);
    observe_received(front.data(), direct.ulpdu_length, CrcVerdict::ignored);
    received_octets_ += mpa::fpdu_size(direct.ulpdu_length);
  }
  tagged_arrived(direct.head, direct.header, direct.ulpdu_length);
}

}  // namespace kbtp::rnic
