#include "pcap/reassembly.h"

#include <algorithm>
#include <cstring>

namespace kbtp::trace {

namespace {

std::uint64_t count_differing(Octets a, Octets b) {
  std::uint64_t count = 0;
  for (std::size_t i = 0; i < a.size(); ++i) count += a[i] != b[i] ? 1 : 0;
  return count;
}

}  // namespace

/// Where a sequence number lies in the stream: the offset congruent to it modulo 2^32 that is nearest to what
/// comes next (RFC 9293 3.4: sequence numbers wrap).
std::int64_t Reassembler::place(std::uint32_t sequence) const {
  const std::uint32_t expected = base_ + static_cast<std::uint32_t>(next_);
  const auto distance = static_cast<std::int32_t>(sequence - expected);
  return static_cast<std::int64_t>(next_) + distance;
}

void Reassembler::segment(const TcpSegment& segment, FrameRef frame, const Sink& sink) {
  now_ = frame;
  if (segment.rst) return;  // what an RST may carry is text for people, not stream (RFC 9293 3.5.3)
  std::uint32_t sequence = segment.sequence;
  if (segment.syn) {
    ++sequence;
    if (!has_octets()) {
      base_ = sequence;
      saw_syn_ = true;
      started_ = true;
      fin_.reset();
    }
  }
  if (segment.payload_length == 0 && !segment.fin) return;
  if (!started_) {
    started_ = true;
    base_ = sequence;
  }

  const std::int64_t begin = place(sequence);
  const std::int64_t end = begin + segment.payload_length;
  if (segment.fin && end >= 0 && !fin_) fin_ = static_cast<std::uint64_t>(end);
  if (segment.payload_length == 0) return;

  const auto next = static_cast<std::int64_t>(next_);
  const bool keep_alive = segment.payload_length == 1 && begin == next - 1;  // RFC 9293 3.8.4: any octet
  if (begin < next && !keep_alive) {
    // Octets of a stream that began before the capture have no offset.
    const auto before = static_cast<std::size_t>(std::max<std::int64_t>(-begin, 0));
    compare_with_tail(static_cast<std::uint64_t>(begin) + before,
                      segment.payload.subspan(std::min(before, segment.payload.size())));
  }
  if (end <= next) {
    counters_.retransmitted += segment.payload_length;
    return;
  }
  const auto seen = static_cast<std::uint64_t>(std::max<std::int64_t>(next - begin, 0));
  counters_.retransmitted += seen;
  const auto offset = static_cast<std::uint64_t>(begin) + seen;
  if (offset > next_) ++counters_.out_of_order;

  const Octets kept = segment.payload.subspan(std::min<std::size_t>(seen, segment.payload.size()));
  if (!kept.empty()) take(offset, kept.size(), kept, frame, sink);
  const std::uint64_t lacking = segment.payload_length - seen - kept.size();
  if (lacking > 0) take(offset + kept.size(), lacking, {}, frame, sink);
  while (waiting_octets_ > limits_.waiting_octets || waiting_.size() > limits_.waiting_segments)
    give_up_first_gap(sink);
  wait_for_claim();
}

void Reassembler::acknowledged(std::uint32_t acknowledgment, FrameRef frame) {
  if (!started_) return;
  now_ = frame;
  const std::int64_t place = this->place(acknowledgment);
  if (place > static_cast<std::int64_t>(next_)) {
    const auto offset = static_cast<std::uint64_t>(place);
    acknowledged_ = std::max(acknowledged_, offset);
    if (!claim_) claim_ = Claim{offset, frame.time_ns, 0};
    // With the FIN acknowledged the connection may well be silent from now on.
    if (fin_ && offset > *fin_) claim_ = Claim{offset, frame.time_ns, limits_.patience_segments};
  }
  wait_for_claim();
}

void Reassembler::wait_for_claim() {
  if (!claim_) return;
  ++claim_->segments;
  if (next_ >= claim_->offset) claim_.reset();
}

void Reassembler::give_up_acknowledged(const Sink& sink) {
  if (!claim_) return;
  while (!waiting_.empty() && waiting_.begin()->first <= claim_->offset) give_up_first_gap(sink);
  claim_.reset();
}

bool Reassembler::is_outside(const TcpSegment& segment) const {
  constexpr std::int64_t kAstray = 1'048'576;  // frames of this stream that come late are not so far away
  if (segment.payload_length == 0) return false;
  const std::int64_t begin = place(segment.sequence);
  return begin < -kAstray || begin > static_cast<std::int64_t>(fin_.value_or(next_)) + kAstray;
}

void Reassembler::take(std::uint64_t offset, std::uint64_t length, Octets octets, FrameRef frame,
                       const Sink& sink) {
  if (offset == next_ && waiting_.empty()) {  // the usual case: nothing is copied
    return give_out(Run{offset, length, octets, frame, now_}, sink);
  }
  keep(offset, length, octets, frame);
  while (!waiting_.empty() && waiting_.begin()->first == next_) give_out_first(now_, sink);
}

/// Stores what no waiting run covers yet. Runs that are lacking are covered by real octets when those come
/// later (a retransmission that the capture kept whole), as long as they still wait.
void Reassembler::keep(std::uint64_t offset, std::uint64_t length, Octets octets, FrameRef frame) {
  const std::uint64_t end = offset + length;
  auto at = waiting_.upper_bound(offset);
  if (at != waiting_.begin()) {
    const auto before = std::prev(at);
    if (before->first + before->second.length > offset) at = before;
  }
  std::uint64_t position = offset;
  const auto store = [&](std::uint64_t from, std::uint64_t to) {
    if (from >= to) return;
    Waiting run{to - from, {}, frame};
    if (!octets.empty()) {
      run.octets = to_vector(octets.subspan(from - offset, to - from));
      waiting_octets_ += run.octets.size();
    }
    waiting_.emplace(from, std::move(run));
  };
  while (at != waiting_.end() && at->first < end) {
    const std::uint64_t run_begin = at->first;
    const std::uint64_t run_end = run_begin + at->second.length;
    store(position, run_begin);
    if (at->second.octets.empty() && !octets.empty()) {
      // Real octets for a part that was lacking: split what was lacking around them.
      const FrameRef old = at->second.frame;
      const std::uint64_t from = std::max(run_begin, position);
      const std::uint64_t to = std::min(run_end, end);
      waiting_.erase(at);
      if (run_begin < from) waiting_.emplace(run_begin, Waiting{from - run_begin, {}, old});
      store(from, to);
      if (to < run_end) waiting_.emplace(to, Waiting{run_end - to, {}, old});
    } else {
      const std::uint64_t from = std::max(run_begin, position);
      const std::uint64_t shared = std::min(run_end, end) - from;
      counters_.retransmitted += shared;
      if (!octets.empty()) {
        const auto begin = at->second.octets.begin() + static_cast<std::ptrdiff_t>(from - run_begin);
        counters_.differing += count_differing(Octets(begin, shared), octets.subspan(from - offset, shared));
      }
    }
    position = std::min(run_end, end);
    at = waiting_.lower_bound(position);
  }
  store(position, end);
}

void Reassembler::give_out_first(FrameRef ready, const Sink& sink) {
  const auto node = waiting_.extract(waiting_.begin());
  const Waiting& run = node.mapped();
  waiting_octets_ -= run.octets.size();
  give_out(Run{node.key(), run.length, run.octets, run.frame, ready}, sink);
}

/// The receiver had the octets that the capture lacks, and so those behind them when these came.
void Reassembler::give_up_first_gap(const Sink& sink) {
  const auto brought = [&] {
    const FrameRef frame = waiting_.begin()->second.frame;
    return frame.number > ready_.number ? frame : ready_;
  };
  const auto first = waiting_.begin();
  give_out(Run{next_, first->first - next_, {}, first->second.frame, brought()}, sink);
  while (!waiting_.empty() && waiting_.begin()->first == next_) give_out_first(brought(), sink);
}

void Reassembler::give_out(const Run& run, const Sink& sink) {
  next_ = run.offset + run.length;
  ready_ = run.ready;
  if (run.missing()) {
    counters_.missing += run.length;
    tail_from_ = next_;
  } else {
    if (tail_.empty()) tail_.resize(kTail);
    const Octets last = run.octets.last(std::min(run.octets.size(), kTail));
    const std::size_t at = (next_ - last.size()) % kTail;
    const std::size_t first = std::min(last.size(), kTail - at);
    // By pointers, which makes it the C library's memmove.
    const std::byte* const middle = last.data() + first;
    std::copy(last.data(), middle, tail_.data() + at);
    std::copy(middle, last.data() + last.size(), tail_.data());
    tail_from_ = std::max(tail_from_, next_ - std::min<std::uint64_t>(next_, kTail));
  }
  sink(run);
}

void Reassembler::compare_with_tail(std::uint64_t offset, Octets octets) {
  for (const std::byte octet : octets) {
    if (offset >= next_) return;
    if (offset >= tail_from_ && tail_[offset % kTail] != octet) ++counters_.differing;
    ++offset;
  }
}

void Reassembler::finish(FrameRef last, const Sink& sink) {
  now_ = last;
  while (!waiting_.empty()) give_up_first_gap(sink);
  // A FIN counts as an octet (RFC 9293 3.4), and may not be in the capture.
  const std::uint64_t behind =
      fin_ ? std::min(*fin_, acknowledged_) : acknowledged_ - std::min<std::uint64_t>(acknowledged_, 1);
  if (behind > next_) give_out(Run{next_, behind - next_, {}, last, last}, sink);
}

}  // namespace kbtp::trace
