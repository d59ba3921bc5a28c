// Sending: messages into DDP Segments of at most MULPDU, segments into FPDUs, FPDUs into the window.
//
// Our own requests go in the order posted (RFC 5040 5.5 rule 13), so a Read that must wait for the ORD holds
// up what was posted behind it. Messages of ours and answers to the peer's Reads and Atomics alternate.

#include <algorithm>

#include "base/fault.h"
#include "base/masked_add.h"
#include "base/random.h"
#include "rdmap_binding/mpa/fpdu.h"
#include "rdmap_binding/rnic/engine.h"

namespace kbtp::rnic {

using rdma::WorkStatus;

namespace {
// Nobody looks at the STag of a message without payload (RFC 5041 5.2); siw sends 1, since some RNICs take 0
// amiss.
constexpr rdma::STag kRtrStag = 1;
constexpr std::uint64_t kNobody = 0;  // no request of the upper layer has this number
}  // namespace

std::span<const iovec> Engine::send_plan() {
  if (state_ == State::ended || !started_) return {};
  if (window_.empty()) {
    fill_window();
    if (!window_.empty()) last_progress_ = setup_.loop.now();
  }
  return setup_.options.one_fpdu_a_segment ? window_.pieces_of_one() : window_.pieces();
}

void Engine::sent(std::size_t n) {
  if (state_ == State::ended) return;
  last_progress_ = setup_.loop.now();
  sent_octets_ += n;
  const bool observed = static_cast<bool>(setup_.options.fpdu_observer);
  window_.sent(n, [this, observed](const SendWindow::Fpdu& fpdu) {
    if (observed) observe_sent(fpdu);
    if (fpdu.completes != 0) complete(fpdu.completes, WorkStatus::success, 0);
  });
}

void Engine::fill_window() {
  if (!may_send_ || fin_sent_ || pause_until_) return;
  if (state_ != State::open && state_ != State::terminating) return;
  window_base_ = sent_octets_;
  const std::size_t fpdu = mpa::fpdu_size(mulpdu_);
  const std::size_t largest = window_.markers() ? mpa::largest_marked_size(fpdu) : fpdu;
  if (rtr_due_ && state_ == State::open) append_rtr();
  while (window_.has_room(largest)) {
    const bool mid_response = !inbound_.empty() && inbound_.front().sent != 0;
    const bool ours = !mid_response && state_ == State::open && (mid_posted_ || posted_ready());
    const bool theirs = !mid_posted_ && !inbound_.empty();
    if (theirs && (!ours || responses_next_)) {
      append_response();
      responses_next_ = false;
    } else if (ours) {
      append_posted();
      responses_next_ = true;
    } else if (terminate_due_) {
      append_terminate();
      return;
    } else {
      return;
    }
  }
}

bool Engine::is_answered(const rdma::WorkRequest& request) {
  return std::holds_alternative<rdma::Read>(request) || std::holds_alternative<rdma::FetchAdd>(request) ||
         std::holds_alternative<rdma::CompareSwap>(request);
}

/// Whether the next request of ours may go now; passes over those that have ended already.
bool Engine::posted_ready() {
  while (next_number_ != end_number() && posted(next_number_).done) ++next_number_;
  if (next_number_ == end_number()) return false;
  return !is_answered(posted(next_number_).request) || outstanding_.size() < ord_;
}

void Engine::append_posted() {
  const std::uint64_t number = next_number_;
  const rdma::WorkRequest& request = posted(number).request;
  mid_posted_ = false;
  if (const auto* write = std::get_if<rdma::Write>(&request)) {
    append_write(*write, number);
  } else if (const auto* send = std::get_if<rdma::Send>(&request)) {
    append_send(*send, number);
  } else if (const auto* with_immediate = std::get_if<rdma::WriteImmediate>(&request)) {
    append_write(with_immediate->write, 0);
    if (!mid_posted_) append_immediate({0, with_immediate->immediate, with_immediate->solicited}, number);
  } else if (const auto* immediate = std::get_if<rdma::Immediate>(&request)) {
    append_immediate(*immediate, number);
  } else if (const auto* read = std::get_if<rdma::Read>(&request)) {
    append_read(*read, number);
  } else if (const auto* add = std::get_if<rdma::FetchAdd>(&request)) {
    append_atomic({rdmap::AtomicOpcode::fetch_add, 0, 0, 0, add->add, add->mask}, add->word, number);
  } else if (const auto* swap = std::get_if<rdma::CompareSwap>(&request)) {
    append_atomic({rdmap::AtomicOpcode::compare_swap, 0, 0, 0, swap->swap, swap->swap_mask, swap->compare,
                   swap->compare_mask},
                  swap->word, number);
  } else if (const auto* invalidate = std::get_if<rdma::LocalInvalidate>(&request)) {
    revoke(invalidate->stag);
    complete(number, WorkStatus::success, 0);
  }
  if (!mid_posted_) {
    ++next_number_;
    next_done_ = 0;
  }
}

// --- Our own messages ------------------------------------------------------------------------------------

void Engine::append_write(const rdma::Write& write, std::uint64_t completes) {
  const std::size_t most = mulpdu_ - ddp::kTaggedHeaderSize;
  const Octets rest = write.source.subspan(next_done_);
  const Octets chunk = rest.first(std::min(rest.size(), most));
  const bool last = chunk.size() == rest.size();
  append_tagged(rdmap::Opcode::rdma_write, write.destination.stag,
                write.destination.tagged_offset + next_done_, last, {chunk}, last ? completes : 0);
  next_done_ += chunk.size();
  mid_posted_ = !last;
}

void Engine::append_immediate(const rdma::Immediate& immediate, std::uint64_t completes) {
  append_untagged(immediate.solicited ? rdmap::Opcode::immediate_se : rdmap::Opcode::immediate,
                  out_msn_[rdmap::kSendQueue]++, 0, 0, true, rdmap::encode(rdmap::Immediate{immediate.data}),
                  {}, completes);
}

void Engine::append_send(const rdma::Send& send, std::uint64_t completes) {
  const std::size_t most = mulpdu_ - ddp::kUntaggedHeaderSize;
  const Octets rest = Octets(send.payload).subspan(next_done_);
  const Octets chunk = rest.first(std::min(rest.size(), most));
  const bool last = chunk.size() == rest.size();
  rdmap::Opcode opcode = send.solicited ? rdmap::Opcode::send_se : rdmap::Opcode::send;
  if (send.invalidate) {
    opcode = send.solicited ? rdmap::Opcode::send_se_invalidate : rdmap::Opcode::send_invalidate;
  }
  append_untagged(opcode, out_msn_[rdmap::kSendQueue], static_cast<std::uint32_t>(next_done_),
                  send.invalidate.value_or(0), last, {}, {chunk}, last ? completes : 0);
  if (last) out_msn_[rdmap::kSendQueue] = ddp::next_msn(out_msn_[rdmap::kSendQueue]);
  next_done_ += chunk.size();
  mid_posted_ = !last;
}

void Engine::append_read(const rdma::Read& read, std::uint64_t number) {
  Outstanding entry;
  entry.number = number;
  entry.sink = {read.sink, read.shared_sink ? rdma::Content::shared : rdma::Content::octets};
  entry.sink_stag = random_u32();  // one-shot: no other message is ever looked up by it
  rdmap::ReadRequest request;
  request.sink_stag = entry.sink_stag;
  request.sink_to = 0;
  request.size = static_cast<std::uint32_t>(read.sink.size());
  request.source_stag = read.source.stag;
  request.source_to = read.source.tagged_offset;
  outstanding_.push_back(entry);
  append_untagged(rdmap::Opcode::read_request, out_msn_[rdmap::kRequestQueue]++, 0, 0, true,
                  rdmap::encode(request), {}, 0);
}

void Engine::append_atomic(rdmap::AtomicRequest request, const rdma::RemoteBuffer& word,
                           std::uint64_t number) {
  Outstanding entry;
  entry.number = number;
  entry.atomic = true;
  entry.identifier = next_identifier_++;
  request.request_identifier = entry.identifier;
  request.remote_stag = word.stag;
  request.remote_to = word.tagged_offset;
  outstanding_.push_back(entry);
  append_untagged(rdmap::Opcode::atomic_request, out_msn_[rdmap::kRequestQueue]++, 0, 0, true,
                  rdmap::encode(request), {}, 0);
}

/// RFC 6581 5: the first message, of no octets; nobody posted it and nobody is told of its end.
void Engine::append_rtr() {
  switch (*rtr_due_) {
    case mpa::RtrKind::send:
      append_untagged(rdmap::Opcode::send, out_msn_[rdmap::kSendQueue]++, 0, 0, true, {}, {}, 0);
      break;
    case mpa::RtrKind::write:
      append_tagged(rdmap::Opcode::rdma_write, kRtrStag, 0, true, {}, 0);
      break;
    case mpa::RtrKind::read:
      append_read({0, {}, {kRtrStag, 0}}, kNobody);
      break;
  }
  rtr_due_.reset();
}

// --- Answers ---------------------------------------------------------------------------------------------

/// One segment of the oldest answer that is due. The request was valid when it came; it is checked again for
/// each segment, since its region may have been revoked meanwhile.
void Engine::append_response() {
  Inbound& entry = inbound_.front();
  if (const auto* atomic = std::get_if<rdmap::AtomicRequest>(&entry.request)) {
    const auto word = word_of(*atomic);
    if (!word) {
      fail_response(word.error(), std::nullopt);
      return;
    }
    rdmap::AtomicResponse response;
    response.request_identifier = atomic->request_identifier;
    response.original_value =
        atomic->operation == rdmap::AtomicOpcode::fetch_add
            ? fetch_masked_add(**word, atomic->add_or_swap_data, atomic->add_or_swap_mask)
            : masked_compare_swap(**word, atomic->compare_data, atomic->compare_mask,
                                  atomic->add_or_swap_data, atomic->add_or_swap_mask);
    append_untagged(rdmap::Opcode::atomic_response, out_msn_[rdmap::kAtomicResponseQueue]++, 0, 0, true,
                    rdmap::encode(response), {}, 0);
    inbound_.pop_front();
    return;
  }
  const auto& read = *std::get_if<rdmap::ReadRequest>(&entry.request);
  const auto most = static_cast<std::uint32_t>(mulpdu_ - ddp::kTaggedHeaderSize);
  const std::uint32_t length = std::min(read.size - entry.sent, most);
  SendWindow::Payload payload;
  if (length != 0) {
    const auto source = source_of(read, entry.sent, length);
    if (!source) {
      fail_response(source.error(), read.advanced(entry.sent));
      return;
    }
    payload.octets = source->memory;
    switch (source->content) {
      case rdma::Content::stable:
        payload.stag = read.source_stag;
        break;
      case rdma::Content::octets:
        // Somebody may write there while we send: with CRCs on, the FPDU is made of a private copy.
        if (crc_) payload.source = SendWindow::Source::copied;
        payload.stag = read.source_stag;
        break;
      case rdma::Content::words:
        payload.source = SendWindow::Source::words;
        break;
      case rdma::Content::shared:
        payload.source = SendWindow::Source::shared;
        break;
    }
  }
  const bool last = entry.sent + length == read.size;
  // The requester chose SinkTO and is the one to mind a wrap: it is copied uninterpreted (RFC 5040 4.4).
  append_tagged(rdmap::Opcode::read_response, read.sink_stag, read.sink_to + entry.sent, last, payload, 0);
  entry.sent += length;
  if (last) inbound_.pop_front();
}

/// The oldest request cannot be answered any more, nor what came behind it.
void Engine::fail_response(const WireError& error, const std::optional<rdmap::ReadRequest>& read) {
  const Inbound request = std::move(inbound_.front());
  inbound_.clear();
  fail(error, {request.ddp_header, request.segment_length, read});
}

void Engine::append_terminate() {
  append_untagged(rdmap::Opcode::terminate, ddp::kFirstMsn, 0, 0, true, terminate_.octets(), {}, 0);
  if (kbtp::fault(kbtp::Fault::terminates_twice))
    append_untagged(rdmap::Opcode::terminate, ddp::kFirstMsn + 1, 0, 0, true, terminate_.octets(), {}, 0);
  terminate_due_ = false;
}

// --- Segments --------------------------------------------------------------------------------------------

void Engine::append_tagged(rdmap::Opcode opcode, rdma::STag stag, std::uint64_t offset, bool last,
                           const SendWindow::Payload& payload, std::uint64_t completes) {
  ddp::TaggedHeader header;
  header.last = last;
  header.rsvdulp = rdmap::control_octet(opcode);
  header.stag = stag;
  header.tagged_offset = offset;
  window_.append(ddp::encode(header), payload, completes);
}

void Engine::append_untagged(rdmap::Opcode opcode, std::uint32_t msn, std::uint32_t mo, rdma::STag invalidate,
                             bool last, Octets rdmap_header, const SendWindow::Payload& payload,
                             std::uint64_t completes) {
  ddp::UntaggedHeader header;
  header.last = last;
  header.rsvdulp = rdmap::control_octet(opcode);
  header.rsvdulp_stag = invalidate;
  header.queue_number = rdmap::facts(opcode).queue_number;
  header.msn = msn;
  header.message_offset = mo;
  std::array<std::byte, ddp::kUntaggedHeaderSize + rdmap::kMaxTerminateSize> front;
  const auto ddp_header = ddp::encode(header);
  std::copy(ddp_header.begin(), ddp_header.end(), front.begin());
  std::copy(rdmap_header.begin(), rdmap_header.end(), front.begin() + ddp_header.size());
  window_.append(Octets(front).first(ddp_header.size() + rdmap_header.size()), payload, completes);
}

}  // namespace kbtp::rnic
