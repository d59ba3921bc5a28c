// Puts the octets of one direction of a TCP connection back in order.
//
// Segments come in the order of the capture; octets leave in the order of the stream, each run with the frame
// that brought it. The first copy of an octet is kept; a later one that differs is counted, as far back as
// the last kTail octets that were given out. Octets that the capture does not hold, because a frame was cut
// short or lost, leave as a run without octets, so that what lies behind them keeps its place. Stream offsets
// count from the first octet behind the SYN (RFC 9293 3.4), or from the first octet seen when the SYN is not
// in the capture. Pure and single-threaded; what waits for a gap to close is bounded.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "pcap/frame.h"

namespace kbtp::trace {

/// Which frame, and when it was captured.
struct FrameRef {
  std::uint64_t number = 0;
  std::int64_t time_ns = 0;
};

/// A run of the stream. `octets` is empty when the capture lacks them, else `length` long.
struct Run {
  std::uint64_t offset = 0;
  std::uint64_t length = 0;
  Octets octets;
  FrameRef frame;  ///< that brought it; for octets that are lacking, the one that made it known
  FrameRef ready;  ///< with which it came to be in order; behind octets that are lacking, that brought it and
                   ///< all in front of it. Runs leave in the order of these
  [[nodiscard]] bool missing() const { return octets.empty(); }
};

class Reassembler {
 public:
  struct Limits {
    std::size_t waiting_octets = std::size_t{16} << 20;  ///< behind a gap; beyond it the gap is given up
    std::size_t waiting_segments = 65536;
    /// From an acknowledgement of octets that did not come so many further segments, or so much time, until
    /// they are given up: captures of several queues or interfaces have some frames in another order than
    /// they went.
    std::uint32_t patience_segments = 64;
    std::int64_t patience_ns = 100'000'000;
  };
  struct Counters {
    std::uint64_t retransmitted = 0;  ///< octets seen again
    std::uint64_t differing = 0;      ///< octets seen again with another value; the first one was kept
    std::uint64_t missing = 0;        ///< octets that the capture lacks
    std::uint64_t out_of_order = 0;   ///< segments that had to wait
  };
  using Sink = std::function<void(const Run&)>;

  Reassembler() : Reassembler(Limits{}) {}
  explicit Reassembler(Limits limits) : limits_(limits) {}

  /// Takes a segment of this direction; `sink` is called for each run that is now in order.
  void segment(const TcpSegment& segment, FrameRef frame, const Sink& sink);
  /// The other end says that it has all in front of `acknowledgment` (RFC 9293 3.4), so that nobody sends
  /// that again.
  void acknowledged(std::uint32_t acknowledgment, FrameRef frame);
  /// Whether octets are lacking that may still come: others wait behind them, or they were acknowledged.
  [[nodiscard]] bool lacks_octets() const { return claim_ || !waiting_.empty(); }
  /// Whether so much has come since octets were acknowledged that they are not to be waited for any longer.
  [[nodiscard]] bool impatient() const {
    return claim_ && (claim_->segments > limits_.patience_segments ||
                      now_.time_ns - claim_->time_ns >= limits_.patience_ns);
  }
  /// Gives up gaps in front of what was acknowledged. Where nothing has come behind a gap yet it stays: the
  /// acknowledgement may have overtaken all of it.
  void give_up_acknowledged(const Sink& sink);
  /// Nothing more comes, or the capture is over with frame `last`: gives out what still waits, gaps as
  /// missing runs, and what was acknowledged and never came as another.
  void finish(FrameRef last, const Sink& sink);

  [[nodiscard]] const Counters& counters() const { return counters_; }
  /// Memory for octets behind a gap, held back, and for those that were given out last.
  [[nodiscard]] std::size_t held_octets() const {
    return waiting_octets_ + waiting_.size() * kWaitingOverhead + tail_.capacity();
  }
  /// The offset behind the last octet that was given out.
  [[nodiscard]] std::uint64_t next_offset() const { return next_; }
  /// Of a stream that is over: whether octets of `segment` are so far from it that they are of another.
  [[nodiscard]] bool is_outside(const TcpSegment& segment) const;
  /// The sequence number of the SYN, if one was seen.
  [[nodiscard]] std::optional<std::uint32_t> syn_sequence() const {
    return saw_syn_ ? std::optional(base_ - 1) : std::nullopt;
  }
  [[nodiscard]] bool has_octets() const { return next_ != 0 || !waiting_.empty(); }
  /// The offset of the FIN, once one was seen.
  [[nodiscard]] std::optional<std::uint64_t> fin_offset() const { return fin_; }

 private:
  struct Waiting {
    std::uint64_t length = 0;
    std::vector<std::byte> octets;  ///< empty when lacking
    FrameRef frame;
  };
  [[nodiscard]] std::int64_t place(std::uint32_t sequence) const;
  void take(std::uint64_t offset, std::uint64_t length, Octets octets, FrameRef frame, const Sink& sink);
  void keep(std::uint64_t offset, std::uint64_t length, Octets octets, FrameRef frame);
  void give_out_first(FrameRef ready, const Sink& sink);
  void give_up_first_gap(const Sink& sink);
  void wait_for_claim();
  void give_out(const Run& run, const Sink& sink);
  void compare_with_tail(std::uint64_t offset, Octets octets);

  static constexpr std::size_t kTail = 4096;
  static constexpr std::size_t kWaitingOverhead = 144;  ///< of a node of waiting_ and the block of its octets

  Limits limits_;
  bool started_ = false;
  bool saw_syn_ = false;
  std::uint32_t base_ = 0;  ///< the sequence number of stream offset 0
  std::uint64_t next_ = 0;
  std::optional<std::uint64_t> fin_;
  std::map<std::uint64_t, Waiting> waiting_;  ///< by offset, disjoint, all behind next_
  std::size_t waiting_octets_ = 0;
  std::vector<std::byte> tail_;  ///< octets given out last, a ring indexed by offset modulo kTail
  std::uint64_t tail_from_ = 0;  ///< offset of the first octet that is in it
  FrameRef now_;
  FrameRef ready_;  ///< of the last run that was given out
  /// An acknowledgement of octets that have not come: `offset` is behind them.
  struct Claim {
    std::uint64_t offset = 0;
    std::int64_t time_ns = 0;
    std::uint32_t segments = 0;  ///< since then
  };
  std::optional<Claim> claim_;
  std::uint64_t acknowledged_ = 0;  ///< the highest offset
  Counters counters_;
};

}  // namespace kbtp::trace
