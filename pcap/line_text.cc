#include "pcap/line_text.h"

#include <variant>

#include "pcap/terminate_reading.h"

namespace kbtp::trace {
namespace {

constexpr std::size_t kTitleWidth = 19;
constexpr std::size_t kShownOctets = 16;  ///< of a short message that is not KBTP

Output& octets(std::uint64_t n, Output& out) { return out.number(n).text(n == 1 ? " octet" : " octets"); }
Output& place(std::uint32_t stag, std::uint64_t to, Output& out) {
  return out.text("STag ").hex(stag, 8).text(" TO ").hex(to);
}
void segments(std::uint32_t count, Output& out) {
  if (count > 1) out.text(", ").number(count).text(" segments");
}

/// Only what is not as it should be.
void oddities(const Fpdu& fpdu, Output& out) {
  if (fpdu.crc == CrcState::bad) out.text(", ").colour(Colour::red).text("CRC bad").colour(Colour::none);
  if (fpdu.extent == Extent::broken_off) out.text(", broken off");
  if (fpdu.extent == Extent::lacking) out.text(", octets lacking in the capture");
  if (fpdu.error) {
    out.text(", ").colour(Colour::red).text("wrong: ").text(fpdu.error->reason).colour(Colour::none);
    out.text(" (").text(to_string(fpdu.error->code)).text(")");
  }
}

struct HeaderLine {
  const Fpdu& fpdu;
  Output& out;

  void operator()(std::monostate) const {
    octets(fpdu.payload_length, out);
    if (const auto* untagged = fpdu.untagged()) {
      out.text(", QN ").number(untagged->queue_number).text(" MSN ").number(untagged->msn);
      if (untagged->message_offset != 0) out.text(" MO ").number(untagged->message_offset);
      const rdmap::OpcodeFacts* facts = rdmap::find_opcode(fpdu.rdmap.opcode);
      if (facts != nullptr && facts->invalidates)
        out.text(", invalidates STag ").hex(untagged->rsvdulp_stag, 8);
    } else if (const auto* tagged = fpdu.tagged()) {
      place(tagged->stag, tagged->tagged_offset, out.text(" to "));
    }
    if (fpdu.ddp && !ddp::is_last(*fpdu.ddp)) out.text(", more follows");
  }
  void operator()(const rdmap::ReadRequest& read) const {
    place(read.source_stag, read.source_to, octets(read.size, out).text(" from "));
    place(read.sink_stag, read.sink_to, out.text(" to "));
  }
  void operator()(const rdmap::Immediate& immediate) const { out.hex(immediate.data, 16); }
  void operator()(const rdmap::AtomicRequest& atomic) const {
    const bool add = atomic.operation == rdmap::AtomicOpcode::fetch_add;
    if (add) {
      out.text("FetchAdd ");
    } else if (atomic.operation == rdmap::AtomicOpcode::compare_swap) {
      out.text("CmpSwap ");
    } else {
      out.text("AOpCode ").hex(static_cast<std::uint8_t>(atomic.operation)).sign(' ');
    }
    out.hex(atomic.add_or_swap_data).text(" mask ").hex(atomic.add_or_swap_mask);
    if (!add) out.text(" if ").hex(atomic.compare_data).text(" mask ").hex(atomic.compare_mask);
    place(atomic.remote_stag, atomic.remote_to, out.text(" at "));
    out.text(", request ").hex(atomic.request_identifier);
  }
  void operator()(const rdmap::AtomicResponse& atomic) const {
    out.text("was ").hex(atomic.original_value).text(", request ").hex(atomic.request_identifier);
  }
  void operator()(const rdmap::Terminate&) const {}  // write_line() reads it in either bit order
};

void terminate_line(const Fpdu& fpdu, Output& out) {
  const auto reading = read_terminate(fpdu.payload());
  if (!reading) return static_cast<void>(out.text("too short to say why"));
  const TerminateCode code = reading->control.code;
  out.colour(Colour::red).text(to_string(code)).colour(Colour::none);
  out.text(" (").hex(code.packed(), 4).sign(')');
  if (const auto header = ddp::read_header(reading->ddp_header)) {
    const rdmap::OpcodeFacts* facts = rdmap::find_opcode(rdmap::decode_control(ddp::rsvdulp(*header)).opcode);
    out.text(", about ");
    if (facts != nullptr) {
      out.text(facts->name);
    } else {
      out.text("RDMAP opcode ").hex(rdmap::decode_control(ddp::rsvdulp(*header)).opcode);
    }
    if (reading->read_request) {
      const rdmap::ReadRequest& read = *reading->read_request;
      place(read.source_stag, read.source_to, out.text(" from "));
      place(read.sink_stag, read.sink_to, out.text(" to "));
    } else if (const auto* tagged = std::get_if<ddp::TaggedHeader>(&*header)) {
      place(tagged->stag, tagged->tagged_offset, out.text(" to "));
    } else if (const auto* untagged = std::get_if<ddp::UntaggedHeader>(&*header)) {
      out.text(" QN ").number(untagged->queue_number).text(" MSN ").number(untagged->msn);
    }
  }
  if (reading->order == BitOrder::siw) out.text(", control bits in siw's order");
  if (reading->cut_short) out.text(", shorter than its bits say");
}

// --- KBTP ------------------------------------------------------------------------------------------------

Output& status(wire::Status status, std::uint16_t code, Output& out) {
  out.colour(status == wire::Status::success ? Colour::green : Colour::red);
  if (status == wire::Status::unassigned) {
    out.text("status ").number(code);
  } else {
    out.text(to_string(status));
  }
  return out.colour(Colour::none);
}

struct KbtpLine {
  Output& out;

