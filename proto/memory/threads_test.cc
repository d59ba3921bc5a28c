// Pool, table, ring, quotas and pins together, from many threads, as a target and peers use them. What a
// sanitizer says counts as much as the assertions.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <future>
#include <gtest/gtest.h>
#include <latch>
#include <memory>
#include <thread>
#include <vector>

#include "base/masked_add.h"
#include "proto/memory/block_table.h"
#include "proto/memory/pins.h"
#include "proto/memory/pool.h"
#include "proto/memory/quota.h"
#include "proto/memory/ring.h"

namespace kbtp::memory {
namespace {

constexpr std::uint32_t kBlockSize = 64;
constexpr auto kDeadline = std::chrono::seconds(20);

std::vector<std::uint64_t> all_blocks(const Pool& pool) {
  std::vector<std::uint64_t> offsets;
  for (std::uint64_t i = 0; i < pool.blocks(); ++i) offsets.push_back(pool.offset_of(i));
  return offsets;
}

/// Allocates, and waits when the block is still on its way (3.4: at most for a free in progress).
std::uint64_t allocate(Ring& ring) {
  auto promise = std::make_shared<std::promise<std::uint64_t>>();
  auto future = promise->get_future();
  const auto taken = ring.allocate([promise](std::uint64_t b) { promise->set_value(b); });
  if (taken.block_offset) return *taken.block_offset;
  if (future.wait_for(kDeadline) != std::future_status::ready) {
    ADD_FAILURE() << "ticket " << taken.ticket << " starved";
    std::abort();
  }
  return future.get();
}

/// Fills the block, and finds later that nobody else has touched it.
void use(const Pool& pool, std::uint64_t offset, std::uint64_t mark) {
  const MutableOctets octets = pool.block(offset);
  for (std::size_t i = 0; i < octets.size(); i += 8) std::memcpy(octets.data() + i, &mark, 8);
  for (std::size_t i = 0; i < octets.size(); i += 8) {
    std::uint64_t found;
    std::memcpy(&found, octets.data() + i, 8);
    ASSERT_EQ(found, mark);
  }
}

TEST(MemoryThreads, Kbtp_3_3_20_OneRingForTargetAndPeers) {
  const auto pool = Pool::create(8, kBlockSize);
  ASSERT_TRUE(pool);
  auto created = Ring::create(all_blocks(*pool), 8, fetch_masked_add);
  ASSERT_TRUE(created);
  Ring& ring = **created;
  QuotaBook book(8, 0);

  std::vector<std::jthread> threads;
  for (std::uint64_t id = 0; id < 3; ++id) {
    threads.emplace_back([&, id, grant = book.open(2)] {
      for (std::uint64_t round = 0; round < 10000; ++round) {
        if (!book.reserve(grant.owner)) continue;
        const std::uint64_t b = allocate(ring);
        use(*pool, b, (id << 32) | round);
        ring.free(b);
        book.release(grant.owner);
      }
    });
  }
  // A peer of DIRECT_ALLOC: its two blocks, its tickets by FetchAdd, its reads word by word.
  threads.emplace_back([&] {
    auto& head = *reinterpret_cast<std::uint64_t*>(ring.head_memory().data());
    const auto& format = ring.format();
    for (std::uint64_t round = 0; round < 10000; ++round) {
      const auto ticket = format.unpack(fetch_masked_add(head, format.add_data(), format.add_mask())).ticket;
      const auto started = std::chrono::steady_clock::now();
      wire::Slot slot = ring.slot(format.slot_of(ticket));
      while (!slot.ready_for(ticket)) {
        // KBTP-3.3-21: the new Sequence comes with the new Block Offset, and only we consume it.
        ASSERT_NE(slot.sequence, ticket);
        ASSERT_LT(std::chrono::steady_clock::now() - started, kDeadline) << "ticket " << ticket << " starved";
        std::this_thread::yield();
        slot = ring.slot(format.slot_of(ticket));
      }
      use(*pool, slot.block_offset, (std::uint64_t{99} << 32) | round);
      ASSERT_EQ(ring.consume(ticket, slot.block_offset), Ring::Consumed::yes);
      ring.free(slot.block_offset);
    }
  });
  threads.clear();
  EXPECT_EQ(ring.free_blocks(), 8u);
  EXPECT_EQ(ring.deferred(), 0u);
  EXPECT_EQ(ring.pending(), 0u);
}

// 3.4: allocations whose deadline passes, direct tickets that run out, and BINDs that come at that very
// moment. Each block comes back once, whoever wins.
TEST(MemoryThreads, Kbtp_3_4_12_AbandonedTicketsGiveTheirBlocksBack) {
  constexpr std::uint64_t kBlocks = 4;
  constexpr int kRounds = 10000;
  const auto pool = Pool::create(kBlocks, kBlockSize);
  ASSERT_TRUE(pool);
  auto created = Ring::create(all_blocks(*pool), kBlocks, fetch_masked_add, {.first_ticket = 0xFFFF'FF00u});
  ASSERT_TRUE(created);
  Ring& ring = **created;
  const auto& format = ring.format();

  std::atomic<std::uint64_t> abandoned{0};
  std::atomic<std::uint64_t> bound{0};
  std::latch together(4);
  std::vector<std::jthread> threads;
  // With the peer as many as blocks: some wait, and give up when they have waited a moment.
  for (std::uint64_t id = 0; id < 3; ++id) {
    threads.emplace_back([&, id] {
      together.arrive_and_wait();
      for (std::uint64_t round = 0; round < kRounds; ++round) {
        auto promise = std::make_shared<std::promise<std::uint64_t>>();
        auto future = promise->get_future();
        const auto taken = ring.allocate([promise](std::uint64_t b) { promise->set_value(b); });
        std::uint64_t block = 0;
        if (taken.block_offset) {
          block = *taken.block_offset;
        } else {
          std::this_thread::yield();
          if (ring.abandon(taken.ticket)) {
            abandoned.fetch_add(1);
            continue;
          }
          if (future.wait_for(kDeadline) != std::future_status::ready) {
            ADD_FAILURE() << "ticket " << taken.ticket << " was neither abandoned nor served";
            std::abort();
          }
          block = future.get();
        }
        use(*pool, block, (id << 32) | round);
        ring.free(block);
      }
    });
  }
  // A peer of DIRECT_ALLOC whose tickets a reaper gives up while their BINDs come in.
  threads.emplace_back([&] {
    auto& head = *reinterpret_cast<std::uint64_t*>(ring.head_memory().data());
    together.arrive_and_wait();
    for (std::uint64_t round = 0; round < kRounds; ++round) {
      const auto ticket = format.unpack(fetch_masked_add(head, format.add_data(), format.add_mask())).ticket;
      if (round % 8 == 1) {  // its Ticket Timeout has passed
        if (ring.abandon(ticket)) abandoned.fetch_add(1);
        continue;
      }
      std::atomic<bool> go{false};
      std::jthread reaper;
      const bool race = round % 16 == 0;
      if (race) {
        reaper = std::jthread([&] {
          while (!go.load()) std::this_thread::yield();
          if (ring.abandon(ticket)) abandoned.fetch_add(1);
        });
      }
      const wire::Slot slot = ring.slot(format.slot_of(ticket));
      go.store(true);
      const bool mine =
          slot.ready_for(ticket) && ring.consume(ticket, slot.block_offset) == Ring::Consumed::yes;
      if (race) reaper.join();
      if (mine) {
        bound.fetch_add(1);
        use(*pool, slot.block_offset, (std::uint64_t{99} << 32) | round);
        ring.free(slot.block_offset);
      } else if (!race && ring.abandon(ticket)) {
        abandoned.fetch_add(1);
      }
    }
  });
  threads.clear();
  // What was given up before its block came takes it when the ring turns, and returns it: until all are
  // there.
  for (std::uint64_t i = 0; i < 64 * kBlocks && ring.pending() > 0; ++i) {
    const auto taken = ring.allocate([&](std::uint64_t b) { ring.free(b); });
    if (taken.block_offset) ring.free(*taken.block_offset);
  }
  EXPECT_EQ(ring.pending(), 0u);
  EXPECT_EQ(ring.deferred(), 0u);
  EXPECT_EQ(ring.free_blocks(), kBlocks);
  EXPECT_GT(bound.load(), 0u);
  EXPECT_GT(abandoned.load(), 0u);
}

TEST(MemoryThreads, E_05_LoadBesideFreeNeverSeesAnotherBinding) {
  const auto pool = Pool::create(3, kBlockSize);
  ASSERT_TRUE(pool);
  auto table = BlockTable::create(0, 1);
  ASSERT_TRUE(table);
  auto created = Ring::create(all_blocks(*pool), 3, fetch_masked_add);
  ASSERT_TRUE(created);
  Ring& ring = **created;
  Pins pins(3, [&](std::uint64_t number) {
    pool->scrub(pool->offset_of(number));
    ring.free(pool->offset_of(number));
  });

  std::atomic<bool> done{false};
  std::atomic<std::uint64_t> loads{0};
  std::vector<std::jthread> loaders;
  for (int i = 0; i < 2; ++i) {
    loaders.emplace_back([&] {
      while (!done.load()) {
        const auto entry = table->read(0);
        if (!entry.valid()) continue;
        const std::uint64_t number = *pool->number_of(entry.block_offset);
        pins.pin(number);
        if (table->read(0) == entry) {
          const Octets octets = pool->block(entry.block_offset);
          const auto mark = static_cast<std::byte>(entry.generation);
          ASSERT_TRUE(std::ranges::all_of(octets, [&](std::byte b) { return b == mark; }));
          loads.fetch_add(1);
        }
        pins.unpin(number);
      }
    });
  }
  for (int round = 0; round < 2000; ++round) {
    const std::uint64_t b = allocate(ring);
    const auto next = wire::next_generation(table->read(0).generation);
    std::ranges::fill(pool->block(b), static_cast<std::byte>(next));
    table->bind(0, b, kBlockSize, true);
    if (round % 4 == 0) {
      // Let loaders get at it, so that the FREE comes while they are at work.
      const std::uint64_t before = loads.load();
      const auto started = std::chrono::steady_clock::now();
      while (loads.load() == before) {
        std::this_thread::yield();
        if (std::chrono::steady_clock::now() - started < kDeadline) continue;
        done.store(true);
        FAIL() << "nobody loads";
      }
    }
    table->unbind(0);
    pins.retire(*pool->number_of(b));
  }
  done.store(true);
  loaders.clear();
  EXPECT_EQ(ring.free_blocks(), 3u);
  EXPECT_EQ(pins.held_back(), 0u);
  EXPECT_GE(loads.load(), 500u);
}

}  // namespace
}  // namespace kbtp::memory
