#include "rdmap_binding/rdmap/headers.h"

namespace kbtp::rdmap {

std::array<std::byte, kReadRequestSize> encode(const ReadRequest& header) {
  std::array<std::byte, kReadRequestSize> octets{};
  ByteWriter writer(octets);
  writer.u32(header.sink_stag);
  writer.u64(header.sink_to);
  writer.u32(header.size);
  writer.u32(header.source_stag);
  writer.u64(header.source_to);
  return octets;
}

std::array<std::byte, kImmediateSize> encode(const Immediate& header) {
  std::array<std::byte, kImmediateSize> octets{};
  store_be(octets.data(), header.data);
  return octets;
}

std::array<std::byte, kAtomicRequestSize> encode(const AtomicRequest& header) {
  std::array<std::byte, kAtomicRequestSize> octets{};
  ByteWriter writer(octets);
  writer.u32(static_cast<std::uint32_t>(header.operation) & kAtomicOpcodeMask);
  writer.u32(header.request_identifier);
  writer.u32(header.remote_stag);
  writer.u64(header.remote_to);
  writer.u64(header.add_or_swap_data);
  writer.u64(header.add_or_swap_mask);
  writer.u64(header.compare_data);
  writer.u64(header.compare_mask);
  return octets;
}

std::array<std::byte, kAtomicResponseSize> encode(const AtomicResponse& header) {
  std::array<std::byte, kAtomicResponseSize> octets{};
  ByteWriter writer(octets);
  writer.u32(header.request_identifier);
  writer.u64(header.original_value);
  return octets;
}

ReadRequest decode_read_request(std::span<const std::byte, kReadRequestSize> octets) {
  ByteReader reader(octets);
  ReadRequest header;
  header.sink_stag = reader.u32();
  header.sink_to = reader.u64();
  header.size = reader.u32();
  header.source_stag = reader.u32();
  header.source_to = reader.u64();
  return header;
}

Immediate decode_immediate(std::span<const std::byte, kImmediateSize> octets) {
  return {load_be<std::uint64_t>(octets.data())};
}

AtomicRequest decode_atomic_request(std::span<const std::byte, kAtomicRequestSize> octets) {
  ByteReader reader(octets);
  AtomicRequest header;
  header.operation = static_cast<AtomicOpcode>(reader.u32() & kAtomicOpcodeMask);
  header.request_identifier = reader.u32();
  header.remote_stag = reader.u32();
  header.remote_to = reader.u64();
  header.add_or_swap_data = reader.u64();
  header.add_or_swap_mask = reader.u64();
  header.compare_data = reader.u64();
  header.compare_mask = reader.u64();
  return header;
}

AtomicResponse decode_atomic_response(std::span<const std::byte, kAtomicResponseSize> octets) {
  ByteReader reader(octets);
  AtomicResponse header;
  header.request_identifier = reader.u32();
  header.original_value = reader.u64();
  return header;
}

}  // namespace kbtp::rdmap
