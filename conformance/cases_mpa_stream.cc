// RFC 5044 and RFC 6581: what set-up promises of the stream behind it (markers, peer-to-peer mode, Read
// depths), and FPDUs that come at an awkward time or in awkward pieces.

#include <thread>

#include "conformance/case.h"

namespace kbtp::conformance::groups {

namespace {

using rdmap::Opcode;
using wire::Status;

// Long enough that two writes leave in two TCP segments and are taken one after the other.
constexpr auto kApart = std::chrono::milliseconds(30);

wire::Hello hello_for(const SessionOptions& options) {
  wire::Hello hello;
  hello.request_id = 1;
  hello.receive_size = wire::kInitialReceiveSize;
  hello.quota = options.quota;
  hello.handle_count = options.handles;
  return hello;
}

void markers(Scene& s) {
  s.stimulus("a Request with M set and a HELLO");
  auto request = enhanced_request();
  request.markers = true;
  RawPeer& peer = s.raw();
  const ConnectionIndex c = s.last_index();
  if (s.stopped()) return;
  const auto reply = peer.start_up(request);
  s.expect(accepts("RFC5044-4.3-01", c));
  s.expect(opens_session("RFC5044-4.3-01", c));
  if (!reply || reply->reject) return;
  const auto& assignment = s.surroundings().profile.assignment;
  peer.send_fpdu(peer.next_send(wire::encode(hello_for({}), assignment)));
  peer.pump([&] { return !peer.messages().empty(); });
}

void split_trailer(Scene& s) {
  s.stimulus(
      "inline stores of one octet whose FPDUs are cut inside the pad, before the CRC and inside the CRC");
  const auto data = pattern(82, 1);
  for (const std::size_t from_end : {std::size_t{6}, mpa::kCrcSize, std::size_t{2}}) {
    Session& a = s.session();
    if (s.stopped()) return;
    a.raw().make_no_allowances();
    wire::AllocStore store;
    store.head = {.request_id = 0x3333'3333'0000'0000 + from_end, .handle = a.handle(0)};
    store.body.source.length = 1;
    store.body.inline_data = Octets(data);
    const auto fpdu = RawPeer::framed(a.raw().next_send(a.encode(store)));
    const Octets octets(fpdu);
    a.raw().send(octets.first(octets.size() - from_end));
    std::this_thread::sleep_for(kApart);
    a.raw().send(octets.last(from_end));
    a.await(store.head.request_id);
    s.expect(completes("RFC5044-5.1-03", a.index(), store.head.request_id, Status::success));
  }
}

// A race inside some targets: one that loses it is found by one of many tries.
void fpdus_after_reply(Scene& s) {
  constexpr int kTries = 16;
  s.stimulus(
      "sixteen times, without a pause behind the Reply and in one write: an RDMA Write of no octets and a "
      "HELLO");
  const auto& assignment = s.surroundings().profile.assignment;
  for (int i = 0; i < kTries; ++i) {
    RawPeer& peer = s.raw();
    const ConnectionIndex c = s.last_index();
    if (s.stopped()) return;
    peer.make_no_allowances();
    auto octets = RawPeer::framed(tagged_ulpdu(Opcode::rdma_write, 0, 0, {}));
    const auto hello =
        RawPeer::framed(peer.next_send(wire::encode(hello_for({.quota = 0, .handles = 0}), assignment)));
    octets.insert(octets.end(), hello.begin(), hello.end());
    s.need(peer.start_up(enhanced_request()).has_value(), "no MPA Reply");
    if (s.stopped()) return;
    peer.send(octets);
    const bool answered = peer.pump([&] { return !peer.messages().empty(); }, std::chrono::seconds(1));
    s.expect(opens_session("RFC5044-7.1.5-02", c));
    peer.close();
    if (!answered) return;
  }
}

/// Octets of `data` that come without the last of their CRC must be nowhere to be seen: another session asks
/// for them at the sink that the Read Request named.
void look_for_early_octets(Scene& s, RawPeer& peer, const std::vector<std::byte>& data) {
  const rdmap::ReadRequest read = peer.pending_reads().front();
  auto fpdu = RawPeer::framed(tagged_ulpdu(Opcode::read_response, read.sink_stag, read.sink_to, data));
  fpdu.back() ^= std::byte{0x10};
  const Octets octets(fpdu);
  Session& other =
      s.session({.quota = 1, .handles = 1, .identity = s.surroundings().profile.identities.second});
  if (s.stopped()) return;
  peer.send(octets.first(octets.size() - mpa::kCrcSize));
  std::this_thread::sleep_for(kApart);
  const ExposedBuffer& sink = other.peer().expose(64);
  other.raw().send_fpdu(
      other.raw().next_read_request({sink.stag, sink.tagged_offset, 16, read.sink_stag, read.sink_to}));
  other.peer().pump([&] { return other.peer().ended() || other.raw().read_responses() > 0; });
  s.expect(reveals_nothing_of("RFC5044-3-06", other.index(), {data.begin(), data.begin() + 16}));
  peer.send(octets.last(mpa::kCrcSize));
}

void nothing_placed_before_crc(Scene& s) {
  s.stimulus(
      "a named initiator's STORE to an unsealed block, whose Read Response has a wrong CRC, which comes "
      "late; "
      "meanwhile another session tries to read the sink, and afterwards a new one loads the block");
  const Identities& who = s.surroundings().profile.identities;
  const auto data = pattern(83, 512);
  Session& a = s.session({.quota = 1, .handles = 1, .identity = who.first});
  if (s.stopped()) return;
  const std::uint64_t handle = a.handle(0);
  a.await(a.free(handle));  // what an earlier run may have left there
  bind_block(s, a, handle, data, false);
  if (s.stopped()) return;
  a.raw().hold_reads(true);
  const RequestId id = a.store(handle, a.peer().expose(data.size()), {});
  s.need(a.peer().pump([&] { return !a.raw().pending_reads().empty(); }),
         "the target did not ask for the data of the store");
  if (s.stopped()) return;
  look_for_early_octets(s, a.raw(), pattern(84, data.size()));
  if (s.stopped()) return;
  a.peer().wait_for_end();
  s.expect(terminates("RFC5044-4.4-11", a.index(), {{2, 0, 0x02}}));
  s.expect(stays_unanswered("RFC5044-4.4-11", a.index(), id));
  Session& again = s.session({.quota = 1, .handles = 1, .identity = who.first});
  if (s.stopped()) return;
  expect_content(s, again, "RFC5044-3-06", handle, data);
  again.await(again.free(handle));
}

void peer_to_peer(Scene& s) {
  s.stimulus(
      "a Request for peer-to-peer mode with all kinds of RTR; then the RTR that the Reply names and a HELLO");
  auto request = enhanced_request();
  request.enhanced->peer_to_peer = true;
  request.enhanced->rtr_send = request.enhanced->rtr_write = request.enhanced->rtr_read = true;
  RawPeer& peer = s.raw();
  const ConnectionIndex c = s.last_index();
  if (s.stopped()) return;
  const auto reply = peer.start_up(request);
  s.expect(accepts("RFC6581-9.2-04", c, {.enhanced = true, .min_revision = 2, .peer_to_peer = true}));
  s.expect(opens_session("RFC6581-9.2-04", c));
  if (!reply || reply->reject) return;
  if (reply->rtr_write) {
    peer.send_fpdu(tagged_ulpdu(Opcode::rdma_write, 0, 0, {}));
  } else if (reply->rtr_read) {
    peer.send_fpdu(peer.next_read_request({}));
  } else if (reply->rtr_send) {
    peer.send_fpdu(peer.next_send({}));
  }
  peer.send_fpdu(peer.next_send(wire::encode(hello_for({}), s.surroundings().profile.assignment)));
  peer.pump([&] { return !peer.messages().empty(); });
}

void depth_not_negotiated(Scene& s) {
  s.stimulus("a Request whose ORD is 0x3FFF, which leaves the responder's IRD alone");
  RawPeer& peer = s.raw();
  if (s.stopped()) return;
  peer.start_up(enhanced_request(8, mpa::kNoNegotiation));
  s.expect(accepts("RFC6581-9.1-10", s.last_index(), {.enhanced = true, .ird = mpa::kNoNegotiation}));
}

void reply_reserved_bits(Scene& s) {
  s.stimulus("a Request with all reserved bits set");
  RawPeer& peer = s.raw();
  if (s.stopped()) return;
  auto request = enhanced_request();
  request.reserved = mpa::kReservedMask;
  peer.start_up(request);
  s.expect(accepts("RFC6581-6-05", s.last_index(), {.reserved = 0}));
}

}  // namespace

std::vector<Case> mpa_stream() {
  return {
      {"mpa.reply.reserved-bits",
       {"RFC6581-6-05"},
       Capability::none,
       "the reserved bits of a Reply are zero, whatever those of the Request are",
       reply_reserved_bits},
      {"mpa.markers", {"RFC5044-4.3-01"}, Capability::none, "who asks for markers gets them", markers},
      {"mpa.peer-to-peer",
       {"RFC6581-9.2-04"},
       Capability::none,
       "a peer-to-peer Request gets a peer-to-peer Reply",
       peer_to_peer},
      {"mpa.read-depth.not-negotiated",
       {"RFC6581-9.1-10"},
       Capability::none,
       "ORD 0x3FFF is answered with IRD 0x3FFF",
       depth_not_negotiated},
      {"mpa.fpdus-after-reply",
       {"RFC5044-7.1.5-02"},
       Capability::none,
       "FPDUs that follow the Reply at once are taken at once",
       fpdus_after_reply},
      {"mpa.split-trailer",
       {"RFC5044-5.1-03"},
       Capability::inline_data,
       "pad and CRC may come in two TCP segments",
       split_trailer},
      {"mpa.crc-error.places-nothing",
       {"RFC5044-3-06", "RFC5044-4.4-11"},
       Capability::identities,
       "nothing of an FPDU is placed before its CRC is checked",
       nothing_placed_before_crc},
  };
}

}  // namespace kbtp::conformance::groups
