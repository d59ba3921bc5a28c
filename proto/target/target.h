// A KBTP target: pool, block table, sessions and the handlers of sections 6.1 to 6.5, over any
// rdma::Provider. It has no thread, no socket and no clock of its own; everything runs on the provider's
// loops.
//
//   auto target = Target::create(config, provider);          // Result<std::unique_ptr<Target>>
//   auto listener = provider.listen(address, (*target)->accept_function());
//   ...
//   listener->reset();                                       // no new sessions
//   (*target)->drain([&] { ...all sessions are gone... });   // may now be destroyed
//
// Threads: every function here may be called from any thread. The target must outlive its listener, and the
// provider the target; destroy it only after drain() has called back.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <utility>

#include "base/result.h"
#include "proto/rdma/provider.h"
#include "proto/target/config.h"
#include "proto/wire/assignment.h"

namespace kbtp::target {

/// How often each operation ended with each status, and octets of block data moved.
struct OperationCounters {
  std::map<wire::Status, std::uint64_t> by_status;
  std::uint64_t octets = 0;
  [[nodiscard]] std::uint64_t total() const {
    std::uint64_t sum = 0;
    for (const auto& [status, count] : by_status) sum += count;
    return sum;
  }
};

/// The target at one moment; each number is exact by itself, they need not be of the very same instant.
struct Snapshot {
  std::uint64_t sessions_open = 0;     ///< streams from their open to their end, HELLO done or not
  std::uint64_t sessions_total = 0;    ///< since the start
  std::uint64_t sessions_refused = 0;  ///< HELLO refused, or disconnected before it
  std::uint64_t blocks = 0;            ///< F
  /// Neither bound, nor being stored to, nor pinned after a FREE. A block that an initiator has taken by
  /// itself counts until its BIND.
  std::uint64_t free_blocks = 0;
  std::uint64_t bound_handles = 0;
  std::uint64_t pinned_blocks = 0;  ///< being sent from where they lie
  std::uint64_t quota_granted = 0;  ///< sum over all ranges, at most F - R
  std::uint64_t usage = 0;          ///< blocks charged to quotas
  /// LOADs sent from a private copy: unsealed, past the allowance, or of a block that a peer may write.
  std::uint64_t copied_loads = 0;
  std::uint64_t direct_sessions = 0;      ///< open sessions with a direct mode (6.6)
  std::uint64_t tickets_outstanding = 0;  ///< taken by initiators themselves and not yet bound
  std::uint64_t tickets_abandoned = 0;    ///< never bound: timed out, or open when their session ended
  std::map<wire::Opcode, OperationCounters> operations;
};

class Core;

class Target {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Target>> create(TargetConfig config, rdma::Provider& provider);
  ~Target();
  Target(const Target&) = delete;
  Target& operator=(const Target&) = delete;

  /// What Provider::listen() is given. Streams that have not said HELLO are bounded by max_sessions too: the
  /// oldest makes room. While draining every connection is rejected.
  [[nodiscard]] rdma::AcceptFunction accept_function();

  [[nodiscard]] const TargetConfig& config() const;
  [[nodiscard]] Snapshot snapshot() const;
  /// Blocks that are free now; equals config().blocks when nothing is bound, in progress or pinned.
  [[nodiscard]] std::uint64_t free_blocks() const;

  /// Ends every session gracefully: requests already accepted are answered, then FIN. `done` runs on one of
  /// the loops once the last stream is gone. Persistent ranges keep their blocks.
  void drain(std::function<void()> done);

 private:
  explicit Target(std::shared_ptr<Core> core);
  std::shared_ptr<Core> core_;
};

}  // namespace kbtp::target
