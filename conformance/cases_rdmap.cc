// RFC 5040 and RFC 7306: opcodes, versions, Reads, Terminates.

#include "conformance/case_errors.h"

namespace kbtp::conformance::groups {

namespace {

using rdmap::Opcode;
using wire::Status;

void version(Scene& s) {
  s.stimulus("a Send with RDMAP version 2, and a request behind it");
  Session& a = working_session(s);
  if (s.stopped()) return;
  const Bait wrong = bait(a);
  auto header = rdmap::make_untagged(Opcode::send, a.raw().next_msn());
  header.rsvdulp = rdmap::encode_control({2, 0, static_cast<std::uint8_t>(Opcode::send)});
  provoke(s, a, "RFC5040-7.2-03", ulpdu(header, wrong.octets), {{0, 2, 0x05}});
  s.expect(stays_unanswered("RFC5040-7.2-03", a.index(), wrong.id));
}

void opcode(Scene& s) {
  s.stimulus("a segment with RDMAP opcode 0xC, and a request behind it");
  Session& a = working_session(s);
  if (s.stopped()) return;
  const Bait wrong = bait(a);
  auto header = rdmap::make_untagged(Opcode::send, a.raw().next_msn());
  header.rsvdulp = rdmap::encode_control({rdmap::kVersion, 0, 0xC});
  provoke(s, a, "RFC5040-7.2-02", ulpdu(header, wrong.octets), {{0, 2, 0x06}});
  s.expect(stays_unanswered("RFC5040-7.2-02", a.index(), wrong.id));
}

void read_unknown_stag(Scene& s) {
  s.stimulus("a Read Request for 64 octets of a made-up STag, and a request behind it");
  Session& a = working_session(s);
  if (s.stopped()) return;
  const ExposedBuffer& sink = a.peer().expose(64);
  const rdmap::ReadRequest request{sink.stag, sink.tagged_offset, 64, 0xDEAD'BEEF, 0x1000};
  const auto bad = a.raw().next_read_request(request);
  provoke(s, a, "RFC5040-7.2-06", bad, {{0, 1, 0x00}});
  s.expect(answers_no_read("RFC5040-7.2-06", a.index()));
  s.expect(copies_headers("RFC5040-7.1-04", a.index(), header_of(bad), to_vector(rdmap::encode(request))));
}

void read_without_right(Scene& s) {
  s.stimulus("a Read Request for the sink of the target's own Read, which nobody was given for reading");
  Session& a = s.session();
  if (s.stopped()) return;
  RawPeer& peer = a.raw();
  peer.hold_reads(true);
  a.alloc_store(a.handle(0), peer.expose(2048), {});
  s.need(peer.pump([&] { return !peer.pending_reads().empty(); }),
         "the target did not ask for the data of the store");
  if (s.stopped()) return;
  const rdmap::ReadRequest& due = peer.pending_reads().front();
  const ExposedBuffer& sink = peer.expose(64);
  peer.send_fpdu(peer.next_read_request({sink.stag, sink.tagged_offset, 16, due.sink_stag, due.sink_to}));
  peer.pump([&] { return peer.ended() || peer.read_responses() > 0; });
  // A sink that is no region at all is an invalid STag.
  s.expect(terminates("RFC5040-7.2-11", a.index(), {{0, 1, 0x02}, {0, 1, 0x00}}));
  s.expect(answers_no_read("RFC5040-7.2-11", a.index()));
}

void read_on_queue_0(Scene& s) {
  s.stimulus("a Read Request of no octets on queue 0");
  Session& a = working_session(s);
  if (s.stopped()) return;
  auto header = rdmap::make_untagged(Opcode::read_request, 1);
  header.queue_number = 0;
  a.raw().send_fpdu(ulpdu(header, rdmap::encode(rdmap::ReadRequest{0x7654'3210, 0x77, 0, 0, 0})));
  a.peer().pump([&] { return a.peer().ended() || a.raw().read_responses() > 0; });
  s.expect(terminates("RFC5040-5.2.1-03", a.index(), {{0, 2, 0x06}, {1, 2, 0x01}},
                      {{1, 2, 0x03}, {0, 2, 0xFF}, {0, 1, 0x00}}));
  s.expect(answers_no_read("RFC5040-5.2.1-03", a.index()));
}

void terminate_layout(Scene& s) {
  s.stimulus("a Send on queue number 77");
  Session& a = working_session(s);
  if (s.stopped()) return;
  auto header = rdmap::make_untagged(Opcode::send, a.raw().next_msn());
  header.queue_number = 77;
  a.raw().send_fpdu(ulpdu(header, bait(a).octets));
  a.peer().wait_for_end();
  s.expect(terminates_with_octets("RFC5040-4.8-01", a.index(), 0x1201'C000));
}

void empty_read(Scene& s) {
  s.stimulus("a Read Request for no octets of a made-up STag, and a request behind it");
  Session& a = working_session(s);
  if (s.stopped()) return;
  a.raw().send_fpdu(a.raw().next_read_request({0x7654'3210, 0x77, 0, 0xDEAD'BEEF, ~std::uint64_t{0}}));
  a.peer().pump([&] { return a.raw().read_responses() > 0; });
  const RequestId behind = a.free(a.handle(1));
  a.await(behind);
  s.expect(answers_empty_reads("RFC5040-5.2.1-09", a.index(), 1));
  s.expect(stays_open("RFC5040-5.2.1-09", a.index()));
}

void atomic_unknown_stag(Scene& s) {
  s.stimulus("a FetchAdd on a made-up STag, and a request behind it");
  Session& a = working_session(s);
  if (s.stopped()) return;
  rdmap::AtomicRequest request;
  request.request_identifier = 0x0102'0304;
  request.remote_stag = 0xDEAD'BEEF;
  request.remote_to = 0x1000;
  request.add_or_swap_data = 1;
  const auto bad = ulpdu(rdmap::make_untagged(Opcode::atomic_request, 1), rdmap::encode(request));
  provoke(s, a, "RFC7306-8.2-03", bad, {{0, 1, 0x00}}, {{1, 1, 0x00}}, "RFC5040-7-01", {{0, 2, 0x06}});
  s.expect(answers_no_read("RFC7306-8.2-03", a.index()));
}

void invalidate_unknown_stag(Scene& s) {
  s.stimulus("a FREE in a Send with Invalidate of a made-up STag, and a request behind it");
  Session& a = working_session(s);
  if (s.stopped()) return;
  const Bait wrong = bait(a);
  const auto bad = a.raw().next_send(wrong.octets, 0xDEAD'BEEF);
  provoke(s, a, "RFC5040-7.2-04", bad, {{0, 1, 0x09}, {0, 2, 0x09}}, {{0, 1, 0x00}});
  s.expect(stays_unanswered("RFC5040-7.2-04", a.index(), wrong.id));
}

void first_error_is_told(Scene& s) {
  s.stimulus("a Send on queue number 77 and right behind it one with RDMAP version 3");
  Session& a = working_session(s);
  if (s.stopped()) return;
  const Bait wrong = bait(a);
  auto first = rdmap::make_untagged(Opcode::send, a.raw().next_msn());
  first.queue_number = 77;
  auto second = rdmap::make_untagged(Opcode::send, a.raw().next_msn());
  second.rsvdulp = rdmap::encode_control({3, 0, static_cast<std::uint8_t>(Opcode::send)});
  const auto bad = ulpdu(first, wrong.octets);
  auto both = RawPeer::framed(bad);
  const auto behind = RawPeer::framed(ulpdu(second, wrong.octets));
  both.insert(both.end(), behind.begin(), behind.end());
  a.raw().send(both);
  a.peer().wait_for_end();
  s.expect(terminates("RFC5040-7.1-05", a.index(), {{1, 2, 0x01}}));
  s.expect(copies_headers("RFC5040-7.1-05", a.index(), header_of(bad)));
  s.expect(falls_silent("RFC5040-5.4-04", a.index()));
}

void reads_after_error(Scene& s) {
  s.stimulus("an RDMA Write to a made-up STag, and behind it a Read Request of no octets and a request");
  Session& a = working_session(s);
  if (s.stopped()) return;
  a.raw().send_fpdu(tagged_ulpdu(Opcode::rdma_write, 0xDEAD'BEEF, 0, pattern(95, 8)));
  a.raw().send_fpdu(a.raw().next_read_request({0x7654'3210, 0, 0, 0, 0}));
  const RequestId behind = a.free(a.handle(1));
  a.peer().wait_for_end();
  s.expect(terminates("RFC5040-7-01", a.index(), {{1, 1, 0x00}}));
  s.expect(answers_no_read("RFC5040-7-01", a.index()));
  s.expect(stays_unanswered("RFC5040-7-01", a.index(), behind));
}

void terminate_received(Scene& s) {
  s.stimulus("a Terminate (0/0/00)");
  Session& a = working_session(s);
  if (s.stopped()) return;
  const std::vector<std::byte> control(rdmap::kTerminateControlSize);
  a.raw().send_fpdu(ulpdu(rdmap::make_untagged(Opcode::terminate, 1), control));
  a.peer().wait_for_end();
  s.expect(disconnects("RFC5040-5.4-03", a.index(), true));
}

void reserved_bits(Scene& s) {
  s.stimulus("a request in a Send whose two reserved bits are set");
  Session& a = working_session(s);
  if (s.stopped()) return;
  const Bait request = bait(a);
  auto segment = a.raw().next_send(request.octets);
  segment[1] |= static_cast<std::byte>(rdmap::kReservedMask);
  a.raw().send_fpdu(segment);
  a.await(request.id);
  s.expect(refuses("RFC5040-4.1-06", a.index(), request.id, Status::not_bound));
}

}  // namespace

std::vector<Case> rdmap() {
  return {
      {"rdmap.version",
       {"RFC5040-7.2-03", "RFC5040-5.4-04", "RFC5040-7-01"},
       Capability::none,
       "another RDMAP version is refused",
       version},
      {"rdmap.opcode",
       {"RFC5040-7.2-02", "RFC5040-5.4-04", "RFC5040-7-01"},
       Capability::none,
       "an unassigned opcode is refused",
       opcode},
      {"rdmap.read.unknown-stag",
       {"RFC5040-7.2-06", "RFC5040-7.1-04", "RFC5040-5.4-04", "RFC5040-7-01"},
       Capability::none,
       "a Read needs a valid STag, and the Terminate shows the request",
       read_unknown_stag},
      {"rdmap.read.without-right",
       {"RFC5040-7.2-11"},
       Capability::none,
       "only what is open for reading is read",
       read_without_right},
      {"rdmap.read.queue-0",
       {"RFC5040-5.2.1-03"},
       Capability::none,
       "a Read Request belongs to queue 1",
       read_on_queue_0},
      {"rdmap.terminate.layout",
       {"RFC5040-4.8-01"},
       Capability::none,
       "the fields of a Terminate stand where RFC 5040 4.8 has them",
       terminate_layout},
      {"rdmap.read.empty",
       {"RFC5040-5.2.1-09"},
       Capability::none,
       "a Read of no octets is not checked",
       empty_read},
      {"rdmap.atomic.unknown-stag",
       {"RFC7306-8.2-03", "RFC5040-5.4-04", "RFC5040-7-01"},
       Capability::none,
       "an Atomic needs a valid STag",
       atomic_unknown_stag},
      {"rdmap.invalidate.unknown-stag",
       {"RFC5040-7.2-04", "RFC5040-5.4-04", "RFC5040-7-01"},
       Capability::none,
       "only an STag that can be invalidated is",
       invalidate_unknown_stag},
      {"rdmap.first-error",
       {"RFC5040-7.1-05", "RFC5040-5.4-04"},
       Capability::none,
       "the Terminate tells of the first error",
       first_error_is_told},
      {"rdmap.nothing-after-error",
       {"RFC5040-7-01"},
       Capability::none,
       "an erroneous stream answers nothing",
       reads_after_error},
      {"rdmap.terminate-received",
       {"RFC5040-5.4-03"},
       Capability::none,
       "a Terminate ends the connection",
       terminate_received},
      {"rdmap.reserved-bits",
       {"RFC5040-4.1-06"},
       Capability::none,
       "reserved bits are not looked at",
       reserved_bits},
  };
}

}  // namespace kbtp::conformance::groups
