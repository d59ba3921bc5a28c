// Running the real command: a child process with its output kept, and waiting for what it says with a
// deadline.

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <sys/types.h>
#include <vector>

namespace kbtp::e2e {

inline constexpr std::chrono::seconds kDeadline{60};

/// A child process; killed when the object goes. Not for use by several threads.
class Process {
 public:
  /// `words[0]` is the program. `input` is its standard input.
  explicit Process(std::vector<std::string> words, std::string_view input = {});
  ~Process();
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  [[nodiscard]] pid_t pid() const { return pid_; }
  void signal(int number) const;

  /// Waits until standard output (or error) holds `text`, and says whether it came in time.
  [[nodiscard]] bool wait_for_output(std::string_view text);
  [[nodiscard]] bool wait_for_error(std::string_view text);

  /// The exit status; 128 + N after signal N, like a shell. Nothing when it still runs after the deadline.
  [[nodiscard]] std::optional<int> wait(std::chrono::milliseconds deadline = kDeadline);

  /// What it has written so far; all of it after wait().
  [[nodiscard]] const std::string& out() const { return streams_[0].text; }
  [[nodiscard]] const std::string& err() const { return streams_[1].text; }

 private:
  struct Stream {
    int fd = -1;
    std::string text;
  };
  bool pump(std::chrono::steady_clock::time_point deadline, const std::function<bool()>& enough);

  pid_t pid_ = -1;
  std::optional<int> status_;
  Stream streams_[2];
};

struct Finished {
  int status = -1;
  std::string out;
  std::string err;
};
/// Runs `kbtp ARGUMENTS` to its end.
[[nodiscard]] Finished kbtp(std::vector<std::string> arguments, std::string_view input = {});
[[nodiscard]] std::string kbtp_path();

/// `kbtp target ARGUMENTS`, listening.
class Target {
 public:
  explicit Target(std::vector<std::string> arguments);
  [[nodiscard]] Process& process() { return *process_; }
  /// "127.0.0.1:41234"
  [[nodiscard]] const std::string& endpoint() const { return endpoint_; }
  [[nodiscard]] std::uint16_t port() const;
  /// The value of a metric line such as "kbtp_free_blocks"; needs --metrics 127.0.0.1:0.
  [[nodiscard]] std::optional<double> metric(const std::string& name);
  /// Asks until `wanted` holds for the metric, or the deadline.
  [[nodiscard]] bool wait_for_metric(const std::string& name, const std::function<bool(double)>& wanted);
  /// SIGTERM; the last line of its output when it ended with 0.
  [[nodiscard]] std::string drain();

 private:
  std::unique_ptr<Process> process_;
  std::string endpoint_;
};

/// A file in a directory of this test process's own, removed at its end.
[[nodiscard]] std::string temporary_file(const std::string& name, std::string_view content);

/// Connects to 127.0.0.1:`port`; the descriptor, or -1.
[[nodiscard]] int connect_to(std::uint16_t port);

}  // namespace kbtp::e2e
