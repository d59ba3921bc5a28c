#include "tools/embedded_target.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time.h"

namespace kbtp::tools {

namespace {

constexpr std::chrono::seconds kStartDeadline{60};
constexpr std::chrono::seconds kDrainDeadline{60};
constexpr std::string_view kListening = "listening on ";

}  // namespace

Result<> EmbeddedTarget::wait_until_listening(bool chatty) {
  for (;;) {
    auto line = child_->read_line(kStartDeadline);
    if (!line) return failure("it did not say where it listens: " + line.error().text);
    if (line->starts_with(kListening)) {
      auto endpoint = Endpoint::parse(std::string_view(*line).substr(kListening.size()));
      if (!endpoint) return failure("it listens on a strange place: " + endpoint.error().text);
      endpoint_ = std::move(*endpoint);
      return {};
    }
    if (!chatty) return failure(fmt::format("it said '{}' instead of where it listens", *line));
  }
}

Result<std::unique_ptr<EmbeddedTarget>> EmbeddedTarget::start(std::vector<std::string> arguments,
                                                              const std::string& log) {
  std::vector<std::string> words = {"kbtp", "target"};
  if (std::find(arguments.begin(), arguments.end(), "--listen") == arguments.end())
    words.insert(words.end(), {"--listen", "127.0.0.1:0"});
  words.insert(words.end(), arguments.begin(), arguments.end());
  auto child = ChildProcess::start(kOwnProgram, std::move(words), {.log = log});
  if (!child) return unexpected(child.error());
  std::unique_ptr<EmbeddedTarget> target(new EmbeddedTarget(std::move(*child)));
  if (auto listening = target->wait_until_listening(false); !listening)
    return failure("the embedded target did not start: " + listening.error().text);
  return target;
}

Result<std::unique_ptr<EmbeddedTarget>> EmbeddedTarget::start_command(const std::string& command,
                                                                      const std::string& log) {
  auto child = ChildProcess::start("/bin/sh", {"sh", "-c", command}, {.log = log});
  if (!child) return unexpected(child.error());
  std::unique_ptr<EmbeddedTarget> target(new EmbeddedTarget(std::move(*child)));
  if (auto listening = target->wait_until_listening(true); !listening) {
    return failure(
        fmt::format("'{}' did not print 'listening on HOST:PORT': {}", command, listening.error().text));
  }
  target->discarding_ = std::thread([output = target->child_->output()] {
    char octets[4096];
    ssize_t got;
    do {
      got = read(output, octets, sizeof octets);
    } while (got > 0 || (got < 0 && errno == EINTR));
  });
  return target;
}

EmbeddedTarget::~EmbeddedTarget() {
  if (discarding_.joinable()) {
    child_->kill_group();  // ends its output, which the thread waits for
    discarding_.join();
  }
}

Result<EmbeddedTarget::Drained> EmbeddedTarget::drain() {
  child_->signal(SIGTERM);
  auto line = child_->read_line(kDrainDeadline);
  if (!line) return failure("the embedded target did not drain: " + line.error().text);
  Drained drained;
  unsigned long long free_blocks = 0;
  unsigned long long blocks = 0;
  if (std::sscanf(line->c_str(), "drained: %llu of %llu blocks", &free_blocks, &blocks) != 2)
    return failure(fmt::format("the embedded target ended with the words '{}'", *line));
  drained.free_blocks = free_blocks;
  drained.blocks = blocks;
  if (auto more = child_->read_line(kDrainDeadline); more || more.error().text != "it ended")
    return failure("the embedded target did not end after it had drained");
  const int status = child_->wait();
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0)
    return failure(fmt::format("the embedded target ended with wait status {}", status));
  return drained;
}

}  // namespace kbtp::tools
