// One connection of `kbtp bench`: operations of one kind kept outstanding for a time or a number of them.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/histogram.h"
#include "base/result.h"
#include "proto/initiator/initiator.h"
#include "tools/client.h"

namespace kbtp::tools {

/// What is measured.
enum class BenchOperation : std::uint8_t {
  load,
  direct_load,
  direct_alloc,  ///< each is followed by a FREE, which counts for the throughput but not for the latency
};
/// "load", "direct-load", "direct-alloc".
[[nodiscard]] std::string_view to_string(BenchOperation operation);

/// Why a benchmark could not go on.
struct Trouble {
  bool lost = false;  ///< the session ended, or cannot do it; otherwise the target did what it should not
  std::string text;
};

/// A session with `outstanding` handles of its own and as many distinct buffers: sealed blocks to load from,
/// or data to allocate for. Constructed and used from a thread that is not the session's loop.
class BenchLane {
 public:
  BenchLane(OpenSession open, BenchOperation operation, std::uint32_t outstanding, std::uint32_t size);
  /// Closes the session and waits for its end.
  ~BenchLane();
  BenchLane(const BenchLane&) = delete;
  BenchLane& operator=(const BenchLane&) = delete;

  /// Registers the buffers; for loads ALLOC_STOREs and seals the blocks.
  [[nodiscard]] Expected<void, Trouble> fill();
  /// FREEs the blocks that fill() has bound.
  [[nodiscard]] Expected<void, Trouble> empty();

  struct Run {
    std::uint64_t operations = 0;          ///< counted from the end of the warm-up
    std::uint64_t warm_up_operations = 0;  ///< and before it
    Histogram latencies;
    Duration elapsed{};
    std::optional<Trouble> trouble;  ///< nothing when every operation succeeded
  };
  struct Length {
    Duration warm_up{};
    Duration measured{};                      ///< unless `operations` is set
    std::optional<std::uint64_t> operations;  ///< to measure
  };
  /// Starts a run; wait() returns it when it is over. Runs of several lanes go side by side.
  void start(const Length& length);
  [[nodiscard]] Run wait();

  /// After a run: whether every buffer holds its block's content, octet for octet; after allocations, whether
  /// blocks that are allocated once more do.
  [[nodiscard]] Expected<void, Trouble> check();

  [[nodiscard]] const initiator::SessionInfo& info() const { return session_->info(); }

 private:
  class Driver;

  [[nodiscard]] std::span<std::byte> memory_of(std::uint32_t index);
  [[nodiscard]] initiator::Slice slice_of(std::uint32_t index) const;
  [[nodiscard]] Expected<void, Trouble> free_all();

  OpenSession open_;
  std::shared_ptr<initiator::Session> session_;
  BenchOperation operation_;
  std::uint32_t outstanding_;
  std::uint32_t size_;
  std::vector<std::byte> memory_;
  initiator::Buffer buffer_;
  std::shared_ptr<Driver> driver_;
};

}  // namespace kbtp::tools
