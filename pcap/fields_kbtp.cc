// Fields of whole messages: what carried them, and KBTP in them (5.1 to 6.6 of the draft). Offsets count in
// the message, whatever segments it came in.

#include <variant>

#include "pcap/fields.h"
#include "proto/wire/message.h"
#include "rdmap_binding/rdmap/opcode.h"

namespace kbtp::trace {
namespace {

constexpr std::array<std::string_view, 4> kCarriers{"Send", "Send with Invalidate", "Send with SE",
                                                    "Send with SE and Invalidate"};
constexpr std::array<std::string_view, wire::kOpcodeCount> kOpcodes{
    "HELLO", "HELLO_ACK", "LOAD", "STORE", "ALLOC_STORE", "FREE", "BIND", "COMPLETION"};
constexpr std::array<std::string_view, wire::kStatusCount> kStatuses{
    "SUCCESS",        "INVALID_REQUEST", "UNSUPPORTED_VERSION", "UNSUPPORTED_OPCODE",
    "NO_SUCH_HANDLE", "NOT_OWNER",       "NOT_BOUND",           "ALREADY_BOUND",
    "NOT_SEALED",     "SEALED",          "GENERATION_MISMATCH", "LENGTH_ERROR",
    "NO_SPACE",       "INVALID_TICKET",  "TICKET_ABANDONED",    "NO_RESOURCES",
    "ACCESS_DENIED",  "TARGET_ERROR"};

using enum Kind;
using enum Base;

constexpr std::array kFields{
    FieldInfo{"message.carrier", text, "the kind of Send that brought it (RFC 5040 4.2)", decimal, 0,
              kCarriers},
    FieldInfo{"message.msn", number, "its Message Sequence Number (RFC 5041 4.3)"},
    FieldInfo{"message.first_psn", number, "InfiniBand: PSN of its first packet (IBTA 9.2.10)"},
    FieldInfo{"message.immediate", number, "InfiniBand: Immediate Data (IBTA 9.3.6)", hex32},
    FieldInfo{"message.invalidate_stag", number, "Invalidate STag (RFC 5040 4.1) or R_Key (IBTA 9.3.7)",
              hex32},
    FieldInfo{"message.length", number, "octets, over all its segments"},
    FieldInfo{"message.octets", octets, "of a message that is not KBTP, the first 64"},
    FieldInfo{"kbtp.version", number, "Version (KBTP 5.1)"},
    FieldInfo{"kbtp.op", number, "Opcode (KBTP 5.1)", hex8, 0, kOpcodes},
    FieldInfo{"kbtp.flags", number, "Flags of a request or a COMPLETION (KBTP 5.1)", hex16},
    FieldInfo{"kbtp.features", number, "Flags of HELLO, wanted, and of HELLO_ACK, granted", hex16},
    FieldInfo{"kbtp.request_id", number, "Request ID (KBTP 5.1)", hex},
    FieldInfo{"kbtp.handle", number, "Block Handle; of HELLO and HELLO_ACK the base handle (KBTP 5.1)"},
    FieldInfo{"kbtp.generation", number, "Generation (KBTP 5.1)"},
    FieldInfo{"kbtp.status", number, "Status (KBTP 5.1)", decimal, 0, kStatuses},
    FieldInfo{"kbtp.data.stag", number, "STag of the Data Descriptor (KBTP 5.2)", hex32},
    FieldInfo{"kbtp.data.to", number, "Tagged Offset of the Data Descriptor (KBTP 5.2)", hex64},
    FieldInfo{"kbtp.data.length", number, "Length of the Data Descriptor (KBTP 5.2)"},
    FieldInfo{"kbtp.record.stag", number, "STag of the Completion Descriptor (KBTP 5.2)", hex32},
    FieldInfo{"kbtp.record.to", number, "Tagged Offset of the Completion Descriptor (KBTP 5.2)", hex64},
    FieldInfo{"kbtp.inline_length", number, "octets of inline data (KBTP 5.2)"},
    FieldInfo{"kbtp.ticket", number, "Ticket of a BIND (KBTP 6.6)"},
    FieldInfo{"kbtp.data_length", number, "Data Length of a BIND or a COMPLETION (KBTP 6.5, 6.6)"},
    FieldInfo{"kbtp.block_offset", number, "Block Offset of a BIND or a COMPLETION (KBTP 6.5, 6.6)", hex64},
    FieldInfo{"kbtp.chosen_version", number, "HELLO_ACK: Version of the session"},
    FieldInfo{"kbtp.min_version", number, "HELLO, HELLO_ACK: Min Version"},
    FieldInfo{"kbtp.max_version", number, "HELLO, HELLO_ACK: Max Version"},
    FieldInfo{"kbtp.ring_log2", number, "HELLO_ACK: n of a direct ring of 2^n slots; 0: none"},
    FieldInfo{"kbtp.max_requests", number, "HELLO, HELLO_ACK: requests at once"},
    FieldInfo{"kbtp.receive_size", number, "HELLO: largest Send that the initiator takes"},
    FieldInfo{"kbtp.max_inline", number, "HELLO_ACK: most inline data; 0: none"},
    FieldInfo{"kbtp.block_size", number, "HELLO_ACK: octets of a block"},
    FieldInfo{"kbtp.handle_count", number, "HELLO, HELLO_ACK: handles of the own range"},
    FieldInfo{"kbtp.identity", text, "HELLO: who the initiator says that it is, a UUID"},
    FieldInfo{"kbtp.table_base_handle", number, "HELLO_ACK: first handle of the table"},
    FieldInfo{"kbtp.table_handle_count", number, "HELLO_ACK: handles of the table"},
    FieldInfo{"kbtp.pool_blocks", number, "HELLO_ACK: blocks of the pool"},
    FieldInfo{"kbtp.quota", number, "HELLO, HELLO_ACK: Allocation Quota in blocks"},
    FieldInfo{"kbtp.usage", number, "HELLO_ACK: blocks in use by the own range"},
    FieldInfo{"kbtp.ticket_timeout_ms", number, "HELLO_ACK: Ticket Timeout"},
    FieldInfo{"kbtp.table_stag", number, "HELLO_ACK: STag of the table", hex32},
    FieldInfo{"kbtp.table_offset", number, "HELLO_ACK: Tagged Offset of the table", hex64},
    FieldInfo{"kbtp.pool_stag", number, "HELLO_ACK: STag of the pool", hex32},
    FieldInfo{"kbtp.partition_stag", number, "HELLO_ACK: STag of the direct partition", hex32},
    FieldInfo{"kbtp.ring_stag", number, "HELLO_ACK: STag of the ring", hex32},
    FieldInfo{"kbtp.head_stag", number, "HELLO_ACK: STag of the Head counter", hex32},
    FieldInfo{"kbtp.ring_offset", number, "HELLO_ACK: Tagged Offset of the ring", hex64},
    FieldInfo{"kbtp.head_offset", number, "HELLO_ACK: Tagged Offset of the Head counter", hex64},
    FieldInfo{"kbtp.pool_offset", number, "HELLO_ACK: first Tagged Offset of the pool", hex64},
    FieldInfo{"kbtp.pool_length", number, "HELLO_ACK: octets of the pool"},
    FieldInfo{"kbtp.partition_offset", number, "HELLO_ACK: first Tagged Offset of the partition", hex64},
    FieldInfo{"kbtp.partition_length", number, "HELLO_ACK: octets of the partition"},
    FieldInfo{"kbtp.error", text, "why the octets are no KBTP message"},
    FieldInfo{"kbtp.error_rule", text, "the rule that they break"},
    FieldInfo{"kbtp.error_octet", number, "where, in octets from the start of the message"},
};

consteval const FieldInfo* f(std::string_view name) { return field_of(kFields, name); }

constexpr std::size_t kShownOctets = 64;

Place at(std::size_t offset, std::size_t size) {
  return {static_cast<std::uint32_t>(offset), static_cast<std::uint32_t>(size)};
}

/// Fills the fields of one message.
class Filler {
 public:
  Filler(Octets octets, const wire::Assignment& assignment, Record& record, TextStore& texts)
      : octets_(octets), assignment_(assignment), record_(record), texts_(texts) {}

