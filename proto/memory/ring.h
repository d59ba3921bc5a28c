// The free-block ring (3.3) with its repaired rules: a slot is free for ticket u only if it is consumed and
// its Sequence is u - N (E-3). Slots are two 64-bit words in network order each; Head and Tail are one word
// in host order each, on cache lines of their own, so that peers may FetchAdd Head and RDMA-read slots
// (region content `words`).
//
// Threads: everything may be called from any thread. Slot state, waiters and deferred frees are under one
// mutex; a peer's FetchAdd on Head never takes it. Callbacks run on the calling thread after the mutex is
// released: they may call into the ring, and hand over to another loop if need be.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "proto/memory/mapping.h"
#include "proto/wire/structures.h"

namespace kbtp::memory {

/// FetchAdd on a counter, atomic with what peers do to it (G-27): rdma::Provider::fetch_add_local.
using FetchAdd = std::function<std::uint64_t(std::uint64_t& word, std::uint64_t add, std::uint64_t mask)>;

struct RingOptions {
  wire::CounterFormat::Kind counters = wire::CounterFormat::Kind::masked;
  /// The first ticket, 0 by 3.3; another value only to reach the wrap of tickets in tests.
  std::uint32_t first_ticket = 0;
};

class Ring {
 public:
  /// A ring for at most `capacity` blocks (F, or the quota of a direct partition, P-07): the smallest N = 2^n
  /// with n in 1..28. It starts with `free_blocks` (Block Offsets, at most `capacity`; fewer when an identity
  /// comes back to a partition in use, G-24), in that order.
  [[nodiscard]] static Result<std::unique_ptr<Ring>> create(std::span<const std::uint64_t> free_blocks,
                                                            std::uint64_t capacity, FetchAdd fetch_add,
                                                            RingOptions options = {});

  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;

  [[nodiscard]] const wire::CounterFormat& format() const { return format_; }
  /// 16 * N octets of slots, to be registered for remote read.
  [[nodiscard]] MutableOctets slot_memory() const;
  /// The 8 octets of Head, to be registered for remote atomics.
  [[nodiscard]] MutableOctets head_memory() const;

  /// Called at most once, with the Block Offset, when the slot of a pending ticket has become ready and was
  /// consumed.
  using Ready = std::function<void(std::uint64_t block_offset)>;

  struct Taken {
    std::uint32_t ticket = 0;
    std::optional<std::uint64_t> block_offset;  ///< nothing: pending, `ready` will be called
  };
  /// Target-executed allocation (3.3): takes a ticket and, when its slot is ready, the block, marking the
  /// slot consumed. Never waits. To be called only when the quota allows (G-21): a ticket cannot be given
  /// back.
  [[nodiscard]] Taken allocate(Ready ready);

  /// Free (3.3): takes a Tail ticket and writes its slot, or defers that until the slot is free for it. The
  /// table entry must be updated, and the block scrubbed, before.
  void free(std::uint64_t block_offset);

  enum class Consumed : std::uint8_t {
    yes,
    not_issued,  ///< Head has not passed the ticket
    no_match,    ///< the slot does not hold that block for that ticket: not filled, taken, or another block
  };
  /// BIND (6.6, E-9): marks the slot of `ticket` consumed if it holds `block_offset`.
  [[nodiscard]] Consumed consume(std::uint32_t ticket, std::uint64_t block_offset);
  /// What consume() would answer; changes nothing.
  [[nodiscard]] Consumed probe(std::uint32_t ticket, std::uint64_t block_offset) const;

  /// Gives up an issued ticket: a pending allocation whose deadline passed, or a direct ticket past its
  /// Ticket Timeout (3.4). Its block, now or as soon as the slot is filled, is consumed and returns with a
  /// new ticket (G-29). False when there is nothing to give up: not issued, consumed or abandoned before; of
  /// a pending allocation, that its `ready` has been called or is about to be.
  bool abandon(std::uint32_t ticket);

  /// The ticket that the next FetchAdd on Head will return. A plain atomic load (G-27).
  [[nodiscard]] std::uint32_t head_ticket() const;
  [[nodiscard]] std::uint32_t tail_ticket() const;
  /// Whether Head has passed `ticket`, which may be up to 2^31 tickets ago.
  [[nodiscard]] bool issued(std::uint32_t ticket) const;

  /// A snapshot of slot `number` < N, for tests and diagnosis.
  [[nodiscard]] wire::Slot slot(std::uint64_t number) const;
  /// Blocks that sit in slots or in the list of deferred frees. Walks the ring under the mutex.
  [[nodiscard]] std::uint64_t free_blocks() const;
  /// Frees that wait for their slot.
  [[nodiscard]] std::size_t deferred() const;
  /// Tickets that wait for their block: allocations, and abandoned ones.
  [[nodiscard]] std::size_t pending() const;

 private:
  Ring(Mapping slots, Mapping counters, wire::CounterFormat format, FetchAdd fetch_add)
      : slots_(std::move(slots)),
        counters_(std::move(counters)),
        format_(format),
        fetch_add_(std::move(fetch_add)) {}

  /// What is left to do once the mutex is released.
  struct Outcome {
    std::vector<std::pair<Ready, std::uint64_t>> wakes;
    std::vector<std::uint64_t> returns;  ///< blocks of abandoned tickets, to be freed with a new ticket
  };

  [[nodiscard]] std::uint64_t& head() const;
  [[nodiscard]] std::uint64_t& tail() const;
  [[nodiscard]] std::uint32_t advance(std::uint64_t& counter);
  void store_block(std::uint64_t number, std::uint64_t block_offset);
  void store_sequence(std::uint64_t number, std::uint32_t sequence);
  // With the mutex held:
  [[nodiscard]] Consumed match(std::uint32_t ticket, std::uint64_t block_offset) const;
  [[nodiscard]] std::optional<std::uint64_t> pop_deferred(std::uint32_t& ticket);
  void place(std::uint32_t ticket, std::uint64_t block_offset, Outcome& outcome);
  [[nodiscard]] std::uint64_t take(std::uint32_t ticket, Outcome& outcome);
  // Without it:
  void finish(Outcome outcome);

  Mapping slots_;
  Mapping counters_;
  wire::CounterFormat format_;
  FetchAdd fetch_add_;

  mutable std::mutex mutex_;
  std::unordered_map<std::uint32_t, std::uint64_t> deferred_;  ///< Tail ticket -> block to be written
  std::unordered_map<std::uint32_t, Ready>
      waiters_;  ///< Head ticket -> allocation; an empty one is abandoned
};

}  // namespace kbtp::memory
