#include "conformance/events.h"

#include <algorithm>

#include "conformance/events_ib.h"
#include "pcap/iwarp_stream.h"
#include "pcap/trace.h"

namespace kbtp::conformance {

namespace {

/// One event of pcap/ as one of ours; nothing for those that tell no octets by themselves.
std::optional<Event> translate(const trace::Event& from, ConnectionIndex connection) {
  Event out{.from = from.from == trace::Side::client ? Side::suite : Side::target,
            .connection = connection,
            .frame = from.frame.number};
  out.octets = to_vector(from.octets);
  if (from.as<trace::Startup>() != nullptr) {
    out.kind = Event::Kind::setup_frame;
  } else if (const auto* fpdu = from.as<trace::Fpdu>()) {
    out.kind = fpdu->extent == trace::Extent::whole ? Event::Kind::fpdu : Event::Kind::unframed;
    out.octets = to_vector(fpdu->ulpdu);
    out.crc_good = fpdu->crc != trace::CrcState::bad;
  } else if (from.as<trace::BadStartup>() != nullptr) {
    out.kind = Event::Kind::unframed;
  } else if (const auto* end = from.as<trace::TcpEnd>()) {
    out.kind = end->kind == trace::TcpEnd::Kind::fin ? Event::Kind::fin : Event::Kind::reset;
  } else {
    return std::nullopt;
  }
  return out;
}

}  // namespace

EventList events_from_capture(std::span<const trace::Frame> frames, std::span<const std::uint16_t> ports) {
  EventList out;
  for (const trace::Connection& connection : trace::decode_trace(frames).connections) {
    const bool tcp = connection.transport == trace::Transport::tcp;
    const std::optional<std::uint16_t> told = tcp ? connection.client.port : source_port_of(connection);
    const auto port = told ? std::ranges::find(ports, *told) : ports.end();
    if (port == ports.end()) continue;
    const auto index = static_cast<ConnectionIndex>(port - ports.begin());
    if (!tcp) {
      append_ib_events(connection, index, out);
      continue;
    }
    for (const trace::Event& event : connection.events) {
      if (event.as<trace::Missing>() != nullptr) out.octets_missing = true;
      if (auto translated = translate(event, index)) out.events.push_back(std::move(*translated));
    }
  }
  return out;
}

std::vector<Event> events_from_record(std::span<const RecordEntry> record, ConnectionIndex connection) {
  std::vector<Event> out;
  trace::Agreement agreement;
  const trace::DecodeOptions options;
  const auto sink = [&](const trace::Event& event) {
    if (auto translated = translate(event, connection)) out.push_back(std::move(*translated));
  };
  trace::IwarpStream streams[] = {{trace::Side::client, agreement, options, sink},
                                  {trace::Side::server, agreement, options, sink}};
  std::uint64_t offsets[2] = {0, 0};
  bool ended[2] = {false, false};
  for (const RecordEntry& entry : record) {
    const std::size_t side = entry.from == Side::suite ? 0 : 1;
    if (entry.kind == RecordEntry::Kind::octets) {
      trace::Run run;
      run.offset = offsets[side];
      run.length = entry.octets.size();
      run.octets = entry.octets;
      offsets[side] += run.length;
      streams[side].take(run);
    } else if (!std::exchange(ended[side], true)) {
      streams[side].end({});
      out.push_back({.kind = entry.kind == RecordEntry::Kind::fin ? Event::Kind::fin : Event::Kind::reset,
                     .from = entry.from,
                     .connection = connection});
    }
  }
  return out;
}

}  // namespace kbtp::conformance
