// 6.1 Block Load.

#include "conformance/case.h"

namespace kbtp::conformance::groups {

namespace {

using wire::Status;

void unbound(Scene& s) {
  s.stimulus("LOAD of a handle that was never bound, then of one that was freed");
  Session& a = s.session();
  bind_block(s, a, a.handle(1), pattern(1, 300));
  s.need_success(a, a.free(a.handle(1)));
  if (s.stopped()) return;
  for (const std::uint64_t handle : {a.handle(0), a.handle(1)}) {
    const ExposedBuffer& sink = a.peer().expose(4096);
    const RequestId id = a.load(handle, sink, sink.size(), {.allow_unsealed = true});
    a.await(id);
    s.expect(refuses("KBTP-6.1-01", a.index(), id, Status::not_bound));
    s.expect(places_nothing("KBTP-6.1-01", a.index(), sink.stag));
  }
}

void unsealed(Scene& s) {
  s.stimulus("LOAD of an unsealed block, without ALLOW_UNSEALED and with it");
  Session& a = s.session();
  const auto data = pattern(2, 700);
  bind_block(s, a, a.handle(0), data, false);
  if (s.stopped()) return;
  const ExposedBuffer& refused = a.peer().expose(1024);
  const RequestId first = a.load(a.handle(0), refused);
  a.await(first);
  s.expect(refuses("KBTP-6.1-02", a.index(), first, Status::not_sealed));
  s.expect(places_nothing("KBTP-6.1-02", a.index(), refused.stag));
  const ExposedBuffer& allowed = a.peer().expose(1024);
  const RequestId second = a.load(a.handle(0), allowed, allowed.size(), {.allow_unsealed = true});
  a.await(second);
  s.expect(completes("KBTP-5.1-12", a.index(), second, Status::success));
  s.expect(places("KBTP-5.1-12", a.index(), allowed.stag, allowed.tagged_offset, data));
}

void exact_octets(Scene& s) {
  s.stimulus("LOAD of 40,001 octets into a buffer of 50,000");
  Session& a = s.session();
  const auto data = pattern(3, 40'001);
  s.need(a.ack().block_size >= data.size(), "the blocks of the target are smaller than 40,001 octets");
  bind_block(s, a, a.handle(0), data);
  if (s.stopped()) return;
  const ExposedBuffer& sink = a.peer().expose(50'000);
  const RequestId id = a.load(a.handle(0), sink);
  a.await(id);
  s.expect(completes("KBTP-6.1-03", a.index(), id, Status::success));
  s.expect(places("KBTP-6.1-03", a.index(), sink.stag, sink.tagged_offset, data));
}

void order(Scene& s) {
  s.stimulus("LOAD of 30,000 octets; Writes and COMPLETION in the order of the stream");
  Session& a = s.session();
  s.need(a.ack().block_size >= 30'000, "the blocks of the target are smaller than 30,000 octets");
  bind_block(s, a, a.handle(0), pattern(4, 30'000));
  if (s.stopped()) return;
  const ExposedBuffer& sink = a.peer().expose(30'000);
  const RequestId id = a.load(a.handle(0), sink);
  a.await(id);
  const RequestId after = a.load(a.handle(1), sink);  // brings what may still come behind the COMPLETION
  a.await(after);
  s.expect(completes("KBTP-6.1-06", a.index(), id, Status::success));
  s.expect(places_before_completing("KBTP-6.1-06", a.index(), sink.stag, id));
}

void short_descriptor(Scene& s) {
  s.stimulus("LOAD of 1,000 octets with a descriptor of 999; then a LOAD that fits");
  Session& a = s.session();
  const auto data = pattern(5, 1000);
  bind_block(s, a, a.handle(0), data);
  if (s.stopped()) return;
  const ExposedBuffer& sink = a.peer().expose(1000);
  const RequestId id = a.load(a.handle(0), sink, 999, {});
  a.await(id);
  s.expect(refuses("KBTP-6.1-04", a.index(), id, Status::length_error));
  s.expect(places_nothing("KBTP-6.1-04", a.index(), sink.stag));
  expect_content(s, a, "KBTP-6.1-04", a.handle(0), data);
}

void completion_fields(Scene& s) {
  s.stimulus("ALLOC_STORE and LOAD of one handle; fields of both completions");
  Session& a = s.session();
  if (s.stopped()) return;
  const auto data = pattern(6, 1234);
  const RequestId stored = a.alloc_store(a.handle(2), Octets(data), {.seal = true});
  s.need_success(a, stored);
  const ExposedBuffer& sink = a.peer().expose(2048);
  const RequestId id = a.load(a.handle(2), sink);
  a.await(id);
  s.expect(completes("KBTP-6.1-05", a.index(), id, Status::success));
  s.expect(relates("KBTP-6.1-05", a.index(), stored, id,
                   {.data_length = 1234, .same_block = true, .same_generation = true}));
}

void invalidate(Scene& s) {
  s.stimulus("LOAD with INVALIDATE, and one without");
  Session& a = s.session();
  bind_block(s, a, a.handle(0), pattern(7, 500));
  if (s.stopped()) return;
  const ExposedBuffer& given_up = a.peer().expose(512, Revocable::by_target);
  const RequestId first = a.load(a.handle(0), given_up, 512, {.invalidate = true});
  a.await(first);
  const ExposedBuffer& kept = a.peer().expose(512);
  const RequestId second = a.load(a.handle(0), kept);
  a.await(second);
  s.expect(completes("KBTP-5.1-11", a.index(), first, Status::success));
  s.expect(invalidates("KBTP-5.1-11", a.index(), first, given_up.stag));
  s.expect(completes("KBTP-5.1-11", a.index(), second, Status::success));
  s.expect(invalidates("KBTP-5.1-11", a.index(), second, std::nullopt));
}

void record_flag(Scene& s) {
  s.stimulus("LOAD with RECORD and a Completion Descriptor in a session without RECORD_COMPLETION");
  Session& a = s.session();
  bind_block(s, a, a.handle(0), pattern(8, 500));
  if (s.stopped()) return;
  const ExposedBuffer& sink = a.peer().expose(512);
  const ExposedBuffer& record = a.peer().expose(wire::kCompletionRecordSize);
  const RequestId id = a.load(a.handle(0), sink, sink.size(),
                              {.record = wire::CompletionDescriptor{record.stag, record.tagged_offset}});
  a.await(id);
  s.expect(refuses_or_completes("KBTP-6.5-05", a.index(), id));
  s.expect(places_nothing("KBTP-6.5-05", a.index(), record.stag));
}

void invisible(Scene& s) {
  s.stimulus("LOAD of a sealed block by a session of another trust domain");
  Session& a = s.session();
  bind_block(s, a, a.handle(0), pattern(9, 600));
  Session& b = s.session({.quota = 0, .handles = 0, .identity = s.surroundings().profile.identities.foreign});
  if (s.stopped()) return;
  const ExposedBuffer& sink = b.peer().expose(1024);
  const RequestId id = b.load(a.handle(0), sink);
  b.await(id);
  s.expect(refuses("G-25", b.index(), id, Status::no_such_handle));
  s.expect(tells_nothing("G-25", b.index(), id));
  s.expect(places_nothing("G-25", b.index(), sink.stag));
}

void no_such_handle(Scene& s) {
  s.stimulus("LOAD of a handle outside every range");
  Session& a = s.session();
  if (s.stopped()) return;
  const ExposedBuffer& sink = a.peer().expose(1024);
  const RequestId id = a.load(0xFFFF'FFFF'FFFF'FF00u, sink);
  a.await(id);
  s.expect(refuses("G-25", a.index(), id, Status::no_such_handle));
  s.expect(tells_nothing("G-25", a.index(), id));
  s.expect(places_nothing("G-25", a.index(), sink.stag));
}

}  // namespace

std::vector<Case> load() {
  return {
      {"kbtp.load.unbound", {"KBTP-6.1-01"}, Capability::none, "only VALID entries can be loaded", unbound},
      {"kbtp.load.unsealed",
       {"KBTP-6.1-02", "KBTP-5.1-12"},
       Capability::none,
       "an unsealed block needs ALLOW_UNSEALED",
       unsealed},
      {"kbtp.load.exact-octets",
       {"KBTP-6.1-03"},
       Capability::none,
       "exactly Data Length octets are written",
       exact_octets},
      {"kbtp.load.short-descriptor",
       {"KBTP-6.1-04"},
       Capability::none,
       "a descriptor that is too short is refused",
       short_descriptor},
      {"kbtp.load.completion-fields",
       {"KBTP-6.1-05"},
       Capability::inline_data,
       "the completion tells the entry",
       completion_fields},
      {"kbtp.load.order", {"KBTP-6.1-06"}, Capability::none, "the Writes come before the COMPLETION", order},
      {"kbtp.load.invalidate",
       {"KBTP-5.1-11"},
       Capability::none,
       "INVALIDATE asks for Send with Invalidate",
       invalidate},
      {"kbtp.load.record",
       {"KBTP-6.5-05"},
       Capability::none,
       "no completion record is written where none was granted",
       record_flag},
      {"kbtp.load.no-such-handle",
       {"G-25"},
       Capability::none,
       "a handle outside every range is invisible",
       no_such_handle},
      {"kbtp.load.foreign-domain",
       {"G-25"},
       Capability::foreign_domain,
       "blocks of another trust domain are invisible",
       invisible},
  };
}

}  // namespace kbtp::conformance::groups
