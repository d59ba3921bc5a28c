// Fields of MPA start-up frames and of FPDUs with their DDP and RDMAP headers.

#include "pcap/fields.h"
#include "rdmap_binding/mpa/fpdu.h"
#include "rdmap_binding/mpa/marker.h"

namespace kbtp::trace {
namespace {

constexpr std::array<std::string_view, 2> kStartupKinds{"request", "reply"};
constexpr std::array<std::string_view, 4> kCrcStates{"good", "bad", "off", "unknown"};
constexpr std::array<std::string_view, 3> kExtents{"whole", "broken-off", "lacking"};
constexpr std::array<std::string_view, 2> kAtomicNames{"FetchAdd", "CmpSwap"};

using enum Kind;
using enum Base;

constexpr std::array kFields{
    FieldInfo{"mpa.kind", text, "start-up frame: request or reply (RFC 5044 7.1.1)", decimal, 0,
              kStartupKinds},
    FieldInfo{"mpa.wants_markers", boolean,
              "M: its sender wants markers in what it receives (RFC 5044 7.1.1)"},
    FieldInfo{"mpa.wants_crc", boolean, "C: its sender wants CRCs (RFC 5044 7.1.1)"},
    FieldInfo{"mpa.reject", boolean, "R: the connection is refused (RFC 5044 7.1.1)"},
    FieldInfo{"mpa.enhanced", boolean, "S: enhanced data follows (RFC 6581 6)"},
    FieldInfo{"mpa.reserved", number, "Res: 4 bits, 5 before revision 2 (RFC 6581 6)", hex8},
    FieldInfo{"mpa.revision", number, "Rev (RFC 5044 7.1.1)"},
    FieldInfo{"mpa.pd_length", number, "octets behind the 20 of the header (RFC 5044 7.1.1)"},
    FieldInfo{"mpa.peer_to_peer", boolean, "A: the initiator owes an RTR indication (RFC 6581 9)"},
    FieldInfo{"mpa.rtr_send", boolean, "B: RTR by a zero-length Send (RFC 6581 9)"},
    FieldInfo{"mpa.ird", number, "Reads that its sender takes at once (RFC 6581 9)"},
    FieldInfo{"mpa.rtr_write", boolean, "C: RTR by a zero-length RDMA Write (RFC 6581 9)"},
    FieldInfo{"mpa.rtr_read", boolean, "D: RTR by a zero-length RDMA Read (RFC 6581 9)"},
    FieldInfo{"mpa.ord", number, "Reads that its sender has outstanding at most (RFC 6581 9)"},
    FieldInfo{"mpa.guessed_ird", number,
              "a guess: private data look like IRD and ORD of old middleware (MS-SMBD 6.1)"},
    FieldInfo{"mpa.guessed_ord", number, "a guess, likewise"},
    FieldInfo{"mpa.private_data", octets, "private data of the ULP, without the enhanced octets"},
    FieldInfo{"mpa.error", text, "why this is no start-up frame"},
    FieldInfo{"mpa.error_octet", number, "where: octets from the start of the direction"},
    FieldInfo{"fpdu.ulpdu_length", number, "octets of the ULPDU (RFC 5044 4.1)"},
    FieldInfo{"fpdu.extent", text, "whether all of it is in the capture", decimal, 0, kExtents},
    FieldInfo{"fpdu.crc", text, "verdict on the CRC; off: neither side asked for CRCs", decimal, 0,
              kCrcStates},
    FieldInfo{"fpdu.markers", number, "markers in it (RFC 5044 4.3)"},
    FieldInfo{"fpdu.marker",
              number,
              "FPDUPTR of a marker; one field for each (RFC 5044 4.3)",
              decimal,
              0,
              {},
              true},
    FieldInfo{"ddp.tagged", boolean, "T (RFC 5041 4.1)"},
    FieldInfo{"ddp.last", boolean, "L: last segment of its message (RFC 5041 4.1)"},
    FieldInfo{"ddp.reserved", number, "4 bits, sent 0 (RFC 5041 4.1)", hex8},
    FieldInfo{"ddp.version", number, "DV (RFC 5041 4.1)"},
    FieldInfo{"rdmap.version", number, "RV (RFC 5040 4.1)"},
    FieldInfo{"rdmap.reserved", number, "2 bits, sent 0 (RFC 5040 4.1)", hex8},
    FieldInfo{"rdmap.opcode", number, "RFC 5040 4.1, RFC 7306 4.1", hex8, 0, kOpcodeNames},
    FieldInfo{"rdmap.invalidate_stag", number, "Invalidate STag (RFC 5040 4.1)", hex32},
    FieldInfo{"ddp.stag", number, "STag of a tagged segment (RFC 5041 4.2)", hex32},
    FieldInfo{"ddp.to", number, "Tagged Offset (RFC 5041 4.2)", hex64},
    FieldInfo{"ddp.qn", number, "Queue Number (RFC 5041 4.3)"},
    FieldInfo{"ddp.msn", number, "Message Sequence Number (RFC 5041 4.3)"},
    FieldInfo{"ddp.mo", number, "Message Offset (RFC 5041 4.3)"},
    FieldInfo{"rdmap.length", number, "octets of the ULP in this segment, by the length field"},
    FieldInfo{"rdmap.read.sink_stag", number, "Data Sink STag (RFC 5040 4.4)", hex32},
    FieldInfo{"rdmap.read.sink_to", number, "Data Sink Tagged Offset (RFC 5040 4.4)", hex64},
    FieldInfo{"rdmap.read.size", number, "RDMA Read Message Size (RFC 5040 4.4)"},
    FieldInfo{"rdmap.read.source_stag", number, "Data Source STag (RFC 5040 4.4)", hex32},
    FieldInfo{"rdmap.read.source_to", number, "Data Source Tagged Offset (RFC 5040 4.4)", hex64},
    FieldInfo{"rdmap.immediate", number, "Immediate Data (RFC 7306 6.2)", hex64},
    FieldInfo{"rdmap.atomic.operation", number, "AOpCode (RFC 7306 5.2.1)", hex8, 0, kAtomicNames},
    FieldInfo{"rdmap.atomic.request_id", number, "Request Identifier, of a request or its response", hex32},
    FieldInfo{"rdmap.atomic.stag", number, "Remote STag (RFC 7306 5.2.1)", hex32},
    FieldInfo{"rdmap.atomic.to", number, "Remote Tagged Offset (RFC 7306 5.2.1)", hex64},
    FieldInfo{"rdmap.atomic.data", number, "Add or Swap Data (RFC 7306 5.2.1)", hex64},
    FieldInfo{"rdmap.atomic.mask", number, "Add or Swap Mask (RFC 7306 5.2.1)", hex64},
    FieldInfo{"rdmap.atomic.compare_data", number, "Compare Data (RFC 7306 5.2.1)", hex64},
    FieldInfo{"rdmap.atomic.compare_mask", number, "Compare Mask (RFC 7306 5.2.1)", hex64},
    FieldInfo{"rdmap.atomic.original", number, "Original Remote Data Value (RFC 7306 5.2.2)", hex64},
    FieldInfo{"fpdu.pad", number, "octets of PAD (RFC 5044 4.1)"},
    FieldInfo{"fpdu.pad_zero", boolean, "PAD is zero, as it should be (RFC 5044 4.1)"},
    FieldInfo{"fpdu.crc_value", number, "the CRC field, read as MPA lays it out (RFC 5044 4.1)", hex32},
    FieldInfo{"fpdu.error", text, "what a right receiver finds wrong in it"},
    FieldInfo{"fpdu.error_code", number, "the Terminate that is due: layer, type, code (RFC 5040 4.8)",
              hex16},
};

consteval const FieldInfo* f(std::string_view name) { return field_of(kFields, name); }

/// Where the octets of an FPDU lie in the stream once its markers are counted in.
class Layout {
 public:
  explicit Layout(const Fpdu& fpdu) : markers_(fpdu.markers != 0), first_(fpdu.first_marker) {}