  void operator()(const wire::Hello& m) const {
    request(m.request_id);
    if (m.base_handle == wire::kNoBaseHandle) {
      out.text(", wants ").number(m.handle_count).text(" handles");
    } else {
      out.text(", wants handles from ").number(m.base_handle).text(" on: ").number(m.handle_count);
    }
    out.text(", quota ").number(m.quota).text(", ").number(m.max_requests).text(" requests at once");
    features(m.wanted);
    if (m.identity == Uuid{}) {
      out.text(", anonymous");
    } else {
      out.text(", ").text(m.identity.to_string());
    }
  }
  void operator()(const wire::HelloAck& m) const {
    status(m.status, m.status_code, out).sign(' ');
    request(m.request_id);
    if (m.status == wire::Status::unsupported_version)
      out.text(", speaks versions ").number(m.min_version).text(" to ").number(m.max_version);
    if (m.status != wire::Status::success) return;
    out.text(", handles ").number(m.base_handle).text(" on: ").number(m.handle_count);
    out.text(", quota ").number(m.quota).text(" (").number(m.usage).text(" in use), block size ");
    out.number(m.block_size).text(", ").number(m.max_requests).text(" requests at once");
    if (m.max_inline != 0) out.text(", inline up to ").number(m.max_inline);
    features(m.granted);
  }
  void operator()(const wire::Load& m) const {
    head(m.head);
    data(", to ", m.destination);
    flag(m.allow_unsealed, "ALLOW_UNSEALED");
    flag(m.invalidate, "INVALIDATE");
    flag(m.record.has_value(), "RECORD");
  }
  void operator()(const wire::Store& m) const { store(m.head, m.body); }
  void operator()(const wire::AllocStore& m) const { store(m.head, m.body); }
  void operator()(const wire::Free& m) const {
    head(m.head);
    flag(m.record.has_value(), "RECORD");
  }
  void operator()(const wire::Bind& m) const {
    head(m.head);
    out.text(", ticket ").number(m.ticket).text(", ");
    octets(m.data_length, out).text(", block ").hex(m.block_offset);
    flag(m.seal, "SEAL");
    flag(m.record.has_value(), "RECORD");
  }
  void operator()(const wire::Completion& m) const {
    status(m.status, m.status_code, out).sign(' ');
    request(m.request_id);
    out.text(", handle ").number(m.handle);
    if (m.generation != 0) out.text(" generation ").number(m.generation);
    if (m.status != wire::Status::success && m.data_length == 0 && m.block_offset == 0) return;
    octets(m.data_length, out.text(", "));
    if (m.block_offset != 0) out.text(", block ").hex(m.block_offset);
  }

