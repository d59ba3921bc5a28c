// RFC 5041: what a DDP receiver checks, and what it does not look at.

#include "conformance/case_errors.h"

namespace kbtp::conformance::groups {

namespace {

using rdmap::Opcode;
using wire::Status;

void write_unknown_stag(Scene& s) {
  s.stimulus("an RDMA Write of 16 octets to a made-up STag, and a request behind it");
  Session& a = working_session(s);
  const auto bad = tagged_ulpdu(Opcode::rdma_write, 0xDEAD'BEEF, 0x1000, pattern(90, 16));
  provoke(s, a, "RFC5041-7.1-06", bad, {{1, 1, 0x00}}, {}, "RFC5041-7.1-13");
  s.expect(copies_headers("RFC5040-7.1-03", a.index(), header_of(bad)));
  s.expect(keeps_terminate_reserved_zero("RFC5040-4.8-04", a.index()));
}

void queue_number(Scene& s) {
  s.stimulus("a Send on queue number 77, and a request behind it");
  Session& a = working_session(s);
  if (s.stopped()) return;
  const Bait wrong = bait(a);
  auto header = rdmap::make_untagged(Opcode::send, a.raw().next_msn());
  header.queue_number = 77;
  const auto bad = ulpdu(header, wrong.octets);
  provoke(s, a, "RFC5041-7.1-01", bad, {{1, 2, 0x01}});
  s.expect(stays_unanswered("RFC5041-7.1-01", a.index(), wrong.id));
  s.expect(copies_headers("RFC5040-7.1-03", a.index(), header_of(bad)));
}

void msn_far(Scene& s) {
  s.stimulus("a Send whose MSN is 100,000 too high");
  Session& a = working_session(s);
  if (s.stopped()) return;
  const Bait wrong = bait(a);
  const auto bad = ulpdu(rdmap::make_untagged(Opcode::send, a.raw().next_msn() + 100'000), wrong.octets);
  // Nothing behind it: a target that takes the gap would choke on a lower MSN before it answers.
  a.raw().send_fpdu(bad);
  a.peer().wait_for_end();
  s.expect(terminates("RFC5041-7.1-05", a.index(), {{1, 2, 0x03}}, {{1, 2, 0x02}}));
  s.expect(falls_silent("RFC5040-5.4-04", a.index()));
  s.expect(stays_unanswered("RFC5041-7.1-05", a.index(), wrong.id));
}

void msn_repeated(Scene& s) {
  s.stimulus("a Send that repeats the MSN of the one before, and a request behind it");
  Session& a = working_session(s);
  if (s.stopped()) return;
  const Bait wrong = bait(a);
  const auto bad = ulpdu(rdmap::make_untagged(Opcode::send, a.raw().next_msn() - 1), wrong.octets);
  provoke(s, a, "RFC5041-4.3-05", bad, {{1, 2, 0x03}}, {{1, 2, 0x02}});
  s.expect(stays_unanswered("RFC5041-4.3-05", a.index(), wrong.id));
}

void message_offset(Scene& s) {
  s.stimulus("a Send with message offset 1,048,576, and a request behind it");
  Session& a = working_session(s);
  if (s.stopped()) return;
  const Bait wrong = bait(a);
  const auto bad = ulpdu(rdmap::make_untagged(Opcode::send, a.raw().next_msn(), 1 << 20), wrong.octets);
  provoke(s, a, "RFC5041-7.1-03", bad, {{1, 2, 0x04}}, {{1, 2, 0x05}});
  s.expect(stays_unanswered("RFC5041-7.1-03", a.index(), wrong.id));
}

void message_too_long(Scene& s) {
  s.stimulus("a Send longer than any request that HELLO_ACK allows");
  Session& a = working_session(s);
  if (s.stopped()) return;
  const std::size_t most =
      wire::kHeaderSize + wire::kDataDescriptorSize + wire::kCompletionDescriptorSize + a.ack().max_inline;
  if (most > 50'000) return s.stop(State::skip, "the target takes requests as long as an FPDU");
  const auto bad = ulpdu(rdmap::make_untagged(Opcode::send, a.raw().next_msn()), pattern(91, most + 4096));
  provoke(s, a, "RFC5041-7.1-04", bad, {{1, 2, 0x05}});
}

void version_untagged(Scene& s) {
  s.stimulus("a Send with DDP version 2, and a request behind it");
  Session& a = working_session(s);
  if (s.stopped()) return;
  const Bait wrong = bait(a);
  auto header = rdmap::make_untagged(Opcode::send, a.raw().next_msn());
  header.version = 2;
  const auto bad = ulpdu(header, wrong.octets);
  provoke(s, a, "RFC5041-4.1-06", bad, {{1, 2, 0x06}});
  s.expect(stays_unanswered("RFC5041-4.1-06", a.index(), wrong.id));
}

void version_tagged(Scene& s) {
  s.stimulus("an RDMA Write with DDP version 0, and a request behind it");
  Session& a = working_session(s);
  auto header = rdmap::make_tagged(Opcode::rdma_write, 0x1234'5678, 0, true);
  header.version = 0;
  provoke(s, a, "RFC5041-4.1-06", ulpdu(header, pattern(92, 16)), {{1, 1, 0x04}});
}

/// A store whose Read Request waits; the case answers it in a wrong way.
std::optional<rdmap::ReadRequest> pending_read(Scene& s, Session& a, RequestId& id) {
  if (s.stopped()) return std::nullopt;
  a.raw().hold_reads(true);
  id = a.alloc_store(a.handle(0), a.peer().expose(2048), {});
  s.need(a.peer().pump([&] { return !a.raw().pending_reads().empty(); }),
         "the target did not ask for the data of the store");
  if (s.stopped()) return std::nullopt;
  return a.raw().pending_reads().front();
}

void response_too_long(Scene& s) {
  s.stimulus("a Read Response that ends one octet behind the sink of the target's Read");
  Session& a = s.session();
  RequestId id = 0;
  const auto read = pending_read(s, a, id);
  if (!read) return;
  const auto bad =
      tagged_ulpdu(Opcode::read_response, read->sink_stag, read->sink_to, pattern(93, read->size + 1));
  provoke(s, a, "RFC5041-7.1-09", bad, {{1, 1, 0x01}});
  s.expect(stays_unanswered("RFC5041-7.1-09", a.index(), id));
  s.expect(copies_headers("RFC5040-7.1-03", a.index(), header_of(bad)));
}

void response_wraps(Scene& s) {
  s.stimulus("a Read Response of 16 octets at Tagged Offset 2^64 - 4");
  Session& a = s.session();
  RequestId id = 0;
  const auto read = pending_read(s, a, id);
  if (!read) return;
  const auto bad =
      tagged_ulpdu(Opcode::read_response, read->sink_stag, ~std::uint64_t{0} - 3, pattern(94, 16));
  provoke(s, a, "RFC5041-7.1-10", bad, {{1, 1, 0x03}}, {{1, 1, 0x01}});
  s.expect(stays_unanswered("RFC5041-7.1-10", a.index(), id));
}

void empty_write(Scene& s) {
  s.stimulus("an RDMA Write of no octets to a made-up STag, and a request behind it");
  Session& a = working_session(s);
  if (s.stopped()) return;
  a.raw().send_fpdu(tagged_ulpdu(Opcode::rdma_write, 0xDEAD'BEEF, ~std::uint64_t{0}, {}));
  const RequestId behind = a.free(a.handle(1));
  a.await(behind);
  s.expect(stays_open("RFC5041-5.2-09", a.index()));
  s.expect(refuses("RFC5041-5.2-09", a.index(), behind, Status::not_bound));
}

void reserved_bits(Scene& s) {
  s.stimulus("a request in a segment whose four reserved bits are set");
  Session& a = working_session(s);
  if (s.stopped()) return;
  const Bait request = bait(a);
  auto segment = a.raw().next_send(request.octets);
  segment[0] |= static_cast<std::byte>(ddp::kReservedMask);
  a.raw().send_fpdu(segment);
  a.await(request.id);
  s.expect(refuses("RFC5041-4.1-05", a.index(), request.id, Status::not_bound));
}

}  // namespace

std::vector<Case> ddp() {
  return {
      {"ddp.write.unknown-stag",
       {"RFC5041-7.1-06", "RFC5041-7.1-13", "RFC5040-7.1-03", "RFC5040-5.4-04", "RFC5040-4.8-04"},
       Capability::none,
       "a Write needs a valid STag",
       write_unknown_stag},
      {"ddp.send.queue-number",
       {"RFC5041-7.1-01", "RFC5040-7.1-03", "RFC5040-5.4-04", "RFC5040-7-01"},
       Capability::none,
       "queue numbers are checked",
       queue_number},
      {"ddp.send.msn-far",
       {"RFC5041-7.1-05", "RFC5040-5.4-04"},
       Capability::none,
       "an MSN beyond the posted buffers is refused",
       msn_far},
      {"ddp.send.msn-repeated",
       {"RFC5041-4.3-05", "RFC5040-5.4-04", "RFC5040-7-01"},
       Capability::none,
       "an MSN is used once",
       msn_repeated},
      {"ddp.send.message-offset",
       {"RFC5041-7.1-03", "RFC5040-5.4-04", "RFC5040-7-01"},
       Capability::none,
       "a message offset outside the buffer is refused",
       message_offset},
      {"ddp.send.too-long",
       {"RFC5041-7.1-04", "RFC5040-5.4-04", "RFC5040-7-01"},
       Capability::none,
       "a Send must fit its buffer",
       message_too_long},
      {"ddp.version.untagged",
       {"RFC5041-4.1-06", "RFC5040-5.4-04", "RFC5040-7-01"},
       Capability::none,
       "an untagged segment of another DDP version is refused",
       version_untagged},
      {"ddp.version.tagged",
       {"RFC5041-4.1-06", "RFC5040-5.4-04", "RFC5040-7-01"},
       Capability::none,
       "a tagged segment of another DDP version is refused",
       version_tagged},
      {"ddp.response.too-long",
       {"RFC5041-7.1-09", "RFC5040-7.1-03", "RFC5040-5.4-04", "RFC5040-7-01"},
       Capability::none,
       "a Read Response stays inside its sink",
       response_too_long},
      {"ddp.response.wraps",
       {"RFC5041-7.1-10", "RFC5040-5.4-04", "RFC5040-7-01"},
       Capability::none,
       "Tagged Offsets do not wrap",
       response_wraps},
      {"ddp.write.empty",
       {"RFC5041-5.2-09"},
       Capability::none,
       "a Write of no octets is not checked",
       empty_write},
      {"ddp.reserved-bits",
       {"RFC5041-4.1-05"},
       Capability::none,
       "reserved bits are not looked at",
       reserved_bits},
  };
}

}  // namespace kbtp::conformance::groups
