// From frames to connections and their events: the whole of decoding a capture.

#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "pcap/event.h"
#include "pcap/frame.h"
#include "pcap/iwarp_stream.h"
#include "pcap/reassembly.h"

namespace kbtp::trace {

struct Connection {
  TransportAddress client, server;
  bool opening_seen = false;  ///< the client's SYN is in the capture
  std::vector<Event> events;  ///< of both directions, in the order of the frames that completed them
  std::array<Reassembler::Counters, 2> counters;  ///< by the Side that sent

  [[nodiscard]] const TransportAddress& address(Side side) const {
    return side == Side::client ? client : server;
  }
};

struct Trace {
  std::vector<Connection> connections;  ///< in the order of their first segment
  std::uint64_t frames = 0;
  std::array<std::uint64_t, 5> problems{};  ///< frames without a segment for us, by FrameProblem::Kind
  std::int64_t start_ns = 0;                ///< of the first frame
  std::string damage;                       ///< as CaptureReader::damage()

  [[nodiscard]] std::uint64_t count(FrameProblem::Kind kind) const {
    return problems[static_cast<std::size_t>(kind)];
  }
};

/// Takes frames one by one. A new SYN between ends that have spoken before begins a new connection.
class TraceDecoder {
 public:
  explicit TraceDecoder(const DecodeOptions& options = {});
  TraceDecoder(const TraceDecoder&) = delete;
  TraceDecoder& operator=(const TraceDecoder&) = delete;
  ~TraceDecoder();

  void frame(const Frame& frame);
  /// The capture is over. The decoder is of no more use.
  [[nodiscard]] Trace finish();

 private:
  class Live;
  DecodeOptions options_;
  Trace trace_;
  std::vector<std::unique_ptr<Live>> connections_;
  std::map<Flow, std::size_t> current_;  ///< index into connections_
};

[[nodiscard]] Trace decode_trace(std::span<const Frame> frames, const DecodeOptions& options = {});
[[nodiscard]] Result<Trace> decode_trace_file(const std::string& path, const DecodeOptions& options = {});

}  // namespace kbtp::trace
