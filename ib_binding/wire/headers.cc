#include "ib_binding/wire/headers.h"

namespace kbtp::ib {

namespace {

std::uint32_t u24(ByteReader& reader) {
  const std::uint32_t high = reader.u8();
  return high << 16 | reader.u16();
}
void put_u24(ByteWriter& writer, std::uint32_t value) {
  writer.u8(static_cast<std::uint8_t>(value >> 16));
  writer.u16(static_cast<std::uint16_t>(value));
}
unsigned bit(bool set, unsigned at) { return set ? 1U << at : 0U; }

}  // namespace

Bth decode_bth(std::span<const std::byte, kBthSize> octets) {
  ByteReader reader(octets);
  Bth bth;
  bth.opcode.value = reader.u8();
  const std::uint8_t flags = reader.u8();
  bth.solicited_event = (flags & 0x80) != 0;
  bth.migration = (flags & 0x40) != 0;
  bth.pad_count = (flags >> 4) & 0x3;
  bth.transport_version = flags & 0xF;
  bth.partition_key = reader.u16();
  const std::uint8_t congestion = reader.u8();
  bth.fecn = (congestion & 0x80) != 0;
  bth.becn = (congestion & 0x40) != 0;
  bth.destination_qp = u24(reader);
  bth.acknowledge_request = (reader.u8() & 0x80) != 0;
  bth.psn = u24(reader);
  return bth;
}

std::array<std::byte, kBthSize> encode(const Bth& bth) {
  std::array<std::byte, kBthSize> octets{};
  ByteWriter writer(octets);
  writer.u8(bth.opcode.value);
  writer.u8(static_cast<std::uint8_t>(bit(bth.solicited_event, 7) | bit(bth.migration, 6) |
                                      (bth.pad_count & 0x3U) << 4 | (bth.transport_version & 0xFU)));
  writer.u16(bth.partition_key);
  writer.u8(static_cast<std::uint8_t>(bit(bth.fecn, 7) | bit(bth.becn, 6)));
  put_u24(writer, bth.destination_qp);
  writer.u8(static_cast<std::uint8_t>(bit(bth.acknowledge_request, 7)));
  put_u24(writer, bth.psn);
  return octets;
}

Deth decode_deth(std::span<const std::byte, kDethSize> octets) {
  ByteReader reader(octets);
  Deth deth;
  deth.queue_key = reader.u32();
  reader.skip(1);
  deth.source_qp = u24(reader);
  return deth;
}

std::array<std::byte, kDethSize> encode(const Deth& deth) {
  std::array<std::byte, kDethSize> octets{};
  ByteWriter writer(octets);
  writer.u32(deth.queue_key);
  writer.zeros(1);
  put_u24(writer, deth.source_qp);
  return octets;
}

Reth decode_reth(std::span<const std::byte, kRethSize> octets) {
  ByteReader reader(octets);
  Reth reth;
  reth.virtual_address = reader.u64();
  reth.remote_key = reader.u32();
  reth.dma_length = reader.u32();
  return reth;
}

std::array<std::byte, kRethSize> encode(const Reth& reth) {
  std::array<std::byte, kRethSize> octets{};
  ByteWriter writer(octets);
  writer.u64(reth.virtual_address);
  writer.u32(reth.remote_key);
  writer.u32(reth.dma_length);
  return octets;
}

AtomicEth decode_atomic_eth(std::span<const std::byte, kAtomicEthSize> octets) {
  ByteReader reader(octets);
  AtomicEth atomic;
  atomic.virtual_address = reader.u64();
  atomic.remote_key = reader.u32();
  atomic.swap_or_add = reader.u64();
  atomic.compare = reader.u64();
  return atomic;
}

std::array<std::byte, kAtomicEthSize> encode(const AtomicEth& atomic) {
  std::array<std::byte, kAtomicEthSize> octets{};
  ByteWriter writer(octets);
  writer.u64(atomic.virtual_address);
  writer.u32(atomic.remote_key);
  writer.u64(atomic.swap_or_add);
  writer.u64(atomic.compare);
  return octets;
}

Aeth decode_aeth(std::span<const std::byte, kAethSize> octets) {
  ByteReader reader(octets);
  Aeth aeth;
  aeth.syndrome = reader.u8();
  aeth.msn = u24(reader);
  return aeth;
}

std::array<std::byte, kAethSize> encode(const Aeth& aeth) {
  std::array<std::byte, kAethSize> octets{};
  ByteWriter writer(octets);
  writer.u8(aeth.syndrome);
  put_u24(writer, aeth.msn);
  return octets;
}

std::string_view describe(const Aeth& aeth) {
  switch (aeth.kind()) {
    case Aeth::Kind::ack:
      return "ACK";
    case Aeth::Kind::rnr_nak:
      return "RNR NAK";
    case Aeth::Kind::reserved:
      return "reserved syndrome";
    case Aeth::Kind::nak:
      break;
  }
  switch (aeth.value()) {  // IBTA Volume 1, Table 46
    case 0:
      return "NAK: PSN sequence error";
    case 1:
      return "NAK: invalid request";
    case 2:
      return "NAK: remote access error";
    case 3:
      return "NAK: remote operational error";
    case 4:
      return "NAK: invalid RD request";
    default:
      return "NAK: reserved code";
  }
}

}  // namespace kbtp::ib
