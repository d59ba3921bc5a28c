#include "conformance/evidence.h"

#include <algorithm>
#include <utility>

#include "proto/wire/header.h"

namespace kbtp::conformance {

namespace {

constexpr std::size_t kSetupFixed = 20;  // RFC 5044 7.1.1: key, flags, revision, Private Data Length

SetupFrame read_setup(Octets octets, std::size_t position, std::uint64_t frame) {
  SetupFrame setup{.position = position, .frame = frame};
  ByteReader reader(octets);
  reader.skip(16);
  const std::uint8_t flags = reader.u8();
  setup.markers = (flags & 0x80) != 0;
  setup.crc = (flags & 0x40) != 0;
  setup.reject = (flags & 0x20) != 0;
  setup.enhanced = (flags & 0x10) != 0;  // RFC 6581 6
  setup.revision = reader.u8();
  setup.reserved = flags & (setup.revision < 2 ? 0x1F : 0x0F);
  reader.skip(2);
  if (setup.enhanced && octets.size() >= kSetupFixed + 4) {
    const std::uint16_t first = reader.u16();
    const std::uint16_t second = reader.u16();
    setup.ird = first & 0x3FFF;
    setup.ord = second & 0x3FFF;
    setup.peer_to_peer = (first & 0x8000) != 0;
    setup.rtr_send = (first & 0x4000) != 0;
    setup.rtr_write = (second & 0x8000) != 0;
    setup.rtr_read = (second & 0x4000) != 0;
  }
  return setup;
}

/// The control field of a Terminate whose bit fields were laid out by a little-endian machine, as RFC 5040
/// 4.8 has it.
std::uint32_t unswapped(std::uint32_t word) {
  const std::uint32_t flags = word >> 8 & 0xFF;
  return (word >> 24 & 0x0F) << 28 | (word >> 28) << 24 | (word & 0x00FF'0000) | (flags & 1) << 15 |
         (flags & 2) << 13 | (flags & 4) << 11;
}

Terminate read_terminate(const Segment& segment, bool swapped) {
  Terminate out{.position = segment.position, .frame = segment.frame};
  ByteReader reader(segment.payload);
  out.control = reader.u32();
  const std::uint32_t word = swapped ? unswapped(out.control) : out.control;
  out.layer = static_cast<std::uint8_t>(word >> 28);
  out.type = static_cast<std::uint8_t>((word >> 24) & 0xF);
  out.code = static_cast<std::uint8_t>(word >> 16);
  out.m = (word & 0x8000) != 0;
  out.d = (word & 0x4000) != 0;
  out.r = (word & 0x2000) != 0;
  out.reserved = static_cast<std::uint16_t>(word & 0x1FFF);
  if (out.m || out.d) reader.skip(2);  // DDP Segment Length
  if (out.d && reader.ok() && reader.remaining() >= 14) {
    const bool tagged = (std::to_integer<unsigned>(reader.rest()[0]) & 0x80) != 0;
    out.ddp_header = to_vector(reader.bytes(std::min<std::size_t>(tagged ? 14 : 18, reader.remaining())));
  }
  if (out.r && reader.ok())
    out.rdmap_header = to_vector(reader.bytes(std::min<std::size_t>(28, reader.remaining())));
  return out;
}

bool is_send(std::uint8_t opcode) { return opcode >= kOpSend && opcode <= kOpSendSolicitedInvalidate; }
bool invalidates(std::uint8_t opcode) {
  return opcode == kOpSendInvalidate || opcode == kOpSendSolicitedInvalidate;
}

}  // namespace

std::optional<Segment> read_segment(Octets ulpdu) {
  Segment segment;
  ByteReader reader(ulpdu);
  const std::uint8_t ddp = reader.u8();
  const std::uint8_t rdmap = reader.u8();
  segment.tagged = (ddp & 0x80) != 0;
  segment.last = (ddp & 0x40) != 0;
  segment.ddp_version = ddp & 0x03;
  segment.rdmap_version = rdmap >> 6;
  segment.opcode = rdmap & 0x0F;
  if (segment.tagged) {
    segment.stag = reader.u32();
    segment.tagged_offset = reader.u64();
  } else {
    segment.invalidate = reader.u32();
    segment.queue = reader.u32();
    segment.msn = reader.u32();
    segment.message_offset = reader.u32();
  }
  if (!reader.ok()) return std::nullopt;
  segment.header = ulpdu.first(reader.position());
  segment.payload = reader.rest();
  return segment;
}

std::vector<const Segment*> Conversation::writes_to(std::uint32_t stag) const {
  std::vector<const Segment*> out;
  for (const Segment& segment : segments) {
    if (segment.from == Side::target && segment.tagged && segment.opcode == kOpWrite && segment.stag == stag)
      out.push_back(&segment);
  }
  return out;
}

std::vector<const CompletionSeen*> Conversation::completions_of(std::uint64_t request_id) const {
  std::vector<const CompletionSeen*> out;
  for (const CompletionSeen& seen : completions) {
    if (seen.completion.request_id == request_id) out.push_back(&seen);
  }
  return out;
}

Evidence::Evidence(std::vector<Event> events, wire::Assignment assignment, const Allowances& allowances)
    : events_(std::move(events)), assignment_(assignment), allowances_(allowances) {
  for (const Event& event : events_) {
    if (event.connection >= conversations_.size()) conversations_.resize(event.connection + 1);
  }
  partial_sends_.resize(conversations_.size());
  for (std::size_t i = 0; i < events_.size(); ++i) read(conversations_[events_[i].connection], i);
}

const Conversation& Evidence::on(ConnectionIndex connection) const {
  static const Conversation silence;
  return connection < conversations_.size() ? conversations_[connection] : silence;
}

void Evidence::read(Conversation& conversation, std::size_t position) {
  const Event& event = events_[position];
  const bool from_target = event.from == Side::target;
  switch (event.kind) {
    case Event::Kind::setup_frame:
      (from_target ? conversation.reply : conversation.request) =
          read_setup(event.octets, position, event.frame);
      break;
    case Event::Kind::fpdu: {
      auto segment = read_segment(event.octets);
      if (!segment) {
        conversation.target_unframed |= from_target;
        break;
      }
      segment->position = position;
      segment->frame = event.frame;
      segment->from = event.from;
      segment->crc_good = event.crc_good;
      segment->immediate = event.immediate;
      conversation.segments.push_back(*segment);
      if (from_target) read_target_segment(conversation, *segment, partial_sends_[event.connection]);
      break;
    }
    case Event::Kind::unframed:
      conversation.target_unframed |= from_target;
      break;
    case Event::Kind::fin:
    case Event::Kind::reset: {
      auto& closed = from_target ? conversation.target_closed : conversation.suite_closed;
      if (!closed) {
        closed = position;
        if (from_target) {
          conversation.target_closed_frame = event.frame;
          conversation.target_reset = event.kind == Event::Kind::reset;
        }
      }
      break;
    }
  }
}

void Evidence::read_target_segment(Conversation& conversation, const Segment& segment,
                                   std::vector<std::byte>& send_so_far) {
  if (segment.tagged) return;
  if (segment.opcode == kOpReadRequest) {
    ReadRequest request{.position = segment.position, .frame = segment.frame};
    ByteReader reader(segment.payload);
    reader.skip(12);  // Sink STag and Sink Tagged Offset
    request.size = reader.u32();
    request.source_stag = reader.u32();
    request.source_offset = reader.u64();
    conversation.reads.push_back(request);
  } else if (segment.opcode == kOpTerminate) {
    conversation.terminates.push_back(read_terminate(segment, allowances_.swapped_terminates));
  } else if (is_send(segment.opcode)) {
    send_so_far.insert(send_so_far.end(), segment.payload.begin(), segment.payload.end());
    if (!segment.last) return;
    const std::vector<std::byte> message = std::exchange(send_so_far, {});
    if (const auto completion = wire::decode_completion(message, assignment_, wire::Lengths::lenient)) {
      CompletionSeen seen{.position = segment.position,
                          .frame = segment.frame,
                          .version = std::to_integer<std::uint8_t>(message[0]),
                          .opcode = segment.opcode,
                          .completion = *completion};
      if (invalidates(segment.opcode)) seen.invalidate = segment.invalidate;
      conversation.completions.push_back(seen);
    } else if (const auto ack = wire::decode_hello_ack(message, assignment_)) {
      conversation.hello_ack = *ack;
      conversation.hello_ack_frame = segment.frame;
    }
  }
}

}  // namespace kbtp::conformance
