#include <fmt/format.h>
#include <string>
#include <string_view>

#include "pcap/event.h"

namespace kbtp::trace {
namespace {

template <class... Fs>
struct Overloaded : Fs... {
  using Fs::operator()...;
};
template <class... Fs>
Overloaded(Fs...) -> Overloaded<Fs...>;

std::string_view text(CrcState crc) {
  switch (crc) {
    case CrcState::good:
      return "CRC good";
    case CrcState::bad:
      return "CRC bad";
    case CrcState::off:
      return "CRC off";
    case CrcState::unknown:
      return "CRC unknown";
  }
  return {};
}

std::string_view text(Extent extent) {
  switch (extent) {
    case Extent::whole:
      return {};
    case Extent::broken_off:
      return ", broken off";
    case Extent::lacking:
      return ", octets lacking in the capture";
  }
  return {};
}

std::string text(const mpa::StartupFrame& frame) {
  std::string line = fmt::format(
      "MPA {} rev {}", frame.kind == mpa::StartupKind::request ? "Request" : "Reply", frame.revision);
  if (frame.markers) line += " M";
  if (frame.crc) line += " C";
  if (frame.reject) line += " R";
  if (frame.enhanced) {
    line += fmt::format(" S, IRD {} ORD {}", frame.enhanced->ird, frame.enhanced->ord);
    if (frame.enhanced->peer_to_peer) {
      line += ", peer-to-peer, RTR by";
      if (frame.enhanced->rtr_send) line += " Send";
      if (frame.enhanced->rtr_write) line += " Write";
      if (frame.enhanced->rtr_read) line += " Read";
    }
  }
  return line + fmt::format(", {} octets of private data", frame.private_data.size());
}

std::string text(const BadStartup& bad) {
  if (!bad.error) return "the stream ends inside a start-up frame";
  return fmt::format("no start-up frame: {} at octet {}", mpa::to_string(bad.error->rule), bad.error->octet);
}

std::string text(const rdmap::Terminate& terminate) {
  const TerminateCode code = terminate.code();
  std::string line =
      fmt::format("{}/{}/{:02x} {}", code.layer, code.error_type, code.error_code, to_string(code));
  if (terminate.control.length_valid)
    line += fmt::format(", M: segment of {} octets", terminate.segment_length);
  if (terminate.control.ddp_header) line += ", D";
  if (terminate.control.rdma_header) line += ", R";
  return line;
}

std::string header_text(const Fpdu& fpdu) {
  return std::visit(
      Overloaded{
          [](std::monostate) { return std::string(); },
          [](const rdmap::ReadRequest& r) {
            return fmt::format(", {} octets from STag {:#010x} TO {:#x} to STag {:#010x} TO {:#x}", r.size,
                               r.source_stag, r.source_to, r.sink_stag, r.sink_to);
          },
          [](const rdmap::Immediate& i) { return fmt::format(", data {:#018x}", i.data); },
          [](const rdmap::AtomicRequest& a) {
            const std::string what = a.operation == rdmap::AtomicOpcode::fetch_add ? "FetchAdd"
                                     : a.operation == rdmap::AtomicOpcode::compare_swap
                                         ? "CmpSwap"
                                         : fmt::format("AOpCode {:#x}", static_cast<unsigned>(a.operation));
            return fmt::format(", {} {} on STag {:#010x} TO {:#x}, data {:#x} mask {:#x}", what,
                               a.request_identifier, a.remote_stag, a.remote_to, a.add_or_swap_data,
                               a.add_or_swap_mask);
          },
          [](const rdmap::AtomicResponse& a) {
            return fmt::format(", of {}, original value {:#x}", a.request_identifier, a.original_value);
          },
          [](const rdmap::Terminate& t) { return ", " + text(t); }},
      fpdu.header);
}

std::string text(const Fpdu& fpdu) {
  std::string line;
  if (!fpdu.ddp) {
    line = fmt::format("FPDU with a ULPDU of {} octets without a DDP header that can be read",
                       fpdu.ulpdu_length);
  } else {
    const rdmap::OpcodeFacts* facts = rdmap::find_opcode(fpdu.rdmap.opcode);
    line = facts != nullptr ? std::string(facts->name) : fmt::format("RDMAP opcode {:#x}", fpdu.rdmap.opcode);
    if (const ddp::TaggedHeader* tagged = fpdu.tagged()) {
      line += fmt::format(" STag {:#010x} TO {:#x}", tagged->stag, tagged->tagged_offset);
    } else {
      const ddp::UntaggedHeader& untagged = *fpdu.untagged();
      line +=
          fmt::format(" QN {} MSN {} MO {}", untagged.queue_number, untagged.msn, untagged.message_offset);
      if (facts != nullptr && facts->invalidates)
        line += fmt::format(" invalidate STag {:#010x}", untagged.rsvdulp_stag);
    }
    line += header_text(fpdu);
    if (std::holds_alternative<std::monostate>(fpdu.header))
      line += fmt::format(", {} octets", fpdu.payload_length);
    if (ddp::is_last(*fpdu.ddp)) line += ", last";
  }
  line += ", ";
  line += text(fpdu.crc);
  line += text(fpdu.extent);
  if (fpdu.error) {
    line += fmt::format("; wrong: {} ({})", fpdu.error->reason, to_string(fpdu.error->code));
  }
  return line;
}

std::string head_text(const wire::RequestHead& head) {
  std::string line = fmt::format("request {:#x} handle {}", head.request_id, head.handle);
  if (head.generation != 0) line += fmt::format(" generation {}", head.generation);
  return line;
}

std::string text(const wire::DataDescriptor& buffer) {
  return fmt::format("{} octets at STag {:#010x} TO {:#x}", buffer.length, buffer.stag, buffer.tagged_offset);
}

std::string text(const wire::StoreBody& body) {
  std::string line = body.inline_data ? fmt::format("{} octets inline", body.inline_data->size())
                                      : "from " + text(body.source);
  if (body.seal) line += ", SEAL";
  if (body.invalidate) line += ", INVALIDATE";
  return line;
}

/// The name of a status, or its number when it has no name.
std::string text(wire::Status status, std::uint16_t code) {
  return status == wire::Status::unassigned ? fmt::format("status {}", code) : std::string(to_string(status));
}

std::string text(const Message& message) {
  std::string line;
  if (message.kbtp) {
    line = "KBTP " + describe(*message.kbtp);
  } else {
    line = fmt::format("message of {} octets that is not KBTP: {}", message.octets.size(),
                       message.kbtp.error().what);
  }
  if (message.psn) return line + fmt::format(" (PSN {})", *message.psn);
  return line + fmt::format(" (QN 0 MSN {})", message.msn);
}

std::string_view text(IcrcState icrc) {
  switch (icrc) {
    case IcrcState::good:
      return "ICRC good";
    case IcrcState::bad:
      return "ICRC bad";
    case IcrcState::unknown:
      return "ICRC unknown";
  }
  return {};
}

std::string text(const IbPacket& ib) {
  const ib::Packet& packet = ib.packet;
  std::string line = fmt::format("{} QP {:#x} PSN {}", to_string(packet.bth.opcode),
                                 packet.bth.destination_qp, packet.bth.psn);
  if (packet.reth)
    line += fmt::format(", {} octets at R_Key {:#010x} VA {:#x}", packet.reth->dma_length,
                        packet.reth->remote_key, packet.reth->virtual_address);
  if (packet.atomic)
    line +=
        fmt::format(", R_Key {:#010x} VA {:#x}", packet.atomic->remote_key, packet.atomic->virtual_address);
  if (packet.aeth) line += fmt::format(", {}, MSN {}", describe(*packet.aeth), packet.aeth->msn);
  if (packet.atomic_original) line += fmt::format(", original value {:#x}", *packet.atomic_original);
  if (packet.immediate) line += fmt::format(", immediate {:#010x}", *packet.immediate);
  if (packet.payload_length != 0) line += fmt::format(", payload of {} octets", packet.payload_length);
  line += fmt::format(", {}", text(ib.icrc));
  if (ib.error != nullptr) line += fmt::format("; wrong: {}", ib.error);
  return line;
}

std::string text(const ib::CmMessage& cm) {
  std::string line =
      fmt::format("CM {} ID {:#010x} > {:#010x}", to_string(cm.kind), cm.local_id, cm.remote_id);
  if (cm.qp) line += fmt::format(", QP {:#x}", *cm.qp);
  if (cm.reject_reason) line += fmt::format(", reason {}", *cm.reject_reason);
  return line;
}

}  // namespace

std::string describe(const wire::Message& message) {
  const std::string name(to_string(wire::opcode(message)));
  return std::visit(
      Overloaded{
          [&](const wire::Hello& m) {
            return fmt::format("{} request {:#x}, features {}, {} requests, quota {}, {} handles", name,
                               m.request_id, to_string(m.wanted), m.max_requests, m.quota, m.handle_count);
          },
          [&](const wire::HelloAck& m) {
            return fmt::format(
                "{} request {:#x} {}, features {}, {} requests, block size {}, quota {}, handles {}+{}", name,
                m.request_id, text(m.status, m.status_code), to_string(m.granted), m.max_requests,
                m.block_size, m.quota, m.base_handle, m.handle_count);
          },
          [&](const wire::Load& m) {
            return fmt::format("{} {}, to {}{}{}", name, head_text(m.head), text(m.destination),
                               m.invalidate ? ", INVALIDATE" : "",
                               m.allow_unsealed ? ", ALLOW_UNSEALED" : "");
          },
          [&](const wire::Store& m) {
            return fmt::format("{} {}, {}", name, head_text(m.head), text(m.body));
          },
          [&](const wire::AllocStore& m) {
            return fmt::format("{} {}, {}", name, head_text(m.head), text(m.body));
          },
          [&](const wire::Free& m) { return fmt::format("{} {}", name, head_text(m.head)); },
          [&](const wire::Bind& m) {
            return fmt::format("{} {}, ticket {}, {} octets, block {:#x}{}", name, head_text(m.head),
                               m.ticket, m.data_length, m.block_offset, m.seal ? ", SEAL" : "");
          },
          [&](const wire::Completion& m) {
            return fmt::format("{} request {:#x} handle {} {}, generation {}, {} octets, block {:#x}", name,
                               m.request_id, m.handle, text(m.status, m.status_code), m.generation,
                               m.data_length, m.block_offset);
          }},
      message);
}

std::string describe(const Event& event) {
  return std::visit(
      Overloaded{
          [](const Startup& e) { return text(e.frame); }, [](const BadStartup& e) { return text(e); },
          [](const Fpdu& e) { return text(e); }, [](const Message& e) { return text(e); },
          [](const TcpEnd& e) { return std::string(e.kind == TcpEnd::Kind::fin ? "TCP FIN" : "TCP RST"); },
          [](const Missing& e) { return fmt::format("{} octets are lacking in the capture", e.length); },
          [](const Note& e) { return e.text; }, [](const IbPacket& e) { return text(e); },
          [](const CmMessage& e) { return text(e.cm); }},
      event.what);
}

std::string to_line(const Event& event, std::int64_t start_ns) {
  const double seconds = static_cast<double>(event.frame.time_ns - start_ns) / 1e9;
  return fmt::format("#{} {:+.6f} {}: {}", event.frame.number, seconds,
                     event.from == Side::client ? "client" : "server", describe(event));
}

}  // namespace kbtp::trace
