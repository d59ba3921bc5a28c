#include "pcap/trace.h"

#include <utility>

#include "pcap/capture_file.h"

namespace kbtp::trace {

TraceDecoder::TraceDecoder(const DecodeOptions& options)
    : max_kept_(options.max_kept), decoder_(options, *this) {}

/// Connections are numbered from 1 in the order of their first segments.
Connection& TraceDecoder::connection(const ConnectionInfo& info) {
  if (trace_.connections.size() < info.number) trace_.connections.resize(info.number);
  return trace_.connections[info.number - 1];
}

void TraceDecoder::on_event(const ConnectionInfo& info, const Event& event) {
  connection(info).events.push_back(owned(event, max_kept_));
}

void TraceDecoder::on_end(const ConnectionInfo& info) {
  static_cast<ConnectionInfo&>(connection(info)) = info;
}

void TraceDecoder::on_other_frame(const FrameView&, const FrameProblem& problem) {
  ++trace_.problems[static_cast<std::size_t>(problem.kind)];
}

void TraceDecoder::frame(const FrameView& frame) {
  if (trace_.frames++ == 0) trace_.start_ns = frame.time_ns;
  decoder_.frame(frame);
}

Trace TraceDecoder::finish() {
  decoder_.finish();
  return std::move(trace_);
}

Trace decode_trace(std::span<const Frame> frames, const DecodeOptions& options) {
  TraceDecoder decoder(options);
  for (const Frame& frame : frames) decoder.frame(view(frame));
  return decoder.finish();
}

Result<Trace> decode_trace_file(const std::string& path, const DecodeOptions& options) {
  auto reader = CaptureReader::open(path);
  if (!reader) return unexpected(reader.error());
  TraceDecoder decoder(options);
  while (const auto frame = reader->next_view()) decoder.frame(*frame);
  Trace trace = decoder.finish();
  trace.damage = reader->damage();
  return trace;
}

}  // namespace kbtp::trace
