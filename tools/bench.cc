// `kbtp bench`: benchmarks of one operation, both ends in processes of their own.

#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/bench_load.h"
#include "tools/client.h"
#include "tools/link.h"
#include "tools/measurement.h"
#include "tools/soak.h"
#include "tools/subcommand.h"

namespace kbtp::tools {

namespace {

constexpr const char* kFooter = R"(Examples:
  kbtp bench load
  kbtp bench load --size 1MiB --outstanding 16 --wait spin --json load.json)";

constexpr const char* kLoadFooter =
    R"(Each connection loads blocks of its own, one buffer for each outstanding LOAD; every buffer is checked after each
run. The result is the median of the runs, with the least and the greatest GB/s (10^9 octets a second).

Examples:
  kbtp bench load --size 1MiB --outstanding 16 --wait spin
  kbtp bench load --size 4096 --outstanding 1 --ops 100000 --runs 5 --json -
  kbtp bench load --target 192.0.2.1:7420 --crc off)";

constexpr Duration kWarmUp = std::chrono::milliseconds(200);

struct Options {
  LinkOptions link;
  std::uint64_t size = std::uint64_t{1} << 20;
  std::uint64_t outstanding = 16;
  std::uint64_t connections = 1;
  double seconds = 1;
  std::uint64_t ops = 0;  // 0: for `seconds`
  std::uint64_t runs = 3;
  std::string json;
};

using Lanes = std::vector<std::unique_ptr<BenchLane>>;

Expected<Lanes, Trouble> open_lanes(Link& link, const Options& options) {
  const auto outstanding = static_cast<std::uint32_t>(options.outstanding);
  Lanes lanes;
  for (std::uint64_t i = 0; i < options.connections; ++i) {
    initiator::ConnectOptions connect;
    connect.quota = outstanding;
    connect.handles = outstanding;
    connect.max_requests = outstanding;
    auto session = reach_async(*link.rnic, link.endpoint, connect);
    if (!session) return unexpected(Trouble{true, session.error().text});
    lanes.push_back(std::make_unique<BenchLane>(std::move(*session), outstanding,
                                                static_cast<std::uint32_t>(options.size)));
    const auto granted = check_granted(
        lanes.back()->info(), {.blocks = outstanding, .requests = outstanding, .block_size = options.size});
    if (!granted) return unexpected(Trouble{true, granted.error().text});
    if (auto filled = lanes.back()->fill(); !filled) return unexpected(filled.error());
  }
  return lanes;
}

Expected<Measurement, Trouble> run_once(Link& link, Lanes& lanes, const Options& options) {
  BenchLane::Length length{
      .warm_up = kWarmUp,
      .measured = std::chrono::duration_cast<Duration>(std::chrono::duration<double>(options.seconds)),
      .operations = std::nullopt};
  if (options.ops > 0) length.operations = (options.ops + options.connections - 1) / options.connections;
  const double cpu_before = own_cpu_seconds() + link.child_cpu_seconds();
  for (auto& lane : lanes) lane->start(length);
  Measurement m;
  Histogram latencies;
  double all_operations = 0;
  for (auto& lane : lanes) {
    const BenchLane::Run run = lane->wait();
    if (run.trouble) return unexpected(*run.trouble);
    const double seconds = std::chrono::duration<double>(run.elapsed).count();
    m.ops_per_s += static_cast<double>(run.operations) / seconds;
    latencies.merge(run.latencies);
    all_operations += static_cast<double>(run.operations + run.warm_up_operations);
  }
  const double cpu = own_cpu_seconds() + link.child_cpu_seconds() - cpu_before;
  for (auto& lane : lanes) {
    if (auto right = lane->check(); !right) return unexpected(right.error());
  }
  m.op = "load";
  m.size = options.size;
  m.outstanding = options.outstanding;
  m.connections = options.connections;
  m.crc = options.link.crc;
  m.spin = options.link.spin;
  m.gbytes_per_s = m.ops_per_s * static_cast<double>(options.size) / 1e9;
  m.p50_us = latencies.percentile_us(0.5);
  m.p99_us = latencies.percentile_us(0.99);
  if (link.child) m.cpu_s_per_gib = cpu / (all_operations * static_cast<double>(options.size) / (1 << 30));
  m.congestion_control = congestion_control_in_force(options.link.congestion_control);
  return m;
}

Expected<void, Trouble> run_all(Link& link, const Options& options, std::vector<Measurement>& runs) {
  auto lanes = open_lanes(link, options);
  if (!lanes) return unexpected(lanes.error());
  for (std::uint64_t i = 0; i < options.runs; ++i) {
    auto run = run_once(link, *lanes, options);
    if (!run) return unexpected(run.error());
    runs.push_back(std::move(*run));
  }
  for (auto& lane : *lanes) {
    if (auto emptied = lane->empty(); !emptied) return emptied;
  }
  return {};
}

int run_load(const CLI::App& app, const Options& options) {
  const std::string command = full_name(app);
  auto link = Link::open(options.link, {.blocks = options.outstanding * options.connections,
                                        .block_size = (options.size + 7) / 8 * 8,
                                        .sessions = options.connections,
                                        .outstanding = options.outstanding});
  if (!link) return fail(command, kExitUnreachable, link.error().text);
  std::vector<Measurement> runs;
  if (const auto done = run_all(*link, options, runs); !done) {
    return fail(command, done.error().lost ? kExitUnreachable : kExitFindings, done.error().text);
  }
  const Measurement measured = median_of(std::move(runs));
  if (options.json != "-") fmt::print("{}", to_table({measured}));
  if (!options.json.empty()) {
    if (auto written = write_json(options.json, {to_json(measured)}); !written)
      return fail(command, kExitUnreachable, written.error().text);
  }
  return kExitOk;
}

}  // namespace

void set_up_bench(CLI::App& app, Run& run) {
  app.footer(kFooter);
  CLI::App& load = *app.add_subcommand("load", "LOADs of sealed blocks");
  const auto options = std::make_shared<Options>();
  add_link_options(load, options->link);
  add_number(load, "--size", options->size, 1, std::uint64_t{1} << 30, "octets of a block (1MiB)");
  add_number(load, "--outstanding", options->outstanding, 1, 4096, "LOADs under way on each connection (16)");
  add_number(load, "--connections", options->connections, 1, 1024, "sessions side by side (1)");
  CLI::Option* seconds = add_parsed(
      load, "--seconds",
      [options](const std::string& text) -> Result<> {
        auto factor = parse_factor(text);
        if (!factor) return unexpected(factor.error());
        if (*factor > 86400) return failure("a run may last a day at most");
        options->seconds = *factor;
        return {};
      },
      "length of one run, after a fifth of a second to warm up (1)");
  seconds->type_name("S");
  add_number(load, "--ops", options->ops, 1, std::uint64_t{1} << 40, "LOADs of one run, instead of a time")
      ->excludes(seconds);
  add_number(load, "--runs", options->runs, 1, 1000, "runs; the median is told (3)");
  load.add_option("--json", options->json, "write the measurement there, - for standard output")
      ->type_name("FILE");
  load.footer(kLoadFooter);
  load.callback([&load, &run, options] { run = [&load, options] { return run_load(load, *options); }; });
  set_up_soak(app, run);
}

}  // namespace kbtp::tools
