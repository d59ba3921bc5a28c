// From frames to connections and their events: the whole of decoding a capture.

#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/result.h"
#include "pcap/decoder.h"
#include "pcap/event.h"
#include "pcap/frame.h"
#include "pcap/iwarp_stream.h"

namespace kbtp::trace {

struct Connection : ConnectionInfo {
  std::vector<Event> events;  ///< owned; of both directions, as Observer::on_event() gets them
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

/// Keeps all that a Decoder tells.
class TraceDecoder final : private Observer {
 public:
  explicit TraceDecoder(const DecodeOptions& options = {});

  void frame(const FrameView& frame);
  /// The capture is over. The decoder is of no more use.
  [[nodiscard]] Trace finish();

 private:
  Connection& connection(const ConnectionInfo& info);
  void on_event(const ConnectionInfo& connection, const Event& event) override;
  void on_end(const ConnectionInfo& connection) override;
  void on_other_frame(const FrameView& frame, const FrameProblem& problem) override;

  std::size_t max_kept_;
  Trace trace_;
  Decoder decoder_;
};

[[nodiscard]] Trace decode_trace(std::span<const Frame> frames, const DecodeOptions& options = {});
[[nodiscard]] Result<Trace> decode_trace_file(const std::string& path, const DecodeOptions& options = {});

}  // namespace kbtp::trace
