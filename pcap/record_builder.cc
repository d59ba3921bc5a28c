#include "pcap/record_builder.h"

#include <variant>

#include "pcap/analysis.h"

namespace kbtp::trace {
namespace {

/// In the order of Event::what.
constexpr std::array<std::string_view, std::variant_size_v<decltype(Event::what)>> kEvents{
    "startup", "bad-startup", "fpdu", "message", "end", "missing", "note", "ib-packet", "cm"};
constexpr std::array<std::string_view, 2> kSides{"client", "server"};
constexpr std::array<std::string_view, 2> kEnds{"fin", "rst"};
constexpr auto kFindings = [] {
  std::array<std::string_view, kFindingKinds.size()> words;
  for (std::size_t i = 0; i < words.size(); ++i) words[i] = kFindingKinds[i].word;
  return words;
}();
constexpr std::array<std::string_view, 3> kSeverities{"note", "warning", "error"};

using enum Kind;
using enum Base;

constexpr std::array kFields{
    FieldInfo{"event", text, "what this is about", decimal, 0, kEvents},
    FieldInfo{"frame.number", number, "the frame with which it was complete, counted from 1"},
    FieldInfo{"frame.first", number, "the frame that brought its first octet, when that is another one"},
    FieldInfo{"frame.time", fixed, "seconds since 1970 of that frame", decimal, 9},
    FieldInfo{"frame.relative", fixed, "seconds since the first frame of the capture", decimal, 9},
    FieldInfo{"stream", number, "number of the connection, counted from 1"},
    FieldInfo{"transport", text, "what carries the stream", decimal, 0, kTransportNames},
    FieldInfo{"from", text, "who sent it; the client opened the connection", decimal, 0, kSides},
    FieldInfo{"src", text, "address and port of the sender; InfiniBand: address alone"},
    FieldInfo{"src.port", number, "port of the sender"},
    FieldInfo{"dst", text, "address and port of the receiver; InfiniBand: address alone"},
    FieldInfo{"dst.port", number, "port of the receiver"},
    FieldInfo{"stream.offset", number, "octets of the direction in front of it"},
    FieldInfo{"tcp.end", text, "how the direction ended", decimal, 0, kEnds},
    FieldInfo{"missing.length", number, "octets that the capture lacks"},
    FieldInfo{"note", text, "a sentence for people"},
    FieldInfo{"finding.severity", text, "of something that deserves an eye", decimal, 0, kSeverities, true},
    FieldInfo{"finding.kind", text, "a short stable word for it", decimal, 0, kFindings, true},
    FieldInfo{"finding.text", text, "a sentence about it", decimal, 0, {}, true},
};

consteval const FieldInfo* f(std::string_view name) { return field_of(kFields, name); }

}  // namespace

std::span<const FieldInfo> frame_fields() { return kFields; }

std::span<const std::span<const FieldInfo>> field_groups() {
  static const std::array groups{frame_fields(), esp_fields(), iwarp_fields(),   terminate_fields(),
                                 kbtp_fields(),  ib_fields(),  analysis_fields()};
  return groups;
}

RecordBuilder::Ends& RecordBuilder::ends(const ConnectionInfo& connection) {
  Ends& ends = ends_[connection.number % ends_.size()];
  if (ends.connection != connection.number) {
    ends.connection = connection.number;
    ends.addresses = {connection.end_text(Side::client), connection.end_text(Side::server)};
    ends.kbtp_seen = false;
  }
  return ends;
}

void RecordBuilder::build(const ConnectionInfo& connection, const Event& event, const Annotation& annotation,
                          Record& record) {
  record.clear();
  texts_.clear();
  Ends& ends = this->ends(connection);
  const auto from = static_cast<std::size_t>(event.from);
  record.octets = event.octets;
  record.findings = annotation.findings;
  record.add(text_field(f("event"), kEvents[event.what.index()]));
  record.add(number_field(f("frame.number"), event.frame.number));
  if (event.first.number != event.frame.number)
    record.add(number_field(f("frame.first"), event.first.number));
  record.add(fixed_field(f("frame.time"), event.frame.time_ns));
  record.add(fixed_field(f("frame.relative"), event.frame.time_ns - start_ns_));
  record.add(number_field(f("stream"), connection.number));
  record.add(text_field(f("transport"), to_string(connection.transport)));
  record.add(text_field(f("from"), kSides[from]));
  record.add(text_field(f("src"), ends.addresses[from]));
  const bool tcp = connection.transport == Transport::tcp;
  if (tcp) record.add(number_field(f("src.port"), connection.address(event.from).port));
  record.add(text_field(f("dst"), ends.addresses[1 - from]));
  if (tcp) {
    record.add(number_field(f("dst.port"), connection.address(other(event.from)).port));
    record.add(number_field(f("stream.offset"), event.offset));
  }

  struct Filler {
    const Event& event;
    const wire::Assignment& assignment;
    Ends& ends;
    Record& record;
    TextStore& texts;

    void operator()(const Startup& e) const { add_startup(e, record); }
    void operator()(const BadStartup& e) const { add_bad_startup(e, record); }
    void operator()(const Fpdu& e) const { add_fpdu(e, event.octets, record, texts); }
    void operator()(const Message& e) const {
      ends.kbtp_seen = ends.kbtp_seen || e.kbtp.has_value();
      add_message(e, assignment, ends.kbtp_seen, record, texts);
    }
    void operator()(const TcpEnd& e) const {
      record.add(text_field(f("tcp.end"), kEnds[e.kind == TcpEnd::Kind::fin ? 0 : 1]));
    }
    void operator()(const Missing& e) const { record.add(number_field(f("missing.length"), e.length)); }
    void operator()(const Note& e) const { record.add(text_field(f("note"), e.text)); }
    void operator()(const IbPacket& e) const { add_ib_packet(e, event.octets, record); }
    void operator()(const CmMessage& e) const { add_cm(e, event.octets, record, texts); }
  };
  std::visit(Filler{event, assignment_, ends, record, texts_}, event.what);
  for (const Field& field : annotation.fields) record.add(field);
  for (const Finding& finding : annotation.findings)
    record.add(text_field(f("finding.severity"), kSeverities[static_cast<std::size_t>(finding.severity)]));
  for (const Finding& finding : annotation.findings) record.add(text_field(f("finding.kind"), finding.kind));
  for (const Finding& finding : annotation.findings) record.add(text_field(f("finding.text"), finding.text));
}

}  // namespace kbtp::trace