  /// `offset` counts octets from the length field on, without markers.
  [[nodiscard]] Place at(std::size_t offset, std::size_t size) const {
    if (size == 0) return {};
    const std::size_t begin = stream(offset);
    return {static_cast<std::uint32_t>(begin),
            static_cast<std::uint32_t>(stream(offset + size - 1) + 1 - begin)};
  }

 private:
  [[nodiscard]] std::size_t stream(std::size_t offset) const {
    if (!markers_ || offset < first_) return offset;
    return offset + mpa::kMarkerSize * (1 + (offset - first_) / mpa::kMarkerRun);
  }
  bool markers_;
  std::size_t first_;
};

std::string_view word(CrcState crc) { return kCrcStates[static_cast<std::size_t>(crc)]; }
std::string_view word(Extent extent) { return kExtents[static_cast<std::size_t>(extent)]; }

void add_ddp(const Fpdu& fpdu, const Layout& layout, Record& record) {
  constexpr std::size_t d = mpa::kLengthSize;  // the DDP header begins here
  const ddp::TaggedHeader* tagged = fpdu.tagged();
  const ddp::UntaggedHeader* untagged = fpdu.untagged();
  const Place control = layout.at(d, 1);
  const Place rdmap_control = layout.at(d + 1, 1);
  const std::uint8_t reserved = tagged != nullptr ? tagged->reserved : untagged->reserved;
  record.add(boolean_field(f("ddp.tagged"), tagged != nullptr, control));
  record.add(boolean_field(f("ddp.last"), ddp::is_last(*fpdu.ddp), control));
  if (reserved != 0) record.add(number_field(f("ddp.reserved"), reserved, control));
  record.add(
      number_field(f("ddp.version"), tagged != nullptr ? tagged->version : untagged->version, control));
  record.add(number_field(f("rdmap.version"), fpdu.rdmap.version, rdmap_control));
  if (fpdu.rdmap.reserved != 0)
    record.add(number_field(f("rdmap.reserved"), fpdu.rdmap.reserved, rdmap_control));
  const rdmap::OpcodeFacts* facts = rdmap::find_opcode(fpdu.rdmap.opcode);
  record.add(number_field(f("rdmap.opcode"), fpdu.rdmap.opcode, rdmap_control,
                          facts != nullptr ? facts->name : std::string_view()));
  if (tagged != nullptr) {
    record.add(number_field(f("ddp.stag"), tagged->stag, layout.at(d + 2, 4)));
    record.add(number_field(f("ddp.to"), tagged->tagged_offset, layout.at(d + 6, 8)));
  } else {
    if ((facts != nullptr && facts->invalidates) || untagged->rsvdulp_stag != 0)
      record.add(number_field(f("rdmap.invalidate_stag"), untagged->rsvdulp_stag, layout.at(d + 2, 4)));
    record.add(number_field(f("ddp.qn"), untagged->queue_number, layout.at(d + 6, 4)));
    record.add(number_field(f("ddp.msn"), untagged->msn, layout.at(d + 10, 4)));
    record.add(number_field(f("ddp.mo"), untagged->message_offset, layout.at(d + 14, 4)));
  }
}

/// RFC 5040 4.4, RFC 7306 5.2 and 6.2.
void add_rdmap_header(const Fpdu& fpdu, const Layout& layout, Record& record, TextStore& texts) {
  const std::size_t b = mpa::kLengthSize + ddp::header_size(*fpdu.ddp);  // the RDMAP header begins here
  if (const auto* read = std::get_if<rdmap::ReadRequest>(&fpdu.header)) {
    record.add(number_field(f("rdmap.read.sink_stag"), read->sink_stag, layout.at(b, 4)));
    record.add(number_field(f("rdmap.read.sink_to"), read->sink_to, layout.at(b + 4, 8)));
    record.add(number_field(f("rdmap.read.size"), read->size, layout.at(b + 12, 4)));
    record.add(number_field(f("rdmap.read.source_stag"), read->source_stag, layout.at(b + 16, 4)));
    record.add(number_field(f("rdmap.read.source_to"), read->source_to, layout.at(b + 20, 8)));
  } else if (const auto* immediate = std::get_if<rdmap::Immediate>(&fpdu.header)) {
    record.add(number_field(f("rdmap.immediate"), immediate->data, layout.at(b, 8)));
  } else if (const auto* atomic = std::get_if<rdmap::AtomicRequest>(&fpdu.header)) {
    const std::string_view name = atomic->operation == rdmap::AtomicOpcode::fetch_add      ? kAtomicNames[0]
                                  : atomic->operation == rdmap::AtomicOpcode::compare_swap ? kAtomicNames[1]
                                                                                           : "";
    record.add(number_field(f("rdmap.atomic.operation"), static_cast<std::uint8_t>(atomic->operation),
                            layout.at(b + 3, 1), name));
    record.add(number_field(f("rdmap.atomic.request_id"), atomic->request_identifier, layout.at(b + 4, 4)));
    record.add(number_field(f("rdmap.atomic.stag"), atomic->remote_stag, layout.at(b + 8, 4)));
    record.add(number_field(f("rdmap.atomic.to"), atomic->remote_to, layout.at(b + 12, 8)));
    record.add(number_field(f("rdmap.atomic.data"), atomic->add_or_swap_data, layout.at(b + 20, 8)));
    record.add(number_field(f("rdmap.atomic.mask"), atomic->add_or_swap_mask, layout.at(b + 28, 8)));
    record.add(number_field(f("rdmap.atomic.compare_data"), atomic->compare_data, layout.at(b + 36, 8)));
    record.add(number_field(f("rdmap.atomic.compare_mask"), atomic->compare_mask, layout.at(b + 44, 8)));
  } else if (const auto* response = std::get_if<rdmap::AtomicResponse>(&fpdu.header)) {
    record.add(number_field(f("rdmap.atomic.request_id"), response->request_identifier, layout.at(b, 4)));
    record.add(number_field(f("rdmap.atomic.original"), response->original_value, layout.at(b + 4, 8)));
  } else if (fpdu.is(rdmap::Opcode::terminate) && fpdu.untagged() != nullptr) {
    if (const auto reading = read_terminate(fpdu.payload()))
      add_terminate(
          *reading, [&](std::size_t at, std::size_t size) { return layout.at(b + at, size); }, record, texts);
  }
}

void add_trailer(const Fpdu& fpdu, Octets stream, const Layout& layout, Record& record) {
  const std::size_t pad = mpa::pad_size(fpdu.ulpdu_length);
  const std::size_t pad_at = mpa::kLengthSize + fpdu.ulpdu_length;
  record.add(number_field(f("fpdu.pad"), pad, layout.at(pad_at, pad)));
  if (pad != 0) record.add(boolean_field(f("fpdu.pad_zero"), fpdu.pad_zero, layout.at(pad_at, pad)));
  record.add(number_field(f("fpdu.crc_value"), load_crc32c(stream.data() + stream.size() - mpa::kCrcSize),
                          layout.at(pad_at + pad, mpa::kCrcSize)));
}

void add_markers(const Fpdu& fpdu, Octets stream, Record& record) {
  record.add(number_field(f("fpdu.markers"), fpdu.markers));
  for (std::size_t at = fpdu.first_marker; at + mpa::kMarkerSize <= stream.size();
       at += mpa::kMarkerInterval) {
    record.add(number_field(f("fpdu.marker"), mpa::decode_marker(stream.data() + at),
                            {static_cast<std::uint32_t>(at), mpa::kMarkerSize}));
  }
}

}  // namespace

std::span<const FieldInfo> iwarp_fields() { return kFields; }

void add_startup(const Startup& startup, Record& record) {
  const mpa::StartupFrame& frame = startup.frame;
  record.add(text_field(f("mpa.kind"), kStartupKinds[frame.kind == mpa::StartupKind::request ? 0 : 1],
                        {0, mpa::kKeySize}));
  constexpr Place kFlags{16, 1};
  record.add(boolean_field(f("mpa.wants_markers"), frame.markers, kFlags));
  record.add(boolean_field(f("mpa.wants_crc"), frame.crc, kFlags));
  record.add(boolean_field(f("mpa.reject"), frame.reject, kFlags));
  record.add(boolean_field(f("mpa.enhanced"), frame.enhanced.has_value(), kFlags));
  if (frame.reserved != 0) record.add(number_field(f("mpa.reserved"), frame.reserved, kFlags));
  record.add(number_field(f("mpa.revision"), frame.revision, {17, 1}));
  record.add(number_field(f("mpa.pd_length"), mpa::private_data_length(frame), {18, 2}));
  std::uint32_t at = mpa::kStartupHeaderSize;
  if (frame.enhanced) {
    const mpa::Enhanced& enhanced = *frame.enhanced;
    record.add(boolean_field(f("mpa.peer_to_peer"), enhanced.peer_to_peer, {20, 1}));
    record.add(boolean_field(f("mpa.rtr_send"), enhanced.rtr_send, {20, 1}));
    record.add(number_field(f("mpa.ird"), enhanced.ird, {20, 2}));
    record.add(boolean_field(f("mpa.rtr_write"), enhanced.rtr_write, {22, 1}));
    record.add(boolean_field(f("mpa.rtr_read"), enhanced.rtr_read, {22, 1}));
    record.add(number_field(f("mpa.ord"), enhanced.ord, {22, 2}));
    at += mpa::kEnhancedSize;
  }
  if (const auto guess = startup.guessed_depths()) {
    record.add(number_field(f("mpa.guessed_ird"), guess->ird, {at, 4}));
    record.add(number_field(f("mpa.guessed_ord"), guess->ord, {at + 4, 4}));
  }
  if (!frame.private_data.empty())
    record.add(octets_field(f("mpa.private_data"), frame.private_data,
                            {at, static_cast<std::uint32_t>(frame.private_data.size())}));
}

void add_bad_startup(const BadStartup& bad, Record& record) {
  record.add(text_field(f("mpa.error"), bad.error ? mpa::to_string(bad.error->rule)
                                                  : "the stream ends inside a start-up frame"));
  if (bad.error)
    record.add(number_field(f("mpa.error_octet"), bad.error->octet,
                            {static_cast<std::uint32_t>(bad.error->octet), 1}));
}

void add_fpdu(const Fpdu& fpdu, Octets stream, Record& record, TextStore& texts) {
  const Layout layout(fpdu);
  record.add(number_field(f("fpdu.ulpdu_length"), fpdu.ulpdu_length, layout.at(0, mpa::kLengthSize)));
  record.add(text_field(f("fpdu.extent"), word(fpdu.extent)));
  record.add(text_field(f("fpdu.crc"), word(fpdu.crc)));
  if (fpdu.markers != 0) add_markers(fpdu, stream, record);
  if (fpdu.ddp) {
    add_ddp(fpdu, layout, record);
    const rdmap::OpcodeFacts* facts = rdmap::find_opcode(fpdu.rdmap.opcode);
    if (facts == nullptr || facts->has_payload || facts->tagged != (fpdu.tagged() != nullptr)) {
      record.add(
          number_field(f("rdmap.length"), fpdu.payload_length,
                       layout.at(mpa::kLengthSize + ddp::header_size(*fpdu.ddp), fpdu.payload_length)));
    }
    add_rdmap_header(fpdu, layout, record, texts);
  }
  if (fpdu.extent == Extent::whole) add_trailer(fpdu, stream, layout, record);
  if (fpdu.error) {
    record.add(text_field(f("fpdu.error"), fpdu.error->reason));
    record.add(number_field(f("fpdu.error_code"), fpdu.error->code.packed()));
  }
}

}  // namespace kbtp::trace