  /// 5.1. Also of messages that cannot be decoded any further.
  void header(const wire::Header& header) {
    const auto opcode = assignment_.opcode(header.opcode);
    const bool hello = opcode == wire::Opcode::hello || opcode == wire::Opcode::hello_ack;
    record_.add(number_field(f("kbtp.op"), header.opcode, at(1, 1),
                             opcode ? to_string(*opcode) : std::string_view()));
    record_.add(number_field(f("kbtp.version"), header.version, at(0, 1)));
    if (hello) {
      record_.add(number_field(f("kbtp.features"), header.flags, at(2, 2),
                               names(to_string(assignment_.features_from(header.flags)), header.flags)));
    } else {
      record_.add(number_field(f("kbtp.flags"), header.flags, at(2, 2),
                               names(wire::flags_to_string(header.flags), header.flags)));
    }
    record_.add(number_field(f("kbtp.request_id"), header.request_id, at(4, 8)));
    record_.add(number_field(f("kbtp.handle"), header.handle, at(12, 8)));
    record_.add(number_field(f("kbtp.generation"), header.generation, at(20, 2)));
    // A request's Status says nothing (5.1), so that `status!=0` is about answers.
    const bool answer = opcode == wire::Opcode::hello_ack || opcode == wire::Opcode::completion || !opcode;
    if (answer || header.status != 0) {
      const wire::Status status = assignment_.status(header.status);
      record_.add(number_field(f("kbtp.status"), header.status, at(22, 2),
                               status == wire::Status::unassigned ? std::string_view() : to_string(status)));
    }
  }

