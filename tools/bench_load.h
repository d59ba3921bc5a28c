// One run of `kbtp bench load`: LOADs kept outstanding for a time or a number of operations.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "proto/initiator/initiator.h"
#include "tools/histogram.h"

namespace kbtp::tools {

/// A session with `outstanding` sealed blocks of its own and as many distinct buffers to load them into.
/// Constructed and used from a thread that is not the session's loop.
class BenchLane {
 public:
  BenchLane(std::shared_ptr<initiator::Session> session, std::uint32_t outstanding, std::uint32_t size);

  /// Registers the buffers, then ALLOC_STOREs and seals the blocks.
  [[nodiscard]] Result<> fill();
  /// FREEs the blocks.
  [[nodiscard]] Result<> empty();

  struct Run {
    std::uint64_t operations = 0;          ///< counted from the end of the warm-up
    std::uint64_t warm_up_operations = 0;  ///< and before it
    Histogram latencies;
    Duration elapsed{};
    std::string error;  ///< empty when every LOAD succeeded
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
  [[nodiscard]] Result<> check();

  [[nodiscard]] const std::shared_ptr<initiator::Session>& session() const { return session_; }

 private:
  class Driver;

  std::shared_ptr<initiator::Session> session_;
  std::uint32_t outstanding_;
  std::uint32_t size_;
  std::vector<std::byte> memory_;
  initiator::Buffer buffer_;
  std::shared_ptr<Driver> driver_;
};

}  // namespace kbtp::tools
