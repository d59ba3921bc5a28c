// The limit that `kbtp bench load` is measured against: one TCP connection over loopback between two
// processes, each with its own set of distinct buffers used in turn (so that neither side works out of one
// hot buffer). One message is one send(); the receiver fills one buffer a message. Prints one JSON object in
// the form of `kbtp bench --json`.

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>
#include <vector>

namespace {

struct Options {
  std::size_t size = 1 << 20;
  unsigned buffers = 16;
  double seconds = 1;
  unsigned runs = 5;
  bool spin = true;
  std::string congestion_control;
};

[[noreturn]] void die(const char* what) {
  std::perror(what);
  std::exit(3);
}

double now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

void wait_for(int fd, short events, bool spin) {
  if (spin) return;
  pollfd p{fd, events, 0};
  if (poll(&p, 1, -1) < 0 && errno != EINTR) die("poll");
}

/// False when the other side has finished.
bool move_all(int fd, char* data, std::size_t size, bool sending, bool spin) {
  std::size_t done = 0;
  while (done < size) {
    const ssize_t n = sending ? send(fd, data + done, size - done, MSG_DONTWAIT | MSG_NOSIGNAL)
                              : recv(fd, data + done, size - done, MSG_DONTWAIT);
    if (n > 0) {
      done += static_cast<std::size_t>(n);
    } else if (n == 0 || errno == EPIPE || errno == ECONNRESET) {
      return false;
    } else if (errno == EAGAIN || errno == EINTR) {
      wait_for(fd, sending ? POLLOUT : POLLIN, spin);
    } else {
      die(sending ? "send" : "recv");
    }
  }
  return true;
}

std::vector<char*> make_buffers(const Options& options) {
  std::vector<char*> buffers;
  for (unsigned i = 0; i < options.buffers; ++i) {
    void* memory = mmap(nullptr, options.size, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED) die("mmap");
    std::memset(memory, static_cast<int>(i + 1), options.size);
    buffers.push_back(static_cast<char*>(memory));
  }
  return buffers;
}

void set_up(int fd, const Options& options) {
  const int one = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
  if (!options.congestion_control.empty() &&
      setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, options.congestion_control.c_str(),
                 static_cast<socklen_t>(options.congestion_control.size())) != 0) {
    die("TCP_CONGESTION");
  }
}

/// One run: a child sends for the given time, this process receives; returns 10^9 octets a second.
double run_once(const Options& options, const std::vector<char*>& buffers, std::string& congestion_control) {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof address;
  if (listener < 0 || bind(listener, reinterpret_cast<sockaddr*>(&address), length) != 0 ||
      listen(listener, 1) != 0 ||
      getsockname(listener, reinterpret_cast<sockaddr*>(&address), &length) != 0) {
    die("listen");
  }
  const pid_t child = fork();
  if (child < 0) die("fork");
  if (child == 0) {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    set_up(fd, options);
    if (connect(fd, reinterpret_cast<sockaddr*>(&address), length) != 0) die("connect");
    const auto mine = make_buffers(options);
    const double end = now() + options.seconds;
    for (std::size_t i = 0; now() < end; ++i) {
      if (!move_all(fd, mine[i % mine.size()], options.size, true, options.spin)) break;
    }
    _exit(0);
  }
  const int fd = accept(listener, nullptr, nullptr);
  if (fd < 0) die("accept");
  close(listener);
  set_up(fd, options);
  char name[32] = "";
  socklen_t name_length = sizeof name;
  getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &name_length);
  congestion_control = name;
  std::uint64_t octets = 0;
  double first = 0, last = 0;
  for (std::size_t i = 0; move_all(fd, buffers[i % buffers.size()], options.size, false, options.spin); ++i) {
    last = now();
    if (i == 0) {
      first = last;  // the first message holds connection set-up and slow start
    } else {
      octets += options.size;
    }
  }
  close(fd);
  int status = 0;
  waitpid(child, &status, 0);
  if (status != 0) std::exit(3);
  return last > first ? static_cast<double>(octets) / (last - first) / 1e9 : 0;
}

}  // namespace

int main(int argc, char** argv) {
  Options options;
  std::string wait = "spin";
  CLI::App app("Plain TCP over loopback, the limit for kbtp bench load");
  app.add_option("--size", options.size, "octets a message")
      ->capture_default_str()
      ->check(CLI::Range(1u, 1u << 30));
  app.add_option("--buffers", options.buffers, "distinct buffers a side")
      ->capture_default_str()
      ->check(CLI::Range(1, 4096));
  app.add_option("--seconds", options.seconds, "length of a run")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  app.add_option("--runs", options.runs, "runs; the median is told")
      ->capture_default_str()
      ->check(CLI::Range(1, 1000));
  app.add_option("--wait", wait, "how both sides wait")
      ->capture_default_str()
      ->check(CLI::IsMember({"spin", "block"}));
  app.add_option("--congestion-control", options.congestion_control,
                 "TCP congestion control (the system's by default)");
  CLI11_PARSE(app, argc, argv);
  options.spin = wait == "spin";
  std::signal(SIGPIPE, SIG_IGN);

  const auto buffers = make_buffers(options);
  std::vector<double> rates;
  std::string congestion_control;
  for (unsigned i = 0; i < options.runs; ++i) rates.push_back(run_once(options, buffers, congestion_control));
  std::sort(rates.begin(), rates.end());
  std::printf(
      "{\"peer\":\"tcp\",\"op\":\"send\",\"size\":%zu,\"outstanding\":%u,\"connections\":1,\"crc\":false,"
      "\"wait\":\"%s\",\"gbytes_per_s\":%.3f,\"min\":%.3f,\"max\":%.3f,\"congestion_control\":\"%s\"}\n",
      options.size, options.buffers, wait.c_str(), rates[rates.size() / 2], rates.front(), rates.back(),
      congestion_control.c_str());
  return 0;
}