  void operator()(const wire::Hello& m) {
    const wire::HelloLayout& l = assignment_.hello;
    add(f("kbtp.min_version"), m.min_version, l.min_version, 1);
    add(f("kbtp.max_version"), m.max_version, l.max_version, 1);
    add(f("kbtp.max_requests"), m.max_requests, l.max_requests, 4);
    add(f("kbtp.receive_size"), m.receive_size, l.receive_size, 4);
    add(f("kbtp.quota"), m.quota, l.quota, 4);
    add(f("kbtp.handle_count"), m.handle_count, l.handle_count, 8);
    record_.add(text_field(f("kbtp.identity"), texts_.keep(m.identity.to_string()), at(l.identity, 16)));
  }

  void operator()(const wire::HelloAck& m) {
    const wire::HelloAckLayout& l = assignment_.hello_ack;
    add(f("kbtp.chosen_version"), m.version, l.version, 1);
    add(f("kbtp.min_version"), m.min_version, l.min_version, 1);
    add(f("kbtp.max_version"), m.max_version, l.max_version, 1);
    add(f("kbtp.ring_log2"), m.ring_log2, l.ring_log2, 1);
    add(f("kbtp.max_requests"), m.max_requests, l.max_requests, 4);
    add(f("kbtp.max_inline"), m.max_inline, l.max_inline, 4);
    add(f("kbtp.block_size"), m.block_size, l.block_size, 4);
    add(f("kbtp.handle_count"), m.handle_count, l.handle_count, 8);
    add(f("kbtp.table_base_handle"), m.table_base_handle, l.table_base_handle, 8);
    add(f("kbtp.table_handle_count"), m.table_handle_count, l.table_handle_count, 8);
    add(f("kbtp.pool_blocks"), m.pool_blocks, l.pool_blocks, 8);
    add(f("kbtp.quota"), m.quota, l.quota, 4);
    add(f("kbtp.usage"), m.usage, l.usage, 4);
    add(f("kbtp.ticket_timeout_ms"), m.ticket_timeout_ms, l.ticket_timeout_ms, 4);
    add(f("kbtp.table_stag"), m.table_stag, l.table_stag, 4);
    add(f("kbtp.table_offset"), m.table_offset, l.table_offset, 8);
    add(f("kbtp.pool_stag"), m.pool_stag, l.pool_stag, 4);
    add(f("kbtp.partition_stag"), m.partition_stag, l.partition_stag, 4);
    add(f("kbtp.ring_stag"), m.ring_stag, l.ring_stag, 4);
    add(f("kbtp.head_stag"), m.head_stag, l.head_stag, 4);
    add(f("kbtp.ring_offset"), m.ring_offset, l.ring_offset, 8);
    add(f("kbtp.head_offset"), m.head_offset, l.head_offset, 8);
    add(f("kbtp.pool_offset"), m.pool_offset, l.pool_offset, 8);
    add(f("kbtp.pool_length"), m.pool_length, l.pool_length, 8);
    add(f("kbtp.partition_offset"), m.partition_offset, l.partition_offset, 8);
    add(f("kbtp.partition_length"), m.partition_length, l.partition_length, 8);
  }

