#include "tools/serve.h"

#include <cerrno>
#include <csignal>
#include <cstdio>
#include <fmt/format.h>
#include <future>
#include <pthread.h>
#include <spdlog/spdlog.h>

#include "proto/target/target.h"
#include "tools/cli.h"
#include "tools/metrics.h"

namespace kbtp::tools {

namespace {

// SIGINT and SIGTERM, blocked in every thread and taken by wait() alone.
class StopSignals {
 public:
  StopSignals() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGINT);
    sigaddset(&set_, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  }
  int wait() {
    int signal = 0;
    while (sigwait(&set_, &signal) == EINTR) {
    }
    return signal;
  }
  // From here on another signal ends the process at once.
  void let_through() {
    std::signal(SIGINT, SIG_DFL);
    std::signal(SIGTERM, SIG_DFL);
    pthread_sigmask(SIG_UNBLOCK, &set_, nullptr);
  }

 private:
  sigset_t set_;
};

bool say(const std::string& line) {
  return std::fputs((line + "\n").c_str(), stdout) >= 0 && std::fflush(stdout) == 0;
}

}  // namespace

int serve(const ServeSettings& settings, std::string_view command) {
  const auto addresses = resolve(*settings.listen, true);
  if (!addresses) return fail(command, kExitUnreachable, addresses.error().text);
  const SocketAddress& address = addresses->front();
  if (settings.network == Network::unsaid && !address.is_loopback()) {
    return fail_usage(command, fmt::format("{} is no loopback address, so --network trusted or --network "
                                           "untrusted must be given",
                                           address.host()));
  }
  if (settings.network == Network::untrusted) {
    return fail(command, kExitUnreachable,
                "an untrusted network demands IPsec (KBTP 9.1, RFC 5042), and this build cannot check that "
                "flows are protected, so nothing is served; use --network trusted where the network is");
  }

  StopSignals signals;
  auto provider = open_provider(settings.transport, settings.rnic, address);
  if (!provider) return fail(command, kExitUnreachable, provider.error().text);
  auto target = target::Target::create(settings.target, **provider);
  if (!target) return fail_usage(command, target.error().text);
  auto listener = (*provider)->listen(address, (*target)->accept_function());
  if (!listener) return fail(command, kExitUnreachable, listener.error().text);
  std::unique_ptr<MetricsServer> metrics;
  if (settings.metrics) {
    auto started = MetricsServer::start(*settings.metrics, **target);
    if (!started) return fail(command, kExitUnreachable, started.error().text);
    metrics = std::move(*started);
    spdlog::info("metrics at {}", metrics->url());
  }
  if (!say("listening on " + (*listener)->local().to_string()))
    return fail(command, kExitUnreachable, "standard output cannot be written to");

  const int signal = signals.wait();
  spdlog::info("draining after {}; the same signal again ends at once",
               signal == SIGINT ? "SIGINT" : "SIGTERM");
  signals.let_through();
  listener->reset();
  std::promise<void> drained;
  (*target)->drain([&drained] { drained.set_value(); });
  drained.get_future().wait();
  metrics.reset();
  say(fmt::format("drained: {} of {} blocks are free", (*target)->free_blocks(), (*target)->config().blocks));
  return kExitOk;
}

}  // namespace kbtp::tools
