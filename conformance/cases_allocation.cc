// 6.3 Block Unmapped Store, 6.4 Block Free, 3.4 quotas, 3.2 generations.

#include <algorithm>

#include "base/random.h"
#include "conformance/case.h"
#include "proto/wire/structures.h"

namespace kbtp::conformance::groups {

namespace {

using wire::Status;

/// A STORE-like body that works inline or not, whatever the target takes.
RequestId alloc(Session& session, std::uint64_t handle, const std::vector<std::byte>& data) {
  if (data.size() <= session.ack().max_inline)
    return session.alloc_store(handle, Octets(data), {.seal = true});
  ExposedBuffer& source = session.peer().expose(data.size());
  std::ranges::copy(data, source.octets().begin());
  return session.alloc_store(handle, source, {.seal = true});
}

/// A LOAD that can only probe the entry: its completion tells Generation whatever the state (G-16).
RequestId probe(Session& session, std::uint64_t handle) {
  const ExposedBuffer& nowhere = session.peer().expose(16);
  return session.load(handle, nowhere, 0, {.allow_unsealed = true});
}

void twice(Scene& s) {
  s.stimulus("two ALLOC_STOREs of one handle, then a LOAD");
  Session& a = s.session();
  const auto data = pattern(40, 900);
  bind_block(s, a, a.handle(0), data);
  if (s.stopped()) return;
  const RequestId again = alloc(a, a.handle(0), pattern(41, 900));
  a.await(again);
  s.expect(refuses("KBTP-6.3-02", a.index(), again, Status::already_bound));
  expect_content(s, a, "KBTP-6.3-02", a.handle(0), data);
}

void generation_counts(Scene& s) {
  s.stimulus("probe, ALLOC_STORE, LOAD, FREE, probe, ALLOC_STORE of one handle; Generations compared");
  Session& a = s.session();
  if (s.stopped()) return;
  const RequestId before = probe(a, a.handle(0));
  a.await(before);
  const RequestId bound = alloc(a, a.handle(0), pattern(42, 64));
  s.need_success(a, bound);
  const RequestId loaded = a.load(a.handle(0), a.peer().expose(64));
  a.await(loaded);
  const RequestId freed = a.free(a.handle(0));
  s.need_success(a, freed);
  const RequestId after = probe(a, a.handle(0));
  a.await(after);
  const RequestId again = alloc(a, a.handle(0), pattern(43, 64));
  s.need_success(a, again);
  const ConnectionIndex c = a.index();
  s.expect(relates("KBTP-6.3-05", c, before, bound, {.next_generation = true}));
  s.expect(relates("KBTP-5.1-05", c, bound, loaded, {.same_generation = true}));
  s.expect(relates("KBTP-6.4-02", c, bound, freed, {.next_generation = true}));
  s.expect(refuses("KBTP-6.4-02", c, after, Status::not_bound));
  s.expect(relates("KBTP-5.1-05", c, freed, after, {.same_generation = true}));
  s.expect(relates("KBTP-6.3-05", c, freed, again, {.next_generation = true}));
}

void distinct_blocks(Scene& s) {
  s.stimulus("ALLOC_STORE of two handles; Block Offsets compared, both loaded");
  Session& a = s.session();
  if (s.stopped()) return;
  const auto one = pattern(44, 512);
  const auto two = pattern(45, 512);
  const RequestId first = alloc(a, a.handle(0), one);
  s.need_success(a, first);
  const RequestId second = alloc(a, a.handle(1), two);
  s.need_success(a, second);
  s.expect(relates("KBTP-6.3-06", a.index(), first, second, {.data_length = 512, .other_block = true}));
  expect_content(s, a, "KBTP-6.3-06", a.handle(0), one);
  expect_content(s, a, "KBTP-6.3-06", a.handle(1), two);
}

void free_refused(Scene& s) {
  s.stimulus("FREE of an unbound handle, FREE twice, FREE by another session");
  Session& a = s.session();
  const auto data = pattern(46, 256);
  bind_block(s, a, a.handle(0), data);
  bind_block(s, a, a.handle(1), data);
  Session& b = s.session();
  if (s.stopped()) return;
  s.need_success(a, a.free(a.handle(1)));
  for (const std::uint64_t handle : {a.handle(2), a.handle(1)}) {
    const RequestId id = a.free(handle);
    a.await(id);
    s.expect(refuses("KBTP-6.4-01", a.index(), id, Status::not_bound));
  }
  const RequestId foreign = b.free(a.handle(0));
  b.await(foreign);
  s.expect(refuses("KBTP-6.4-01", b.index(), foreign, Status::not_owner));
  expect_content(s, a, "KBTP-6.4-01", a.handle(0), data);
}

void quota(Scene& s) {
  s.stimulus("as many ALLOC_STOREs as the quota has units, and one more; then FREE and one more");
  Session& a = s.session({.quota = 3, .handles = 64});
  s.need(a.ack().quota < 64, "the target grants more quota than the case wants to fill");
  for (std::uint64_t i = 0; i < a.ack().quota && !s.stopped(); ++i)
    bind_block(s, a, a.handle(i), pattern(static_cast<std::uint32_t>(50 + i), 64));
  if (s.stopped()) return;
  const RequestId over = alloc(a, a.handle(a.ack().quota), pattern(60, 64));
  a.await(over);
  s.expect(completes("KBTP-3.4-14", a.index(), over, Status::no_space));
  const RequestId freed = a.free(a.handle(0));
  a.await(freed);
  s.expect(completes("KBTP-3.4-05", a.index(), freed, Status::success));
  const RequestId fits = alloc(a, a.handle(a.ack().quota), pattern(61, 64));
  a.await(fits);
  s.expect(completes("KBTP-3.4-05", a.index(), fits, Status::success));
}

void generation_mismatch(Scene& s) {
  s.stimulus("LOAD, STORE and FREE with a Generation that the entry does not have; then the block is loaded");
  Session& a = s.session();
  const auto data = pattern(62, 300);
  const wire::Completion bound = bind_block(s, a, a.handle(0), data, false);
  if (s.stopped()) return;
  const std::uint16_t wrong = wire::next_generation(bound.generation);
  const ConnectionIndex c = a.index();
  const ExposedBuffer& sink = a.peer().expose(512);
  const RequestId loaded = a.load(a.handle(0), sink, 512, {.allow_unsealed = true, .generation = wrong});
  a.await(loaded);
  s.expect(refuses("KBTP-5.1-04", c, loaded, Status::generation_mismatch));
  s.expect(places_nothing("KBTP-5.1-04", c, sink.stag));
  const ExposedBuffer& source = a.peer().expose(300);
  const RequestId stored = a.store(a.handle(0), source, {.generation = wrong});
  a.await(stored);
  s.expect(refuses("KBTP-5.1-04", c, stored, Status::generation_mismatch));
  const RequestId freed = a.free(a.handle(0), wrong);
  a.await(freed);
  s.expect(refuses("KBTP-5.1-04", c, freed, Status::generation_mismatch));
  expect_content(s, a, "KBTP-5.1-04", a.handle(0), data);
  const RequestId right = a.free(a.handle(0), bound.generation);
  a.await(right);
  s.expect(completes("KBTP-5.1-04", c, right, Status::success));
}

void generation_wraps(Scene& s) {
  constexpr std::uint32_t kCycles = 32'770;  // each is two Generations
  s.stimulus("32,770 times ALLOC_STORE of no octets and FREE of one handle");
  Session& a = s.session();
  if (s.stopped()) return;
  const std::uint32_t pairs = std::max(1u, std::min(a.ack().max_requests, 64u) / 2);
  // One handle's requests are processed in the order of arrival (G-22), so that they can be sent in bursts.
  for (std::uint32_t done = 0; done < kCycles && !s.stopped(); done += pairs) {
    s.need_success(a, a.bind_and_free(a.handle(0), pairs));
  }
  s.expect(generations_wrap_without_zero("KBTP-3.2-05", a.index()));
}

}  // namespace

std::vector<Case> allocation() {
  return {
      {"kbtp.alloc.twice", {"KBTP-6.3-02"}, Capability::none, "a bound handle is not bound again", twice},
      {"kbtp.alloc.generation",
       {"KBTP-6.3-05", "KBTP-6.4-02", "KBTP-5.1-05"},
       Capability::none,
       "binding and freeing count the Generation up",
       generation_counts},
      {"kbtp.alloc.distinct-blocks",
       {"KBTP-6.3-06"},
       Capability::none,
       "each binding has a block of its own",
       distinct_blocks},
      {"kbtp.free.refused",
       {"KBTP-6.4-01"},
       Capability::none,
       "FREE wants a bound handle of the own range",
       free_refused},
      {"kbtp.quota.no-space",
       {"KBTP-3.4-14", "KBTP-3.4-05"},
       Capability::none,
       "NO_SPACE beyond the quota, a FREE gives one unit back",
       quota},
      {"kbtp.generation.mismatch",
       {"KBTP-5.1-04"},
       Capability::none,
       "a wrong expected Generation is refused",
       generation_mismatch},
      {"kbtp.generation.wraps",
       {"KBTP-3.2-05"},
       Capability::inline_data,
       "the Generation skips zero when it wraps",
       generation_wraps},
  };
}

}  // namespace kbtp::conformance::groups
