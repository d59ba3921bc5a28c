#include "proto/wire/hello.h"

#include "proto/wire/fields.h"

namespace kbtp::wire {

namespace {

/// What HELLO and HELLO_ACK have in common: Version 1, the opcode, at least the known length.
Decoded<Header> start(Octets octets, const Assignment& assignment, Opcode expected, std::size_t length) {
  const auto header = read_header(octets);
  if (!header) {
    return unexpected(WireError{{}, octets.size(), "G-38", "shorter than a header", {}});
  }
  if (header->version != kVersion) {
    return unexpected(WireError{{}, 0, "P-04", "header version is not 1", header});
  }
  if (assignment.opcode(header->opcode) != expected) {
    return unexpected(WireError{{}, 1, "G-05", "not the opcode that opens a session", header});
  }
  if (octets.size() < length) {
    return unexpected(WireError{{}, octets.size(), "P-04", "message too short", header});
  }
  return *header;
}

}  // namespace

std::vector<std::byte> encode(const Hello& hello, const Assignment& assignment) {
  const HelloLayout& at = assignment.hello;
  std::vector<std::byte> message(at.length);
  ByteWriter writer(message);
  write(writer, Header{.opcode = assignment.code(Opcode::hello),
                       .flags = assignment.bits_of(hello.wanted),
                       .request_id = hello.request_id,
                       .handle = hello.base_handle});
  set_field(message, at.min_version, hello.min_version);
  set_field(message, at.max_version, hello.max_version);
  set_field(message, at.max_requests, hello.max_requests);
  set_field(message, at.receive_size, hello.receive_size);
  set_field(message, at.quota, hello.quota);
  set_field(message, at.handle_count, hello.handle_count);
  set_field(message, at.identity, load_be<std::uint64_t>(hello.identity.octets.data()));
  set_field(message, at.identity + 8u, load_be<std::uint64_t>(hello.identity.octets.data() + 8));
  return message;
}

Decoded<Hello> decode_hello(Octets octets, const Assignment& assignment) {
  const HelloLayout& at = assignment.hello;
  const auto header = start(octets, assignment, Opcode::hello, at.length);
  if (!header) return unexpected(header.error());
  Hello hello;
  hello.request_id = header->request_id;
  hello.base_handle = header->handle;
  hello.wanted = assignment.features_from(header->flags);
  hello.min_version = field<std::uint8_t>(octets, at.min_version);
  hello.max_version = field<std::uint8_t>(octets, at.max_version);
  hello.max_requests = field<std::uint32_t>(octets, at.max_requests);
  hello.receive_size = field<std::uint32_t>(octets, at.receive_size);
  hello.quota = field<std::uint32_t>(octets, at.quota);
  hello.handle_count = field<std::uint64_t>(octets, at.handle_count);
  store_be(hello.identity.octets.data(), field<std::uint64_t>(octets, at.identity));
  store_be(hello.identity.octets.data() + 8, field<std::uint64_t>(octets, at.identity + 8u));
  return hello;
}

std::vector<std::byte> encode(const HelloAck& ack, const Assignment& assignment) {
  const HelloAckLayout& at = assignment.hello_ack;
  std::vector<std::byte> message(at.length);
  ByteWriter writer(message);
  write(writer,
        Header{.opcode = assignment.code(Opcode::hello_ack),
               .flags = assignment.bits_of(ack.granted),
               .request_id = ack.request_id,
               .handle = ack.base_handle,
               .status = ack.status == Status::unassigned ? ack.status_code : assignment.code(ack.status)});
  set_field(message, at.version, ack.version);
  set_field(message, at.min_version, ack.min_version);
  set_field(message, at.max_version, ack.max_version);
  set_field(message, at.ring_log2, ack.ring_log2);
  set_field(message, at.max_requests, ack.max_requests);
  set_field(message, at.max_inline, ack.max_inline);
  set_field(message, at.block_size, ack.block_size);
  set_field(message, at.handle_count, ack.handle_count);
  set_field(message, at.table_base_handle, ack.table_base_handle);
  set_field(message, at.table_handle_count, ack.table_handle_count);
  set_field(message, at.pool_blocks, ack.pool_blocks);
  set_field(message, at.quota, ack.quota);
  set_field(message, at.usage, ack.usage);
  set_field(message, at.ticket_timeout_ms, ack.ticket_timeout_ms);
  set_field(message, at.table_stag, ack.table_stag);
  set_field(message, at.table_offset, ack.table_offset);
  set_field(message, at.pool_stag, ack.pool_stag);
  set_field(message, at.partition_stag, ack.partition_stag);
  set_field(message, at.ring_stag, ack.ring_stag);
  set_field(message, at.head_stag, ack.head_stag);
  set_field(message, at.ring_offset, ack.ring_offset);
  set_field(message, at.head_offset, ack.head_offset);
  set_field(message, at.pool_offset, ack.pool_offset);
  set_field(message, at.pool_length, ack.pool_length);
  set_field(message, at.partition_offset, ack.partition_offset);
  set_field(message, at.partition_length, ack.partition_length);
  return message;
}

Decoded<HelloAck> decode_hello_ack(Octets octets, const Assignment& assignment) {
  const HelloAckLayout& at = assignment.hello_ack;
  const auto header = start(octets, assignment, Opcode::hello_ack, at.length);
  if (!header) return unexpected(header.error());
  HelloAck ack;
  ack.request_id = header->request_id;
  ack.base_handle = header->handle;
  ack.granted = assignment.features_from(header->flags);
  ack.status = assignment.status(header->status);
  ack.status_code = header->status;
  ack.version = field<std::uint8_t>(octets, at.version);
  ack.min_version = field<std::uint8_t>(octets, at.min_version);
  ack.max_version = field<std::uint8_t>(octets, at.max_version);
  ack.ring_log2 = field<std::uint8_t>(octets, at.ring_log2);
  ack.max_requests = field<std::uint32_t>(octets, at.max_requests);
  ack.max_inline = field<std::uint32_t>(octets, at.max_inline);
  ack.block_size = field<std::uint32_t>(octets, at.block_size);
  ack.handle_count = field<std::uint64_t>(octets, at.handle_count);
  ack.table_base_handle = field<std::uint64_t>(octets, at.table_base_handle);
  ack.table_handle_count = field<std::uint64_t>(octets, at.table_handle_count);
  ack.pool_blocks = field<std::uint64_t>(octets, at.pool_blocks);
  ack.quota = field<std::uint32_t>(octets, at.quota);
  ack.usage = field<std::uint32_t>(octets, at.usage);
  ack.ticket_timeout_ms = field<std::uint32_t>(octets, at.ticket_timeout_ms);
  ack.table_stag = field<std::uint32_t>(octets, at.table_stag);
  ack.table_offset = field<std::uint64_t>(octets, at.table_offset);
  ack.pool_stag = field<std::uint32_t>(octets, at.pool_stag);
  ack.partition_stag = field<std::uint32_t>(octets, at.partition_stag);
  ack.ring_stag = field<std::uint32_t>(octets, at.ring_stag);
  ack.head_stag = field<std::uint32_t>(octets, at.head_stag);
  ack.ring_offset = field<std::uint64_t>(octets, at.ring_offset);
  ack.head_offset = field<std::uint64_t>(octets, at.head_offset);
  ack.pool_offset = field<std::uint64_t>(octets, at.pool_offset);
  ack.pool_length = field<std::uint64_t>(octets, at.pool_length);
  ack.partition_offset = field<std::uint64_t>(octets, at.partition_offset);
  ack.partition_length = field<std::uint64_t>(octets, at.partition_length);
  return ack;
}

}  // namespace kbtp::wire
