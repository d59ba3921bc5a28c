#include "pcap/print_lines.h"

#include <string_view>
#include <utility>
#include <variant>

namespace kbtp::trace {
namespace {

constexpr std::size_t kFrameWidth = 6;
constexpr unsigned kTimeDecimals = 6;
constexpr std::int64_t kSecond = 1'000'000'000;
constexpr std::int64_t kWideTime = 1000 * kSecond;  ///< shorter ones are filled with spaces on the left

void add(const Annotation& from, Annotation& to) {
  if (!from.text.empty()) to.text = from.text;
  if (!from.fields.empty()) to.fields = from.fields;
  to.findings.insert(to.findings.end(), from.findings.begin(), from.findings.end());
}

struct EventWriter {
  bool kbtp_seen;
  Output& out;
  void operator()(const Message& message) const { write_line(message, 1, kbtp_seen, out); }
  void operator()(const auto& what) const { write_line(what, out); }
};

bool is_write(ib::Operation operation) {
  return operation >= ib::Operation::write_first && operation <= ib::Operation::write_only_immediate;
}

bool ends_message(const ib::Packet& packet) {
  const ib::OperationFacts* facts = packet.bth.opcode.facts();
  return facts != nullptr && (facts->place == ib::Place::last || facts->place == ib::Place::only);
}

void announce_ends(const ConnectionInfo& connection, Output& out) {
  const auto end = [&](Side side) {
    out.text(connection.end_text(side));
    const auto& qp = connection.qp[static_cast<std::size_t>(side)];
    if (qp) out.text(" QP ").hex(*qp);
  };
  end(Side::client);
  out.text(" > ");
  end(Side::server);
  switch (connection.transport) {
    case Transport::tcp:
      if (!connection.opening_seen) out.text(", opened before the capture began");
      break;
    case Transport::rocev2:
      out.text(", RoCEv2");
      break;
    case Transport::rocev1:
      out.text(", RoCEv1");
      break;
    case Transport::infiniband:
      out.text(", InfiniBand");
      break;
  }
}

/// Whether what was begun can still go on behind this.
bool leaves_messages_open(const Event& event) {
  const auto* fpdu = event.as<Fpdu>();
  const rdmap::OpcodeFacts* facts =
      fpdu != nullptr && fpdu->ddp ? rdmap::find_opcode(fpdu->rdmap.opcode) : nullptr;
  return facts != nullptr && !facts->has_payload;
}

}  // namespace

/// The state of the connection of `event`, which is the next.
LinePrinter::Stream& LinePrinter::stream(const ConnectionInfo& connection, const Event& event) {
  if (latest_ == nullptr || latest_number_ != connection.number) {
    latest_ = &streams_[connection.number];
    latest_number_ = connection.number;
  }
  const auto* message = event.as<Message>();
  if (message != nullptr && message->kbtp) latest_->kbtp_seen = true;
  return *latest_;
}

void LinePrinter::begin_line(const ConnectionInfo& connection, Side side, FrameRef at, bool announce) {
  if (announce) {
    output_.colour(Colour::dim).text("stream ").number(connection.number).text(": ");
    announce_ends(connection, output_);
    output_.colour(Colour::none).end_line();
  }
  output_.number(at.number, kFrameWidth).text("  ");
  const std::int64_t time = at.time_ns - start_ns_;
  for (std::int64_t bound = kWideTime; bound > kSecond && time < bound; bound /= 10) output_.sign(' ');
  output_.fixed(time, 9, kTimeDecimals).text("  ");
  output_.colour(Colour::dim).number(connection.number);
  output_.text(side == Side::client ? " > " : " < ").colour(Colour::none);
}

void LinePrinter::since(FrameRef first, FrameRef last) {
  if (first.number != last.number) output_.text(" since #").number(first.number);
}

void LinePrinter::end_line(const Annotation& annotation) {
  if (!annotation.text.empty())
    output_.text("  ").colour(Colour::dim).text(annotation.text).colour(Colour::none);
  output_.end_line();
  for (const Finding& finding : annotation.findings) {
    const bool error = finding.severity == Finding::Severity::error;
    output_.spaces(kFrameWidth + 2);
    output_.colour(error ? Colour::red : Colour::yellow);
    output_.text(finding.severity == Finding::Severity::note ? "note: " : error ? "error: " : "warning: ");
    output_.colour(Colour::none).text(finding.text).end_line();
  }
}

void LinePrinter::heading(const ConnectionInfo& connection, const Event& event,
                          const Annotation& annotation) {
  Stream& stream = this->stream(connection, event);
  begin_line(stream, connection, event.from, event.frame);
  std::visit(EventWriter{stream.kbtp_seen, output_}, event.what);
  since(event.first, event.frame);
  end_line(annotation);
}

/// Tells what was begun and does not go on.
void LinePrinter::flush(Stream& stream, const ConnectionInfo& connection, Side side) {
  Pending& pending = stream.pending[static_cast<std::size_t>(side)];
  if (pending.count == 0) return;
  if (pending.wanted) {
    begin_line(stream, connection, side, pending.last);
    const Segments segments{pending.next_to - pending.first_to, pending.count};
    if (pending.tagged) {
      write_tagged(pending.opcode, pending.stag, pending.first_to, segments, pending.complete, output_);
    } else {
      write_send(pending.opcode, pending.stag, segments, pending.complete, output_);
    }
    since(pending.first, pending.last);
    end_line(pending.added);
  }
  pending.count = 0;
}

/// Whether the segment was counted to a message that is told later.
bool LinePrinter::collect(Stream& stream, const ConnectionInfo& connection, const Event& event,
                          const Fpdu& fpdu, const Annotation& annotation, bool wanted) {
  const rdmap::OpcodeFacts* facts = fpdu.ddp ? rdmap::find_opcode(fpdu.rdmap.opcode) : nullptr;
  const bool tagged = fpdu.tagged() != nullptr;
  const bool sound = facts != nullptr && facts->has_payload && facts->tagged == tagged &&
                     fpdu.extent == Extent::whole && fpdu.crc != CrcState::bad && !fpdu.error;
  if (!sound || each_segment_) return false;

  Pending& pending = stream.pending[static_cast<std::size_t>(event.from)];
  const std::uint32_t name = tagged ? fpdu.tagged()->stag : fpdu.untagged()->msn;
  const std::uint64_t offset = tagged ? fpdu.tagged()->tagged_offset : fpdu.untagged()->message_offset;
  const bool goes_on = pending.count != 0 && !pending.complete && pending.opcode == facts->opcode &&
                       pending.stag == name && pending.next_to == offset;
  if (!goes_on) {
    flush(stream, connection, event.from);
    if (!tagged && offset != 0) return false;  // the middle of a message that is not put together
    pending.tagged = tagged;
    pending.complete = false;
    pending.wanted = false;
    pending.opcode = facts->opcode;
    pending.stag = name;
    pending.first_to = pending.next_to = offset;
    pending.first = event.first;
    pending.added.clear();
  }
  ++pending.count;
  pending.wanted = pending.wanted || wanted;
  pending.next_to += fpdu.payload_length;
  pending.last = event.frame;
  add(annotation, pending.added);
  pending.complete = ddp::is_last(*fpdu.ddp);
  if (pending.complete && tagged) flush(stream, connection, event.from);
  return true;
}

void LinePrinter::event(const ConnectionInfo& connection, const Event& event, const Annotation& annotation,
                        bool wanted) {
  Stream& stream = this->stream(connection, event);
  if (connection.transport != Transport::tcp) {
    const auto* ib = event.as<IbPacket>();
    // A Send that is whole waits for the very next event alone.
    for (const Side side : {Side::client, Side::server}) {
      const PendingIb& pending = stream.pending_ib[static_cast<std::size_t>(side)];
      if (pending.count != 0 && ends_message(pending.last) && (ib != nullptr || side != event.from))
        flush_ib(stream, connection, side);
    }
    if (ib != nullptr ? collect(stream, connection, event, *ib, annotation, wanted)
                      : finish_ib(stream, connection, event, annotation, wanted))
      return;
    if (wanted) heading(connection, event, annotation);
    return;
  }
  if (const auto* fpdu = event.as<Fpdu>(); fpdu != nullptr) {
    if (collect(stream, connection, event, *fpdu, annotation, wanted)) return;
  } else if (const auto* message = event.as<Message>(); message != nullptr) {
    Pending& pending = stream.pending[static_cast<std::size_t>(event.from)];
    if (pending.complete && pending.count != 0 && !pending.tagged) {
      const std::uint32_t count = std::exchange(pending.count, 0);
      if (!wanted && !pending.wanted) return;
      add(annotation, pending.added);
      begin_line(stream, connection, event.from, event.frame);
      write_line(*message, count, stream.kbtp_seen, output_);
      since(event.first, event.frame);
      return end_line(pending.added);
    }
  }
  const Pending& pending = stream.pending[static_cast<std::size_t>(event.from)];
  if (pending.complete || !leaves_messages_open(event)) flush(stream, connection, event.from);
  if (wanted) heading(connection, event, annotation);
}

// --- InfiniBand ------------------------------------------------------------------------------------------

void LinePrinter::flush_ib(Stream& stream, const ConnectionInfo& connection, Side side) {
  PendingIb& pending = stream.pending_ib[static_cast<std::size_t>(side)];
  const std::uint32_t count = std::exchange(pending.count, 0);
  if (count == 0 || !pending.wanted) return;
  begin_line(stream, connection, side, pending.last_frame);
  write_packets(pending.first, pending.last, {pending.octets, count}, output_);
  since(pending.first_frame, pending.last_frame);
  end_line(pending.added);
}

/// Whether the packet was counted to a message that is told later.
bool LinePrinter::collect(Stream& stream, const ConnectionInfo& connection, const Event& event,
                          const IbPacket& ib, const Annotation& annotation, bool wanted) {
  const ib::OperationFacts* facts = ib.facts();
  PendingIb& pending = stream.pending_ib[static_cast<std::size_t>(event.from)];
  const bool payload = facts != nullptr && facts->payload;
  // What carries no payload goes between the packets of a message without ending it.
  if (!payload || !ib.sound() || each_segment_) return false;

  const bool goes_on = facts->place == ib::Place::middle || facts->place == ib::Place::last;
  const bool fits =
      pending.count != 0 && goes_on && ((pending.last.bth.psn + 1) & ib::kPsnMask) == ib.packet.bth.psn;
  if (!fits) {
    flush_ib(stream, connection, event.from);
    pending.octets = 0;
    pending.first = ib.packet;
    pending.first_frame = event.first;
    pending.wanted = false;
    pending.added.clear();
  }
  ++pending.count;
  pending.octets += ib.packet.payload_length;
  pending.last = ib.packet;
  pending.last_frame = event.frame;
  pending.wanted = pending.wanted || wanted;
  add(annotation, pending.added);
  // Behind the last packet of a Send its message comes, when it could be put together.
  const bool send = !facts->response && !is_write(facts->operation);
  if (ends_message(ib.packet) && !send) flush_ib(stream, connection, event.from);
  return true;
}

/// A message, or what the Communication Manager says: its packets are told with it.
bool LinePrinter::finish_ib(Stream& stream, const ConnectionInfo& connection, const Event& event,
                            const Annotation& annotation, bool wanted) {
  PendingIb& pending = stream.pending_ib[static_cast<std::size_t>(event.from)];
  const std::uint32_t count = std::exchange(pending.count, 0);
  if (count == 0) return false;
  if (!wanted && !pending.wanted) return true;
  add(annotation, pending.added);
  begin_line(stream, connection, event.from, event.frame);
  if (const auto* message = event.as<Message>()) {
    write_line(*message, count, stream.kbtp_seen, output_);
  } else if (const auto* cm = event.as<CmMessage>()) {
    write_line(*cm, output_);
  }
  since(event.first, event.frame);
  end_line(pending.added);
  return true;
}

void LinePrinter::end(const ConnectionInfo& connection) {
  const auto at = streams_.find(connection.number);
  if (at == streams_.end()) return;
  for (const Side side : {Side::client, Side::server}) {
    flush(at->second, connection, side);
    flush_ib(at->second, connection, side);
  }
  streams_.erase(at);
  latest_ = nullptr;
}

}  // namespace kbtp::trace
