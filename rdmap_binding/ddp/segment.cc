#include "rdmap_binding/ddp/segment.h"

#include "base/fault.h"

namespace kbtp::ddp {
namespace {

std::uint8_t control_octet(bool tagged, bool last, std::uint8_t reserved, std::uint8_t version) {
  constexpr unsigned kReservedShift = 2;
  return static_cast<std::uint8_t>((tagged ? kTaggedFlag : 0) | (last ? kLastFlag : 0) |
                                   ((reserved << kReservedShift) & kReservedMask) | (version & kVersionMask));
}

template <class H>
void read_control(H& header, std::uint8_t control) {
  header.last = (control & kLastFlag) != 0;
  header.reserved = static_cast<std::uint8_t>((control & kReservedMask) >> 2);
  header.version = control & kVersionMask;
}

}  // namespace

std::size_t header_size(const Header& header) {
  return std::holds_alternative<TaggedHeader>(header) ? kTaggedHeaderSize : kUntaggedHeaderSize;
}

bool is_last(const Header& header) {
  return std::visit([](const auto& h) { return h.last; }, header);
}

std::uint8_t rsvdulp(const Header& header) {
  return std::visit([](const auto& h) { return h.rsvdulp; }, header);
}

std::optional<WireError> read_header(Octets octets, Header& to) {
  if (octets.empty() || octets.size() < header_size(octets[0])) {
    return WireError{terminate::kDdpLocalCatastrophic, octets.size(),
                     "shorter than its DDP header (RFC 5041 4.2, 4.3)"};
  }
  ByteReader reader(octets);
  const std::uint8_t control = reader.u8();
  if ((control & kTaggedFlag) != 0) {
    auto& header = to.emplace<TaggedHeader>();
    read_control(header, control);
    header.rsvdulp = reader.u8();
    header.stag = reader.u32();
    header.tagged_offset = reader.u64();
    return std::nullopt;
  }
  auto& header = to.emplace<UntaggedHeader>();
  read_control(header, control);
  header.rsvdulp = reader.u8();
  header.rsvdulp_stag = reader.u32();
  header.queue_number = reader.u32();
  header.msn = reader.u32();
  header.message_offset = reader.u32();
  return std::nullopt;
}

Expected<Header, WireError> read_header(Octets octets) {
  Expected<Header, WireError> header;
  if (auto error = read_header(octets, *header)) header = unexpected(*error);
  return header;
}

std::optional<WireError> check_version(const Header& header) {
  const auto* tagged = std::get_if<TaggedHeader>(&header);
  const std::uint8_t version = tagged != nullptr ? tagged->version : std::get<UntaggedHeader>(header).version;
  if (version == kVersion || fault(Fault::ddp_version_not_checked)) return std::nullopt;
  return WireError{
      tagged != nullptr ? terminate::kDdpTaggedInvalidVersion : terminate::kDdpUntaggedInvalidVersion, 0,
      "DV is not 1 (RFC 5041 4.1)"};
}

Expected<Segment, WireError> decode_segment(Octets ulpdu) {
  const auto header = read_header(ulpdu);
  if (!header) return unexpected(header.error());
  if (const auto error = check_version(*header)) return unexpected(*error);
  return Segment{*header, ulpdu.subspan(header_size(*header))};
}

std::array<std::byte, kTaggedHeaderSize> encode(const TaggedHeader& header) {
  std::array<std::byte, kTaggedHeaderSize> octets{};
  ByteWriter writer(octets);
  writer.u8(control_octet(true, header.last, header.reserved, header.version));
  writer.u8(header.rsvdulp);
  writer.u32(header.stag);
  writer.u64(header.tagged_offset);
  return octets;
}

std::array<std::byte, kUntaggedHeaderSize> encode(const UntaggedHeader& header) {
  std::array<std::byte, kUntaggedHeaderSize> octets{};
  ByteWriter writer(octets);
  writer.u8(control_octet(false, header.last, header.reserved, header.version));
  writer.u8(header.rsvdulp);
  writer.u32(header.rsvdulp_stag);
  writer.u32(header.queue_number);
  writer.u32(header.msn);
  writer.u32(header.message_offset);
  return octets;
}

std::size_t encode(const Header& header, MutableOctets destination) {
  ByteWriter writer(destination);
  std::visit([&](const auto& h) { writer.bytes(encode(h)); }, header);
  return writer.position();
}

}  // namespace kbtp::ddp
