// Logging: spdlog to standard error. Lines that a peer can cause go through peer_log(), which is rate-limited
// so that nobody can fill a disk or hide something by flooding.

#pragma once

#include <atomic>
#include <cstdint>
#include <spdlog/spdlog.h>
#include <string_view>

namespace kbtp {

/// "2026-11-29 12:00:00.123 [info] text" on standard error; called once by each program.
void set_up_log(spdlog::level::level_enum level);

/// At most ten lines a second; what was left out is counted and told with the next line that passes.
class RateLimit {
 public:
  /// Whether a line may pass now; if so `suppressed` is how many were left out since the last one.
  [[nodiscard]] bool admit(std::uint64_t& suppressed);

 private:
  std::atomic<std::int64_t> window_{-1};
  std::atomic<std::uint32_t> in_window_{0};
  std::atomic<std::uint64_t> suppressed_{0};
};

/// A line about what a peer did.
void peer_log(spdlog::level::level_enum level, std::string_view text);

}  // namespace kbtp
