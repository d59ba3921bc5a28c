// Judges of COMPLETION messages.

#include <fmt/format.h>
#include <map>
#include <set>

#include "conformance/judge.h"
#include "conformance/judge_text.h"
#include "proto/wire/structures.h"

namespace kbtp::conformance {

namespace {

/// The one completion of `id`, or why there is not exactly one.
Expected<const CompletionSeen*, Finding> the_completion(const Conversation& conversation, RequestId id) {
  const auto seen = conversation.completions_of(id);
  if (seen.size() == 1) return seen[0];
  if (seen.empty()) {
    Finding none{Grade::wrong, fmt::format("no COMPLETION for Request ID {:#x}", id), {}};
    if (const std::string end = how_it_ended(conversation); !end.empty()) none.observed += "; " + end;
    add_end_frames(conversation, none.frames);
    return unexpected(std::move(none));
  }
  Finding many{Grade::wrong, fmt::format("{} COMPLETIONs for Request ID {:#x}", seen.size(), id), {}};
  for (const auto* one : seen) many.frames.push_back(one->frame);
  return unexpected(std::move(many));
}

Finding judge_status(const Conversation& conversation, RequestId id, wire::Status due, bool lenient) {
  const auto seen = the_completion(conversation, id);
  if (!seen) return seen.error();
  const CompletionSeen& one = **seen;
  Finding finding{Grade::wrong,
                  "COMPLETION with " + status_text(one.completion.status, one.completion.status_code),
                  {one.frame}};
  if (one.version != wire::kVersion) {
    finding.observed += fmt::format(" in a message of version {}", one.version);
  } else if (one.completion.status == due) {
    finding.grade = Grade::exact;
  } else if (lenient && one.completion.status != wire::Status::success) {
    finding.grade = Grade::weak;
  }
  return finding;
}

}  // namespace

Expectation completes(std::string rule, ConnectionIndex c, RequestId id, wire::Status due) {
  return {std::move(rule), fmt::format("COMPLETION with {} for Request ID {:#x}", wire::to_string(due), id),
          [=](const Evidence& evidence) { return judge_status(evidence.on(c), id, due, false); }};
}

Expectation refuses(std::string rule, ConnectionIndex c, RequestId id, wire::Status due) {
  return {std::move(rule),
          fmt::format("COMPLETION that refuses Request ID {:#x} ({}; another refusal counts as weak)", id,
                      wire::to_string(due)),
          [=](const Evidence& evidence) { return judge_status(evidence.on(c), id, due, true); }};
}

Expectation refuses_or_completes(std::string rule, ConnectionIndex c, RequestId id) {
  return {std::move(rule), fmt::format("COMPLETION with SUCCESS or INVALID_REQUEST for Request ID {:#x}", id),
          [=](const Evidence& evidence) {
            Finding finding = judge_status(evidence.on(c), id, wire::Status::success, false);
            if (finding.grade == Grade::wrong)
              finding = judge_status(evidence.on(c), id, wire::Status::invalid_request, false);
            return finding;
          }};
}

Expectation stays_unanswered(std::string rule, ConnectionIndex c, RequestId id) {
  return {std::move(rule), fmt::format("no COMPLETION for Request ID {:#x}", id),
          [=](const Evidence& evidence) -> Finding {
            const auto seen = evidence.on(c).completions_of(id);
            if (seen.empty()) return {Grade::exact, "none", {}};
            return {
                Grade::wrong,
                "COMPLETION with " + status_text(seen[0]->completion.status, seen[0]->completion.status_code),
                {seen[0]->frame}};
          }};
}

Expectation echoes_request_ids(std::string rule, ConnectionIndex c) {
  return {std::move(rule),
          "each COMPLETION carries the Request ID of a request, each request has at most one",
          [=](const Evidence& evidence) -> Finding {
            const Conversation& conversation = evidence.on(c);
            std::set<RequestId> asked;
            for (const Segment& segment : conversation.segments) {
              if (segment.from != Side::suite || segment.tagged || segment.message_offset != 0) continue;
              if (const auto header = wire::read_header(segment.payload)) asked.insert(header->request_id);
            }
            std::map<RequestId, int> answers;
            for (const auto& seen : conversation.completions) {
              const RequestId id = seen.completion.request_id;
              if (!asked.contains(id))
                return {Grade::wrong, fmt::format("Request ID {:#x} was never asked", id), {seen.frame}};
              if (++answers[id] > 1)
                return {Grade::wrong, fmt::format("a second COMPLETION for {:#x}", id), {seen.frame}};
            }
            return {Grade::exact, fmt::format("{} COMPLETIONs, each echoes its request", answers.size()), {}};
          }};
}

Expectation invalidates(std::string rule, ConnectionIndex c, RequestId id,
                        std::optional<std::uint32_t> stag) {
  std::string expected =
      stag ? fmt::format("COMPLETION of {:#x} by Send with Invalidate of STag {:#010x}", id, *stag)
           : fmt::format("COMPLETION of {:#x} by a Send that invalidates nothing", id);
  return {std::move(rule), std::move(expected), [=](const Evidence& evidence) -> Finding {
            const auto seen = the_completion(evidence.on(c), id);
            if (!seen) return seen.error();
            const CompletionSeen& one = **seen;
            const std::string observed =
                one.invalidate ? fmt::format("Send with Invalidate of STag {:#010x}", *one.invalidate)
                               : fmt::format("RDMAP opcode {:#x} without Invalidate", one.opcode);
            return {one.invalidate == stag ? Grade::exact : Grade::wrong, observed, {one.frame}};
          }};
}

Expectation relates(std::string rule, ConnectionIndex c, RequestId earlier, RequestId later,
                    Relation relation) {
  std::vector<std::string> parts;
  if (relation.data_length) parts.push_back(fmt::format("Data Length {}", *relation.data_length));
  if (relation.same_block) parts.emplace_back("the same Block Offset");
  if (relation.other_block) parts.emplace_back("another Block Offset");
  if (relation.same_generation) parts.emplace_back("the same Generation");
  if (relation.next_generation) parts.emplace_back("the next Generation");
  std::string expected = fmt::format("the COMPLETION of {:#x} has {}, compared with that of {:#x}", later,
                                     fmt::join(parts, ", "), earlier);
  return {std::move(rule), std::move(expected), [=](const Evidence& evidence) -> Finding {
            const auto first = the_completion(evidence.on(c), earlier);
            if (!first) return first.error();
            const auto second = the_completion(evidence.on(c), later);
            if (!second) return second.error();
            const wire::Completion& a = (*first)->completion;
            const wire::Completion& b = (*second)->completion;
            bool good = true;
            if (relation.data_length) good &= b.data_length == *relation.data_length;
            if (relation.same_block) good &= a.block_offset == b.block_offset;
            if (relation.other_block)
              good &= a.block_offset != b.block_offset && b.block_offset != wire::kNoBlock;
            if (relation.same_generation) good &= a.generation == b.generation && b.generation != 0;
            if (relation.next_generation) good &= wire::next_generation(a.generation) == b.generation;
            return {good ? Grade::exact : Grade::wrong,
                    fmt::format("Data Length {}, Block Offset {:#x} after {:#x}, Generation {} after {}",
                                b.data_length, b.block_offset, a.block_offset, b.generation, a.generation),
                    {(*first)->frame, (*second)->frame}};
          }};
}

Expectation tells_nothing(std::string rule, ConnectionIndex c, RequestId id) {
  return {std::move(rule),
          fmt::format("the COMPLETION of {:#x} has Generation, Data Length and Block Offset 0", id),
          [=](const Evidence& evidence) -> Finding {
            const auto seen = the_completion(evidence.on(c), id);
            if (!seen) return seen.error();
            const wire::Completion& told = (*seen)->completion;
            const bool good = told.generation == 0 && told.data_length == 0 && told.block_offset == 0;
            return {good ? Grade::exact : Grade::wrong,
                    fmt::format("Generation {}, Data Length {}, Block Offset {:#x}", told.generation,
                                told.data_length, told.block_offset),
                    {(*seen)->frame}};
          }};
}

Expectation generations_wrap_without_zero(std::string rule, ConnectionIndex c) {
  return {std::move(rule), "the Generation goes once round, from 65535 to 1, and is never 0",
          [=](const Evidence& evidence) -> Finding {
            const Conversation& conversation = evidence.on(c);
            std::uint16_t before = 0;
            std::optional<std::uint64_t> wrap_frame;
            for (const auto& seen : conversation.completions) {
              if (seen.completion.status != wire::Status::success) continue;
              if (seen.completion.generation == 0)
                return {Grade::wrong, fmt::format("Generation 0 after {}", before), {seen.frame}};
              if (seen.completion.generation < before) wrap_frame = seen.frame;
              before = seen.completion.generation;
            }
            if (!wrap_frame)
              return {Grade::unclear,
                      fmt::format("the Generation has not wrapped in {} COMPLETIONs",
                                  conversation.completions.size()),
                      {}};
            return {Grade::exact,
                    fmt::format("{} COMPLETIONs, one wrap, never 0", conversation.completions.size()),
                    {*wrap_frame}};
          }};
}

}  // namespace kbtp::conformance
