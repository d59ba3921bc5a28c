// A child process that we talk to by lines: its standard output is ours to read, its standard input is empty
// or ours to write.

#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

#include "base/result.h"
#include "base/time.h"

namespace kbtp::tools {

/// This very program, whatever it was called by.
inline constexpr const char* kOwnProgram = "/proc/self/exe";

/// Dies with the thread that started it, whatever way that ends: start it from the main thread. In a process
/// group of its own, so that a terminal's Ctrl-C is the parent's to answer. One thread at a time.
class ChildProcess {
 public:
  struct Options {
    std::string log;     ///< file that takes its standard error; none: our standard error
    bool input = false;  ///< standard input is a pipe from us; otherwise it is ours
  };
  [[nodiscard]] static Result<std::unique_ptr<ChildProcess>> start(const char* program,
                                                                   std::vector<std::string> words,
                                                                   const Options& options);
  /// kill_group() when it still runs, then waits for its end.
  ~ChildProcess();
  ChildProcess(const ChildProcess&) = delete;
  ChildProcess& operator=(const ChildProcess&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  /// Its standard output, for poll(); read_line() and take_line() read it.
  [[nodiscard]] int output() const { return output_; }
  void signal(int number) const;
  /// SIGKILL for it and for what it has started in its group.
  void kill_group() const;
  /// Processor time that the child has used so far, in seconds; 0 once it is gone.
  [[nodiscard]] double cpu_seconds() const;

  /// A whole line without its end. "it ended" is the error of a child that closed its output.
  [[nodiscard]] Result<std::string> read_line(Duration deadline);
  /// Reads what is there without waiting; false once the child has closed its output.
  [[nodiscard]] bool fill();
  /// A whole line that has been read already.
  [[nodiscard]] std::optional<std::string> take_line();
  /// Writes all of `text`, waiting as long as it takes; false when the child does not read any more.
  [[nodiscard]] bool write(std::string_view text) const;
  void close_input();

  /// Whether it has ended by now.
  [[nodiscard]] bool ended();
  /// Waits for its end; the wait status of waitpid().
  int wait();

 private:
  ChildProcess(pid_t pid, int input, int output) : pid_(pid), input_(input), output_(output) {}

  pid_t pid_;
  int input_;
  int output_;
  std::optional<int> status_;
  std::string pending_;
};

}  // namespace kbtp::tools
