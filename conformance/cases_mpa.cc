// RFC 5044 and RFC 6581: start-up frames, FPDUs, CRC.

#include "conformance/case.h"

namespace kbtp::conformance::groups {

namespace {

using wire::Status;

/// Sends `octets` on a connection of its own and waits for the target's close.
ConnectionIndex throw_at_target(Scene& s, Octets octets, bool then_finish = false) {
  RawPeer& peer = s.raw();
  if (!s.stopped()) {
    peer.send(octets);
    if (then_finish) peer.finish();
    peer.wait_for_end();
  }
  return s.last_index();
}

void bad_key(Scene& s) {
  s.stimulus("Requests whose key is wrong in its first, tenth or last octet; a Reply instead of a Request");
  for (const std::size_t at : {std::size_t{0}, mpa::kKindOctet, mpa::kKeySize - 1}) {
    auto frame = mpa::encode_startup(enhanced_request());
    frame[at] ^= std::byte{0x20};
    s.expect(closes_in_setup("RFC5044-7.1.1-02", throw_at_target(s, frame)));
  }
  auto reply = enhanced_request();
  reply.kind = mpa::StartupKind::reply;
  s.expect(closes_in_setup("RFC5044-7.1.1-02", throw_at_target(s, mpa::encode_startup(reply))));
}

void private_data_too_long(Scene& s) {
  s.stimulus("Requests that announce 513 and 65,535 octets of Private Data");
  auto frame = mpa::encode_startup(plain_request());
  store_be(frame.data() + 18, std::uint16_t{513});
  frame.resize(frame.size() + 513);
  s.expect(closes_in_setup("RFC5044-7.1.1-15", throw_at_target(s, frame)));
  store_be(frame.data() + 18, std::uint16_t{65'535});
  frame.resize(20);
  s.expect(closes_in_setup("RFC5044-7.1.1-15", throw_at_target(s, frame)));
}

void private_data_cut(Scene& s) {
  s.stimulus("a Request that announces 100 octets of Private Data, brings 10 and ends");
  auto frame = mpa::encode_startup(plain_request());
  store_be(frame.data() + 18, std::uint16_t{100});
  frame.resize(frame.size() + 10);
  s.expect(closes_in_setup("RFC5044-7.1.1-15", throw_at_target(s, frame, true)));
}

void truncated(Scene& s) {
  s.stimulus("19 octets of a Request, then FIN");
  auto frame = mpa::encode_startup(plain_request());
  frame.resize(19);
  s.expect(closes_in_setup("RFC5044-7.1.2-03", throw_at_target(s, frame, true)));
}

void private_data_512(Scene& s) {
  s.stimulus("a Request of revision 1 with 512 octets of Private Data");
  RawPeer& peer = s.raw();
  if (s.stopped()) return;
  auto request = plain_request();
  const auto data = pattern(80, mpa::kMaxPrivateData);
  request.private_data = data;
  peer.start_up(request);
  s.expect(accepts("RFC5044-7.1.2-17", s.last_index()));
}

void reject_bit(Scene& s) {
  s.stimulus("a Request with R set");
  RawPeer& peer = s.raw();
  if (s.stopped()) return;
  auto request = enhanced_request();
  request.reject = true;
  peer.start_up(request);
  s.expect(accepts("RFC5044-7.1.1-10", s.last_index()));
}

void reserved_bits(Scene& s) {
  s.stimulus("a Request with all reserved bits set");
  RawPeer& peer = s.raw();
  if (s.stopped()) return;
  auto request = enhanced_request();
  request.reserved = mpa::kReservedMask;
  peer.start_up(request);
  s.expect(accepts("RFC5044-7.1.1-11", s.last_index()));
}

void revision_255(Scene& s) {
  s.stimulus("a Request of revision 255");
  auto request = plain_request();
  request.revision = 255;
  s.expect(closes_in_setup("RFC5044-7.1.1-13", throw_at_target(s, mpa::encode_startup(request)), true));
}

void revision_1(Scene& s) {
  s.stimulus("a Request of revision 1, and a session over it");
  Session& a = s.session({.request = plain_request()});
  s.expect(accepts("RFC6581-6-03", a.index(), {.enhanced = false, .max_revision = 1}));
  if (!s.stopped()) s.expect(opens_session("RFC6581-6-03", a.index()));
}

void enhanced(Scene& s) {
  s.stimulus("a Request of revision 2 with the enhanced fields");
  Session& a = s.session();
  s.expect(accepts("RFC6581-10-01", a.index(), {.enhanced = true, .min_revision = 2}));
}

void enhanced_too_short(Scene& s) {
  s.stimulus("a Request with S set and three octets of Private Data");
  auto frame = mpa::encode_startup(enhanced_request());
  store_be(frame.data() + 18, std::uint16_t{3});
  frame.resize(23);
  s.expect(closes_in_setup("RFC6581-6-04", throw_at_target(s, frame), true));
}

void read_depth(Scene& s) {
  s.stimulus("a Request with IRD 1; three stores without INLINE at once, their Read Responses held back");
  Session& a = s.session({.request = enhanced_request(1, 8)});
  if (s.stopped()) return;
  a.raw().hold_reads(true);
  std::vector<RequestId> ids;
  for (std::uint64_t i = 0; i < 3; ++i)
    ids.push_back(a.alloc_store(a.handle(i), a.peer().expose(2000), {.seal = true}));
  a.peer().pump([&] { return !a.raw().pending_reads().empty(); });
  // A fence on another connection (a target whose requests wait in line answers nothing on this one): by the
  // time that it has been served, the target has done with the stores what it will do without their data.
  Session& b = s.session();
  if (!s.stopped()) b.await(b.free(b.handle(0)));
  a.raw().hold_reads(false);
  a.raw().answer_reads();
  for (const RequestId id : ids) a.await(id);
  s.expect(accepts("RFC6581-9.1-03", a.index(), {.enhanced = true, .max_ord = 1}));
  s.expect(keeps_reads_within("RFC6581-9.1-03", a.index(), 1));
  for (const RequestId id : ids) s.expect(completes("RFC6581-9.1-03", a.index(), id, Status::success));
}

void crc_error(Scene& s) {
  s.stimulus("a request in an FPDU with one flipped bit, and a good one behind it");
  Session& a = s.session();
  if (s.stopped()) return;
  RawPeer& peer = a.raw();
  wire::Free damaged;
  damaged.head = {.request_id = 0x1111'1111'1111'1111, .handle = a.handle(0)};
  peer.send_damaged_fpdu(peer.next_send(a.encode(damaged)));
  const RequestId behind = a.free(a.handle(1));
  peer.wait_for_end();
  s.expect(terminates("RFC5044-4.4-11", a.index(), {{2, 0, 0x02}}));
  s.expect(stays_unanswered("RFC5044-4.4-11", a.index(), damaged.head.request_id));
  s.expect(stays_unanswered("RFC5044-8-06", a.index(), behind));
}

void first_fpdu_damaged(Scene& s) {
  s.stimulus("a HELLO in an FPDU with one flipped bit as the very first FPDU");
  RawPeer& peer = s.raw();
  const ConnectionIndex c = s.last_index();
  s.need(peer.start_up(enhanced_request()).has_value(), "no MPA Reply");
  if (s.stopped()) return;
  wire::Hello hello;
  hello.request_id = 1;
  peer.send_damaged_fpdu(peer.next_send(wire::encode(hello, s.surroundings().profile.assignment)));
  peer.wait_for_end();
  s.expect(disconnects("RFC5044-7.1.2-11", c, true));
  s.expect(sends_no_fpdu("RFC5044-7.1.2-11", c));
}

void pad_octets(Scene& s) {
  s.stimulus("an inline store of one octet in an FPDU whose pad octets are 0xA5");
  Session& a = s.session();
  if (s.stopped()) return;
  const auto data = pattern(81, 1);
  wire::AllocStore store;
  store.head = {.request_id = 0x2222'2222'2222'2222, .handle = a.handle(0)};
  store.body.source.length = 1;
  store.body.inline_data = Octets(data);
  a.raw().send_fpdu(a.raw().next_send(a.encode(store)), std::byte{0xA5});
  a.await(store.head.request_id);
  s.expect(completes("RFC5044-4.1-03", a.index(), store.head.request_id, Status::success));
}

void segmentation(Scene& s) {
  s.stimulus("Request, HELLO and a LOAD one octet a TCP segment; then eight LOADs in one");
  RawPeer& peer = s.raw();
  const ConnectionIndex c = s.last_index();
  if (s.stopped()) return;
  peer.send_one_by_one(mpa::encode_startup(enhanced_request()));
  wire::Hello hello;
  hello.request_id = 1;
  hello.receive_size = wire::kInitialReceiveSize;
  hello.quota = 1;
  hello.handle_count = 1;
  const auto& assignment = s.surroundings().profile.assignment;
  peer.pump([&] { return peer.in_operation(); });
  peer.send_one_by_one(peer.framed(peer.next_send(wire::encode(hello, assignment))));
  peer.pump([&] { return !peer.messages().empty(); });
  std::vector<std::byte> burst;
  for (RequestId id = 2; id <= 10; ++id) {
    wire::Free free;
    free.head = {.request_id = id, .handle = ~std::uint64_t{0} - 5};
    const auto fpdu = peer.framed(peer.next_send(wire::encode(free, assignment)));
    if (id == 2) {
      peer.send_one_by_one(fpdu);
      peer.pump([&] { return peer.messages().size() >= 2; });
    } else {
      burst.insert(burst.end(), fpdu.begin(), fpdu.end());
    }
  }
  // HELLO_ACK tells how many requests may be open (G-06); eight is below what any useful target takes.
  peer.send(burst);
  peer.pump([&] { return peer.messages().size() >= 10; });
  s.expect(opens_session("RFC5044-5.1-03", c));
  for (RequestId id = 2; id <= 10; ++id) s.expect(refuses("RFC5044-5.1-03", c, id, Status::no_such_handle));
}

}  // namespace

std::vector<Case> mpa() {
  return {
      {"mpa.request.bad-key",
       {"RFC5044-7.1.1-02"},
       Capability::none,
       "a wrong key ends the connection",
       bad_key},
      {"mpa.request.private-data-too-long",
       {"RFC5044-7.1.1-15"},
       Capability::none,
       "more than 512 octets of Private Data are refused",
       private_data_too_long},
      {"mpa.request.private-data-cut",
       {"RFC5044-7.1.1-15"},
       Capability::none,
       "Private Data that does not come is refused",
       private_data_cut},
      {"mpa.request.truncated",
       {"RFC5044-7.1.2-03"},
       Capability::none,
       "a truncated Request is refused",
       truncated},
      {"mpa.request.private-data-512",
       {"RFC5044-7.1.2-17"},
       Capability::none,
       "512 octets of Private Data are legal",
       private_data_512},
      {"mpa.request.reject-bit",
       {"RFC5044-7.1.1-10"},
       Capability::none,
       "R means nothing in a Request",
       reject_bit},
      {"mpa.request.reserved-bits",
       {"RFC5044-7.1.1-11"},
       Capability::none,
       "reserved bits are not looked at",
       reserved_bits},
      {"mpa.request.revision-255",
       {"RFC5044-7.1.1-13"},
       Capability::none,
       "an unknown revision is refused",
       revision_255},
      {"mpa.request.revision-1", {"RFC6581-6-03"}, Capability::none, "revision 1 still works", revision_1},
      {"mpa.request.enhanced",
       {"RFC6581-10-01"},
       Capability::none,
       "enhanced is answered enhanced",
       enhanced},
      {"mpa.request.enhanced-too-short",
       {"RFC6581-6-04"},
       Capability::none,
       "S needs the four enhanced octets",
       enhanced_too_short},
      {"mpa.read-depth",
       {"RFC6581-9.1-03"},
       Capability::none,
       "the initiator's IRD binds the target",
       read_depth},
      {"mpa.crc-error",
       {"RFC5044-4.4-11", "RFC5044-8-06"},
       Capability::none,
       "a wrong CRC ends the stream",
       crc_error},
      {"mpa.first-fpdu-damaged",
       {"RFC5044-7.1.2-11"},
       Capability::none,
       "a bad first FPDU gets no Terminate",
       first_fpdu_damaged},
      {"mpa.pad-octets",
       {"RFC5044-4.1-03"},
       Capability::inline_data,
       "pad octets may hold anything",
       pad_octets},
      {"mpa.segmentation",
       {"RFC5044-5.1-03"},
       Capability::none,
       "FPDUs and TCP segments need not coincide",
       segmentation},
  };
}

}  // namespace kbtp::conformance::groups
