// One run of `kbtp bench load`: LOADs kept outstanding for a time or a number of operations.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "proto/initiator/initiator.h"
#include "tools/client.h"
#include "tools/histogram.h"

namespace kbtp::tools {

/// Why a benchmark could not go on.
struct Trouble {
  bool lost = false;  ///< the session ended; otherwise the target answered otherwise than it should
  std::string text;
};

/// A session with `outstanding` sealed blocks of its own and as many distinct buffers to load them into.
/// Constructed and used from a thread that is not the session's loop.
class BenchLane {
 public:
  BenchLane(OpenSession open, std::uint32_t outstanding, std::uint32_t size);
  /// Closes the session and waits for its end.
  ~BenchLane();
  BenchLane(const BenchLane&) = delete;
  BenchLane& operator=(const BenchLane&) = delete;

  /// Registers the buffers, then ALLOC_STOREs and seals the blocks.
  [[nodiscard]] Expected<void, Trouble> fill();
  /// FREEs the blocks.
  [[nodiscard]] Expected<void, Trouble> empty();

  struct Run {
    std::uint64_t operations = 0;          ///< counted from the end of the warm-up
    std::uint64_t warm_up_operations = 0;  ///< and before it
    Histogram latencies;
    Duration elapsed{};
    std::optional<Trouble> trouble;  ///< nothing when every LOAD succeeded
  };
  struct Length {
    Duration warm_up{};
    Duration measured{};                      ///< unless `operations` is set
    std::optional<std::uint64_t> operations;  ///< to measure
  };
  /// Starts a run; wait() returns it when it is over. Runs of several lanes go side by side.
  void start(const Length& length);
  [[nodiscard]] Run wait();

  /// Whether every buffer holds its block's content, octet for octet. After a run.
  [[nodiscard]] Expected<void, Trouble> check();

  [[nodiscard]] const initiator::SessionInfo& info() const { return session_->info(); }

 private:
  class Driver;

  OpenSession open_;
  std::shared_ptr<initiator::Session> session_;
  std::uint32_t outstanding_;
  std::uint32_t size_;
  std::vector<std::byte> memory_;
  initiator::Buffer buffer_;
  std::shared_ptr<Driver> driver_;
};

}  // namespace kbtp::tools
