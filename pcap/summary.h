// A capture in a page: its streams, how the operations on them went, and what was found. Memory does not
// depend on the length of the capture. One thread.

#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "base/histogram.h"
#include "pcap/analysis.h"
#include "pcap/decoder.h"
#include "pcap/event.h"
#include "pcap/record.h"

namespace kbtp::trace {

class Summary {
 public:
  /// Before its events.
  void frame(const FrameView& frame);
  void event(const ConnectionInfo& connection, const Event& event, const Annotation& annotation,
             const std::optional<Answered>& answered);
  void end(const ConnectionInfo& connection);

  /// The page, in lines; streams beyond the first `most_streams` are counted only.
  [[nodiscard]] std::string text(std::size_t most_streams = 50) const;

 private:
  struct Direction {
    std::uint64_t octets = 0;            ///< of the stream
    std::uint64_t fpdus = 0;             ///< or InfiniBand packets
    std::uint64_t data = 0;              ///< of RDMA Writes and Read Responses
    std::array<std::uint64_t, 4> crc{};  ///< of these, by CrcState
    std::uint64_t markers = 0;
  };
  struct Stream {
    ConnectionInfo info;  ///< as of its first event, then as of its end
    std::int64_t first_ns = 0, last_ns = 0;
    std::array<Direction, 2> by_side;
  };
  /// Operations of one kind that ended alike.
  struct Operations {
    std::uint64_t octets = 0;
    std::int64_t longest_ns = 0;
    Histogram latencies;
  };
  /// Messages that nothing answers, so that no latency is known.
  struct Carried {
    std::uint64_t count = 0;
    std::uint64_t octets = 0;

    void add(std::uint64_t of_segment, bool last) {
      octets += of_segment;
      count += last ? 1 : 0;
    }
  };
  struct Found {
    Finding::Severity severity = Finding::Severity::note;
    std::uint64_t count = 0;
    std::uint64_t frame = 0;  ///< of the first
    std::uint64_t stream = 0;
    std::string text;
  };

  static constexpr std::size_t kMostStreams = 16384;  ///< of which more than their number is kept

  void count(const ConnectionInfo& connection);
  /// Makes the stream of the event the last one.
  void find(const ConnectionInfo& connection, const Event& event);
  void append_streams(std::string& out, std::size_t most) const;
  void append_operations(std::string& out) const;
  void append_findings(std::string& out) const;

  std::uint64_t frames_ = 0;
  std::uint64_t wire_octets_ = 0;
  std::int64_t first_ns_ = 0, last_ns_ = 0;
  std::uint64_t connections_ = 0;
  std::uint64_t queue_pairs_ = 0;            ///< of these, pairs of queue pairs
  std::uint64_t native_ = 0;                 ///< of these, on InfiniBand's own link
  std::map<std::uint64_t, Stream> streams_;  ///< those that are iWARP or RoCE, by number
  std::uint64_t last_number_ = 0;            ///< of `last_`
  Stream* last_ = nullptr;                   ///< of the last event
  Stream rest_;                              ///< of all that are not in streams_, together
  std::uint64_t more_ = 0;                   ///< of these, that have ended
  std::map<std::string, Operations, std::less<>> operations_;
  Carried sends_, writes_;
  std::map<std::string_view, Found> found_;  ///< by Finding::kind
};

}  // namespace kbtp::trace
