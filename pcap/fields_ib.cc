// Fields of InfiniBand packets, header by header, and of messages of the Communication Manager.

#include <cstring>
#include <utility>

#include "pcap/fields.h"

namespace kbtp::trace {
namespace {

constexpr std::array<std::string_view, 3> kIcrcStates{"good", "bad", "unknown"};
constexpr std::array<std::string_view, 4> kOrders{"unchecked", "in-order", "repeated", "gap"};
constexpr std::array<std::string_view, 6> kServices{"RC", "UC", "RD", "UD", "CNP", "XRC"};
constexpr std::array<std::string_view, 4> kAcks{"ACK", "RNR NAK", "reserved", "NAK"};
constexpr std::array<std::string_view, 7> kCmKinds{"REQ", "MRA", "REJ", "REP", "RTU", "DREQ", "DREP"};
constexpr auto kOperationNames = [] {
  std::array<std::string_view, ib::kOperations.size() + 1> names;
  for (std::size_t i = 0; i < ib::kOperations.size(); ++i) names[i] = ib::kOperations[i].name;
  names.back() = "CNP";
  return names;
}();

using enum Kind;
using enum Base;

constexpr std::array kFields{
    FieldInfo{"ib.service", number, "transport service: the OpCode's upper three bits (IBTA 9.2.1)", decimal,
              0, kServices},
    FieldInfo{"ib.bth.opcode", number, "OpCode (IBTA 9.2.1)", hex8, 0, kOperationNames},
    FieldInfo{"ib.bth.se", boolean, "SE: the receiver is to be told (IBTA 9.2.3)"},
    FieldInfo{"ib.bth.migration", boolean, "MigReq (IBTA 9.2.4)"},
    FieldInfo{"ib.bth.pad", number, "PadCnt: octets between payload and ICRC (IBTA 9.2.5)"},
    FieldInfo{"ib.bth.version", number, "TVer (IBTA 9.2.6)"},
    FieldInfo{"ib.bth.p_key", number, "Partition Key (IBTA 9.2.7)", hex16},
    FieldInfo{"ib.bth.fecn", boolean, "FECN (IBTA Annex A17)"},
    FieldInfo{"ib.bth.becn", boolean, "BECN (IBTA Annex A17)"},
    FieldInfo{"ib.bth.qp", number, "destination queue pair (IBTA 9.2.8)", hex},
    FieldInfo{"ib.source_qp", number, "queue pair of the sender, as learnt", hex},
    FieldInfo{"ib.bth.ack_request", boolean, "AckReq (IBTA 9.2.9)"},
    FieldInfo{"ib.bth.psn", number, "Packet Sequence Number (IBTA 9.2.10)"},
    FieldInfo{"ib.order", text, "where the PSN of a request or a datagram stands", decimal, 0, kOrders},
    FieldInfo{"ib.missing_psns", number, "PSNs in front of it that were not seen"},
    FieldInfo{"ib.rdeth.ee", number, "RDETH: end-to-end context (IBTA 9.3.1)", hex},
    FieldInfo{"ib.deth.q_key", number, "DETH: Queue Key (IBTA 9.3.2)", hex32},
    FieldInfo{"ib.deth.source_qp", number, "DETH: queue pair of the sender (IBTA 9.3.2)", hex},
    FieldInfo{"ib.xrceth.srq", number, "XRCETH: shared receive queue (IBTA A14.3.1)", hex},
    FieldInfo{"ib.reth.va", number, "RETH: Virtual Address (IBTA 9.3.3)", hex64},
    FieldInfo{"ib.reth.r_key", number, "RETH: R_Key (IBTA 9.3.3)", hex32},
    FieldInfo{"ib.reth.dma_length", number, "RETH: octets of the whole message (IBTA 9.3.3)"},
    FieldInfo{"ib.atomic.va", number, "AtomicETH: Virtual Address (IBTA 9.3.4)", hex64},
    FieldInfo{"ib.atomic.r_key", number, "AtomicETH: R_Key (IBTA 9.3.4)", hex32},
    FieldInfo{"ib.atomic.swap_or_add", number, "AtomicETH: Swap or Add Data (IBTA 9.3.4)", hex64},
    FieldInfo{"ib.atomic.compare", number, "AtomicETH: Compare Data (IBTA 9.3.4)", hex64},
    FieldInfo{"ib.aeth.syndrome", number, "AETH: Syndrome (IBTA 9.3.5)", hex8},
    FieldInfo{"ib.aeth.kind", text, "what the Syndrome's upper bits say (IBTA 9.7.5.2)", decimal, 0, kAcks},
    FieldInfo{"ib.aeth.meaning", text, "what the Syndrome says"},
    FieldInfo{"ib.aeth.msn", number, "AETH: Message Sequence Number (IBTA 9.3.5)"},
    FieldInfo{"ib.atomic.original", number, "AtomicAckETH: the word before (IBTA 9.5.3)", hex64},
    FieldInfo{"ib.imm.data", number, "Immediate Data (IBTA 9.3.6)", hex32},
    FieldInfo{"ib.ieth.r_key", number, "IETH: R_Key that is invalidated (IBTA 9.3.7)", hex32},
    FieldInfo{"ib.payload_length", number, "octets of payload, on the wire"},
    FieldInfo{"ib.icrc", text, "verdict on the ICRC (IBTA 7.8.1)", decimal, 0, kIcrcStates},
    FieldInfo{"ib.icrc.value", number, "the ICRC field, its first octet the least significant", hex32},
    FieldInfo{"ib.malformed", text, "why the headers behind the BTH cannot be read"},
    FieldInfo{"cm.message", number, "Attribute ID: which message (IBTA 12.6)", hex16, 0, kCmKinds},
    FieldInfo{"cm.transaction", number, "Transaction ID of the MAD (IBTA 13.4.3)", hex64},
    FieldInfo{"cm.repeats", number, "the frame in which its sender said the same before"},
    FieldInfo{"cm.local_id", number, "Communication ID of the sender", hex32},
    FieldInfo{"cm.remote_id", number, "Communication ID of the receiver", hex32},
    FieldInfo{"cm.service_id", number, "REQ: Service ID (IBTA 12.7.3)", hex64},
    FieldInfo{"cm.local_qp", number, "REQ, REP: the sender's queue pair; DREQ: the receiver's", hex},
    FieldInfo{"cm.starting_psn", number, "PSN with which the receiver is to begin (IBTA 12.7.31)"},
    FieldInfo{"cm.responder_resources", number,
              "REQ, REP: Reads and Atomics that the sender answers at once"},
    FieldInfo{"cm.initiator_depth", number, "REQ, REP: Reads and Atomics that the sender has outstanding"},
    FieldInfo{"cm.path_mtu", number, "REQ: octets of payload in a packet (IBTA 12.7.11)"},
    FieldInfo{"cm.retry_count", number, "REQ: Retry Count"},
    FieldInfo{"cm.rnr_retry_count", number, "REQ, REP: RNR Retry Count"},
    FieldInfo{"cm.reject_reason", number, "REJ: why (IBTA Table 110)"},
    FieldInfo{"cm.reject_meaning", text, "REJ: the reason in words"},
    FieldInfo{"cm.ip.source", text, "REQ of librdmacm: address and port (IBTA Annex A11)"},
    FieldInfo{"cm.ip.destination", text, "REQ of librdmacm: address and port (IBTA Annex A11)"},
    FieldInfo{"cm.user_data", octets, "private data of the ULP, without zeros at its end"},
};

consteval const FieldInfo* f(std::string_view name) { return field_of(kFields, name); }

Place at(std::size_t offset, std::size_t size) {
  return {static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(size)};
}

void add_bth(const IbPacket& ib, Record& record) {
  const ib::Bth& bth = ib.packet.bth;
  const ib::OperationFacts* facts = ib.facts();
  const std::string_view name = bth.opcode.value == ib::kCongestionNotification ? "CNP"
                                : facts != nullptr                              ? facts->name
                                                                                : std::string_view();
  record.add(number_field(f("ib.service"), bth.opcode.value >> 5, at(0, 1), to_string(bth.opcode.service())));
  record.add(number_field(f("ib.bth.opcode"), bth.opcode.value, at(0, 1), name));
  record.add(boolean_field(f("ib.bth.se"), bth.solicited_event, at(1, 1)));
  record.add(boolean_field(f("ib.bth.migration"), bth.migration, at(1, 1)));
  record.add(number_field(f("ib.bth.pad"), bth.pad_count, at(1, 1)));
  record.add(number_field(f("ib.bth.version"), bth.transport_version, at(1, 1)));
  record.add(number_field(f("ib.bth.p_key"), bth.partition_key, at(2, 2)));
  record.add(boolean_field(f("ib.bth.fecn"), bth.fecn, at(4, 1)));
  record.add(boolean_field(f("ib.bth.becn"), bth.becn, at(4, 1)));
  record.add(number_field(f("ib.bth.qp"), bth.destination_qp, at(5, 3)));
  if (ib.source_qp) record.add(number_field(f("ib.source_qp"), *ib.source_qp));
  record.add(boolean_field(f("ib.bth.ack_request"), bth.acknowledge_request, at(8, 1)));
  record.add(number_field(f("ib.bth.psn"), bth.psn, at(9, 3)));
  record.add(text_field(f("ib.order"), kOrders[static_cast<std::size_t>(ib.order)]));
  if (ib.order == PsnOrder::gap) record.add(number_field(f("ib.missing_psns"), ib.missing_psns));
}

/// In the order in which they stand in a packet.
void add_extended(const ib::Packet& packet, Record& record) {
  std::size_t next = ib::kBthSize;
  const auto begin = [&next](std::size_t size) { return std::exchange(next, next + size); };
  if (packet.ee_context) record.add(number_field(f("ib.rdeth.ee"), *packet.ee_context, at(begin(4) + 1, 3)));
  if (packet.deth) {
    const std::size_t o = begin(ib::kDethSize);
    record.add(number_field(f("ib.deth.q_key"), packet.deth->queue_key, at(o, 4)));
    record.add(number_field(f("ib.deth.source_qp"), packet.deth->source_qp, at(o + 5, 3)));
  }
  if (packet.xrc_srq) record.add(number_field(f("ib.xrceth.srq"), *packet.xrc_srq, at(begin(4) + 1, 3)));
  if (packet.reth) {
    const std::size_t o = begin(ib::kRethSize);
    record.add(number_field(f("ib.reth.va"), packet.reth->virtual_address, at(o, 8)));
    record.add(number_field(f("ib.reth.r_key"), packet.reth->remote_key, at(o + 8, 4)));
    record.add(number_field(f("ib.reth.dma_length"), packet.reth->dma_length, at(o + 12, 4)));
  }
  if (packet.atomic) {
    const std::size_t o = begin(ib::kAtomicEthSize);
    record.add(number_field(f("ib.atomic.va"), packet.atomic->virtual_address, at(o, 8)));
    record.add(number_field(f("ib.atomic.r_key"), packet.atomic->remote_key, at(o + 8, 4)));
    record.add(number_field(f("ib.atomic.swap_or_add"), packet.atomic->swap_or_add, at(o + 12, 8)));
    record.add(number_field(f("ib.atomic.compare"), packet.atomic->compare, at(o + 20, 8)));
  }
  if (packet.aeth) {
    const ib::Aeth& aeth = *packet.aeth;
    const std::size_t o = begin(ib::kAethSize);
    record.add(number_field(f("ib.aeth.syndrome"), aeth.syndrome, at(o, 1)));
    record.add(text_field(f("ib.aeth.kind"), kAcks[static_cast<std::size_t>(aeth.kind())], at(o, 1)));
    record.add(text_field(f("ib.aeth.meaning"), describe(aeth), at(o, 1)));
    record.add(number_field(f("ib.aeth.msn"), aeth.msn, at(o + 1, 3)));
  }
  if (packet.atomic_original)
    record.add(number_field(f("ib.atomic.original"), *packet.atomic_original, at(begin(8), 8)));
  if (packet.immediate) record.add(number_field(f("ib.imm.data"), *packet.immediate, at(begin(4), 4)));
  if (packet.invalidated_key)
    record.add(number_field(f("ib.ieth.r_key"), *packet.invalidated_key, at(begin(4), 4)));
}

std::string text_of(const ib::IpAddressing& ip, const std::array<std::byte, 16>& host, std::uint16_t port) {
  TransportAddress address;
  address.v6 = ip.version == 6;
  const std::size_t size = address.v6 ? 16 : 4;
  std::memcpy(address.host.data(), host.data() + host.size() - size, size);
  address.port = port;
  return address.to_string();
}

}  // namespace

std::span<const FieldInfo> ib_fields() { return kFields; }

void add_ib_packet(const IbPacket& ib, Octets packet, Record& record) {
  add_bth(ib, record);
  if (ib.error != nullptr) return record.add(text_field(f("ib.malformed"), ib.error));
  add_extended(ib.packet, record);
  record.add(number_field(f("ib.payload_length"), ib.packet.payload_length,
                          at(ib.packet.header_length, ib.packet.payload.size())));
  const Place icrc = ib.packet.icrc ? at(packet.size() - ib::kIcrcSize, ib::kIcrcSize) : Place{};
  record.add(text_field(f("ib.icrc"), kIcrcStates[static_cast<std::size_t>(ib.icrc)], icrc));
  if (ib.packet.icrc) record.add(number_field(f("ib.icrc.value"), *ib.packet.icrc, icrc));
}

void add_cm(const CmMessage& message, Octets mad, Record& record, TextStore& texts) {
  constexpr std::size_t d = ib::kMadHeaderSize;  // the message begins here
  const ib::CmMessage& cm = message.cm;
  const bool request = cm.kind == ib::CmKind::connect_request;
  const bool reply = cm.kind == ib::CmKind::connect_reply;
  record.add(
      number_field(f("cm.message"), static_cast<std::uint16_t>(cm.kind), at(16, 2), to_string(cm.kind)));
  record.add(number_field(f("cm.transaction"), cm.transaction, at(8, 8)));
  if (message.repeats) record.add(number_field(f("cm.repeats"), *message.repeats));
  record.add(number_field(f("cm.local_id"), cm.local_id, at(d, 4)));
  if (!request) record.add(number_field(f("cm.remote_id"), cm.remote_id, at(d + 4, 4)));
  // IBTA 12.6.5 for a REQ, 12.6.8 for a REP, 12.6.11 for a DREQ.
  const auto add = [&](const FieldInfo* info, const auto& value, std::size_t in_request, std::size_t in_reply,
                       std::size_t size) {
    if (value) record.add(number_field(info, *value, at(d + (request ? in_request : in_reply), size)));
  };
  add(f("cm.service_id"), cm.service_id, 8, 8, 8);
  add(f("cm.local_qp"), cm.qp, 32, reply ? 12 : 8, 3);
  add(f("cm.starting_psn"), cm.starting_psn, 44, 20, 3);
  add(f("cm.responder_resources"), cm.responder_resources, 35, 24, 1);
  add(f("cm.initiator_depth"), cm.initiator_depth, 39, 25, 1);
  if (cm.path_mtu)
    record.add(number_field(f("cm.path_mtu"), ib::path_mtu_octets(*cm.path_mtu), at(d + 50, 1)));
  add(f("cm.retry_count"), cm.retry_count, 47, 47, 1);
  add(f("cm.rnr_retry_count"), cm.rnr_retry_count, 50, 27, 1);
  if (cm.reject_reason) {
    record.add(number_field(f("cm.reject_reason"), *cm.reject_reason, at(d + 10, 2)));
    record.add(text_field(f("cm.reject_meaning"), ib::describe_reject(*cm.reject_reason), at(d + 10, 2)));
  }
  const auto begin = static_cast<std::size_t>(cm.private_data.data() - mad.data());
  if (cm.ip) {
    const std::size_t ip = begin - ib::kIpAddressingSize;
    record.add(text_field(f("cm.ip.source"), texts.keep(text_of(*cm.ip, cm.ip->source, cm.ip->source_port)),
                          at(ip + 2, 18)));
    record.add(text_field(f("cm.ip.destination"),
                          texts.keep(text_of(*cm.ip, cm.ip->destination, cm.ip->destination_port)),
                          at(ip + 20, 16)));
  }
  const Octets used = without_zeros(cm.private_data);
  if (!used.empty()) record.add(octets_field(f("cm.user_data"), used, at(begin, used.size())));
}

Octets without_zeros(Octets octets) {
  while (!octets.empty() && octets.back() == std::byte{0}) octets = octets.first(octets.size() - 1);
  return octets;
}

}  // namespace kbtp::trace
