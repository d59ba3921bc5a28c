// 5.1 and 5.2: headers, Request IDs, malformed messages; HELLO.

#include "base/random.h"
#include "conformance/case.h"

namespace kbtp::conformance::groups {

namespace {

using wire::Status;

/// A LOAD of handle `i` as octets to be spoilt, with the Request ID it carries.
struct Draft {
  RequestId id = 0;
  std::vector<std::byte> octets;
};
Draft draft_load(Session& session, std::uint64_t i) {
  wire::Load load;
  load.head = {.request_id = random_u64(), .handle = session.handle(i)};
  const ExposedBuffer& sink = session.peer().expose(4096);
  load.destination = {sink.stag, sink.tagged_offset, sink.size()};
  return {load.head.request_id, session.encode(load)};
}

void request_ids(Scene& s) {
  s.stimulus("LOADs with Request IDs that lose something when truncated, swapped or taken as signed");
  Session& a = s.session();
  if (s.stopped()) return;
  const ExposedBuffer& sink = a.peer().expose(64);
  for (const RequestId id : {RequestId{0x0123'4567'89AB'CDEF}, RequestId{0xFFFF'FFFF'0000'0001},
                             RequestId{0x8000'0000'0000'0000}, ~RequestId{0}, random_u64()}) {
    wire::Load load;
    load.head = {.request_id = id, .handle = a.handle(0)};
    load.destination = {sink.stag, sink.tagged_offset, sink.size()};
    a.send(load);
    a.await(id);
    s.expect(refuses("KBTP-5.1-03", a.index(), id, Status::not_bound));
  }
  s.expect(echoes_request_ids("KBTP-6.5-01", a.index()));
}

void other_version(Scene& s) {
  s.stimulus("LOAD of a sealed block in a message of version 2, then one of version 1");
  Session& a = s.session();
  bind_block(s, a, a.handle(0), pattern(73, 50));
  if (s.stopped()) return;
  Draft wrong = draft_load(a, 0);
  wrong.octets[0] = std::byte{2};
  a.send_message(wrong.octets);
  a.await(wrong.id);
  s.expect(refuses("KBTP-5.1-01", a.index(), wrong.id, Status::unsupported_version));
  const RequestId good = a.load(a.handle(0), a.peer().expose(64));
  a.await(good);
  s.expect(completes("KBTP-5.1-01", a.index(), good, Status::success));
}

void unknown_opcode(Scene& s) {
  s.stimulus("a message with the unassigned opcode 0x7E, then a LOAD");
  Session& a = s.session();
  if (s.stopped()) return;
  Draft wrong = draft_load(a, 0);
  wrong.octets[1] = std::byte{0x7E};
  a.send_message(wrong.octets);
  a.await(wrong.id);
  s.expect(refuses("KBTP-5.1-02", a.index(), wrong.id, Status::unsupported_opcode));
  const RequestId good = a.load(a.handle(0), a.peer().expose(64));
  a.await(good);
  s.expect(refuses("KBTP-5.1-02", a.index(), good, Status::not_bound));
}

void undefined_flags(Scene& s) {
  s.stimulus("LOAD of a sealed block with flag 0x8000, and with SEAL");
  Session& a = s.session();
  bind_block(s, a, a.handle(0), pattern(70, 200));
  if (s.stopped()) return;
  for (const std::uint16_t flags : {std::uint16_t{0x8000}, wire::bit(wire::Flag::seal)}) {
    Draft wrong = draft_load(a, 0);
    store_be(wrong.octets.data() + 2, flags);
    a.send_message(wrong.octets);
    a.await(wrong.id);
    s.expect(refuses("KBTP-5.1-07", a.index(), wrong.id, Status::invalid_request));
  }
}

void wrong_length(Scene& s) {
  s.stimulus(
      "an inline ALLOC_STORE that is 10 octets short, a LOAD of a sealed block with 4 octets too many; then "
      "a "
      "probe");
  Session& a = s.session();
  bind_block(s, a, a.handle(1), pattern(72, 100));
  if (s.stopped()) return;
  wire::AllocStore store;
  const auto data = pattern(71, 100);
  store.head = {.request_id = random_u64(), .handle = a.handle(0)};
  store.body.source.length = 100;
  store.body.inline_data = Octets(data);
  auto cut = a.encode(store);
  cut.resize(cut.size() - 10);
  a.send_message(cut);
  a.await(store.head.request_id);
  s.expect(refuses("G-09", a.index(), store.head.request_id, Status::invalid_request));
  Draft longer = draft_load(a, 1);
  longer.octets.resize(longer.octets.size() + 4);
  a.send_message(longer.octets);
  a.await(longer.id);
  s.expect(refuses("G-09", a.index(), longer.id, Status::invalid_request));
  const RequestId probe = a.load(a.handle(0), a.peer().expose(16), 0, {.allow_unsealed = true});
  a.await(probe);
  s.expect(refuses("G-09", a.index(), probe, Status::not_bound));
}

void too_short(Scene& s) {
  s.stimulus("a Send of 23 octets");
  Session& a = s.session();
  if (s.stopped()) return;
  Draft wrong = draft_load(a, 0);
  wrong.octets.resize(wire::kHeaderSize - 1);
  a.send_message(wrong.octets);
  a.peer().wait_for_end();
  s.expect(disconnects("G-38", a.index()));
  s.expect(stays_unanswered("G-38", a.index(), wrong.id));
}

void completion_from_initiator(Scene& s) {
  s.stimulus("a COMPLETION sent to the target");
  Session& a = s.session();
  if (s.stopped()) return;
  wire::Completion completion;
  completion.request_id = random_u64();
  completion.handle = a.handle(0);
  a.send_message(wire::encode(completion, s.surroundings().profile.assignment));
  a.peer().wait_for_end();
  s.expect(disconnects("G-38", a.index()));
  s.expect(stays_unanswered("G-38", a.index(), completion.request_id));
}

void request_before_hello(Scene& s) {
  s.stimulus("a LOAD as the first message");
  Peer& peer = s.connection().peer();
  const ConnectionIndex c = s.last_index();
  s.need(peer.establish(enhanced_request()), "there is no connection to send it on");
  if (s.stopped()) return;
  wire::Load load;
  load.head = {.request_id = random_u64(), .handle = 0};
  load.destination = {1, 0, 64};
  peer.send_message(wire::encode(load, s.surroundings().profile.assignment));
  peer.wait_for_end();
  s.expect(disconnects("G-05", c));
  s.expect(stays_unanswered("G-05", c, load.head.request_id));
}

void second_hello(Scene& s) {
  s.stimulus("a second HELLO in an open session");
  Session& a = s.session();
  if (s.stopped()) return;
  wire::Hello hello;
  hello.request_id = random_u64();
  hello.quota = 1;
  hello.handle_count = 1;
  hello.receive_size = wire::kInitialReceiveSize;
  a.send_message(wire::encode(hello, s.surroundings().profile.assignment));
  a.peer().wait_for_end();
  s.expect(disconnects("G-05", a.index()));
}

void no_record_completion(Scene& s) {
  s.stimulus("a HELLO that asks for every feature");
  Session& a = s.session({.wanted = {.record_completion = true, .direct_load = true, .direct_alloc = true}});
  if (s.stopped()) return;
  s.expect(opens_session("KBTP-6.5-06", a.index()));
  s.expect(withholds("KBTP-6.5-06", a.index(), wire::Feature::record_completion));
}

void identity_returns(Scene& s) {
  s.stimulus(
      "a named initiator binds a block and disconnects; another one of its trust domain loads it and tries "
      "to free "
      "it; the first one returns, loads it and frees it");
  const Identities& who = s.surroundings().profile.identities;
  const auto data = pattern(74, 400);
  Session& first = s.session({.quota = 1, .handles = 1, .identity = who.first});
  if (s.stopped()) return;
  first.await(first.free(first.handle(0)));  // what an earlier run may have left there
  bind_block(s, first, first.handle(0), data);
  const std::uint64_t handle = first.handle(0);
  first.peer().finish();
  first.peer().wait_for_end();
  Session& other = s.session({.quota = 1, .handles = 1, .identity = who.second});
  if (s.stopped()) return;
  expect_content(s, other, "G-24", handle, data);
  const RequestId stolen = other.free(handle);
  other.await(stolen);
  s.expect(refuses("G-24", other.index(), stolen, Status::not_owner));
  Session& again = s.session({.quota = 1, .handles = 1, .identity = who.first});
  if (s.stopped()) return;
  s.expect(keeps_range("G-24", first.index(), again.index(), 1));
  expect_content(s, again, "G-24", handle, data);
  const RequestId freed = again.free(handle);
  again.await(freed);
  s.expect(completes("G-24", again.index(), freed, Status::success));
}

void untrusted_identity(Scene& s) {
  s.stimulus("a HELLO with an identity that the target knows, from an address that does not prove it");
  Session& a = s.connection();
  if (s.stopped()) return;
  a.open({.quota = 1, .handles = 1, .identity = s.surroundings().profile.identities.untrusted});
  s.expect(refuses_session("G-51", a.index(), Status::access_denied));
}

}  // namespace

std::vector<Case> message() {
  return {
      {"kbtp.message.request-id",
       {"KBTP-5.1-03", "KBTP-6.5-01"},
       Capability::none,
       "Request IDs come back unchanged, once each",
       request_ids},
      {"kbtp.message.version",
       {"KBTP-5.1-01"},
       Capability::none,
       "another version is refused",
       other_version},
      {"kbtp.message.opcode",
       {"KBTP-5.1-02"},
       Capability::none,
       "an unknown opcode is refused",
       unknown_opcode},
      {"kbtp.message.flags",
       {"KBTP-5.1-07"},
       Capability::none,
       "undefined flags are refused",
       undefined_flags},
      {"kbtp.message.length", {"G-09"}, Capability::inline_data, "lengths are exact", wrong_length},
      {"kbtp.message.too-short",
       {"G-38"},
       Capability::none,
       "less than a header ends the session",
       too_short},
      {"kbtp.message.completion-from-initiator",
       {"G-38"},
       Capability::none,
       "a target takes no COMPLETION",
       completion_from_initiator},
      {"kbtp.hello.first", {"G-05"}, Capability::none, "HELLO comes first", request_before_hello},
      {"kbtp.hello.once", {"G-05"}, Capability::none, "HELLO comes once", second_hello},
      {"kbtp.hello.identity-returns",
       {"G-24"},
       Capability::identities,
       "a named initiator finds its blocks again",
       identity_returns},
      {"kbtp.hello.untrusted-identity",
       {"G-51"},
       Capability::untrusted,
       "an identity counts only with its proof",
       untrusted_identity},
      {"kbtp.hello.no-record-completion",
       {"KBTP-6.5-06"},
       Capability::none,
       "RDMAP has no completion records",
       no_record_completion,
       Player::raw_peer},
  };
}

}  // namespace kbtp::conformance::groups
