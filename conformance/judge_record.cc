// Judges of completion records (6.5), which InfiniBand and RoCE have (9.2).

#include <fmt/format.h>

#include "conformance/judge.h"
#include "conformance/judge_text.h"
#include "proto/wire/structures.h"

namespace kbtp::conformance {

namespace {

using wire::CompletionDescriptor;

struct RecordSeen {
  const Segment* write = nullptr;
  wire::CompletionRecord record = {};
};

/// The one record in `slot`, or why there is not exactly one.
Expected<RecordSeen, Finding> the_record(const Evidence& evidence, ConnectionIndex c,
                                         const CompletionDescriptor& slot) {
  const Conversation& conversation = evidence.on(c);
  const auto writes = conversation.writes_to(slot.stag);
  if (writes.empty()) {
    Finding none{Grade::wrong, "no RDMA Write to the Completion Descriptor", {}};
    if (const std::string end = how_it_ended(conversation); !end.empty()) none.observed += "; " + end;
    add_end_frames(conversation, none.frames);
    return unexpected(std::move(none));
  }
  if (writes.size() > 1) {
    Finding many{Grade::wrong, fmt::format("{} RDMA Writes to the Completion Descriptor", writes.size()), {}};
    for (const Segment* write : writes) many.frames.push_back(write->frame);
    return unexpected(std::move(many));
  }
  const Segment& write = *writes[0];
  const auto record = wire::decode_completion_record(write.payload, evidence.assignment());
  if (!record || write.tagged_offset != slot.tagged_offset)
    return unexpected(Finding{Grade::wrong,
                              fmt::format("an RDMA Write of {} octets at Tagged Offset {:#x}",
                                          write.payload.size(), write.tagged_offset),
                              {write.frame}});
  return RecordSeen{&write, *record};
}

/// The status of the record in `slot`, which is to be one of `id`.
Finding judge_status(const Evidence& evidence, ConnectionIndex c, RequestId id,
                     const CompletionDescriptor& slot, wire::Status due) {
  const auto seen = the_record(evidence, c, slot);
  if (!seen) return seen.error();
  const wire::CompletionRecord& record = seen->record;
  Finding finding{Grade::wrong,
                  fmt::format("a record of Request ID {:#x} with {}", record.request_id,
                              status_text(record.status, record.status_code)),
                  {seen->write->frame}};
  if (record.request_id != id) return finding;
  if (record.status == due) {
    finding.grade = Grade::exact;
  } else if (due != wire::Status::success && record.status != wire::Status::success) {
    finding.grade = Grade::weak;
  }
  return finding;
}

}  // namespace

Expectation records(std::string rule, ConnectionIndex c, RequestId id, const CompletionDescriptor& slot,
                    wire::Status due) {
  return {
      std::move(rule),
      fmt::format("a completion record with {} for Request ID {:#x} at STag {:#010x}, Tagged Offset {:#x}",
                  wire::to_string(due), id, slot.stag, slot.tagged_offset),
      [=](const Evidence& evidence) { return judge_status(evidence, c, id, slot, due); }};
}

Expectation records_entry(std::string rule, ConnectionIndex c, RequestId earlier,
                          const CompletionDescriptor& slot, std::uint32_t data_length) {
  return {
      std::move(rule),
      fmt::format("the record has Data Length {}, and Generation and Block Offset of the COMPLETION of {:#x}",
                  data_length, earlier),
      [=](const Evidence& evidence) -> Finding {
        const auto told = evidence.on(c).completions_of(earlier);
        if (told.size() != 1)
          return {Grade::unclear, fmt::format("{} COMPLETIONs of {:#x}", told.size(), earlier), {}};
        const auto seen = the_record(evidence, c, slot);
        if (!seen) return seen.error();
        const wire::Completion& before = told[0]->completion;
        const wire::CompletionRecord& record = seen->record;
        const bool good = record.data_length == data_length && record.generation == before.generation &&
                          record.block_offset == before.block_offset;
        return {good ? Grade::exact : Grade::wrong,
                fmt::format("Data Length {}, Block Offset {:#x} after {:#x}, Generation {} after {}",
                            record.data_length, record.block_offset, before.block_offset, record.generation,
                            before.generation),
                {told[0]->frame, seen->write->frame}};
      }};
}

Expectation records_with_immediate(std::string rule, ConnectionIndex c, const CompletionDescriptor& slot) {
  return {std::move(rule), "the record comes by RDMA Write with Immediate",
          [=](const Evidence& evidence) -> Finding {
            const auto seen = the_record(evidence, c, slot);
            if (!seen) return seen.error();
            const auto& immediate = seen->write->immediate;
            return {immediate ? Grade::exact : Grade::wrong,
                    immediate ? fmt::format("Immediate Data {:#010x}", *immediate) : "a plain RDMA Write",
                    {seen->write->frame}};
          }};
}

Expectation immediate_names(std::string rule, ConnectionIndex c, RequestId id,
                            const CompletionDescriptor& slot) {
  const auto due = static_cast<std::uint32_t>(id);
  return {std::move(rule), fmt::format("Immediate Data {:#010x}, the low half of the Request ID", due),
          [=](const Evidence& evidence) -> Finding {
            const auto seen = the_record(evidence, c, slot);
            if (!seen) return seen.error();
            const auto& immediate = seen->write->immediate;
            return {immediate == due ? Grade::exact : Grade::wrong,
                    immediate ? fmt::format("Immediate Data {:#010x}", *immediate) : "no Immediate Data",
                    {seen->write->frame}};
          }};
}

Expectation places_before_recording(std::string rule, ConnectionIndex c, std::uint32_t stag,
                                    const CompletionDescriptor& slot) {
  return {std::move(rule), fmt::format("all Writes to STag {:#010x} before the record", stag),
          [=](const Evidence& evidence) -> Finding {
            const auto seen = the_record(evidence, c, slot);
            if (!seen) return seen.error();
            const auto writes = evidence.on(c).writes_to(stag);
            if (writes.empty()) return {Grade::wrong, "no Write at all", {seen->write->frame}};
            for (const Segment* write : writes) {
              if (write->position > seen->write->position)
                return {Grade::wrong, "a Write after the record", {seen->write->frame, write->frame}};
            }
            return {Grade::exact, "in that order", {writes.back()->frame, seen->write->frame}};
          }};
}

Expectation refuses_either_way(const std::string& rule, ConnectionIndex c, RequestId id,
                               const CompletionDescriptor& slot, wire::Status due) {
  return {rule,
          fmt::format("Request ID {:#x} is refused with {}, by a COMPLETION or a record", id,
                      wire::to_string(due)),
          [=, message = refuses(rule, c, id, due)](const Evidence& evidence) {
            const bool recorded = !evidence.on(c).writes_to(slot.stag).empty();
            return recorded ? judge_status(evidence, c, id, slot, due) : message.judge(evidence);
          }};
}

}  // namespace kbtp::conformance