  void operator()(const wire::Load& m) {
    data(m.destination);
    completion_descriptor(m.record, wire::kHeaderSize + wire::kDataDescriptorSize);
  }
  void operator()(const wire::Store& m) { store(m.body); }
  void operator()(const wire::AllocStore& m) { store(m.body); }
  void operator()(const wire::Free& m) { completion_descriptor(m.record, wire::kHeaderSize); }

  void operator()(const wire::Bind& m) {
    const wire::BindLayout& l = assignment_.bind;
    add(f("kbtp.ticket"), m.ticket, l.ticket, 4);
    add(f("kbtp.data_length"), m.data_length, l.data_length, 4);
    add(f("kbtp.block_offset"), m.block_offset, l.block_offset, 8);
    completion_descriptor(m.record, l.length);
  }

  void operator()(const wire::Completion& m) {
    wire::CompletionLayout l = assignment_.completion;
    // Either layout may have come, told apart by its length (wire::Lengths::lenient).
    for (const wire::CompletionLayout& known : {wire::CompletionLayout{}, wire::kPaddedCompletion}) {
      if (octets_.size() == known.length) l = known;
    }
    add(f("kbtp.data_length"), m.data_length, l.data_length, 4);
    add(f("kbtp.block_offset"), m.block_offset, l.block_offset, 8);
  }

 private:
  void add(const FieldInfo* info, std::uint64_t value, std::size_t offset, std::size_t size) {
    record_.add(number_field(info, value, at(offset, size)));
  }
  std::string_view names(std::string_view text, std::uint16_t bits) {
    return bits == 0 ? std::string_view() : texts_.keep(text);
  }
  /// 5.2
  void data(const wire::DataDescriptor& descriptor) {
    add(f("kbtp.data.stag"), descriptor.stag, 24, 4);
    add(f("kbtp.data.to"), descriptor.tagged_offset, 28, 8);
    add(f("kbtp.data.length"), descriptor.length, 36, 4);
  }
  void completion_descriptor(const std::optional<wire::CompletionDescriptor>& descriptor, std::size_t where) {
    if (!descriptor) return;
    add(f("kbtp.record.stag"), descriptor->stag, where, 4);
    add(f("kbtp.record.to"), descriptor->tagged_offset, where + 4, 8);
  }
  void store(const wire::StoreBody& body) {
    data(body.source);
    completion_descriptor(body.record, wire::kHeaderSize + wire::kDataDescriptorSize);
    if (!body.inline_data) return;
    const std::size_t size = body.inline_data->size();
    add(f("kbtp.inline_length"), size, octets_.size() - size, size);
  }

  Octets octets_;
  const wire::Assignment& assignment_;
  Record& record_;
  TextStore& texts_;
};

std::string_view carrier(rdmap::Opcode opcode) { return rdmap::facts(opcode).name; }

}  // namespace

std::span<const FieldInfo> kbtp_fields() { return kFields; }

void add_message(const Message& message, const wire::Assignment& assignment, bool kbtp_seen, Record& record,
                 TextStore& texts) {
  record.add(text_field(f("message.carrier"), carrier(message.opcode)));
  if (message.psn) {
    record.add(number_field(f("message.first_psn"), *message.psn));
  } else {
    record.add(number_field(f("message.msn"), message.msn));
  }
  if (message.immediate) record.add(number_field(f("message.immediate"), *message.immediate));
  if (message.invalidate_stag)
    record.add(number_field(f("message.invalidate_stag"), *message.invalidate_stag));
  record.add(number_field(f("message.length"), message.octets.size()));
  Filler filler(message.octets, assignment, record, texts);
  if (message.kbtp) {
    if (const auto header = wire::read_header(message.octets)) filler.header(*header);
    std::visit(filler, *message.kbtp);
    return;
  }
  const wire::WireError& error = message.kbtp.error();
  if (kbtp_seen) {
    if (error.header) filler.header(*error.header);
    record.add(text_field(f("kbtp.error"), error.what));
    record.add(text_field(f("kbtp.error_rule"), error.rule));
    record.add(number_field(f("kbtp.error_octet"), error.octet));
  }
  const Octets shown = message.octets.first(std::min(message.octets.size(), kShownOctets));
  record.add(octets_field(f("message.octets"), shown, at(0, shown.size())));
}

}  // namespace kbtp::trace
