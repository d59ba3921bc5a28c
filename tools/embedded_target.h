// A target in a child process: `kbtp target` itself, which replay, bench and conform use when no --target is
// named, or a command that behaves like it.

#pragma once

#include <memory>
#include <string>
#include <sys/types.h>
#include <thread>
#include <vector>

#include "base/address.h"
#include "base/result.h"
#include "tools/child_process.h"

namespace kbtp::tools {

/// Dies with this process, whatever way that goes. Start it from the main thread: the kernel ties the child
/// to the thread that made it.
class EmbeddedTarget {
 public:
  /// Runs `kbtp target ARGUMENTS`, with --listen 127.0.0.1:0 unless they say where, and waits until it
  /// listens. Its log goes to the file `log`, or, without one, to our standard error.
  [[nodiscard]] static Result<std::unique_ptr<EmbeddedTarget>> start(std::vector<std::string> arguments,
                                                                     const std::string& log = {});
  /// Runs COMMAND with /bin/sh and waits until it prints "listening on HOST:PORT" on a line of its own; what
  /// it prints afterwards is thrown away.
  [[nodiscard]] static Result<std::unique_ptr<EmbeddedTarget>> start_command(const std::string& command,
                                                                             const std::string& log = {});
  /// Kills the child, and what it has started, when it still runs.
  ~EmbeddedTarget();
  EmbeddedTarget(const EmbeddedTarget&) = delete;
  EmbeddedTarget& operator=(const EmbeddedTarget&) = delete;

  [[nodiscard]] const Endpoint& endpoint() const { return endpoint_; }
  [[nodiscard]] pid_t pid() const { return child_->pid(); }
  /// Processor time that the child has used so far, in seconds.
  [[nodiscard]] double cpu_seconds() const { return child_->cpu_seconds(); }
  /// Whether the child has ended, which it should not before drain().
  [[nodiscard]] bool ended() { return child_->ended(); }

  struct Drained {
    std::uint64_t blocks = 0;
    std::uint64_t free_blocks = 0;
  };
  /// SIGTERM, then the child's last line and its end with 0.
  [[nodiscard]] Result<Drained> drain();

 private:
  explicit EmbeddedTarget(std::unique_ptr<ChildProcess> child) : child_(std::move(child)) {}
  /// Reads lines, only the first one unless `chatty`, until one says where the child listens.
  Result<> wait_until_listening(bool chatty);

  std::unique_ptr<ChildProcess> child_;
  Endpoint endpoint_;
  std::thread discarding_;
};

}  // namespace kbtp::tools
