// Judges of connection set-up, Terminates and the end of a stream.

#include <algorithm>
#include <fmt/format.h>

#include "conformance/judge.h"
#include "conformance/judge_text.h"

namespace kbtp::conformance {

namespace {

Triple triple_of(const Terminate& terminate) { return {terminate.layer, terminate.type, terminate.code}; }

std::string list(const std::vector<Triple>& triples) {
  std::vector<std::string> texts;
  for (const Triple& triple : triples) texts.push_back(to_string(triple));
  return fmt::format("{}", fmt::join(texts, " or "));
}

const Segment* first_target_fpdu(const Conversation& conversation) {
  const auto found =
      std::ranges::find_if(conversation.segments, [](const Segment& s) { return s.from == Side::target; });
  return found == conversation.segments.end() ? nullptr : &*found;
}

}  // namespace

std::string to_string(const Triple& triple) {
  return fmt::format("{}/{}/{:02x}", triple.layer, triple.type, triple.code);
}

std::string status_text(wire::Status status, std::uint16_t code) {
  if (status != wire::Status::unassigned) return std::string(wire::to_string(status));
  return fmt::format("status {}", code);
}

std::string how_it_ended(const Conversation& conversation) {
  std::vector<std::string> parts;
  for (const Terminate& terminate : conversation.terminates)
    parts.push_back("Terminate " + to_string(triple_of(terminate)));
  if (conversation.target_closed) parts.emplace_back(conversation.target_reset ? "RST" : "FIN");
  return fmt::format("{}", fmt::join(parts, ", then "));
}

void add_end_frames(const Conversation& conversation, std::vector<std::uint64_t>& frames) {
  for (const Terminate& terminate : conversation.terminates) frames.push_back(terminate.frame);
  if (conversation.target_closed) frames.push_back(conversation.target_closed_frame);
}

bool target_ended(const Conversation& conversation, bool after_ours) {
  if (!conversation.target_closed) return false;
  return after_ours || !conversation.suite_closed || *conversation.target_closed < *conversation.suite_closed;
}

Expectation accepts(std::string rule, ConnectionIndex c, ReplySpec spec) {
  std::string expected = "an accepting MPA Reply";
  if (spec.enhanced) expected += *spec.enhanced ? ", enhanced (S=1)" : ", not enhanced (S=0)";
  if (spec.min_revision > 1) expected += fmt::format(", revision {} or later", spec.min_revision);
  if (spec.max_revision < 255) expected += fmt::format(", revision {} at most", spec.max_revision);
  if (spec.max_ord) expected += fmt::format(", ORD at most {}", *spec.max_ord);
  if (spec.ird) expected += fmt::format(", IRD {}", *spec.ird);
  if (spec.reserved) expected += fmt::format(", reserved bits {:#04x}", *spec.reserved);
  if (spec.peer_to_peer) expected += *spec.peer_to_peer ? ", peer-to-peer (A=1) with a kind of RTR" : ", A=0";
  return {std::move(rule), std::move(expected), [=](const Evidence& evidence) -> Finding {
            const Conversation& conversation = evidence.on(c);
            if (!conversation.reply) {
              Finding none{Grade::wrong, "no Reply", {}};
              if (const std::string end = how_it_ended(conversation); !end.empty())
                none.observed += "; " + end;
              add_end_frames(conversation, none.frames);
              return none;
            }
            const SetupFrame& reply = *conversation.reply;
            bool good = !reply.reject;
            if (spec.enhanced) good &= reply.enhanced == *spec.enhanced;
            good &= reply.revision >= spec.min_revision;
            if (spec.max_ord) good &= reply.ord <= *spec.max_ord;
            if (spec.ird) good &= reply.ird == *spec.ird;
            if (spec.reserved) good &= reply.reserved == *spec.reserved;
            const bool rtr = reply.rtr_send || reply.rtr_write || reply.rtr_read;
            if (spec.peer_to_peer)
              good &= reply.peer_to_peer == *spec.peer_to_peer && (rtr || !reply.peer_to_peer);
            const bool newer = reply.revision > spec.max_revision;
            return {
                !good   ? Grade::wrong
                : newer ? Grade::weak
                        : Grade::exact,
                fmt::format(
                    "Reply with R={:d} S={:d}, reserved bits {:#04x}, revision {}, IRD {}, ORD {}, A={:d}",
                    reply.reject, reply.enhanced, reply.reserved, reply.revision, reply.ird, reply.ord,
                    reply.peer_to_peer),
                {reply.frame}};
          }};
}

Expectation closes_in_setup(std::string rule, ConnectionIndex c, bool may_reject) {
  return {std::move(rule), "the target closes without an accepting Reply and without an FPDU",
          [=](const Evidence& evidence) -> Finding {
            const Conversation& conversation = evidence.on(c);
            Finding finding{Grade::wrong, "", {}};
            if (conversation.reply) finding.frames.push_back(conversation.reply->frame);
            add_end_frames(conversation, finding.frames);
            if (conversation.reply && !conversation.reply->reject) {
              finding.observed = "an accepting Reply";
            } else if (const Segment* fpdu = first_target_fpdu(conversation)) {
              finding.observed = "an FPDU";
              finding.frames.push_back(fpdu->frame);
            } else if (conversation.target_unframed) {
              finding.observed = "octets that are neither a Reply nor an FPDU";
            } else if (!target_ended(conversation, true)) {
              finding.observed = "the connection stays open";
            } else if (conversation.reply) {
              finding.grade = may_reject ? Grade::weak : Grade::wrong;
              finding.observed = "a rejecting Reply, then " + how_it_ended(conversation);
            } else {
              finding.grade = Grade::exact;
              finding.observed = how_it_ended(conversation) + " without a word";
            }
            return finding;
          }};
}

Expectation opens_session(std::string rule, ConnectionIndex c) {
  return {std::move(rule), "HELLO_ACK with SUCCESS", [=](const Evidence& evidence) -> Finding {
            const Conversation& conversation = evidence.on(c);
            if (!conversation.hello_ack) {
              Finding none{Grade::wrong, "no HELLO_ACK; " + how_it_ended(conversation), {}};
              add_end_frames(conversation, none.frames);
              return none;
            }
            const bool good = conversation.hello_ack->status == wire::Status::success;
            return {good ? Grade::exact : Grade::wrong,
                    fmt::format("HELLO_ACK with {}", wire::to_string(conversation.hello_ack->status)),
                    {conversation.hello_ack_frame}};
          }};
}

Expectation refuses_session(std::string rule, ConnectionIndex c, wire::Status due) {
  return {std::move(rule), fmt::format("HELLO_ACK with {}", wire::to_string(due)),
          [=](const Evidence& evidence) -> Finding {
            const Conversation& conversation = evidence.on(c);
            if (!conversation.hello_ack) {
              Finding none{target_ended(conversation) ? Grade::weak : Grade::wrong,
                           "no HELLO_ACK; " + how_it_ended(conversation),
                           {}};
              add_end_frames(conversation, none.frames);
              return none;
            }
            const wire::Status seen = conversation.hello_ack->status;
            return {seen == due                     ? Grade::exact
                    : seen == wire::Status::success ? Grade::wrong
                                                    : Grade::weak,
                    fmt::format("HELLO_ACK with {}", wire::to_string(seen)),
                    {conversation.hello_ack_frame}};
          }};
}

Expectation keeps_range(std::string rule, ConnectionIndex earlier, ConnectionIndex later,
                        std::uint32_t usage) {
  return {std::move(rule), fmt::format("HELLO_ACK with the range of before and Usage {}", usage),
          [=](const Evidence& evidence) -> Finding {
            const auto& before = evidence.on(earlier).hello_ack;
            const auto& after = evidence.on(later).hello_ack;
            if (!before || !after) return {Grade::wrong, "no HELLO_ACK", {}};
            const bool good = after->status == wire::Status::success &&
                              after->base_handle == before->base_handle &&
                              after->handle_count == before->handle_count && after->usage == usage;
            return {good ? Grade::exact : Grade::wrong,
                    fmt::format("{} handles from {} after {} from {}, Usage {}", after->handle_count,
                                after->base_handle, before->handle_count, before->base_handle, after->usage),
                    {evidence.on(later).hello_ack_frame}};
          }};
}

Expectation withholds(std::string rule, ConnectionIndex c, wire::Feature feature) {
  return {std::move(rule), fmt::format("HELLO_ACK without {}", wire::to_string(feature)),
          [=](const Evidence& evidence) -> Finding {
            const Conversation& conversation = evidence.on(c);
            if (!conversation.hello_ack) return {Grade::wrong, "no HELLO_ACK", {}};
            const auto bits = evidence.assignment().bits_of(conversation.hello_ack->granted);
            const bool set = (bits & evidence.assignment().code(feature)) != 0;
            return {set ? Grade::wrong : Grade::exact,
                    fmt::format("features {:#06x}", bits),
                    {conversation.hello_ack_frame}};
          }};
}

Expectation terminates(std::string rule, ConnectionIndex c, const std::vector<Triple>& due,
                       const std::vector<Triple>& tolerated, const std::vector<Triple>& without) {
  std::string expected = "Terminate " + list(due);
  if (!tolerated.empty()) expected += " (tolerated: " + list(tolerated) + ")";
  if (!without.empty()) expected += " (" + list(without) + " where it is not supported)";
  expected += ", then close";
  return {std::move(rule), std::move(expected), [=](const Evidence& evidence) -> Finding {
            const Conversation& conversation = evidence.on(c);
            Finding finding{Grade::wrong, how_it_ended(conversation), {}};
            add_end_frames(conversation, finding.frames);
            if (conversation.terminates.empty()) {
              if (target_ended(conversation)) {
                finding.grade = Grade::weak;
                finding.observed += " without a Terminate";
              } else {
                finding.observed = "the stream goes on: neither a Terminate nor a close";
              }
              return finding;
            }
            const Triple seen = triple_of(conversation.terminates.front());
            if (std::ranges::count(due, seen) != 0) {
              finding.grade = Grade::exact;
            } else if (std::ranges::count(tolerated, seen) != 0) {
              finding.grade = Grade::weak;
            } else if (std::ranges::count(without, seen) != 0) {
              finding.grade = Grade::unsupported;
            }
            if (finding.grade != Grade::wrong && !target_ended(conversation, true)) {
              finding.grade = Grade::wrong;
              finding.observed += ", but the connection stays open";
            }
            return finding;
          }};
}

Expectation copies_headers(std::string rule, ConnectionIndex c, const std::vector<std::byte>& ddp_header,
                           const std::optional<std::vector<std::byte>>& read_header) {
  return {std::move(rule),
          read_header ? "the Terminate carries the DDP and the RDMAP header as they were sent (M=D=R=1)"
                      : "the Terminate carries the DDP header as it was sent (M=D=1, R=0)",
          [=](const Evidence& evidence) -> Finding {
            const Conversation& conversation = evidence.on(c);
            if (conversation.terminates.empty()) return {Grade::weak, "no Terminate to look at", {}};
            const Terminate& terminate = conversation.terminates.front();
            Finding finding{Grade::wrong,
                            fmt::format("M={:d} D={:d} R={:d}", terminate.m, terminate.d, terminate.r),
                            {terminate.frame}};
            if (!terminate.m || !terminate.d || terminate.r != read_header.has_value()) return finding;
            if (terminate.ddp_header != ddp_header) {
              finding.observed += ", another DDP header than the one that was sent";
            } else if (read_header && terminate.rdmap_header != *read_header) {
              finding.observed += ", another RDMAP header than the one that was sent";
            } else {
              finding.grade = Grade::exact;
              finding.observed += ", headers equal";
            }
            return finding;
          }};
}

Expectation falls_silent(std::string rule, ConnectionIndex c) {
  return {std::move(rule), "no FPDU of the target behind its Terminate",
          [=](const Evidence& evidence) -> Finding {
            const Conversation& conversation = evidence.on(c);
            if (conversation.terminates.empty()) return {Grade::weak, "no Terminate to look at", {}};
            const Terminate& terminate = conversation.terminates.front();
            for (const Segment& segment : conversation.segments) {
              if (segment.from == Side::target && segment.position > terminate.position)
                return {Grade::wrong,
                        fmt::format("RDMAP opcode {:#x} behind the Terminate", segment.opcode),
                        {terminate.frame, segment.frame}};
            }
            return {Grade::exact, "silence", {terminate.frame}};
          }};
}

Expectation terminates_with_octets(std::string rule, ConnectionIndex c, std::uint32_t octets) {
  return {std::move(rule), fmt::format("a Terminate that begins with the octets {:08x}", octets),
          [=](const Evidence& evidence) -> Finding {
            const Conversation& conversation = evidence.on(c);
            if (conversation.terminates.empty()) return {Grade::weak, "no Terminate to look at", {}};
            const Terminate& terminate = conversation.terminates.front();
            return {terminate.control == octets ? Grade::exact : Grade::wrong,
                    fmt::format("{:08x}", terminate.control),
                    {terminate.frame}};
          }};
}

Expectation keeps_terminate_reserved_zero(std::string rule, ConnectionIndex c) {
  return {std::move(rule), "the reserved bits of the Terminate are zero",
          [=](const Evidence& evidence) -> Finding {
            const Conversation& conversation = evidence.on(c);
            if (conversation.terminates.empty()) return {Grade::weak, "no Terminate to look at", {}};
            const Terminate& terminate = conversation.terminates.front();
            return {terminate.reserved == 0 ? Grade::exact : Grade::wrong,
                    fmt::format("{:#06x}", terminate.reserved),
                    {terminate.frame}};
          }};
}

Expectation disconnects(std::string rule, ConnectionIndex c, bool plain) {
  return {std::move(rule),
          plain ? "the target closes, without a Terminate" : "the target ends the connection",
          [=](const Evidence& evidence) -> Finding {
            const Conversation& conversation = evidence.on(c);
            Finding finding{Grade::exact, how_it_ended(conversation), {}};
            add_end_frames(conversation, finding.frames);
            if (!target_ended(conversation)) {
              finding.grade = Grade::wrong;
              finding.observed = "the connection stays open";
            } else if (plain && !conversation.terminates.empty()) {
              finding.grade = Grade::wrong;
            }
            return finding;
          }};
}

Expectation sends_no_fpdu(std::string rule, ConnectionIndex c) {
  return {std::move(rule), "no FPDU of the target", [=](const Evidence& evidence) -> Finding {
            const Segment* fpdu = first_target_fpdu(evidence.on(c));
            if (fpdu == nullptr) return {Grade::exact, "none", {}};
            return {
                Grade::wrong, fmt::format("an FPDU with RDMAP opcode {:#x}", fpdu->opcode), {fpdu->frame}};
          }};
}

Expectation answers_empty_reads(std::string rule, ConnectionIndex c, std::size_t count) {
  return {std::move(rule), fmt::format("{} Read Response(s) of no octets", count),
          [=](const Evidence& evidence) -> Finding {
            Finding finding{Grade::wrong, "", {}};
            std::size_t octets = 0;
            for (const Segment& segment : evidence.on(c).segments) {
              if (segment.from != Side::target || !segment.tagged || segment.opcode != kOpReadResponse)
                continue;
              finding.frames.push_back(segment.frame);
              octets += segment.payload.size();
            }
            finding.observed =
                fmt::format("{} Read Response segments with {} octets", finding.frames.size(), octets);
            if (const std::string end = how_it_ended(evidence.on(c)); !end.empty() && finding.frames.empty())
              finding.observed += "; " + end;
            if (finding.frames.size() == count && octets == 0) finding.grade = Grade::exact;
            return finding;
          }};
}

Expectation reveals_nothing_of(std::string rule, ConnectionIndex c, const std::vector<std::byte>& data) {
  return {std::move(rule), "no Read Response with octets whose CRC had not come yet",
          [c, data](const Evidence& evidence) -> Finding {
            for (const Segment& segment : evidence.on(c).segments) {
              if (segment.from == Side::target && segment.tagged && segment.opcode == kOpReadResponse &&
                  std::ranges::equal(segment.payload, data))
                return {Grade::wrong, "a Read Response with exactly these", {segment.frame}};
            }
            return {Grade::exact, "none", {}};
          }};
}

Expectation answers_no_read(std::string rule, ConnectionIndex c) {
  return {std::move(rule), "no Read Response and no Atomic Response",
          [=](const Evidence& evidence) -> Finding {
            for (const Segment& segment : evidence.on(c).segments) {
              if (segment.from != Side::target) continue;
              if ((segment.tagged && segment.opcode == kOpReadResponse) ||
                  (!segment.tagged && segment.opcode == kOpAtomicResponse))
                return {Grade::wrong, fmt::format("RDMAP opcode {:#x}", segment.opcode), {segment.frame}};
            }
            return {Grade::exact, "none", {}};
          }};
}

Expectation stays_open(std::string rule, ConnectionIndex c) {
  return {std::move(rule), "the stream goes on", [=](const Evidence& evidence) -> Finding {
            const Conversation& conversation = evidence.on(c);
            Finding finding{Grade::exact, "it does", {}};
            if (!conversation.terminates.empty() || target_ended(conversation)) {
              finding.grade = Grade::wrong;
              finding.observed = how_it_ended(conversation);
              add_end_frames(conversation, finding.frames);
            }
            return finding;
          }};
}

}  // namespace kbtp::conformance
