#include "proto/wire/completion.h"

#include "proto/wire/fields.h"

namespace kbtp::wire {

std::vector<std::byte> encode(const Completion& completion, const Assignment& assignment) {
  const CompletionLayout& at = assignment.completion;
  std::vector<std::byte> message(at.length);
  ByteWriter writer(message);
  write(writer,
        Header{.opcode = assignment.code(Opcode::completion),
               .flags = completion.flags,
               .request_id = completion.request_id,
               .handle = completion.handle,
               .generation = completion.generation,
               .status = completion.status == Status::unassigned ? completion.status_code
                                                                 : assignment.code(completion.status)});
  set_field(message, at.data_length, completion.data_length);
  set_field(message, at.block_offset, completion.block_offset);
  return message;
}

Decoded<Completion> decode_completion(Octets octets, const Assignment& assignment, Lengths lengths) {
  const auto header = read_header(octets);
  if (!header) {
    return unexpected(WireError{{}, octets.size(), "G-38", "shorter than a header", {}});
  }
  if (header->version != kVersion) {
    return unexpected(WireError{{}, 0, "KBTP-5.1-01", "header version is not 1", header});
  }
  if (assignment.opcode(header->opcode) != Opcode::completion) {
    return unexpected(WireError{{}, 1, "KBTP-5.1-02", "not a COMPLETION", header});
  }
  CompletionLayout at = assignment.completion;
  if (lengths == Lengths::lenient) {
    for (const CompletionLayout& known : {CompletionLayout{}, kPaddedCompletion}) {
      if (octets.size() == known.length) at = known;
    }
  }
  if (octets.size() != at.length) {
    return unexpected(WireError{{},
                                std::min<std::size_t>(octets.size(), at.length),
                                "G-38",
                                "a COMPLETION of another length",
                                header});
  }
  Completion completion;
  completion.request_id = header->request_id;
  completion.handle = header->handle;
  completion.status = assignment.status(header->status);
  completion.status_code = header->status;
  completion.generation = header->generation;
  completion.data_length = field<std::uint32_t>(octets, at.data_length);
  completion.block_offset = field<std::uint64_t>(octets, at.block_offset);
  completion.flags = header->flags;
  return completion;
}

std::array<std::byte, kCompletionRecordSize> encode(const CompletionRecord& record,
                                                    const Assignment& assignment) {
  std::array<std::byte, kCompletionRecordSize> octets{};
  ByteWriter writer(octets);
  writer.u64(record.request_id);
  writer.u16(record.status == Status::unassigned ? record.status_code : assignment.code(record.status));
  writer.u16(record.generation);
  writer.u32(record.data_length);
  writer.u64(record.block_offset);
  return octets;
}

std::optional<CompletionRecord> decode_completion_record(Octets octets, const Assignment& assignment) {
  if (octets.size() != kCompletionRecordSize) return std::nullopt;
  ByteReader reader(octets);
  CompletionRecord record;
  record.request_id = reader.u64();
  record.status_code = reader.u16();
  record.status = assignment.status(record.status_code);
  record.generation = reader.u16();
  record.data_length = reader.u32();
  record.block_offset = reader.u64();
  return record;
}

}  // namespace kbtp::wire
