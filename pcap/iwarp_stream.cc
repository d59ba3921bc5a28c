#include "pcap/iwarp_stream.h"

#include <algorithm>
#include <utility>

#include "pcap/fpdu_search.h"
#include "rdmap_binding/mpa/fpdu.h"

namespace kbtp::trace {

CrcUse Agreement::crc() const {
  if (crc_seen) return CrcUse::on;
  const auto on = [](const auto& side) { return side && side->crc; };
  const auto off = [](const auto& side) { return side && !side->crc; };
  if (std::any_of(said.begin(), said.end(), on)) return CrcUse::on;
  return std::all_of(said.begin(), said.end(), off) ? CrcUse::off : CrcUse::unknown;
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

IwarpStream::IwarpStream(Side from, Agreement& agreement, const DecodeOptions& options, Sink sink)
    : from_(from), agreement_(agreement), options_(options), sink_(std::move(sink)) {}

void IwarpStream::emit(decltype(Event::what) what, FrameRef frame, Octets octets) {
  sink_(Event{from_, first_, frame, offset_, std::move(what), octets, {}});
}

void IwarpStream::stop(FrameRef frame, std::string why) {
  enter(State::not_decoded);
  emit(Note{std::move(why)}, frame);
}

void IwarpStream::enter(State state) {
  state_ = state;
  next_unit();
}

void IwarpStream::next_unit() {
  constexpr std::size_t kKept = 8192;  // of thousands of connections few are in the middle of a long FPDU
  unit_.clear();
  if (unit_.capacity() > kKept) unit_ = {};
  measured_ = false;
  wanted_ = state_ == State::startup ? mpa::kStartupHeaderSize : mpa::kLengthSize;
  lacking_from_.reset();
}

void IwarpStream::take(const Run& run) {
  if (run.missing()) sink_(Event{from_, run.frame, run.ready, run.offset, Missing{run.length}, {}, {}});
  if (state_ == State::unknown) begin(run.octets);
  std::uint64_t done = 0;
  while (done < run.length) {
    if (unit_.empty()) begin_unit(run, done);
    if (state_ == State::not_decoded) {
      skipped_ += run.length - done;
      return;
    }
    if (state_ == State::fpdus && unit_.empty() && !run.missing()) {
      const std::size_t used = take_whole_fpdu(run.octets.subspan(static_cast<std::size_t>(done)), run.ready);
      done += used;
      if (used != 0) continue;
    }
    gather(run, done);
    unit_grew(run.ready);
  }
}

/// The first octets of the direction: a start-up frame, the middle of something, or nothing of ours.
void IwarpStream::begin(Octets octets) {
  if (options_.expect_iwarp) return enter(State::startup);
  const auto result = mpa::decode_startup(octets, std::nullopt);
  const bool startup = !octets.empty() && !std::holds_alternative<mpa::StartupError>(result);
  enter(startup ? State::startup : State::searching);
}

void IwarpStream::begin_unit(const Run& run, std::uint64_t done) {
  first_ = run.frame;
  offset_ = run.offset + done;
  if (state_ != State::fpdus) return;
  if (agreement_.rejected())
    return stop(run.ready, "octets behind a rejected start-up are no FPDUs (RFC 5044 7.1.1)");
  if (!markers_ && agreement_.markers_from(from_)) markers_ = mpa::MarkerClock();
}

/// Decodes the FPDU at the start of `octets` where it lies, if it is whole; its size, or 0.
std::size_t IwarpStream::take_whole_fpdu(Octets octets, FrameRef frame) {
  if (octets.size() < mpa::kLengthSize) return 0;
  std::size_t size = 0;
  if (!markers_) {
    size = mpa::fpdu_size(load_be<std::uint16_t>(octets.data()));
  } else if (const auto measured = mpa::measure_marked(octets, *markers_);
             const auto* whole = std::get_if<mpa::MarkedFpdu>(&measured)) {
    size = whole->size;
  }
  if (size == 0 || octets.size() < size) return 0;
  fpdu({octets.first(size), size, std::nullopt, markers_}, frame);
  return size;
}

void IwarpStream::gather(const Run& run, std::uint64_t& done) {
  const std::uint64_t room = state_ == State::searching ? run.length : wanted_ - unit_.size();
  const auto n = static_cast<std::size_t>(std::min(room, run.length - done));
  if (!run.missing()) {
    const Octets piece = run.octets.subspan(static_cast<std::size_t>(done), n);
    unit_.insert(unit_.end(), piece.begin(), piece.end());
  } else if (state_ == State::searching) {
    next_unit();  // no FPDU is found across octets that are lacking
  } else {
    if (!lacking_from_) lacking_from_ = unit_.size();
    unit_.resize(unit_.size() + n);
  }
  done += n;
}

void IwarpStream::unit_grew(FrameRef frame) {
  switch (state_) {
    case State::startup:
      return startup_grew(frame);
    case State::searching:
      return search(frame, false);
    case State::fpdus:
      if (unit_.size() < wanted_) return;
      if (!measured_) return measure(frame);
      return fpdu({unit_, wanted_, lacking_from_, markers_}, frame);
    case State::unknown:
    case State::not_decoded:
      return;
  }
}

// --- Start-up --------------------------------------------------------------------------------------------

void IwarpStream::startup_grew(FrameRef frame) {
  if (lacking_from_) return lost_boundary(frame, "the capture lacks octets of the start-up frame");
  const auto result = mpa::decode_startup(unit_, std::nullopt);
  if (const auto* more = std::get_if<mpa::NeedMore>(&result)) {
    wanted_ = more->total;
  } else if (const auto* error = std::get_if<mpa::StartupError>(&result)) {
    startup_failed(*error, frame);
  } else {
    const mpa::StartupFrame& startup = std::get<mpa::StartupComplete>(result).frame;
    agreement_.said[static_cast<std::size_t>(from_)] =
        Agreement::Said{startup.markers, startup.crc, startup.reject, startup.kind};
    iwarp_ = true;
    emit(Startup{startup}, frame, unit_);
    enter(State::fpdus);
  }
}

void IwarpStream::startup_failed(const mpa::StartupError& error, FrameRef frame) {
  const bool foreign = error.rule == mpa::StartupRule::bad_key && !options_.expect_iwarp;
  if (!foreign) emit(BadStartup{error}, frame, unit_);
  enter(State::not_decoded);
}

// --- FPDUs -----------------------------------------------------------------------------------------------

/// There is enough of the FPDU to tell its size.
void IwarpStream::measure(FrameRef frame) {
  const std::size_t length_at = markers_ && markers_->until_marker() == 0 ? mpa::kMarkerSize : 0;
  if (unit_.size() < length_at + mpa::kLengthSize) {
    wanted_ = length_at + mpa::kLengthSize;
    return;
  }
  if (lacking_from_.value_or(unit_.size()) < length_at + mpa::kLengthSize)
    return lost_boundary(frame, "the capture lacks the length of an FPDU");
  const std::size_t clean = mpa::fpdu_size(load_be<std::uint16_t>(unit_.data() + length_at));
  wanted_ = markers_ ? mpa::marked_size(clean, markers_->until_marker()) : clean;
  measured_ = true;
}

void IwarpStream::fpdu(const RawFpdu& raw, FrameRef frame) {
  // Made where it stays: for each of millions of FPDUs copies would count.
  Event event{from_, first_, frame, offset_, Fpdu{}, raw.stream, {}};
  auto& fpdu = std::get<Fpdu>(event.what);
  decode_fpdu(raw, agreement_.crc(), scratch_, fpdu);
  sink_(event);
  put_together(fpdu, frame);
  if (markers_) markers_->advance(raw.size);
  next_unit();
}

/// Where the next FPDU begins is not known any more: it is looked for, unless markers are in the way.
void IwarpStream::lost_boundary(FrameRef frame, const char* why) {
  partial_.reset();
  emit(Note{std::string(why) + ": where the next FPDU begins is not known", FindingWord("boundary-lost")},
       frame);
  enter(agreement_.markers_from(from_) ? State::not_decoded : State::searching);
}

void IwarpStream::search(FrameRef frame, bool last) {
  const SearchResult result = find_fpdu(unit_, last);
  skipped_ += result.at;
  offset_ += result.at;
  if (!result.evidence) {
    unit_.erase(unit_.begin(), unit_.begin() + static_cast<std::ptrdiff_t>(result.at));
    if (skipped_ > kSearchLimit) enter(State::not_decoded);
    return;
  }
  if (*result.evidence == Evidence::crc && !agreement_.said[0] && !agreement_.said[1])
    agreement_.crc_seen = true;
  first_ = frame;
  iwarp_ = true;
  if (skipped_ > 0)
    emit(Note{std::to_string(skipped_) + " octets in front of an FPDU were not decoded"}, frame);
  skipped_ = 0;
  const std::vector<std::byte> found(unit_.begin() + static_cast<std::ptrdiff_t>(result.at), unit_.end());
  enter(State::fpdus);
  take(Run{offset_, found.size(), found, frame, frame});
}

void IwarpStream::put_together(const Fpdu& fpdu, FrameRef frame) {
  const ddp::UntaggedHeader* header = fpdu.untagged();
  const rdmap::OpcodeFacts* facts = header != nullptr ? rdmap::find_opcode(fpdu.rdmap.opcode) : nullptr;
  if (facts == nullptr || facts->tagged || !facts->has_payload || header->queue_number != rdmap::kSendQueue)
    return;
  const Octets payload = fpdu.payload();
  const bool sound = fpdu.extent == Extent::whole && fpdu.crc != CrcState::bad && !fpdu.error;
  const auto tell = [&](Octets octets, FrameRef first, std::uint64_t offset) {
    Message message{facts->opcode, header->msn, std::nullopt, octets,
                    wire::decode_message(octets, options_.assignment, options_.lengths)};
    if (facts->invalidates) message.invalidate_stag = header->rsvdulp_stag;
    sink_(Event{from_, first, frame, offset, message, octets, {}});
  };
  if (sound && header->message_offset == 0 && header->last && payload.size() <= options_.max_message) {
    // The usual case: nothing is copied.
    partial_.reset();
    return tell(payload, first_, offset_);
  }
  if (header->message_offset == 0) partial_ = Partial{header->msn, facts->opcode, first_, offset_, {}};
  if (!partial_) return;
  const bool fits =
      sound && header->msn == partial_->msn && facts->opcode == partial_->opcode &&
      header->message_offset == partial_->octets.size() &&
      payload.size() <= options_.max_message - std::min(options_.max_message, partial_->octets.size());
  if (!fits) {
    partial_.reset();
    return;
  }
  partial_->octets.insert(partial_->octets.end(), payload.begin(), payload.end());
  if (!header->last) return;
  tell(partial_->octets, partial_->first, partial_->offset);
  partial_.reset();
}

void IwarpStream::end(FrameRef frame) {
  if (state_ == State::searching) search(frame, true);
  if (state_ == State::not_decoded) {
    if (skipped_ > 0 && (iwarp_ || options_.expect_iwarp))
      emit(Note{std::to_string(skipped_) + " octets were not decoded"}, frame);
  } else if (!unit_.empty() && state_ != State::searching) {
    if (state_ == State::startup) {
      emit(BadStartup{}, frame, unit_);
    } else if (!measured_) {
      emit(Note{"the stream ends inside the length of an FPDU"}, frame);
    } else {
      fpdu({unit_, wanted_, lacking_from_, markers_}, frame);
    }
  }
  skipped_ = 0;
  enter(State::not_decoded);
}

}  // namespace kbtp::trace
