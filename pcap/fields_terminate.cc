// Fields of a Terminate (RFC 5040 4.8) with the headers that it copies.

#include "base/bytes.h"
#include "pcap/fields.h"
#include "rdmap_binding/rdmap/segment.h"

namespace kbtp::trace {
namespace {

constexpr std::array<std::string_view, 3> kLayers{"RDMAP", "DDP", "LLP"};
constexpr std::array<std::string_view, 2> kOrders{"rfc", "siw"};

using enum Kind;
using enum Base;

constexpr std::array kFields{
    FieldInfo{"terminate.bit_order", text,
              "order of the control bits: the RFC's, or that of Linux siw, which differs", decimal, 0,
              kOrders},
    FieldInfo{"terminate.layer", number, "RFC 5040 4.8", decimal, 0, kLayers},
    FieldInfo{"terminate.error_type", number, "RFC 5040 4.8, RFC 5041 7.2, RFC 5044 8", decimal},
    FieldInfo{"terminate.error_code", number, "RFC 5040 4.8, RFC 5041 7.2, RFC 5044 8, RFC 6581 8", hex8},
    FieldInfo{"terminate.meaning", text, "what the three numbers say"},
    FieldInfo{"terminate.m", boolean, "M: the DDP Segment Length is valid (RFC 5040 4.8)"},
    FieldInfo{"terminate.d", boolean, "D: a DDP header is copied (RFC 5040 4.8)"},
    FieldInfo{"terminate.r", boolean, "R: an RDMAP header is copied (RFC 5040 4.8)"},
    FieldInfo{"terminate.segment_length", number, "DDP Segment Length (RFC 5040 4.8)"},
    FieldInfo{"terminate.ddp.tagged", boolean, "of the copied header: T"},
    FieldInfo{"terminate.ddp.last", boolean, "of the copied header: L"},
    FieldInfo{"terminate.ddp.version", number, "of the copied header: DV"},
    FieldInfo{"terminate.rdmap.opcode", number, "of the copied header", hex8, 0, kOpcodeNames},
    FieldInfo{"terminate.ddp.stag", number, "of the copied header: STag", hex32},
    FieldInfo{"terminate.ddp.to", number, "of the copied header: Tagged Offset", hex64},
    FieldInfo{"terminate.rdmap.invalidate_stag", number, "of the copied header: Invalidate STag", hex32},
    FieldInfo{"terminate.ddp.qn", number, "of the copied header: Queue Number"},
    FieldInfo{"terminate.ddp.msn", number, "of the copied header: Message Sequence Number"},
    FieldInfo{"terminate.ddp.mo", number, "of the copied header: Message Offset"},
    FieldInfo{"terminate.rdmap.read.sink_stag", number, "of the copied Read Request", hex32},
    FieldInfo{"terminate.rdmap.read.sink_to", number, "of the copied Read Request", hex64},
    FieldInfo{"terminate.rdmap.read.size", number,
              "of the copied Read Request: octets that were not sent yet"},
    FieldInfo{"terminate.rdmap.read.source_stag", number, "of the copied Read Request", hex32},
    FieldInfo{"terminate.rdmap.read.source_to", number, "of the copied Read Request", hex64},
    FieldInfo{"terminate.cut_short", boolean, "its bits promise more than there is"},
};

consteval const FieldInfo* f(std::string_view name) { return field_of(kFields, name); }

void add_copied_ddp(Octets copy, std::size_t at, const PlaceOf& place, Record& record) {
  const auto header = ddp::read_header(copy);
  if (!header) return;
  const auto* tagged = std::get_if<ddp::TaggedHeader>(&*header);
  const auto* untagged = std::get_if<ddp::UntaggedHeader>(&*header);
  const rdmap::Control control = rdmap::decode_control(ddp::rsvdulp(*header));
  const rdmap::OpcodeFacts* facts = rdmap::find_opcode(control.opcode);
  record.add(boolean_field(f("terminate.ddp.tagged"), tagged != nullptr, place(at, 1)));
  record.add(boolean_field(f("terminate.ddp.last"), ddp::is_last(*header), place(at, 1)));
  record.add(number_field(f("terminate.ddp.version"), tagged != nullptr ? tagged->version : untagged->version,
                          place(at, 1)));
  record.add(number_field(f("terminate.rdmap.opcode"), control.opcode, place(at + 1, 1),
                          facts != nullptr ? facts->name : std::string_view()));
  if (tagged != nullptr) {
    record.add(number_field(f("terminate.ddp.stag"), tagged->stag, place(at + 2, 4)));
    record.add(number_field(f("terminate.ddp.to"), tagged->tagged_offset, place(at + 6, 8)));
    return;
  }
  if (facts != nullptr && facts->invalidates)
    record.add(number_field(f("terminate.rdmap.invalidate_stag"), untagged->rsvdulp_stag, place(at + 2, 4)));
  record.add(number_field(f("terminate.ddp.qn"), untagged->queue_number, place(at + 6, 4)));
  record.add(number_field(f("terminate.ddp.msn"), untagged->msn, place(at + 10, 4)));
  record.add(number_field(f("terminate.ddp.mo"), untagged->message_offset, place(at + 14, 4)));
}

}  // namespace

std::span<const FieldInfo> terminate_fields() { return kFields; }

void add_terminate(const TerminateReading& reading, const PlaceOf& place, Record& record, TextStore& texts) {
  const rdmap::TerminateControl& control = reading.control;
  const TerminateCode code = control.code;
  record.add(text_field(f("terminate.bit_order"), kOrders[static_cast<std::size_t>(reading.order)]));
  record.add(number_field(f("terminate.layer"), code.layer, place(0, 1),
                          code.layer < kLayers.size() ? kLayers[code.layer] : std::string_view()));
  record.add(number_field(f("terminate.error_type"), code.error_type, place(0, 1)));
  record.add(number_field(f("terminate.error_code"), code.error_code, place(1, 1)));
  record.add(text_field(f("terminate.meaning"), texts.keep(to_string(code))));
  record.add(boolean_field(f("terminate.m"), control.length_valid, place(2, 1)));
  record.add(boolean_field(f("terminate.d"), control.ddp_header, place(2, 1)));
  record.add(boolean_field(f("terminate.r"), control.rdma_header, place(2, 1)));
  std::size_t at = rdmap::kTerminateControlSize;
  if (reading.segment_length) {
    record.add(number_field(f("terminate.segment_length"), *reading.segment_length, place(at, 2)));
    at += rdmap::kSegmentLengthSize;
  }
  if (!reading.ddp_header.empty()) {
    add_copied_ddp(reading.ddp_header, at, place, record);
    at += reading.ddp_header.size();
  }
  if (reading.read_request) {
    const rdmap::ReadRequest& read = *reading.read_request;
    record.add(number_field(f("terminate.rdmap.read.sink_stag"), read.sink_stag, place(at, 4)));
    record.add(number_field(f("terminate.rdmap.read.sink_to"), read.sink_to, place(at + 4, 8)));
    record.add(number_field(f("terminate.rdmap.read.size"), read.size, place(at + 12, 4)));
    record.add(number_field(f("terminate.rdmap.read.source_stag"), read.source_stag, place(at + 16, 4)));
    record.add(number_field(f("terminate.rdmap.read.source_to"), read.source_to, place(at + 20, 8)));
  }
  if (reading.cut_short) record.add(boolean_field(f("terminate.cut_short"), true));
}

}  // namespace kbtp::trace
