#include "tools/soak_processes.h"

#include <fmt/format.h>
#include <sys/wait.h>
#include <utility>

namespace kbtp::tools {

SoakProcesses::SoakProcesses(Options options, std::uint64_t seed)
    : options_(std::move(options)), random_(seed), children_(options_.count) {}

std::string SoakProcesses::step(TimePoint now) {
  for (Child& child : children_) {
    if (child.process && child.process->ended()) {
      const int status = child.process->wait();
      return fmt::format("another process of the soak ended with {}",
                         WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status));
    }
    if (child.process && now < child.killed_at) {
      static_cast<void>(child.process->fill());  // what it says is not waited for
      while (child.process->take_line()) {
      }
      continue;
    }
    if (child.process) ++kills_;
    child.process.reset();  // SIGKILL
    if (auto started = start(child, now); !started) return started.error().text;
  }
  return {};
}

Result<> SoakProcesses::start(Child& child, TimePoint now) {
  auto process = ChildProcess::start(kOwnProgram,
                                     {"kbtp",
                                      "bench",
                                      "soak",
                                      "--target",
                                      options_.target.to_string(),
                                      "--duration",
                                      "24h",
                                      "--sessions",
                                      std::to_string(kSessions),
                                      "--blocks",
                                      std::to_string(kBlocks),
                                      "--block-size",
                                      std::to_string(options_.block_size),
                                      "--rate",
                                      fmt::format("{:.3f}", options_.rate),
                                      "--processes",
                                      "0",
                                      "--bad-starts",
                                      "0",
                                      "--session-life",
                                      "0",
                                      "--seed",
                                      std::to_string(random_()),
                                      "--crc",
                                      options_.crc ? "on" : "off"},
                                     {});
  if (!process) return unexpected(process.error());
  child.process = std::move(*process);
  const std::chrono::duration<double> life(
      std::exponential_distribution<double>(1 / options_.mean_life)(random_));
  child.killed_at = now + std::chrono::duration_cast<Duration>(life);
  return {};
}

void SoakProcesses::kill_all() {
  for (Child& child : children_) child.process.reset();
}

}  // namespace kbtp::tools
