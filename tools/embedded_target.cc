#include "tools/embedded_target.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time.h"

namespace kbtp::tools {

namespace {

constexpr int kStartDeadlineMs = 60'000;
constexpr int kDrainDeadlineMs = 60'000;
constexpr std::string_view kListening = "listening on ";

std::string errno_text() { return std::strerror(errno); }

}  // namespace

Result<std::unique_ptr<EmbeddedTarget>> EmbeddedTarget::launch(const char* program,
                                                               std::vector<std::string> words,
                                                               const std::string& log) {
  std::vector<char*> argv;
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  const int errors =
      log.empty() ? dup(STDERR_FILENO) : open(log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (errors < 0) return failure(fmt::format("the target's log {} cannot be written: {}", log, errno_text()));
  int ends[2];
  if (pipe2(ends, O_CLOEXEC) != 0) {
    close(errors);
    return failure("no pipe to the target: " + errno_text());
  }
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) {
    close(errors);
    close(ends[0]);
    close(ends[1]);
    return failure("the target could not be started: " + errno_text());
  }
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);  // the parent died before the line above
    setpgid(0, 0);                        // a terminal's Ctrl-C is the parent's to answer
    dup2(ends[1], STDOUT_FILENO);
    dup2(errors, STDERR_FILENO);
    execv(program, argv.data());
    _exit(127);
  }
  setpgid(pid, pid);  // whoever comes first
  close(errors);
  close(ends[1]);
  return std::unique_ptr<EmbeddedTarget>(new EmbeddedTarget(pid, ends[0]));
}

Result<std::unique_ptr<EmbeddedTarget>> EmbeddedTarget::start(std::vector<std::string> arguments,
                                                              const std::string& log) {
  std::vector<std::string> words = {"kbtp", "target", "--listen", "127.0.0.1:0"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  auto child = launch("/proc/self/exe", std::move(words), log);
  if (!child) return child;
  auto line = (*child)->read_line(kStartDeadlineMs);
  if (!line) return failure("the embedded target did not start: " + line.error().text);
  if (!line->starts_with(kListening))
    return failure(fmt::format("the embedded target said '{}' instead of where it listens", *line));
  auto endpoint = Endpoint::parse(std::string_view(*line).substr(kListening.size()));
  if (!endpoint) return unexpected(endpoint.error());
  (*child)->endpoint_ = *endpoint;
  return child;
}

Result<std::unique_ptr<EmbeddedTarget>> EmbeddedTarget::start_command(const std::string& command,
                                                                      const std::string& log) {
  auto child = launch("/bin/sh", {"sh", "-c", command}, log);
  if (!child) return child;
  for (;;) {
    auto line = (*child)->read_line(kStartDeadlineMs);
    if (!line)
      return failure(
          fmt::format("'{}' did not print 'listening on HOST:PORT': {}", command, line.error().text));
    if (!line->starts_with(kListening)) continue;
    auto endpoint = Endpoint::parse(std::string_view(*line).substr(kListening.size()));
    if (!endpoint)
      return failure(fmt::format("'{}' listens on a strange place: {}", command, endpoint.error().text));
    (*child)->endpoint_ = *endpoint;
    break;
  }
  (*child)->discarding_ = std::thread([output = (*child)->output_] {
    char octets[4096];
    ssize_t got;
    do {
      got = read(output, octets, sizeof octets);
    } while (got > 0 || (got < 0 && errno == EINTR));
  });
  return child;
}

EmbeddedTarget::~EmbeddedTarget() {
  if (pid_ > 0) {
    if (kill(-pid_, SIGKILL) != 0) kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  if (discarding_.joinable()) discarding_.join();
  close(output_);
}

double EmbeddedTarget::cpu_seconds() const {
  clockid_t clock;
  timespec used{};
  if (clock_getcpuclockid(pid_, &clock) != 0 || clock_gettime(clock, &used) != 0) return 0;
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

Result<std::string> EmbeddedTarget::read_line(int deadline_ms) {
  const TimePoint deadline = Clock::now() + std::chrono::milliseconds(deadline_ms);
  for (;;) {
    if (const auto end = pending_.find('\n'); end != std::string::npos) {
      std::string line = pending_.substr(0, end);
      pending_.erase(0, end + 1);
      return line;
    }
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd wait{.fd = output_, .events = POLLIN, .revents = 0};
    const int ready = left <= 0 ? 0 : poll(&wait, 1, static_cast<int>(left));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) return failure(fmt::format("it said nothing for {} s", deadline_ms / 1000));
    char octets[512];
    const ssize_t got = read(output_, octets, sizeof octets);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return failure("it ended");
    pending_.append(octets, static_cast<std::size_t>(got));
  }
}

Result<EmbeddedTarget::Drained> EmbeddedTarget::drain() {
  kill(pid_, SIGTERM);
  auto line = read_line(kDrainDeadlineMs);
  if (!line) return failure("the embedded target did not drain: " + line.error().text);
  Drained drained;
  unsigned long long free_blocks = 0;
  unsigned long long blocks = 0;
  if (std::sscanf(line->c_str(), "drained: %llu of %llu blocks", &free_blocks, &blocks) != 2)
    return failure(fmt::format("the embedded target ended with the words '{}'", *line));
  drained.free_blocks = free_blocks;
  drained.blocks = blocks;
  if (auto more = read_line(kDrainDeadlineMs); more || more.error().text != "it ended")
    return failure("the embedded target did not end after it had drained");
  int status = 0;
  waitpid(pid_, &status, 0);
  pid_ = -1;
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return failure(fmt::format("the embedded target ended with wait status {}", status));
  return drained;
}

}  // namespace kbtp::tools
