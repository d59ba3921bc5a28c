// Other initiators of a soak: processes with sessions of their own, which are killed in the middle of things.

#pragma once

#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/time.h"
#include "tools/child_process.h"

namespace kbtp::tools {

/// Each runs a small undisturbed soak, which checks what it loads as any soak does. On the main thread.
class SoakProcesses {
 public:
  static constexpr std::uint32_t kSessions = 2;  ///< of each process
  static constexpr std::uint32_t kBlocks = 4;    ///< of each session

  struct Options {
    Endpoint target;
    std::uint64_t count = 0;
    double mean_life = 0;  ///< seconds until one is killed
    std::uint64_t block_size = 0;
    double rate = 0;  ///< operations a second of each
    bool crc = true;
  };
  SoakProcesses(Options options, std::uint64_t seed);

  /// Kills those whose time has come and starts others in their place; to be called often. What went wrong,
  /// empty when nothing did.
  [[nodiscard]] std::string step(TimePoint now);
  void kill_all();
  [[nodiscard]] std::uint64_t kills() const { return kills_; }

 private:
  struct Child {
    std::unique_ptr<ChildProcess> process;
    TimePoint killed_at;
  };
  [[nodiscard]] Result<> start(Child& child, TimePoint now);

  Options options_;
  std::mt19937_64 random_;
  std::vector<Child> children_;
  std::uint64_t kills_ = 0;
};

}  // namespace kbtp::tools
