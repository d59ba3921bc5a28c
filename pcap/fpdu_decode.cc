#include "pcap/fpdu_decode.h"

#include <algorithm>

#include "base/crc32c.h"
#include "rdmap_binding/mpa/fpdu.h"
#include "rdmap_binding/rdmap/segment.h"

namespace kbtp::trace {

namespace {

CrcState judge_crc(Octets stream, CrcUse use) {
  if (use == CrcUse::off) return CrcState::off;
  const std::size_t covered = stream.size() - mpa::kCrcSize;
  if (load_crc32c(stream.data() + covered) == crc32c(stream.first(covered))) return CrcState::good;
  return use == CrcUse::on ? CrcState::bad : CrcState::unknown;
}

/// The FPDU without markers, as far as it is there; at least its length field.
Octets without_markers(const RawFpdu& raw, Fpdu& fpdu, std::vector<std::byte>& scratch) {
  const Octets readable =
      raw.stream.first(std::min(raw.lacking_from.value_or(raw.stream.size()), raw.stream.size()));
  if (!raw.markers) return readable;
  const std::size_t first = raw.markers->until_marker();
  if (first < raw.size) {
    fpdu.markers = static_cast<std::uint16_t>(1 + (raw.size - 1 - first) / mpa::kMarkerInterval);
    fpdu.first_marker = static_cast<std::uint16_t>(first);
  }
  scratch.resize(readable.size());
  return mpa::remove_markers(scratch, readable, *raw.markers);
}

/// What the first octets of a ULPDU tell, be it right or wrong; why there is no header.
std::optional<WireError> read_leniently(Fpdu& fpdu) {
  const ddp::Header& header = fpdu.ddp.emplace();
  if (auto error = ddp::read_header(fpdu.ulpdu, *fpdu.ddp)) {
    fpdu.ddp.reset();
    return error;
  }
  fpdu.rdmap = rdmap::decode_control(ddp::rsvdulp(header));
  fpdu.payload_length = static_cast<std::uint32_t>(
      fpdu.ulpdu_length - std::min<std::size_t>(ddp::header_size(header), fpdu.ulpdu_length));
  return std::nullopt;
}

/// The same of a whole FPDU whose CRC is not bad, and what is wrong with it.
void read_strictly(Fpdu& fpdu, const RawFpdu& raw) {
  if (const auto error = read_leniently(fpdu)) {
    fpdu.error = *error;
  } else {
    const auto opcode = rdmap::check_head(*fpdu.ddp, fpdu.ulpdu.size());
    if (!opcode) {
      fpdu.error = opcode.error();
    } else if (!rdmap::facts(*opcode).has_payload) {
      if (const auto segment = rdmap::decode_segment(fpdu.ulpdu); !segment) fpdu.error = segment.error();
    }
  }
  if (raw.markers) {
    if (auto error = mpa::check_markers(raw.stream, *raw.markers)) fpdu.error = error;
  }
  if (auto error = mpa::check_length(fpdu.ulpdu_length)) fpdu.error = error;
}

}  // namespace

Octets Fpdu::payload() const {
  if (!ddp) return {};
  return ulpdu.subspan(std::min(ddp::header_size(*ddp), ulpdu.size()));
}

void decode_rdmap_header(Fpdu& fpdu) {
  const rdmap::OpcodeFacts* facts = rdmap::find_opcode(fpdu.rdmap.opcode);
  if (facts == nullptr || facts->tagged || fpdu.untagged() == nullptr) return;
  const Octets body = fpdu.payload();
  switch (facts->opcode) {
    case rdmap::Opcode::read_request:
      if (body.size() == rdmap::kReadRequestSize)
        fpdu.header = rdmap::decode_read_request(body.first<rdmap::kReadRequestSize>());
      break;
    case rdmap::Opcode::immediate:
    case rdmap::Opcode::immediate_se:
      if (body.size() == rdmap::kImmediateSize)
        fpdu.header = rdmap::decode_immediate(body.first<rdmap::kImmediateSize>());
      break;
    case rdmap::Opcode::atomic_request:
      if (body.size() == rdmap::kAtomicRequestSize)
        fpdu.header = rdmap::decode_atomic_request(body.first<rdmap::kAtomicRequestSize>());
      break;
    case rdmap::Opcode::atomic_response:
      if (body.size() == rdmap::kAtomicResponseSize)
        fpdu.header = rdmap::decode_atomic_response(body.first<rdmap::kAtomicResponseSize>());
      break;
    case rdmap::Opcode::terminate:
      if (const auto terminate = rdmap::decode_terminate(body)) fpdu.header = *terminate;
      break;
    case rdmap::Opcode::rdma_write:
    case rdmap::Opcode::read_response:
    case rdmap::Opcode::send:
    case rdmap::Opcode::send_invalidate:
    case rdmap::Opcode::send_se:
    case rdmap::Opcode::send_se_invalidate:
      break;
  }
}

void decode_fpdu(const RawFpdu& raw, CrcUse crc, std::vector<std::byte>& scratch, Fpdu& fpdu) {
  fpdu.extent = raw.lacking_from                ? Extent::lacking
                : raw.stream.size() >= raw.size ? Extent::whole
                                                : Extent::broken_off;
  const Octets clean = without_markers(raw, fpdu, scratch);
  fpdu.ulpdu_length = load_be<std::uint16_t>(clean.data());
  fpdu.ulpdu = clean.subspan(mpa::kLengthSize);
  fpdu.ulpdu = fpdu.ulpdu.first(std::min<std::size_t>(fpdu.ulpdu.size(), fpdu.ulpdu_length));
  if (fpdu.extent != Extent::whole) {
    static_cast<void>(read_leniently(fpdu));
    return;
  }
  fpdu.crc = judge_crc(raw.stream, crc);
  const Octets pad = clean.subspan(mpa::kLengthSize + fpdu.ulpdu_length, mpa::pad_size(fpdu.ulpdu_length));
  fpdu.pad_zero = std::all_of(pad.begin(), pad.end(), [](std::byte octet) { return octet == std::byte{0}; });
  if (fpdu.crc != CrcState::bad) {
    read_strictly(fpdu, raw);
  } else {
    static_cast<void>(read_leniently(fpdu));
  }
  decode_rdmap_header(fpdu);
}

}  // namespace kbtp::trace
