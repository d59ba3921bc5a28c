// 6.2 Block Mapped Store.

#include <algorithm>

#include "conformance/case.h"

namespace kbtp::conformance::groups {

namespace {

using wire::Status;

ExposedBuffer& source_with(Session& session, const std::vector<std::byte>& data) {
  ExposedBuffer& source = session.peer().expose(data.size());
  std::ranges::copy(data, source.octets().begin());
  return source;
}

void unbound(Scene& s) {
  s.stimulus("STORE without INLINE to a handle that was never bound");
  Session& a = s.session();
  if (s.stopped()) return;
  const ExposedBuffer& source = source_with(a, pattern(20, 800));
  const RequestId id = a.store(a.handle(3), source, {});
  a.await(id);
  s.expect(refuses("KBTP-6.2-01", a.index(), id, Status::not_bound));
  s.expect(reads_nothing("KBTP-6.2-01", a.index(), source.stag));
}

void sealed(Scene& s) {
  s.stimulus("ALLOC_STORE with SEAL, LOAD, STORE, LOAD");
  Session& a = s.session();
  const auto data = pattern(21, 900);
  bind_block(s, a, a.handle(0), data, true);
  if (s.stopped()) return;
  const ExposedBuffer& sink = a.peer().expose(1024);
  const RequestId first = a.load(a.handle(0), sink);
  a.await(first);
  s.expect(completes("KBTP-5.1-09", a.index(), first, Status::success));
  const RequestId again = a.store(a.handle(0), source_with(a, pattern(22, 900)), {});
  a.await(again);
  s.expect(refuses("KBTP-6.2-02", a.index(), again, Status::sealed));
  expect_content(s, a, "KBTP-6.2-02", a.handle(0), data);
}

void foreign(Scene& s) {
  s.stimulus("STORE by a second session to a handle of the first, ALLOC_STORE to another one of it");
  Session& a = s.session();
  const auto data = pattern(23, 640);
  bind_block(s, a, a.handle(0), data, false);
  Session& b = s.session();
  if (s.stopped()) return;
  const RequestId id = b.store(a.handle(0), source_with(b, pattern(24, 640)), {});
  b.await(id);
  s.expect(refuses("KBTP-6.2-03", b.index(), id, Status::not_owner));
  expect_content(s, a, "KBTP-6.2-03", a.handle(0), data);
  const RequestId bound = b.alloc_store(a.handle(1), source_with(b, pattern(25, 640)), {});
  b.await(bound);
  s.expect(refuses("KBTP-6.3-01", b.index(), bound, Status::not_owner));
  const ExposedBuffer& sink = a.peer().expose(1024);
  const RequestId probe = a.load(a.handle(1), sink, 0, {.allow_unsealed = true});
  a.await(probe);
  s.expect(refuses("KBTP-6.3-01", a.index(), probe, Status::not_bound));
}

void shrinks(Scene& s) {
  s.stimulus("ALLOC_STORE of 1,000 octets, STORE of 100 with SEAL, LOAD");
  Session& a = s.session();
  bind_block(s, a, a.handle(0), pattern(26, 1000), false);
  if (s.stopped()) return;
  const auto shorter = pattern(27, 100);
  const RequestId id = a.store(a.handle(0), source_with(a, shorter), {.seal = true});
  a.await(id);
  s.expect(completes("KBTP-6.2-05", a.index(), id, Status::success));
  const ExposedBuffer& sink = a.peer().expose(1024);
  const RequestId loaded = a.load(a.handle(0), sink);  // without ALLOW_UNSEALED: it must be sealed now
  a.await(loaded);
  s.expect(completes("KBTP-6.2-05", a.index(), loaded, Status::success));
  s.expect(places("KBTP-6.2-05", a.index(), sink.stag, sink.tagged_offset, shorter));
}

void reads_descriptor(Scene& s) {
  s.stimulus("STORE of 20,000 octets out of the middle of a buffer; LOAD");
  Session& a = s.session();
  bind_block(s, a, a.handle(0), pattern(28, 16), false);
  if (s.stopped()) return;
  const auto data = pattern(29, 20'000);
  const ExposedBuffer& source = source_with(a, data);
  const RequestId id = a.store(a.handle(0), source, {});
  a.await(id);
  s.expect(completes("KBTP-5.2-03", a.index(), id, Status::success));
  s.expect(reads("KBTP-5.2-03", a.index(), source.stag, source.tagged_offset, source.size()));
  expect_content(s, a, "KBTP-6.2-04", a.handle(0), data);
}

void inline_content(Scene& s) {
  s.stimulus("STORE with INLINE of 333 octets; LOAD");
  Session& a = s.session();
  bind_block(s, a, a.handle(0), pattern(30, 16), false);
  if (s.stopped()) return;
  const auto data = pattern(31, 333);
  const RequestId id = a.store(a.handle(0), Octets(data), {});
  a.await(id);
  s.expect(completes("KBTP-6.2-04", a.index(), id, Status::success));
  expect_content(s, a, "KBTP-6.2-04", a.handle(0), data);
}

void completes_late(Scene& s) {
  s.stimulus("STORE without INLINE whose Read Response is held back until another request has been answered");
  Session& a = s.session();
  bind_block(s, a, a.handle(0), pattern(32, 64), false);
  if (s.stopped()) return;
  a.raw().hold_reads(true);
  const RequestId id = a.store(a.handle(0), source_with(a, pattern(33, 2000)), {});
  a.peer().pump([&] { return !a.raw().pending_reads().empty(); });
  a.await(a.load(a.handle(1), a.peer().expose(16)));  // a fence: what the target had to say has been said
  a.raw().hold_reads(false);
  a.raw().answer_reads();
  a.await(id);
  s.expect(completes("KBTP-6.2-06", a.index(), id, Status::success));
  s.expect(completes_after_reading("KBTP-6.2-06", a.index(), id));
}

void sink_is_closed(Scene& s) {
  s.stimulus("an RDMA Write to the sink STag of the target's open Read");
  Session& a = s.session();
  if (s.stopped()) return;
  a.raw().hold_reads(true);
  const RequestId id = a.alloc_store(a.handle(0), source_with(a, pattern(34, 512)), {});
  const bool asked = a.peer().pump([&] { return !a.raw().pending_reads().empty(); });
  s.need(asked, "the target did not ask for the data of the store");
  if (s.stopped()) return;
  const rdmap::ReadRequest read = a.raw().pending_reads().front();
  const auto ulpdu = tagged_ulpdu(rdmap::Opcode::rdma_write, read.sink_stag, read.sink_to, pattern(35, 16));
  a.raw().send_fpdu(ulpdu);
  a.raw().answer_reads();
  a.peer().wait_for_end();
  s.expect(terminates("G-52", a.index(), {{1, 1, 0x00}}, {{0, 1, 0x02}, {1, 1, 0x02}}));
  s.expect(stays_unanswered("G-52", a.index(), id));
}

}  // namespace

std::vector<Case> store() {
  return {
      {"kbtp.store.unbound", {"KBTP-6.2-01"}, Capability::none, "STORE allocates nothing", unbound},
      {"kbtp.store.sealed",
       {"KBTP-6.2-02", "KBTP-5.1-09"},
       Capability::none,
       "a sealed block is not stored to",
       sealed},
      {"kbtp.store.foreign",
       {"KBTP-6.2-03", "KBTP-6.3-01"},
       Capability::none,
       "stores stay in the own range",
       foreign},
      {"kbtp.store.shrinks",
       {"KBTP-6.2-05"},
       Capability::none,
       "Data Length is replaced and SEAL takes effect",
       shrinks},
      {"kbtp.store.reads-descriptor",
       {"KBTP-5.2-03", "KBTP-6.2-04"},
       Capability::none,
       "the target reads just the described octets",
       reads_descriptor},
      {"kbtp.store.inline",
       {"KBTP-6.2-04"},
       Capability::inline_data,
       "inline data goes to the block",
       inline_content},
      {"kbtp.store.completes-late",
       {"KBTP-6.2-06"},
       Capability::none,
       "no COMPLETION before the data is there",
       completes_late,
       Player::raw_peer},
      {"kbtp.store.sink-is-closed",
       {"G-52"},
       Capability::none,
       "the sink of a Read takes the Read Response only",
       sink_is_closed,
       Player::raw_peer},
  };
}

}  // namespace kbtp::conformance::groups
