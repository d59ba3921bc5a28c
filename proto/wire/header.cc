#include "proto/wire/header.h"

namespace kbtp::wire {

std::optional<Header> read_header(Octets octets) {
  ByteReader reader(octets);
  Header header;
  header.version = reader.u8();
  header.opcode = reader.u8();
  header.flags = reader.u16();
  header.request_id = reader.u64();
  header.handle = reader.u64();
  header.generation = reader.u16();
  header.status = reader.u16();
  if (!reader.ok()) return std::nullopt;
  return header;
}

void write(ByteWriter& writer, const Header& header) {
  writer.u8(header.version);
  writer.u8(header.opcode);
  writer.u16(header.flags);
  writer.u64(header.request_id);
  writer.u64(header.handle);
  writer.u16(header.generation);
  writer.u16(header.status);
}

DataDescriptor read_data_descriptor(ByteReader& reader) {
  DataDescriptor descriptor;
  descriptor.stag = reader.u32();
  descriptor.tagged_offset = reader.u64();
  descriptor.length = reader.u32();
  return descriptor;
}

CompletionDescriptor read_completion_descriptor(ByteReader& reader) {
  CompletionDescriptor descriptor;
  descriptor.stag = reader.u32();
  descriptor.tagged_offset = reader.u64();
  reader.skip(4);  // reserved: ignored (G-00)
  return descriptor;
}

void write(ByteWriter& writer, const DataDescriptor& descriptor) {
  writer.u32(descriptor.stag);
  writer.u64(descriptor.tagged_offset);
  writer.u32(descriptor.length);
}

void write(ByteWriter& writer, const CompletionDescriptor& descriptor) {
  writer.u32(descriptor.stag);
  writer.u64(descriptor.tagged_offset);
  writer.zeros(4);
}

}  // namespace kbtp::wire
