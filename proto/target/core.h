// What the sessions of one target share: memory, quotas, ranges, the line of each handle, counters. Internal
// to proto/target.

#pragma once

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <unordered_map>
#include <vector>

#include "base/bytes.h"
#include "proto/memory/block_table.h"
#include "proto/memory/partition.h"
#include "proto/memory/pins.h"
#include "proto/memory/pool.h"
#include "proto/memory/quota.h"
#include "proto/memory/ring.h"
#include "proto/target/handle_queue.h"
#include "proto/target/ranges.h"
#include "proto/target/target.h"

namespace kbtp::target {

/// A configured initiator with the range that waits for it.
struct NamedRange {
  std::string address;
  std::shared_ptr<Range> range;
  bool direct_load = false;  ///< the direct modes it may be granted
  bool direct_alloc = false;
};

class Core : public std::enable_shared_from_this<Core> {
 public:
  [[nodiscard]] static Result<std::shared_ptr<Core>> create(TargetConfig config, rdma::Provider& provider);

  [[nodiscard]] rdma::AcceptDecision accept(const rdma::ConnectionRequest& request, rdma::Loop& loop);
  [[nodiscard]] Snapshot snapshot() const;
  void drain(std::function<void()> done);

  // Sessions; any thread.
  /// False when max_sessions are open already; a named initiator has a place of its own.
  [[nodiscard]] bool session_opened(bool has_name);
  void session_closed(bool has_name);
  /// The session has ended and given back all it held; `was_open` when session_opened() had been true.
  void session_gone(const std::shared_ptr<Session>& session, bool was_open);
  [[nodiscard]] std::uint32_t domain_index(const std::string& name) const;

  // Blocks; any thread.
  /// One unit of usage (3.4), which `tickets` taken and not bound add to; false is NO_SPACE.
  [[nodiscard]] bool take_unit(memory::OwnerId owner, std::uint64_t tickets = 0);
  void return_unit(memory::OwnerId owner);
  /// Whether a session that has `session_pins` may pin one more block (E-5). Ends in unpin().
  [[nodiscard]] bool try_pin(std::uint32_t session_pins);
  void unpin();
  /// The ring that the owner of `range` allocates from.
  [[nodiscard]] memory::Ring& ring_of(const Range& range) const {
    return range.partition == nullptr ? *ring : range.partition->ring();
  }
  /// The block has been taken out of its ring.
  void took(std::uint64_t block_offset);
  /// Whether a peer may RDMA-write the block, so that nothing is sent from where it lies (E-12).
  [[nodiscard]] bool peer_writes(std::uint64_t block_offset) const {
    return block_offset >= partitions_from_;
  }
  /// Whether a peer may reach the block by itself, so that only the copies of base/shared_memory.h touch it.
  [[nodiscard]] bool shared(std::uint64_t block_offset) const {
    return direct_load_ || peer_writes(block_offset);
  }
  /// `data`, at most Block Size, goes to the front of the block.
  void write_block(std::uint64_t block_offset, Octets data) const;
  /// The first `length` octets of the block, as they are now.
  [[nodiscard]] std::vector<std::byte> copy_block(std::uint64_t block_offset, std::uint32_t length) const;
  /// The block goes back to its ring: at once, or when its last pin drops. The entry is updated before (6.4).
  void retire(std::uint64_t block_offset, bool scrub);
  /// Puts a block that was allocated and never bound back on the ring (G-20).
  void put_back(std::uint64_t block_offset);

  void count(wire::Opcode opcode, wire::Status status, std::uint64_t octets);

  TargetConfig config;
  rdma::Provider& provider;
  rdma::DomainId rdma_domain{};
  const wire::CounterFormat::Kind ring_counters;  ///< of all rings: what the provider's Atomics can advance
  std::uint64_t reserve;                          ///< R
  bool several_domains = false;
  memory::Pool pool;
  memory::BlockTable table;
  /// Of all blocks that are in no partition; none when there are no others.
  std::unique_ptr<memory::Ring> ring;
  memory::QuotaBook quotas;
  RangeBook ranges;
  HandleQueue queue;
  std::unordered_map<Uuid, NamedRange> named;  ///< never changes after create()

  std::atomic<std::uint64_t> free_blocks{0};
  std::atomic<std::uint64_t> bound_handles{0};
  std::atomic<std::uint64_t> usage{0};
  std::atomic<std::uint64_t> copied_loads{0};
  std::atomic<std::uint64_t> refused{0};
  std::atomic<std::uint64_t> direct_sessions{0};
  std::atomic<std::uint64_t> tickets_outstanding{0};
  std::atomic<std::uint64_t> tickets_abandoned{0};

  memory::Pins pins;

 private:
  Core(TargetConfig config_of, rdma::Provider& provider_of, std::uint64_t reserve_of, memory::Pool pool_of,
       memory::BlockTable table_of);
  [[nodiscard]] Result<> open_rings();
  [[nodiscard]] Result<> open_named_ranges();
  [[nodiscard]] Result<> allow_direct_modes() const;
  [[nodiscard]] memory::Partition* partition_of(std::uint64_t block_offset) const;
  void give_back(std::uint64_t number);
  [[nodiscard]] bool make_room();

  struct Counters {
    std::array<std::atomic<std::uint64_t>, wire::kStatusCount> by_status{};
    std::atomic<std::uint64_t> octets{0};
  };
  std::array<Counters, wire::kOpcodeCount> counters_;
  std::vector<std::string> domains_;
  /// Behind the blocks that all share, in the order of their offsets, from partitions_from_ on.
  std::vector<std::unique_ptr<memory::Partition>> partitions_;
  std::uint64_t partitions_from_ = ~std::uint64_t{0};
  bool direct_load_ = false;
  std::unique_ptr<std::atomic<bool>[]> scrub_;  ///< by block number: clear it before it returns
  std::atomic<std::uint64_t> pinned_{0};

  mutable std::mutex mutex_;
  std::map<std::uint64_t, std::shared_ptr<Session>> sessions_;  ///< by number, oldest first
  std::uint64_t sessions_total_ = 0;
  std::atomic<std::uint32_t> open_{0};
  std::atomic<std::uint32_t> nameless_{0};  ///< of those
  bool draining_ = false;
  std::vector<std::function<void()>> drained_;
};

}  // namespace kbtp::target
