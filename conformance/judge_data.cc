// Judges of RDMA Writes and Reads of the target.

#include <algorithm>
#include <fmt/format.h>

#include "conformance/judge.h"

namespace kbtp::conformance {

namespace {

/// Position and frame of the completion of `id`, or nothing.
const CompletionSeen* completion_of(const Conversation& conversation, RequestId id) {
  const auto found = std::ranges::find_if(
      conversation.completions, [&](const CompletionSeen& seen) { return seen.completion.request_id == id; });
  return found == conversation.completions.end() ? nullptr : &*found;
}

}  // namespace

Expectation places(std::string rule, ConnectionIndex c, std::uint32_t stag, std::uint64_t offset,
                   std::vector<std::byte> data) {
  std::string expected = fmt::format(
      "RDMA Writes to STag {:#010x} of exactly the {} octets of the block, from Tagged Offset {:#x}", stag,
      data.size(), offset);
  return {
      std::move(rule), std::move(expected),
      [c, stag, offset, data = std::move(data)](const Evidence& evidence) -> Finding {
        std::vector<bool> seen(data.size());
        std::vector<std::uint64_t> frames;
        std::size_t octets = 0;
        for (const Segment* write : evidence.on(c).writes_to(stag)) {
          frames.push_back(write->frame);
          if (write->payload.empty()) continue;
          const std::uint64_t at = write->tagged_offset - offset;
          if (write->tagged_offset < offset || at > data.size() || write->payload.size() > data.size() - at)
            return {
                Grade::wrong,
                fmt::format("a Write of {} octets at Tagged Offset {:#x}, outside the {} octets that are due",
                            write->payload.size(), write->tagged_offset, data.size()),
                {write->frame}};
          const auto due = Octets(data).subspan(at, write->payload.size());
          if (!std::ranges::equal(due, write->payload))
            return {Grade::wrong,
                    fmt::format("other octets than the block's at Tagged Offset {:#x}", write->tagged_offset),
                    {write->frame}};
          std::fill_n(seen.begin() + static_cast<std::ptrdiff_t>(at), write->payload.size(), true);
          octets += write->payload.size();
        }
        const auto missing = std::ranges::count(seen, false);
        if (missing != 0)
          return {Grade::wrong, fmt::format("{} of {} octets were never written", missing, data.size()),
                  frames};
        return {Grade::exact, fmt::format("{} octets in {} Writes", octets, frames.size()), frames};
      }};
}

Expectation places_nothing(std::string rule, ConnectionIndex c, std::uint32_t stag) {
  return {std::move(rule), fmt::format("no RDMA Write with payload to STag {:#010x}", stag),
          [=](const Evidence& evidence) -> Finding {
            for (const Segment* write : evidence.on(c).writes_to(stag)) {
              if (!write->payload.empty())
                return {
                    Grade::wrong, fmt::format("a Write of {} octets", write->payload.size()), {write->frame}};
            }
            return {Grade::exact, "none", {}};
          }};
}

Expectation places_before_completing(std::string rule, ConnectionIndex c, std::uint32_t stag, RequestId id) {
  return {std::move(rule),
          fmt::format("all Writes to STag {:#010x} before the COMPLETION of {:#x}", stag, id),
          [=](const Evidence& evidence) -> Finding {
            const CompletionSeen* completion = completion_of(evidence.on(c), id);
            if (completion == nullptr) return {Grade::wrong, "no COMPLETION", {}};
            const auto writes = evidence.on(c).writes_to(stag);
            if (writes.empty()) return {Grade::wrong, "no Write at all", {completion->frame}};
            for (const Segment* write : writes) {
              if (write->position > completion->position)
                return {Grade::wrong, "a Write after the COMPLETION", {completion->frame, write->frame}};
            }
            return {Grade::exact, "in that order", {writes.back()->frame, completion->frame}};
          }};
}

Expectation reads_nothing(std::string rule, ConnectionIndex c, std::uint32_t stag) {
  return {std::move(rule), fmt::format("no Read Request for STag {:#010x}", stag),
          [=](const Evidence& evidence) -> Finding {
            for (const ReadRequest& read : evidence.on(c).reads) {
              if (read.source_stag == stag)
                return {Grade::wrong, fmt::format("a Read Request for {} octets", read.size), {read.frame}};
            }
            return {Grade::exact, "none", {}};
          }};
}

Expectation reads(std::string rule, ConnectionIndex c, std::uint32_t stag, std::uint64_t offset,
                  std::uint32_t length) {
  return {std::move(rule),
          fmt::format("Read Requests for STag {:#010x} that cover exactly {} octets from Tagged Offset {:#x}",
                      stag, length, offset),
          [=](const Evidence& evidence) -> Finding {
            std::vector<std::uint64_t> frames;
            std::vector<std::pair<std::uint64_t, std::uint64_t>> covered;  // offset, end; within [0, length)
            for (const ReadRequest& read : evidence.on(c).reads) {
              if (read.size == 0) continue;
              frames.push_back(read.frame);
              const std::uint64_t at = read.source_offset - offset;
              if (read.source_stag != stag || read.source_offset < offset || at > length ||
                  read.size > length - at)
                return {Grade::wrong,
                        fmt::format("a Read Request for STag {:#010x}, {} octets at Tagged Offset {:#x}",
                                    read.source_stag, read.size, read.source_offset),
                        {read.frame}};
              covered.emplace_back(at, at + read.size);
            }
            std::ranges::sort(covered);
            std::uint64_t end = 0;
            for (const auto& [from, to] : covered) {
              if (from > end) break;
              end = std::max(end, to);
            }
            if (end < length)
              return {Grade::wrong, fmt::format("octets from {} on were never read", end), frames};
            return {Grade::exact, fmt::format("{} Read Requests cover it", covered.size()), frames};
          }};
}

Expectation completes_after_reading(std::string rule, ConnectionIndex c, RequestId id) {
  return {std::move(rule), fmt::format("the last Read Response before the COMPLETION of {:#x}", id),
          [=](const Evidence& evidence) -> Finding {
            const Conversation& conversation = evidence.on(c);
            const CompletionSeen* completion = completion_of(conversation, id);
            if (completion == nullptr) return {Grade::wrong, "no COMPLETION", {}};
            const Segment* last = nullptr;
            for (const Segment& segment : conversation.segments) {
              if (segment.from == Side::suite && segment.tagged && segment.opcode == kOpReadResponse)
                last = &segment;
            }
            if (last == nullptr) return {Grade::wrong, "nothing was read", {completion->frame}};
            const bool good = last->position < completion->position;
            return {good ? Grade::exact : Grade::wrong,
                    good ? "in that order" : "the COMPLETION came before the data",
                    {last->frame, completion->frame}};
          }};
}

Expectation keeps_reads_within(std::string rule, ConnectionIndex c, std::uint32_t limit) {
  return {std::move(rule), fmt::format("at most {} Read Requests outstanding", limit),
          [=](const Evidence& evidence) -> Finding {
            std::uint32_t outstanding = 0;
            std::uint32_t most = 0;
            std::uint64_t frame = 0;
            for (const Segment& segment : evidence.on(c).segments) {
              if (segment.from == Side::target && !segment.tagged && segment.opcode == kOpReadRequest) {
                if (++outstanding > most) {
                  most = outstanding;
                  frame = segment.frame;
                }
              } else if (segment.from == Side::suite && segment.tagged && segment.opcode == kOpReadResponse &&
                         segment.last && outstanding > 0) {
                --outstanding;
              }
            }
            if (most == 0) return {Grade::unclear, "the target read nothing", {}};
            return {most <= limit ? Grade::exact : Grade::wrong, fmt::format("{} at most", most), {frame}};
          }};
}

}  // namespace kbtp::conformance
