#include "pcap/reassembly.h"

#include <algorithm>

namespace kbtp::trace {

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
    if (!started_ || (!saw_syn_ && next_ == 0)) {
      base_ = sequence;
      saw_syn_ = true;
      started_ = true;
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
}

void Reassembler::take(std::uint64_t offset, std::uint64_t length, Octets octets, FrameRef frame,
                       const Sink& sink) {
  if (offset == next_ && waiting_.empty()) {  // the usual case: nothing is copied
    if (octets.empty()) counters_.missing += length;
    next_ += length;
    sink(Run{offset, length, octets, frame, now_});
    return;
  }
  keep(offset, length, octets, frame);
  release(sink);
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
      counters_.retransmitted += std::min(run_end, end) - std::max(run_begin, position);
    }
    position = std::min(run_end, end);
    at = waiting_.lower_bound(position);
  }
  store(position, end);
}

void Reassembler::release(const Sink& sink) {
  for (auto at = waiting_.begin(); at != waiting_.end() && at->first == next_; at = waiting_.begin()) {
    const auto node = waiting_.extract(at);
    const Waiting& run = node.mapped();
    waiting_octets_ -= run.octets.size();
    if (run.octets.empty()) counters_.missing += run.length;
    next_ += run.length;
    sink(Run{node.key(), run.length, run.octets, run.frame, now_});
  }
}

void Reassembler::give_up_first_gap(const Sink& sink) {
  const auto first = waiting_.begin();
  const Run gap{next_, first->first - next_, {}, first->second.frame, now_};
  counters_.missing += gap.length;
  next_ = first->first;
  sink(gap);
  release(sink);
}

void Reassembler::finish(FrameRef last, const Sink& sink) {
  now_ = last;
  while (!waiting_.empty()) give_up_first_gap(sink);
}

}  // namespace kbtp::trace
