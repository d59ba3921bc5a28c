// `kbtp target`: options and configuration file to ServeSettings.

#include <memory>
#include <spdlog/spdlog.h>
#include <string_view>

#include "tools/cli.h"
#include "tools/files.h"
#include "tools/rnic_choices.h"
#include "tools/serve.h"
#include "tools/subcommand.h"

namespace kbtp::tools {

namespace {

constexpr const char* kFooter =
    R"(Prints "listening on HOST:PORT" when ready. SIGINT and SIGTERM drain: accepted requests are answered, every
session ends, and the status is 0. Options win over the configuration file.

Examples:
  kbtp target --listen 127.0.0.1:7420 --blocks 8192 --block-size 64KiB
  kbtp target --listen '[::1]:0'
  kbtp target --listen 192.0.2.1:7420 --network trusted --metrics 127.0.0.1:9420
  kbtp target --transport verbs --listen 192.0.2.1:7420 --network trusted
  kbtp target --config /etc/kbtp/target.toml)";

constexpr std::uint64_t kMaxConfig = std::uint64_t{16} << 20;

struct Options {
  std::string config;
  std::optional<Endpoint> listen;
  std::optional<Endpoint> metrics;
  TransportOptions transport;
  std::string network;
  std::uint64_t blocks = 0;
  std::uint64_t block_size = 0;
  std::uint64_t handles = 0;
  std::uint64_t reserve = 0;
  std::uint64_t max_requests = 0;
  std::uint64_t max_sessions = 0;
  std::uint64_t loops = 0;
  bool crc = true;
  bool spin = false;
  bool quiet = false;
  std::string congestion_control;
  RnicChoices choices;
};

int run_target(const CLI::App& app, const Options& given) {
  const std::string command = full_name(app);
  ServeSettings settings;
  if (!given.config.empty()) {
    const auto file = read_file(given.config, kMaxConfig);
    if (!file) return fail(command, kExitUnreachable, file.error().text);
    const std::string_view text(reinterpret_cast<const char*>(file->data()), file->size());
    auto read = parse_target_config(text, given.config);
    if (!read) return fail_usage(command, read.error().text);
    settings = std::move(*read);
  }
  const auto has = [&app](const char* option) { return app.count(option) > 0; };
  if (given.listen) settings.listen = given.listen;
  if (given.metrics) settings.metrics = given.metrics;
  if (has("--network")) settings.network = given.network == "trusted" ? Network::trusted : Network::untrusted;
  if (has("--blocks")) settings.target.blocks = given.blocks;
  if (has("--block-size")) settings.target.block_size = static_cast<std::uint32_t>(given.block_size);
  if (has("--handles")) {
    settings.target.handles = given.handles;
  } else if (!settings.handles_given) {
    settings.target.handles = settings.target.blocks;
  }
  if (has("--reserve")) settings.target.reserve = given.reserve;
  if (has("--max-requests")) settings.target.max_requests = static_cast<std::uint32_t>(given.max_requests);
  if (has("--max-sessions")) settings.target.max_sessions = static_cast<std::uint32_t>(given.max_sessions);
  if (has("--crc")) settings.rnic.crc = given.crc;
  given.choices.apply_to(settings.rnic);
  if (has("--spin")) settings.rnic.spin = given.spin;
  if (has("--loops")) settings.rnic.loops = static_cast<unsigned>(given.loops);
  if (has("--congestion-control")) settings.rnic.congestion_control = given.congestion_control;
  if (has("--transport")) settings.transport.transport = given.transport.transport;
  if (has("--device")) settings.transport.device = given.transport.device;
  if (const char* wrong = contradiction(settings.transport, settings.rnic)) return fail_usage(command, wrong);
  if (given.quiet) spdlog::set_level(spdlog::level::warn);
  if (!settings.listen) return fail_usage(command, "--listen HOST:PORT is missing");
  return serve(settings, command);
}

}  // namespace

void set_up_target(CLI::App& app, Run& run) {
  const auto options = std::make_shared<Options>();
  add_endpoint(app, "--listen", options->listen, "address to listen on; port 0 picks one");
  add_transport_options(app, options->transport);
  add_word(
      app, "--network", options->network, {"trusted", "untrusted"},
      "whether the network is trusted; the default is trusted on a loopback address, and it must be given "
      "on any other");
  add_number(app, "--blocks", options->blocks, 1, std::uint64_t{1} << 28, "blocks of the pool (1024)");
  add_number(app, "--block-size", options->block_size, 8, 0xfffffff8, "octets of a block (64KiB)");
  add_number(app, "--handles", options->handles, 1, ~std::uint64_t{0} >> 1,
             "handles of the block table (as many as blocks)");
  add_number(app, "--reserve", options->reserve, 0, std::uint64_t{1} << 28,
             "blocks that no quota may claim, so that freed blocks still being sent starve nobody (a "
             "sixteenth, 64 at most)");
  add_number(app, "--max-requests", options->max_requests, 1, 65535,
             "requests that an initiator may have outstanding (64)");
  add_number(app, "--max-sessions", options->max_sessions, 1, 65535,
             "sessions at one time of initiators without a name (64)");
  add_endpoint(app, "--metrics", options->metrics, "serve Prometheus metrics at http://HOST:PORT/metrics");
  app.add_option("--config", options->config, "TOML file with all of this, and the initiators by name")
      ->type_name("FILE");
  add_switch(app, "--crc", options->crc,
             "ask for CRCs (on); off counts only when the peer says off too (RFC 5044 7.1)");
  add_rnic_choices(app, options->choices);
  app.add_flag("--spin", options->spin, "poll instead of sleeping: lowest latency, one core a loop");
  add_number(app, "--loops", options->loops, 1, 256, "event loops, one thread each (1)");
  app.add_option("--congestion-control", options->congestion_control,
                 "TCP congestion control of the connections (the system's)")
      ->type_name("NAME");
  app.add_flag("--quiet", options->quiet, "log warnings and errors only");
  app.footer(kFooter);
  app.callback([&app, &run, options] { run = [&app, options] { return run_target(app, *options); }; });
}

}  // namespace kbtp::tools
