// One line of an InfiniBand packet, or of several that make up a message, and of a Communication Manager's
// message.

#include <algorithm>
#include <array>

#include "pcap/fields.h"
#include "pcap/line_text.h"

namespace kbtp::trace {
namespace {

constexpr std::size_t kShownOctets = 16;  ///< of private data

Output& octets(std::uint64_t n, Output& out) { return out.number(n).text(n == 1 ? " octet" : " octets"); }
Output& place(std::uint32_t key, std::uint64_t address, Output& out) {
  return out.text("R_Key ").hex(key, 8).text(" VA ").hex(address);
}

/// The name of the operation, of several packets without their places: "RDMA Write" for its First.
std::string_view name_of(const ib::Opcode& opcode, bool whole) {
  if (opcode.value == ib::kCongestionNotification) return "CNP";
  const ib::OperationFacts* facts = opcode.facts();
  if (facts == nullptr) return "reserved opcode";
  using enum ib::Operation;
  if (!whole) return facts->name;
  switch (facts->operation) {
    case send_first:
    case send_middle:
    case send_last:
    case send_only:
      return "Send";
    case send_last_immediate:
    case send_only_immediate:
      return "Send w/ Immediate";
    case send_last_invalidate:
    case send_only_invalidate:
      return "Send w/ Invalidate";
    case write_first:
    case write_middle:
    case write_last:
    case write_only:
      return "RDMA Write";
    case write_last_immediate:
    case write_only_immediate:
      return "Write w/ Immediate";
    case read_request:
      return "RDMA Read Request";
    case read_response_first:
    case read_response_middle:
    case read_response_last:
    case read_response_only:
      return "RDMA Read Response";
    case acknowledge:
    case atomic_acknowledge:
    case compare_swap:
    case fetch_add:
    case resync:
      return facts->name;
  }
  return facts->name;
}

void service(const ib::Opcode& opcode, Output& out) {
  if (opcode.service() != ib::Service::reliable_connection && opcode.value != ib::kCongestionNotification)
    out.text(to_string(opcode.service())).text(", ");
}

void headers(const ib::Packet& packet, Output& out) {
  if (packet.deth) out.text(", from QP ").hex(packet.deth->source_qp);
  if (packet.reth) place(packet.reth->remote_key, packet.reth->virtual_address, out.text(", at "));
  if (packet.atomic) {
    const ib::OperationFacts* facts = packet.bth.opcode.facts();
    out.text(", ").hex(packet.atomic->swap_or_add);
    if (facts != nullptr && facts->operation == ib::Operation::compare_swap)
      out.text(" if ").hex(packet.atomic->compare);
    place(packet.atomic->remote_key, packet.atomic->virtual_address, out.text(" at "));
  }
  if (packet.aeth && packet.aeth->kind() != ib::Aeth::Kind::ack)
    out.text(", ").colour(Colour::red).text(describe(*packet.aeth)).colour(Colour::none);
  if (packet.atomic_original) out.text(", was ").hex(*packet.atomic_original);
  if (packet.immediate) out.text(", immediate ").hex(*packet.immediate, 8);
  if (packet.invalidated_key) out.text(", invalidates R_Key ").hex(*packet.invalidated_key, 8);
}

Colour colour_of(const ib::OperationFacts* facts) {
  if (facts == nullptr) return Colour::yellow;
  return facts->operation == ib::Operation::acknowledge ? Colour::dim : Colour::blue;
}

}  // namespace

void write_line(const IbPacket& ib, Output& out) {
  const ib::Packet& packet = ib.packet;
  const ib::OperationFacts* facts = ib.facts();
  const bool whole = facts == nullptr || facts->place == ib::Place::only;
  write_title(name_of(packet.bth.opcode, whole), colour_of(facts), out);
  if (facts == nullptr && packet.bth.opcode.value != ib::kCongestionNotification)
    out.hex(packet.bth.opcode.value, 2).text(", ");
  service(packet.bth.opcode, out);
  if (facts != nullptr && facts->operation == ib::Operation::read_request && packet.reth) {
    octets(packet.reth->dma_length, out).text(", ");
  } else if (facts != nullptr && facts->payload) {
    octets(packet.payload_length, out).text(", ");
  }
  out.text("PSN ").number(packet.bth.psn);
  headers(packet, out);
  if (ib.icrc == IcrcState::bad) out.text(", ").colour(Colour::red).text("ICRC bad").colour(Colour::none);
  if (ib.error != nullptr) out.text(", ").colour(Colour::red).text(ib.error).colour(Colour::none);
}

void write_packets(const ib::Packet& first, const ib::Packet& last, Segments of, Output& out) {
  write_title(name_of(last.bth.opcode, true), Colour::blue, out);
  service(last.bth.opcode, out);
  octets(of.octets, out).text(", PSN ").number(first.bth.psn);
  if (of.count > 1) out.text(" to ").number(last.bth.psn);
  headers(first, out);
  if (of.count == 1) return;
  if (last.immediate) out.text(", immediate ").hex(*last.immediate, 8);
  if (last.invalidated_key) out.text(", invalidates R_Key ").hex(*last.invalidated_key, 8);
  const ib::OperationFacts* facts = last.bth.opcode.facts();
  if (facts != nullptr && facts->place != ib::Place::last) out.text(", its last packet was not seen");
}

void write_line(const CmMessage& message, Output& out) {
  const ib::CmMessage& cm = message.cm;
  const std::string_view name = to_string(cm.kind);
  const bool rejected = cm.kind == ib::CmKind::connect_reject;
  constexpr std::size_t kLongest = 4;
  std::array<char, 3 + kLongest> title{'C', 'M', ' '};
  const std::size_t size = std::min(name.size(), kLongest);
  std::copy_n(name.data(), size, title.data() + 3);
  write_title({title.data(), 3 + size}, rejected ? Colour::red : Colour::cyan, out);
  out.text("ID ").hex(cm.local_id, 8);
  if (cm.kind != ib::CmKind::connect_request) out.text(" to ").hex(cm.remote_id, 8);
  if (cm.reject_reason) {
    const std::string_view why = ib::describe_reject(*cm.reject_reason);
    out.text(", ").colour(Colour::red);
    if (why.empty()) {
      out.text("reason ").number(*cm.reject_reason);
    } else {
      out.text(why);
    }
    out.colour(Colour::none);
  }
  if (cm.qp) out.text(", QP ").hex(*cm.qp);
  if (cm.starting_psn) out.text(", PSNs from ").number(*cm.starting_psn);
  if (cm.path_mtu) out.text(", MTU ").number(ib::path_mtu_octets(*cm.path_mtu));
  if (cm.responder_resources && cm.initiator_depth)
    out.text(", Reads: answers ")
        .number(*cm.responder_resources)
        .text(" at once, asks ")
        .number(*cm.initiator_depth);
  if (cm.ip) out.text(", port ").number(cm.ip->destination_port);
  const Octets data = without_zeros(cm.private_data);
  if (data.empty()) return;
  octets(data.size(), out.text(", ")).text(" of private data");
  if (data.size() <= kShownOctets) out.colour(Colour::dim).text(": ").octets(data).colour(Colour::none);
}

}  // namespace kbtp::trace
