#include "tests/e2e/process.h"

#include <arpa/inet.h>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <fcntl.h>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

namespace kbtp::e2e {

using Clock = std::chrono::steady_clock;

Process::Process(std::vector<std::string> words, std::string_view input) {
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  // Standard input is a file, so that nobody has to be fed while it writes.
  const std::string path = temporary_file("input", input);
  int ends[2][2];
  for (auto& pair : ends) {
    if (pipe2(pair, O_CLOEXEC) != 0) std::abort();
  }
  const pid_t parent = getpid();
  pid_ = fork();
  if (pid_ == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(127);
    const int from = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (from < 0) _exit(127);
    dup2(from, STDIN_FILENO);
    dup2(ends[0][1], STDOUT_FILENO);
    dup2(ends[1][1], STDERR_FILENO);
    execv(argv[0], argv.data());
    _exit(127);
  }
  for (int i = 0; i < 2; ++i) {
    close(ends[i][1]);
    streams_[i].fd = ends[i][0];
  }
}

Process::~Process() {
  if (!status_) {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  for (Stream& stream : streams_) {
    if (stream.fd >= 0) close(stream.fd);
  }
}

void Process::signal(int number) const {
  if (!status_) kill(pid_, number);
}

bool Process::pump(Clock::time_point deadline, const std::function<bool()>& enough) {
  while (!enough()) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(deadline - Clock::now()).count();
    pollfd waiting[2] = {{streams_[0].fd, POLLIN, 0}, {streams_[1].fd, POLLIN, 0}};
    if (left <= 0 || (streams_[0].fd < 0 && streams_[1].fd < 0)) return false;
    if (poll(waiting, 2, static_cast<int>(left)) < 0 && errno != EINTR) return false;
    for (int i = 0; i < 2; ++i) {
      if (waiting[i].revents == 0) continue;
      char octets[4096];
      const ssize_t got = read(streams_[i].fd, octets, sizeof octets);
      if (got > 0) {
        streams_[i].text.append(octets, static_cast<std::size_t>(got));
      } else if (got == 0 || errno != EINTR) {
        close(streams_[i].fd);
        streams_[i].fd = -1;
      }
    }
  }
  return true;
}

bool Process::wait_for_output(std::string_view text) {
  return pump(Clock::now() + kDeadline, [&] { return out().find(text) != std::string::npos; });
}

bool Process::wait_for_error(std::string_view text) {
  return pump(Clock::now() + kDeadline, [&] { return err().find(text) != std::string::npos; });
}

std::optional<int> Process::wait(std::chrono::milliseconds deadline) {
  if (status_) return status_;
  // Both streams end when the process does, unless a child of its own holds them.
  static_cast<void>(pump(Clock::now() + deadline, [] { return false; }));
  if (streams_[0].fd >= 0 || streams_[1].fd >= 0) return std::nullopt;
  int status = 0;
  if (waitpid(pid_, &status, 0) != pid_) return std::nullopt;
  status_ = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
  return status_;
}

std::string kbtp_path() { return KBTP_BINARY; }

Finished kbtp(std::vector<std::string> arguments, std::string_view input) {
  arguments.insert(arguments.begin(), kbtp_path());
  Process process(std::move(arguments), input);
  Finished finished;
  finished.status = process.wait().value_or(-1);
  finished.out = process.out();
  finished.err = process.err();
  return finished;
}

Target::Target(std::vector<std::string> arguments) {
  std::vector<std::string> words = {kbtp_path(), "target"};
  words.insert(words.end(), arguments.begin(), arguments.end());
  process_ = std::make_unique<Process>(std::move(words));
  constexpr std::string_view kListening = "listening on ";
  if (!process_->wait_for_output("\n") || !process_->out().starts_with(kListening)) {
    ADD_FAILURE() << "no target: " << process_->out() << process_->err();
    return;
  }
  endpoint_ = process_->out().substr(kListening.size(), process_->out().find('\n') - kListening.size());
}

std::uint16_t Target::port() const {
  return static_cast<std::uint16_t>(std::stoi(endpoint_.substr(endpoint_.rfind(':') + 1)));
}

std::optional<double> Target::metric(const std::string& name) {
  constexpr std::string_view kBefore = "metrics at http://127.0.0.1:";
  if (!process_->wait_for_error(kBefore)) return std::nullopt;
  const std::string& log = process_->err();
  const int port = std::stoi(log.substr(log.find(kBefore) + kBefore.size()));
  const int fd = connect_to(static_cast<std::uint16_t>(port));
  constexpr std::string_view kRequest = "GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
  std::string page;
  if (fd < 0 || write(fd, kRequest.data(), kRequest.size()) < 0) return std::nullopt;
  char octets[4096];
  for (ssize_t got = 0; (got = read(fd, octets, sizeof octets)) > 0;)
    page.append(octets, static_cast<std::size_t>(got));
  close(fd);
  const auto at = page.find("\n" + name + " ");
  if (at == std::string::npos) return std::nullopt;
  return std::stod(page.substr(at + name.size() + 2));
}

bool Target::wait_for_metric(const std::string& name, const std::function<bool(double)>& wanted) {
  const auto deadline = Clock::now() + kDeadline;
  while (Clock::now() < deadline) {
    const auto value = metric(name);
    if (value && wanted(*value)) return true;
    poll(nullptr, 0, 20);
  }
  return false;
}

std::string Target::drain() {
  process_->signal(SIGTERM);
  const auto status = process_->wait();
  EXPECT_EQ(status, 0) << process_->err();
  std::string text = process_->out();
  while (text.ends_with('\n')) text.pop_back();
  return text.substr(text.rfind('\n') + 1);
}

std::string temporary_file(const std::string& name, std::string_view content) {
  static const struct Directory {
    std::string path = std::filesystem::temp_directory_path() / "kbtp-e2e-XXXXXX";
    Directory() {
      if (mkdtemp(path.data()) == nullptr) std::abort();
    }
    ~Directory() {
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
    }
  } directory;
  static int count = 0;
  const std::string path = directory.path + "/" + std::to_string(++count) + "-" + name;
  std::ofstream(path, std::ios::binary) << content;
  return path;
}

int connect_to(std::uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (fd >= 0 && connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0) return fd;
  if (fd >= 0) close(fd);
  return -1;
}

}  // namespace kbtp::e2e