 private:
  void request(std::uint64_t id) const { out.text("request ").hex(id); }
  void head(const wire::RequestHead& head) const {
    request(head.request_id);
    out.text(", handle ").number(head.handle);
    if (head.generation != 0) out.text(" generation ").number(head.generation);
  }
  void data(std::string_view before, const wire::DataDescriptor& buffer) const {
    octets(buffer.length, out.text(before)).text(" at ");
    place(buffer.stag, buffer.tagged_offset, out);
  }
  void store(const wire::RequestHead& of, const wire::StoreBody& body) const {
    head(of);
    if (body.inline_data) {
      octets(body.inline_data->size(), out.text(", ")).text(" inline");
    } else {
      data(", from ", body.source);
    }
    flag(body.seal, "SEAL");
    flag(body.invalidate, "INVALIDATE");
    flag(body.record.has_value(), "RECORD");
  }
  void flag(bool set, std::string_view name) const {
    if (set) out.text(", ").text(name);
  }
  void features(const wire::Features& features) const {
    if (features != wire::Features{}) out.text(", ").text(to_string(features));
  }
};

void kbtp_title(const wire::Message& message, Output& out) {
  const std::string_view name = to_string(wire::opcode(message));
  out.colour(Colour::bold).text("KBTP ").text(name).colour(Colour::none);
  out.spaces(name.size() + 5 < kTitleWidth ? kTitleWidth - name.size() - 5 + 2 : 2);
}

/// What can be said of a message that should be KBTP.
void not_kbtp(const Message& message, Output& out) {
  const wire::WireError& error = message.kbtp.error();
  write_title("KBTP ?", Colour::yellow, out);
  octets(message.octets.size(), out).text(", ").colour(Colour::yellow).text(error.what).colour(Colour::none);
  out.text(" (").text(error.rule).text(", octet ").number(error.octet).sign(')');
  if (!error.header) return;
  out.text(", version ").number(error.header->version).text(" opcode ").hex(error.header->opcode, 2);
  out.text(" flags ").hex(error.header->flags, 4).text(" request ").hex(error.header->request_id);
  out.text(" handle ").number(error.header->handle);
  if (error.header->status != 0) out.text(" status ").number(error.header->status);
}

}  // namespace

void write_title(std::string_view text, Colour colour, Output& out) {
  out.colour(colour).text(text).colour(Colour::none);
  out.spaces(text.size() < kTitleWidth ? kTitleWidth - text.size() + 2 : 2);
}

void write_line(const Startup& startup, Output& out) {
  const mpa::StartupFrame& frame = startup.frame;
  const bool request = frame.kind == mpa::StartupKind::request;
  write_title(request ? "MPA Request" : "MPA Reply", Colour::cyan, out);
  if (frame.reject && !request) out.colour(Colour::red).text("REJECTED").colour(Colour::none).text(", ");
  out.text("revision ").number(frame.revision).text(frame.crc ? ", CRC" : ", no CRC");
  out.text(frame.markers ? ", markers" : ", no markers");
  if (frame.enhanced) {
    const mpa::Enhanced& enhanced = *frame.enhanced;
    out.text(", IRD ").number(enhanced.ird).text(" ORD ").number(enhanced.ord);
    if (enhanced.peer_to_peer) {
      out.text(", peer-to-peer, RTR by");
      if (enhanced.rtr_send) out.text(" Send");
      if (enhanced.rtr_write) out.text(" Write");
      if (enhanced.rtr_read) out.text(" Read");
    }
  }
  if (!frame.private_data.empty()) octets(frame.private_data.size(), out.text(", ")).text(" of private data");
  if (const auto guess = startup.guessed_depths())
    out.text(", a guess: IRD ").number(guess->ird).text(" ORD ").number(guess->ord).text(" in them");
}

void write_line(const BadStartup& bad, Output& out) {
  write_title("no MPA start-up", Colour::red, out);
  if (!bad.error) return static_cast<void>(out.text("the stream ends inside a start-up frame"));
  out.text(mpa::to_string(bad.error->rule)).text(" at octet ").number(bad.error->octet);
}

void write_line(const Fpdu& fpdu, Output& out) {
  if (!fpdu.ddp) {
    write_title("FPDU", Colour::yellow, out);
    octets(fpdu.ulpdu_length, out.text("ULPDU of ")).text(" without a DDP header that can be read");
    return oddities(fpdu, out);
  }
  const rdmap::OpcodeFacts* facts = rdmap::find_opcode(fpdu.rdmap.opcode);
  const bool terminate = fpdu.is(rdmap::Opcode::terminate) && fpdu.untagged() != nullptr;
  write_title(facts != nullptr ? facts->name : "unknown RDMAP", terminate ? Colour::red : Colour::blue, out);
  if (facts == nullptr) out.text("opcode ").hex(fpdu.rdmap.opcode).text(", ");
  if (terminate) {
    terminate_line(fpdu, out);
  } else {
    std::visit(HeaderLine{fpdu, out}, fpdu.header);
  }
  oddities(fpdu, out);
}

void write_line(const Message& message, std::uint32_t count, bool kbtp_seen, Output& out) {
  if (message.kbtp) {
    kbtp_title(*message.kbtp, out);
    std::visit(KbtpLine{out}, *message.kbtp);
    if (message.opcode != rdmap::Opcode::send) out.text(", by ").text(rdmap::facts(message.opcode).name);
  } else if (kbtp_seen) {
    not_kbtp(message, out);
  } else {
    write_title(rdmap::facts(message.opcode).name, Colour::blue, out);
    octets(message.octets.size(), out);
    if (message.psn) {
      out.text(", PSN ").number(*message.psn);
    } else {
      out.text(", MSN ").number(message.msn);
    }
    if (message.octets.size() <= kShownOctets && !message.octets.empty())
      out.colour(Colour::dim).text(", ").octets(message.octets).colour(Colour::none);
  }
  if (message.immediate) out.text(", immediate ").hex(*message.immediate, 8);
  if (message.invalidate_stag)
    out.text(message.psn ? ", invalidates R_Key " : ", invalidates STag ").hex(*message.invalidate_stag, 8);
  if (message.psn) {
    if (count > 1) out.text(", ").number(count).text(" packets");
  } else {
    segments(count, out);
  }
}

void write_line(const TcpEnd& end, Output& out) {
  if (end.kind == TcpEnd::Kind::fin) {
    write_title("TCP FIN", Colour::dim, out);
    out.text("sends no more");
  } else {
    write_title("TCP RST", Colour::red, out);
    out.text("resets the connection");
  }
}

void write_line(const Missing& missing, Output& out) {
  write_title("missing", Colour::yellow, out);
  octets(missing.length, out).text(" of the stream are not in the capture");
}

void write_line(const Note& note, Output& out) {
  write_title("note", Colour::yellow, out);
  out.text(note.text);
}

void write_tagged(rdmap::Opcode opcode, std::uint32_t stag, std::uint64_t to, Segments of, bool last,
                  Output& out) {
  write_title(rdmap::facts(opcode).name, Colour::blue, out);
  place(stag, to, octets(of.octets, out).text(" to "));
  segments(of.count, out);
  if (!last) out.text(", its last segment was not seen");
}

void write_send(rdmap::Opcode opcode, std::uint32_t msn, Segments of, bool last, Output& out) {
  write_title(rdmap::facts(opcode).name, Colour::blue, out);
  octets(of.octets, out).text(", MSN ").number(msn);
  segments(of.count, out);
  if (!last) out.text(", its last segment was not seen");
}

}  // namespace kbtp::trace
