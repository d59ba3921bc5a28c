// 6.5 and 9.2: completion records, over InfiniBand and RoCE. A case waits for the records that are due, then
// for the COMPLETION of a refused LOAD, which brings what may still come behind them.

#include "base/random.h"
#include "conformance/case.h"

namespace kbtp::conformance::groups {

namespace {

using wire::CompletionDescriptor;
using wire::Status;

constexpr std::uint64_t kNeverBound = 7;  // of the own handles

/// A session that was granted RECORD_COMPLETION.
Session& recording_session(Scene& s) {
  Session& a = s.session({.wanted = {.record_completion = true}});
  if (!s.stopped() && !a.ack().granted.record_completion)
    s.stop(State::unsupported, "the target does not grant RECORD_COMPLETION");
  return a;
}

CompletionDescriptor expose_slot(Session& session) {
  const ExposedBuffer& buffer = session.peer().expose(wire::kCompletionRecordSize);
  return {buffer.stag, buffer.tagged_offset};
}

/// Brings what may still come behind the records.
void await_refusal(Session& session) {
  session.await(session.load(session.handle(kNeverBound), session.peer().expose(16)));
}

/// The request's record, and no COMPLETION.
void expect_record(Scene& s, Session& a, RequestId id, const CompletionDescriptor& slot, Status due) {
  s.expect(records("KBTP-6.5-03", a.index(), id, slot, due));
  s.expect(stays_unanswered("KBTP-6.5-03", a.index(), id));
}

struct RecordedLoad {
  std::vector<std::byte> data;
  RequestId stored = 0, id = 0;
  CompletionDescriptor slot;
  std::uint32_t sink = 0;
  std::uint64_t sink_offset = 0;
};
/// Binds a block of `size` octets and loads it with RECORD; the record has come, or was waited for.
RecordedLoad load_with_record(Scene& s, Session& a, std::uint32_t seed, std::size_t size) {
  RecordedLoad out;
  out.data = pattern(seed, size);
  s.need(s.stopped() || a.ack().block_size >= size, "the blocks of the target are too small");
  out.stored = bind_block(s, a, a.handle(0), out.data).request_id;
  if (s.stopped()) return out;
  const ExposedBuffer& sink = a.peer().expose(size);
  out.sink = sink.stag;
  out.sink_offset = sink.tagged_offset;
  out.slot = expose_slot(a);
  out.id = a.load(a.handle(0), sink, sink.size(), {.record = out.slot});
  a.await_records(1);
  await_refusal(a);
  return out;
}

void alone(Scene& s) {
  s.stimulus("LOAD with RECORD in a session that was granted RECORD_COMPLETION");
  Session& a = recording_session(s);
  const RecordedLoad load = load_with_record(s, a, 120, 500);
  if (s.stopped()) return;
  expect_record(s, a, load.id, load.slot, Status::success);
}

void fields(Scene& s) {
  s.stimulus("ALLOC_STORE without RECORD, and LOAD with it, of one handle; fields of COMPLETION and record");
  Session& a = recording_session(s);
  const RecordedLoad load = load_with_record(s, a, 121, 1234);
  if (s.stopped()) return;
  s.expect(records("KBTP-6.5-04", a.index(), load.id, load.slot, Status::success));
  s.expect(records_entry("KBTP-6.5-04", a.index(), load.stored, load.slot, 1234));
}

void immediate(Scene& s) {
  s.stimulus("LOAD with RECORD; how the record travels");
  Session& a = recording_session(s);
  const RecordedLoad load = load_with_record(s, a, 122, 600);
  if (s.stopped()) return;
  s.expect(records_with_immediate("KBTP-9.2-03", a.index(), load.slot));
  s.expect(immediate_names("G-42", a.index(), load.id, load.slot));
}

void order(Scene& s) {
  s.stimulus("LOAD of 30,000 octets with RECORD; Writes and record in the order of the stream");
  Session& a = recording_session(s);
  const RecordedLoad load = load_with_record(s, a, 123, 30'000);
  if (s.stopped()) return;
  s.expect(places("KBTP-6.5-02", a.index(), load.sink, load.sink_offset, load.data));
  s.expect(places_before_recording("KBTP-6.5-02", a.index(), load.sink, load.slot));
}

void every_request(Scene& s) {
  s.stimulus("ALLOC_STORE, STORE, LOAD and FREE of one handle, each with RECORD");
  Session& a = recording_session(s);
  if (s.stopped()) return;
  const ExposedBuffer& sink = a.peer().expose(64);
  wire::AllocStore alloc_store;  // no octets inside the request: even a target that takes none takes that
  alloc_store.body.inline_data = Octets{};
  wire::Store store;
  store.body.inline_data = Octets{};
  store.body.seal = true;
  wire::Load load;
  load.destination = {sink.stag, sink.tagged_offset, sink.size()};
  std::size_t asked = 0;
  for (wire::Request request :
       {wire::Request(alloc_store), wire::Request(store), wire::Request(load), wire::Request(wire::Free{})}) {
    const CompletionDescriptor slot = expose_slot(a);
    std::visit([&](auto& any) { any.head = {.request_id = random_u64(), .handle = a.handle(0)}; }, request);
    wire::ask_for_record(request, slot);
    expect_record(s, a, a.send(request), slot, Status::success);
    if (!a.await_records(++asked)) break;
  }
  await_refusal(a);
}

void refusal(Scene& s) {
  s.stimulus("LOAD and FREE of a handle that is not bound, both with RECORD");
  Session& a = recording_session(s);
  if (s.stopped()) return;
  const ExposedBuffer& sink = a.peer().expose(64);
  const CompletionDescriptor load_slot = expose_slot(a);
  const CompletionDescriptor free_slot = expose_slot(a);
  const RequestId load = a.load(a.handle(0), sink, sink.size(), {.record = load_slot});
  const RequestId free =
      a.send(wire::Free{.head = {.request_id = random_u64(), .handle = a.handle(0)}, .record = free_slot});
  a.await_records(2);
  await_refusal(a);
  expect_record(s, a, load, load_slot, Status::not_bound);
  expect_record(s, a, free, free_slot, Status::not_bound);
  s.expect(places_nothing("KBTP-6.5-03", a.index(), sink.stag));
}

void not_asked(Scene& s) {
  s.stimulus("LOAD without RECORD in a session that was granted RECORD_COMPLETION");
  Session& a = recording_session(s);
  const auto data = pattern(124, 700);
  bind_block(s, a, a.handle(0), data);
  if (s.stopped()) return;
  const ExposedBuffer& sink = a.peer().expose(data.size());
  const RequestId id = a.load(a.handle(0), sink);
  a.await(id);
  s.expect(completes("KBTP-6.5-01", a.index(), id, Status::success));
  s.expect(places("KBTP-6.5-01", a.index(), sink.stag, sink.tagged_offset, data));
}

void with_invalidate(Scene& s) {
  s.stimulus("LOAD with RECORD and INVALIDATE");
  Session& a = recording_session(s);
  bind_block(s, a, a.handle(0), pattern(125, 800));
  if (s.stopped()) return;
  const ExposedBuffer& sink = a.peer().expose(1024, Revocable::by_target);
  const CompletionDescriptor slot = expose_slot(a);
  const RequestId id = a.load(a.handle(0), sink, sink.size(), {.invalidate = true, .record = slot});
  a.peer().pump([&] { return a.answered(id) || a.peer().immediates() > 0; });
  s.expect(refuses_either_way("G-11", a.index(), id, slot, Status::invalid_request));
  s.expect(places_nothing("G-11", a.index(), sink.stag));
}

}  // namespace

std::vector<Case> record() {
  return {
      {"kbtp.record.alone",
       {"KBTP-6.5-03"},
       Capability::records,
       "a completion record and no COMPLETION",
       alone},
      {"kbtp.record.every-request",
       {"KBTP-6.5-03"},
       Capability::records,
       "every kind of request can ask for a record",
       every_request},
      {"kbtp.record.refusal",
       {"KBTP-6.5-03"},
       Capability::records,
       "what is refused has its record too",
       refusal},
      {"kbtp.record.fields", {"KBTP-6.5-04"}, Capability::records, "the record tells the entry", fields},
      {"kbtp.record.order", {"KBTP-6.5-02"}, Capability::records, "the Writes come before the record", order},
      {"kbtp.record.immediate",
       {"KBTP-9.2-03", "G-42"},
       Capability::records,
       "records come by RDMA Write with Immediate",
       immediate},
      {"kbtp.record.not-asked",
       {"KBTP-6.5-01"},
       Capability::records,
       "without RECORD there is a COMPLETION",
       not_asked},
      {"kbtp.record.with-invalidate",
       {"G-11"},
       Capability::records,
       "RECORD and INVALIDATE exclude each other",
       with_invalidate},
  };
}

}  // namespace kbtp::conformance::groups
