#include "proto/memory/ring.h"

#include <algorithm>
#include <atomic>
#include <fmt/format.h>

#include "base/fault.h"

namespace kbtp::memory {

namespace {

using wire::kNoBlock;
using wire::Slot;
using Word = std::atomic_ref<std::uint64_t>;

// A slot's words: [0] Sequence and reserved, [1] Block Offset.
constexpr std::size_t kSequence = 0;
constexpr std::size_t kOffset = 1;

// Head and Tail, as words of their mapping: 128 octets apart, since adjacent cache lines are fetched in
// pairs.
constexpr std::size_t kHead = 0;
constexpr std::size_t kTail = 16;
constexpr std::size_t kCounterOctets = 4096;

}  // namespace

Result<std::unique_ptr<Ring>> Ring::create(std::span<const std::uint64_t> free_blocks, std::uint64_t capacity,
                                           FetchAdd fetch_add, RingOptions options) {
  const auto n = wire::ring_log2(capacity);
  if (capacity == 0 || !n) {
    return failure(fmt::format("a ring is for 1 to 2^28 blocks (E-4), not {}", capacity));
  }
  if (free_blocks.size() > capacity) {
    return failure(fmt::format("{} free blocks for a ring of {}", free_blocks.size(), capacity));
  }
  const wire::CounterFormat format(*n, options.counters);
  auto slots = Mapping::create(format.slots() * wire::kSlotSize, "free-block ring");
  if (!slots) return unexpected(std::move(slots.error()));
  auto counters = Mapping::create(kCounterOctets, "ring counters");
  if (!counters) return unexpected(std::move(counters.error()));
  std::unique_ptr<Ring> ring(new Ring(*std::move(slots), *std::move(counters), format, std::move(fetch_add)));

  // 3.3 Initialization, with F = free_blocks.size(): slots of the first F tickets are full, the others look
  // as if consumed one lap ago. Before anybody else can see the ring.
  const std::uint32_t first = options.first_ticket;
  const auto filled = static_cast<std::uint32_t>(free_blocks.size());
  for (std::uint64_t i = 0; i < format.slots(); ++i) {
    const auto ticket = static_cast<std::uint32_t>(first + i);
    const bool full = i < filled;
    ring->store_block(format.slot_of(ticket), full ? free_blocks[i] : kNoBlock);
    ring->store_sequence(format.slot_of(ticket),
                         full ? ticket : static_cast<std::uint32_t>(ticket - format.slots()));
  }
  Word(ring->head()).store(format.pack(first), std::memory_order_release);
  Word(ring->tail()).store(format.pack(first + filled), std::memory_order_release);
  return ring;
}

std::uint64_t& Ring::head() const { return counters_.words()[kHead]; }
std::uint64_t& Ring::tail() const { return counters_.words()[kTail]; }

MutableOctets Ring::slot_memory() const { return slots_.octets().first(format_.slots() * wire::kSlotSize); }
MutableOctets Ring::head_memory() const { return counters_.octets().first(sizeof(std::uint64_t)); }

std::uint32_t Ring::advance(std::uint64_t& counter) {
  return format_.unpack(fetch_add_(counter, format_.add_data(), format_.add_mask())).ticket;
}

Slot Ring::slot(std::uint64_t number) const {
  const auto words = slots_.words().subspan(2 * number, 2);
  // The Sequence first: whoever sees a new Sequence sees the Block Offset stored before it (3.3).
  const std::uint64_t sequence = Word(words[kSequence]).load(std::memory_order_acquire);
  return wire::unpack_slot({sequence, Word(words[kOffset]).load(std::memory_order_acquire)});
}

void Ring::store_block(std::uint64_t number, std::uint64_t block_offset) {
  Word(slots_.words()[2 * number + kOffset])
      .store(wire::pack(Slot{0, block_offset}).second, std::memory_order_release);
}

void Ring::store_sequence(std::uint64_t number, std::uint32_t sequence) {
  Word(slots_.words()[2 * number + kSequence])
      .store(wire::pack(Slot{sequence, 0}).first, std::memory_order_release);
}

/// The block that waits to be written for Tail ticket `ticket`, off the list.
std::optional<std::uint64_t> Ring::pop_deferred(std::uint32_t& ticket) {
  auto free = deferred_.find(ticket);
  if (fault(Fault::consumed_slot_is_free)) {
    // Whoever of this slot comes last: to the letter of 3.3 they are all the same.
    for (auto other = deferred_.begin(); other != deferred_.end(); ++other) {
      if (format_.slot_of(other->first) != format_.slot_of(ticket)) continue;
      if (free == deferred_.end() || static_cast<std::int32_t>(other->first - free->first) > 0) free = other;
    }
    if (free != deferred_.end()) ticket = free->first;
  }
  if (free == deferred_.end()) return std::nullopt;
  const std::uint64_t block = free->second;
  deferred_.erase(free);
  return block;
}

/// Writes the slot of Tail ticket `ticket`, or defers that. When an allocation waits for the ticket it is
/// served, which lets the free of the next lap in, and so on.
void Ring::place(std::uint32_t ticket, std::uint64_t block_offset, Outcome& outcome) {
  const std::uint64_t number = format_.slot_of(ticket);
  std::optional<std::uint64_t> block = block_offset;
  for (; block; block = pop_deferred(ticket)) {
    // E-3: consumed alone is not enough, since the free of the lap before may still be on its way.
    const bool free_for_it = fault(Fault::consumed_slot_is_free)
                                 ? slot(number).consumed()
                                 : slot(number).free_for(ticket, format_.slots());
    if (!free_for_it) {
      deferred_.emplace(ticket, *block);  // KBTP-3.3-18
      return;
    }
    // 3.3 Free: the Block Offset, then the Sequence by a release store, so that a reader of the new Sequence
    // reads the new Block Offset.
    store_block(number, *block);
    store_sequence(number, ticket);
    const auto waiter = waiters_.find(ticket);
    if (waiter == waiters_.end()) return;
    if (waiter->second) {
      outcome.wakes.emplace_back(std::move(waiter->second), *block);
    } else {
      outcome.returns.push_back(*block);
    }
    waiters_.erase(waiter);
    store_block(number, kNoBlock);
    ticket += static_cast<std::uint32_t>(format_.slots());
  }
}

/// Consumes the slot of `ticket`, which is ready, and lets the free that waited for it in.
std::uint64_t Ring::take(std::uint32_t ticket, Outcome& outcome) {
  const std::uint64_t number = format_.slot_of(ticket);
  const std::uint64_t block = slot(number).block_offset;
  store_block(number, kNoBlock);  // KBTP-3.3-14, KBTP-3.3-15
  auto next = static_cast<std::uint32_t>(ticket + format_.slots());
  if (const auto freed = pop_deferred(next)) place(next, *freed, outcome);
  return block;
}

/// Runs the callbacks and frees what abandoned tickets gave back, until nothing is left.
void Ring::finish(Outcome outcome) {
  for (;;) {
    for (auto& [ready, block] : outcome.wakes) ready(block);
    if (outcome.returns.empty()) return;
    Outcome next;
    for (const std::uint64_t block : outcome.returns) {
      const std::uint32_t ticket = advance(tail());
      const std::scoped_lock lock(mutex_);
      place(ticket, block, next);
    }
    outcome = std::move(next);
  }
}

Ring::Taken Ring::allocate(Ready ready) {
  Outcome outcome;
  Taken taken;
  {
    // The ticket is taken under the mutex so that a BIND which guesses it comes either before, and finds it
    // not issued, or after, and finds its slot consumed or waited for.
    const std::scoped_lock lock(mutex_);
    taken.ticket = advance(head());
    if (slot(format_.slot_of(taken.ticket)).ready_for(taken.ticket)) {
      taken.block_offset = take(taken.ticket, outcome);
    } else {
      waiters_.emplace(taken.ticket, std::move(ready));
    }
  }
  finish(std::move(outcome));
  return taken;
}

void Ring::free(std::uint64_t block_offset) {
  const std::uint32_t ticket = advance(tail());
  Outcome outcome;
  {
    const std::scoped_lock lock(mutex_);
    place(ticket, block_offset, outcome);
  }
  finish(std::move(outcome));
}

Ring::Consumed Ring::match(std::uint32_t ticket, std::uint64_t block_offset) const {
  if (!issued(ticket)) return Consumed::not_issued;
  const Slot s = slot(format_.slot_of(ticket));
  if (fault(Fault::bind_ignores_sequence) && s.block_offset == block_offset) return Consumed::yes;
  return s.ready_for(ticket) && s.block_offset == block_offset ? Consumed::yes : Consumed::no_match;
}

Ring::Consumed Ring::probe(std::uint32_t ticket, std::uint64_t block_offset) const {
  const std::scoped_lock lock(mutex_);
  return match(ticket, block_offset);
}

Ring::Consumed Ring::consume(std::uint32_t ticket, std::uint64_t block_offset) {
  Outcome outcome;
  {
    const std::scoped_lock lock(mutex_);
    if (const Consumed answer = match(ticket, block_offset); answer != Consumed::yes) return answer;
    (void)take(ticket, outcome);
  }
  finish(std::move(outcome));
  return Consumed::yes;
}

bool Ring::abandon(std::uint32_t ticket) {
  Outcome outcome;
  Ready given_up;  // destroyed without the mutex
  {
    const std::scoped_lock lock(mutex_);
    if (!issued(ticket)) return false;
    const Slot s = slot(format_.slot_of(ticket));
    if (s.ready_for(ticket)) {
      outcome.returns.push_back(take(ticket, outcome));
    } else if (static_cast<std::int32_t>(s.sequence - ticket) >= 0) {
      return false;  // this lap's block, or that of a later one, has been taken
    } else {
      const auto [waiter, added] = waiters_.try_emplace(ticket);
      if (!added && !waiter->second) return false;
      given_up = std::exchange(waiter->second, Ready{});
    }
  }
  finish(std::move(outcome));
  return true;
}

std::uint32_t Ring::head_ticket() const {
  return format_.unpack(Word(head()).load(std::memory_order_acquire)).ticket;
}
std::uint32_t Ring::tail_ticket() const {
  return format_.unpack(Word(tail()).load(std::memory_order_acquire)).ticket;
}
bool Ring::issued(std::uint32_t ticket) const {
  return static_cast<std::int32_t>(head_ticket() - ticket) > 0;
}

std::uint64_t Ring::free_blocks() const {
  const std::scoped_lock lock(mutex_);
  std::uint64_t count = deferred_.size();
  for (std::uint64_t i = 0; i < format_.slots(); ++i) count += slot(i).consumed() ? 0 : 1;
  return count;
}
std::size_t Ring::deferred() const {
  const std::scoped_lock lock(mutex_);
  return deferred_.size();
}
std::size_t Ring::pending() const {
  const std::scoped_lock lock(mutex_);
  return waiters_.size();
}

}  // namespace kbtp::memory
