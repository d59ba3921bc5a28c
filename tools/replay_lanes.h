// Who carries out a replay's operations: sessions of this process (session_lanes.h) or nodes that are
// processes of their own (replay_peers.h).

#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/result.h"
#include "base/time.h"
#include "proto/rdma/loop.h"
#include "tools/content.h"

namespace kbtp::tools {

enum class ReplayKind : std::uint8_t {
  load,
  alloc_store,
  free,
};

/// One operation on the block at a place (replay_places.h).
struct ReplayOperation {
  ReplayKind kind = ReplayKind::load;
  std::uint32_t lane = 0;  ///< who carries it out
  std::uint32_t place = 0;
  std::uint16_t generation = 0;  ///< of the bound entry; 0 for ALLOC_STORE
  ContentKey key;
};

struct ReplayOutcome {
  std::string lost;     ///< why the lane is gone; empty when it is there
  std::string finding;  ///< what was not as it should be; empty when all was
  std::uint16_t generation = 0;
  Duration latency{};  ///< from posting it to its completion
};
using ReplayDone = std::function<void(const ReplayOutcome& outcome)>;

/// Everything is called, and calls back, on loop().
class ReplayLanes {
 public:
  virtual ~ReplayLanes() = default;
  [[nodiscard]] virtual rdma::Loop& loop() = 0;
  [[nodiscard]] virtual std::uint32_t count() const = 0;
  /// Operations that a lane takes at one time.
  [[nodiscard]] virtual std::uint32_t slots(std::uint32_t lane) const = 0;
  /// Before the first operation.
  [[nodiscard]] virtual Result<> open() = 0;
  /// Stores the block, or loads it and checks every octet, or frees it. `done` runs later.
  virtual void carry_out(const ReplayOperation& operation, ReplayDone done) = 0;
  /// Ends at once; what is under way ends with `lost`.
  virtual void abandon() = 0;
  /// "handle 17", for people.
  [[nodiscard]] virtual std::string handle_name(std::uint32_t place) const = 0;
};

}  // namespace kbtp::tools
