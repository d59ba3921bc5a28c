#include "pcap/iwarp_stream.h"

#include <algorithm>
#include <utility>

#include "base/crc32c.h"
#include "rdmap_binding/mpa/fpdu.h"
#include "rdmap_binding/rdmap/segment.h"

namespace kbtp::trace {

bool Agreement::crc_on() const {
  return std::any_of(said.begin(), said.end(), [](const auto& side) { return side && side->crc; });
}
bool Agreement::crc_off() const {
  return std::all_of(said.begin(), said.end(), [](const auto& side) { return side && !side->crc; });
}
bool Agreement::rejected() const {
  return std::any_of(said.begin(), said.end(), [](const auto& side) {
    return side && side->reject && side->kind == mpa::StartupKind::reply;
  });
}
bool Agreement::markers_from(Side sender) const {
  const auto& receiver = of(other(sender));
  return receiver && receiver->markers;
}

Octets Fpdu::payload() const {
  if (!ddp) return {};
  return ulpdu.subspan(std::min(ddp::header_size(*ddp), ulpdu.size()));
}

IwarpStream::IwarpStream(Side from, Agreement& agreement, const DecodeOptions& options, Sink sink)
    : from_(from), agreement_(agreement), options_(options), sink_(std::move(sink)) {}

void IwarpStream::emit(decltype(Event::what) what, FrameRef frame,
                       std::shared_ptr<const std::vector<std::byte>> octets) {
  sink_(Event{from_, first_, frame, offset_, std::move(what), std::move(octets)});
}

void IwarpStream::stop(FrameRef frame, std::string why) {
  state_ = State::not_decoded;
  emit(Note{std::move(why)}, frame);
}

void IwarpStream::next_unit() {
  unit_.clear();
  wanted_ = state_ == State::startup ? mpa::kStartupHeaderSize : mpa::kLengthSize;
  lacking_from_.reset();
}

void IwarpStream::take(const Run& run) {
  if (run.missing()) sink_(Event{from_, run.frame, run.ready, run.offset, Missing{run.length}, {}});
  std::uint64_t done = 0;
  while (done < run.length) {
    if (unit_.empty()) {
      first_ = run.frame;
      offset_ = run.offset + done;
      if (state_ == State::fpdus && agreement_.rejected())
        stop(run.ready, "octets behind a rejected start-up are no FPDUs (RFC 5044 7.1.1)");
      if (state_ == State::fpdus && agreement_.markers_from(from_))
        stop(run.ready, "markers were asked for: FPDUs of this direction are not taken apart");
    }
    if (state_ == State::not_decoded) {
      skipped_ += run.length - done;
      return;
    }
    const auto n =
        static_cast<std::size_t>(std::min<std::uint64_t>(wanted_ - unit_.size(), run.length - done));
    if (run.missing()) {
      if (!lacking_from_) lacking_from_ = unit_.size();
      unit_.resize(unit_.size() + n);
    } else {
      const Octets piece = run.octets.subspan(static_cast<std::size_t>(done), n);
      unit_.insert(unit_.end(), piece.begin(), piece.end());
    }
    done += n;
    unit_grew(run.ready);
  }
}

void IwarpStream::unit_grew(FrameRef frame) {
  if (state_ == State::startup) return startup_grew(frame);
  if (unit_.size() < wanted_) return;
  if (wanted_ > mpa::kLengthSize)
    return fpdu_complete(frame, lacking_from_ ? Extent::lacking : Extent::whole);
  if (lacking_from_)
    return stop(frame, "the capture lacks the length of an FPDU: where the next one begins is not known");
  wanted_ = mpa::fpdu_size(load_be<std::uint16_t>(unit_.data()));
}

void IwarpStream::startup_grew(FrameRef frame) {
  if (lacking_from_) return stop(frame, "the capture lacks octets of the start-up frame");
  auto result = mpa::decode_startup(unit_, std::nullopt);
  if (const auto* more = std::get_if<mpa::NeedMore>(&result)) {
    wanted_ = more->total;
  } else if (const auto* error = std::get_if<mpa::StartupError>(&result)) {
    state_ = State::not_decoded;
    emit(BadStartup{*error}, frame);
  } else {
    const auto storage = std::make_shared<const std::vector<std::byte>>(unit_);
    // Once more over the octets that the event keeps, for the private data's sake.
    const auto kept = mpa::decode_startup(*storage, std::nullopt);
    const mpa::StartupFrame& startup = std::get<mpa::StartupComplete>(kept).frame;
    agreement_.said[static_cast<std::size_t>(from_)] =
        Agreement::Said{startup.markers, startup.crc, startup.reject, startup.kind};
    emit(Startup{startup}, frame, storage);
    state_ = State::fpdus;
    next_unit();
  }
}

void IwarpStream::judge_crc(Fpdu& fpdu) const {
  const std::size_t covered = unit_.size() - mpa::kCrcSize;
  if (agreement_.crc_off()) {
    fpdu.crc = CrcState::off;
  } else if (load_crc32c(unit_.data() + covered) == crc32c(Octets(unit_).first(covered))) {
    fpdu.crc = CrcState::good;
  } else {
    fpdu.crc = agreement_.crc_on() ? CrcState::bad : CrcState::unknown;
  }
}

/// Fills in what the ULPDU's first octets tell. `ulpdu` has what there is of it, from its start.
void IwarpStream::decode_ulpdu(Fpdu& fpdu, Octets ulpdu) const {
  const auto header = ddp::read_header(ulpdu);
  if (!header) return;
  fpdu.ddp = *header;
  fpdu.rdmap = rdmap::decode_control(ddp::rsvdulp(*header));
  const std::size_t size = ddp::header_size(*header);
  fpdu.payload_length =
      static_cast<std::uint32_t>(fpdu.ulpdu_length - std::min<std::size_t>(size, fpdu.ulpdu_length));
}

namespace {

/// The RDMAP header of an untagged segment; `body` is all that lies behind its DDP header.
void decode_rdmap_header(Fpdu& fpdu, Octets body) {
  const rdmap::OpcodeFacts* facts = rdmap::find_opcode(fpdu.rdmap.opcode);
  if (facts == nullptr || facts->tagged || fpdu.untagged() == nullptr) return;
  switch (facts->opcode) {
    case rdmap::Opcode::read_request:
      if (body.size() == rdmap::kReadRequestSize)
        fpdu.header = rdmap::decode_read_request(body.first<rdmap::kReadRequestSize>());
      break;
    case rdmap::Opcode::immediate:
    case rdmap::Opcode::immediate_se:
      if (body.size() == rdmap::kImmediateSize)
        fpdu.header = rdmap::decode_immediate(body.first<rdmap::kImmediateSize>());
      break;
    case rdmap::Opcode::atomic_request:
      if (body.size() == rdmap::kAtomicRequestSize)
        fpdu.header = rdmap::decode_atomic_request(body.first<rdmap::kAtomicRequestSize>());
      break;
    case rdmap::Opcode::atomic_response:
      if (body.size() == rdmap::kAtomicResponseSize)
        fpdu.header = rdmap::decode_atomic_response(body.first<rdmap::kAtomicResponseSize>());
      break;
    case rdmap::Opcode::terminate:
      if (auto terminate = rdmap::decode_terminate(body)) fpdu.header = *terminate;
      break;
    case rdmap::Opcode::rdma_write:
    case rdmap::Opcode::read_response:
    case rdmap::Opcode::send:
    case rdmap::Opcode::send_invalidate:
    case rdmap::Opcode::send_se:
    case rdmap::Opcode::send_se_invalidate:
      break;
  }
}

}  // namespace

void IwarpStream::fpdu_complete(FrameRef frame, Extent extent) {
  Fpdu fpdu;
  fpdu.ulpdu_length = load_be<std::uint16_t>(unit_.data());
  fpdu.extent = extent;
  const std::size_t readable = std::min(lacking_from_.value_or(unit_.size()) - mpa::kLengthSize,
                                        static_cast<std::size_t>(fpdu.ulpdu_length));
  const Octets ulpdu = Octets(unit_).subspan(mpa::kLengthSize, readable);
  if (extent == Extent::whole) {
    judge_crc(fpdu);
    const Octets pad = Octets(unit_).subspan(mpa::kLengthSize + readable, mpa::pad_size(fpdu.ulpdu_length));
    fpdu.pad_zero =
        std::all_of(pad.begin(), pad.end(), [](std::byte octet) { return octet == std::byte{0}; });
  }
  decode_ulpdu(fpdu, ulpdu);
  if (extent == Extent::whole && fpdu.crc != CrcState::bad) {
    fpdu.error = mpa::check_length(fpdu.ulpdu_length);
    if (!fpdu.error) {
      if (const auto segment = rdmap::decode_segment(ulpdu); !segment) fpdu.error = segment.error();
    }
  }

  const rdmap::OpcodeFacts* facts = fpdu.ddp ? rdmap::find_opcode(fpdu.rdmap.opcode) : nullptr;
  const bool header_only = facts != nullptr && !facts->has_payload && fpdu.untagged() != nullptr;
  const Octets kept = header_only ? ulpdu : ulpdu.first(std::min(ulpdu.size(), options_.max_kept));
  const auto storage = std::make_shared<const std::vector<std::byte>>(kept.begin(), kept.end());
  fpdu.ulpdu = *storage;
  if (header_only && extent == Extent::whole) decode_rdmap_header(fpdu, fpdu.payload());
  emit(fpdu, frame, storage);
  put_together(fpdu, ulpdu, frame);
  next_unit();
}

void IwarpStream::put_together(const Fpdu& fpdu, Octets ulpdu, FrameRef frame) {
  const ddp::UntaggedHeader* header = fpdu.untagged();
  const rdmap::OpcodeFacts* facts = header != nullptr ? rdmap::find_opcode(fpdu.rdmap.opcode) : nullptr;
  if (facts == nullptr || facts->tagged || !facts->has_payload || header->queue_number != rdmap::kSendQueue)
    return;
  if (header->message_offset == 0) partial_ = Partial{header->msn, facts->opcode, first_, offset_, {}};
  if (!partial_) return;
  const Octets payload = ulpdu.subspan(std::min(ddp::kUntaggedHeaderSize, ulpdu.size()));
  const bool fits =
      fpdu.extent == Extent::whole && fpdu.crc != CrcState::bad && !fpdu.error &&
      header->msn == partial_->msn && facts->opcode == partial_->opcode &&
      header->message_offset == partial_->octets.size() &&
      payload.size() <= options_.max_message - std::min(options_.max_message, partial_->octets.size());
  if (!fits) {
    partial_.reset();
    return;
  }
  partial_->octets.insert(partial_->octets.end(), payload.begin(), payload.end());
  if (!header->last) return;

  const auto storage = std::make_shared<const std::vector<std::byte>>(std::move(partial_->octets));
  Message message{facts->opcode, header->msn, std::nullopt, *storage,
                  wire::decode_message(*storage, options_.assignment, options_.lengths)};
  if (facts->invalidates) message.invalidate_stag = header->rsvdulp_stag;
  sink_(Event{from_, partial_->first, frame, partial_->offset, message, storage});
  partial_.reset();
}

void IwarpStream::end(FrameRef frame) {
  if (state_ == State::not_decoded) {
    if (skipped_ > 0) emit(Note{std::to_string(skipped_) + " octets were not decoded"}, frame);
  } else if (!unit_.empty()) {
    if (state_ == State::startup) {
      emit(BadStartup{}, frame);
    } else if (unit_.size() < mpa::kLengthSize) {
      emit(Note{"the stream ends inside the length of an FPDU"}, frame);
    } else {
      fpdu_complete(frame, lacking_from_ ? Extent::lacking : Extent::broken_off);
    }
  }
  state_ = State::not_decoded;
  skipped_ = 0;
  unit_.clear();
}

}  // namespace kbtp::trace
