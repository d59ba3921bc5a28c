#include "tools/child_process.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>

namespace kbtp::tools {

namespace {

std::string errno_text() { return std::strerror(errno); }

/// The two ends of a pipe, or nothing when none was wanted; what is left of them is closed.
struct Pipe {
  int ends[2] = {-1, -1};
  ~Pipe() {
    for (const int end : ends) {
      if (end >= 0) close(end);
    }
  }
  [[nodiscard]] bool open() { return pipe2(ends, O_CLOEXEC) == 0; }
  [[nodiscard]] int take(std::size_t end) { return std::exchange(ends[end], -1); }
};

}  // namespace

Result<std::unique_ptr<ChildProcess>> ChildProcess::start(const char* program, std::vector<std::string> words,
                                                          const Options& options) {
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);

  Pipe errors;  // one end only
  errors.ends[0] = options.log.empty()
                       ? dup(STDERR_FILENO)
                       : open(options.log.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  if (errors.ends[0] < 0)
    return failure(fmt::format("the child's log {} cannot be written: {}", options.log, errno_text()));
  Pipe output;
  Pipe input;
  if (!output.open() || (options.input && !input.open()))
    return failure("no pipe to a child process: " + errno_text());
  const pid_t parent = getpid();
  const pid_t pid = fork();
  if (pid < 0) return failure("a child process could not be started: " + errno_text());
  if (pid == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);  // the parent died before the line above
    setpgid(0, 0);
    sigset_t none;  // a mask that the parent set for its own threads is not the child's
    sigemptyset(&none);
    sigprocmask(SIG_SETMASK, &none, nullptr);
    if (options.input) dup2(input.ends[0], STDIN_FILENO);
    dup2(output.ends[1], STDOUT_FILENO);
    dup2(errors.ends[0], STDERR_FILENO);
    execv(program, argv.data());
    _exit(127);
  }
  setpgid(pid, pid);  // whoever comes first
  return std::unique_ptr<ChildProcess>(new ChildProcess(pid, input.take(1), output.take(0)));
}

ChildProcess::~ChildProcess() {
  kill_group();
  wait();
  close_input();
  close(output_);
}

void ChildProcess::kill_group() const {
  if (!status_ && kill(-pid_, SIGKILL) != 0) kill(pid_, SIGKILL);
}

void ChildProcess::signal(int number) const {
  if (!status_) kill(pid_, number);
}

double ChildProcess::cpu_seconds() const {
  clockid_t clock;
  timespec used{};
  if (clock_getcpuclockid(pid_, &clock) != 0 || clock_gettime(clock, &used) != 0) return 0;
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

std::optional<std::string> ChildProcess::take_line() {
  const auto end = pending_.find('\n');
  if (end == std::string::npos) return std::nullopt;
  std::string line = pending_.substr(0, end);
  pending_.erase(0, end + 1);
  return line;
}

bool ChildProcess::fill() {
  pollfd wait{.fd = output_, .events = POLLIN, .revents = 0};
  while (poll(&wait, 1, 0) > 0) {
    char octets[65536];
    const ssize_t got = read(output_, octets, sizeof octets);
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    pending_.append(octets, static_cast<std::size_t>(got));
    if (static_cast<std::size_t>(got) < sizeof octets) break;
  }
  return true;
}

Result<std::string> ChildProcess::read_line(Duration deadline) {
  const TimePoint until = Clock::now() + deadline;
  for (;;) {
    if (auto line = take_line()) return std::move(*line);
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - Clock::now()).count();
    pollfd wait{.fd = output_, .events = POLLIN, .revents = 0};
    const int ready = left <= 0 ? 0 : poll(&wait, 1, static_cast<int>(left));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      return failure(fmt::format("it said nothing for {} s",
                                 std::chrono::duration_cast<std::chrono::seconds>(deadline).count()));
    }
    if (!fill()) return failure("it ended");
  }
}

bool ChildProcess::write(std::string_view text) const {
  while (!text.empty()) {
    const ssize_t put = ::write(input_, text.data(), text.size());
    if (put < 0 && errno == EINTR) continue;
    if (put <= 0) return false;
    text.remove_prefix(static_cast<std::size_t>(put));
  }
  return true;
}

void ChildProcess::close_input() {
  if (input_ >= 0) close(std::exchange(input_, -1));
}

bool ChildProcess::ended() {
  int status = 0;
  if (!status_ && waitpid(pid_, &status, WNOHANG) == pid_) status_ = status;
  return status_.has_value();
}

int ChildProcess::wait() {
  int status = 0;
  if (!status_ && waitpid(pid_, &status, 0) == pid_) status_ = status;
  return status_.value_or(0);
}

}  // namespace kbtp::tools
