#include "pcap/trace.h"

#include <algorithm>
#include <utility>

#include "pcap/capture_file.h"

namespace kbtp::trace {

/// A connection that still may get segments.
class TraceDecoder::Live {
 public:
  Live(const TcpSegment& first, const DecodeOptions& options)
      : client_{Direction(Side::client, *this, options)}, server_{Direction(Side::server, *this, options)} {
    const bool from_server = first.syn && first.ack;
    connection.client = from_server ? first.destination : first.source;
    connection.server = from_server ? first.source : first.destination;
    if (first.syn && !first.ack) {
      connection.opening_seen = true;
      opening_sequence_ = first.sequence;
    }
  }
  Live(const Live&) = delete;
  Live& operator=(const Live&) = delete;

  /// Whether `segment` opens another connection between the same ends.
  [[nodiscard]] bool reopened_by(const TcpSegment& segment) const {
    return segment.syn && !segment.ack && !(connection.opening_seen && segment.sequence == opening_sequence_);
  }

  void take(const TcpSegment& segment, FrameRef frame) {
    last_ = frame;
    Direction& direction = segment.source == connection.client ? client_ : server_;
    direction.reassembler.segment(segment, frame, direction.sink);
    if (segment.rst) {
      direction.end(TcpEnd::Kind::rst, frame, *this);
    } else if (const auto fin = direction.reassembler.fin_offset();
               fin && direction.reassembler.next_offset() >= *fin) {
      direction.end(TcpEnd::Kind::fin, frame, *this);
    }
  }

  Connection finish() {
    for (Direction* direction : {&client_, &server_}) {
      direction->reassembler.finish(last_, direction->sink);
      if (direction->ended) continue;
      if (direction->reassembler.fin_offset()) {
        direction->end(TcpEnd::Kind::fin, last_, *this);
      } else {
        direction->stream.end(last_);
      }
    }
    connection.counters = {client_.reassembler.counters(), server_.reassembler.counters()};
    return std::move(connection);
  }

  Connection connection;

 private:
  struct Direction {
    Direction(Side from, Live& live, const DecodeOptions& options)
        : side(from),
          reassembler(options.reassembly),
          stream(from, live.agreement_, options,
                 [&live](Event&& event) { live.connection.events.push_back(std::move(event)); }),
          sink([this](const Run& run) { stream.take(run); }) {}
    Direction(const Direction&) = delete;
    Direction& operator=(const Direction&) = delete;

    void end(TcpEnd::Kind kind, FrameRef frame, Live& live) {
      if (ended) return;
      ended = true;
      stream.end(frame);
      live.connection.events.push_back(
          Event{side, frame, frame, reassembler.next_offset(), TcpEnd{kind}, {}});
    }

    Side side;
    Reassembler reassembler;
    IwarpStream stream;
    Reassembler::Sink sink;
    bool ended = false;
  };

  Agreement agreement_;
  Direction client_, server_;
  std::uint32_t opening_sequence_ = 0;
  FrameRef last_;
};

TraceDecoder::TraceDecoder(const DecodeOptions& options) : options_(options) {}
TraceDecoder::~TraceDecoder() = default;

void TraceDecoder::frame(const Frame& frame) {
  if (trace_.frames++ == 0) trace_.start_ns = frame.time_ns;
  const auto packet = decode_frame(frame);
  if (!packet) {
    ++trace_.problems[static_cast<std::size_t>(packet.error().kind)];
    return;
  }
  const auto* segment = std::get_if<TcpSegment>(&*packet);
  if (segment == nullptr) {
    ++trace_.problems[static_cast<std::size_t>(FrameProblem::Kind::other_protocol)];
    return;
  }
  const auto [at, fresh] =
      current_.try_emplace(Flow(segment->source, segment->destination), connections_.size());
  if (!fresh && connections_[at->second]->reopened_by(*segment)) at->second = connections_.size();
  if (at->second == connections_.size()) connections_.push_back(std::make_unique<Live>(*segment, options_));
  connections_[at->second]->take(*segment, FrameRef{frame.number, frame.time_ns});
}

Trace TraceDecoder::finish() {
  for (const auto& live : connections_) trace_.connections.push_back(live->finish());
  return std::move(trace_);
}

Trace decode_trace(std::span<const Frame> frames, const DecodeOptions& options) {
  TraceDecoder decoder(options);
  for (const Frame& frame : frames) decoder.frame(frame);
  return decoder.finish();
}

Result<Trace> decode_trace_file(const std::string& path, const DecodeOptions& options) {
  auto reader = CaptureReader::open(path);
  if (!reader) return unexpected(reader.error());
  TraceDecoder decoder(options);
  while (const auto frame = reader->next()) decoder.frame(*frame);
  Trace trace = decoder.finish();
  trace.damage = reader->damage();
  return trace;
}

}  // namespace kbtp::trace
