// `kbtp bench`: benchmarks of one operation, both ends in processes of their own.

#include <algorithm>
#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>

#include "tools/bench_lane.h"
#include "tools/client.h"
#include "tools/link.h"
#include "tools/measurement.h"
#include "tools/soak.h"
#include "tools/subcommand.h"

namespace kbtp::tools {

namespace {

constexpr const char* kFooter = R"(Examples:
  kbtp bench load
  kbtp bench load --size 1MiB --outstanding 16 --wait spin --json load.json
  kbtp bench direct-load --size 64KiB
  kbtp bench direct-alloc --size 64KiB)";

constexpr const char* kLoadFooter =
    R"(Each connection loads blocks of its own, one buffer for each outstanding LOAD; every buffer is checked after each
run. The result is the median of the runs, with the least and the greatest GB/s (10^9 octets a second).

Examples:
  kbtp bench load --size 1MiB --outstanding 16 --wait spin
  kbtp bench load --size 4096 --outstanding 1 --ops 100000 --runs 5 --json -
  kbtp bench load --target 192.0.2.1:7420 --crc off)";

constexpr const char* kDirectLoadFooter =
    R"(As bench load, with DIRECT_LOAD (KBTP 6.6): four RDMA Reads one after the other, and no work for the target's
processor beyond its RNIC. A target of ours is told who may; another one has to know --identity and grant it
the mode.

Examples:
  kbtp bench direct-load --size 64KiB --outstanding 16
  kbtp bench direct-load --target 192.0.2.1:7420 --identity 123e4567-e89b-12d3-a456-426614174000)";

constexpr const char* kDirectAllocFooter =
    R"(Each operation takes a ticket, writes a block and has it bound (DIRECT_ALLOC, KBTP 6.6), and a FREE follows:
throughput counts both, latency is that of the allocation. After each run blocks are allocated once more, loaded
and compared. A target of ours is told who may; another one has to know --identity and grant it the mode.

Examples:
  kbtp bench direct-alloc --size 64KiB --outstanding 16
  kbtp bench direct-alloc --target 192.0.2.1:7420 --identity 123e4567-e89b-12d3-a456-426614174000)";

constexpr Duration kWarmUp = std::chrono::milliseconds(200);

struct Options {
  BenchOperation operation = BenchOperation::load;
  LinkOptions link;
  std::vector<Uuid> identities;  // of the connections; none: anonymous
  std::uint64_t size = std::uint64_t{1} << 20;
  std::uint64_t outstanding = 16;
  std::uint64_t connections = 1;
  double seconds = 1;
  std::uint64_t ops = 0;  // 0: for `seconds`
  std::uint64_t runs = 3;
  std::string json;
};

using Lanes = std::vector<std::unique_ptr<BenchLane>>;

bool is_direct(BenchOperation operation) { return operation != BenchOperation::load; }

Result<> check_direct(const initiator::SessionInfo& info, BenchOperation operation) {
  if (operation == BenchOperation::direct_load && !info.direct.load)
    return failure("the target does not grant DIRECT_LOAD to this identity");
  if (operation == BenchOperation::direct_alloc && !info.direct.alloc)
    return failure("the target does not grant DIRECT_ALLOC to this identity");
  return {};
}

Expected<Lanes, Trouble> open_lanes(Link& link, const Options& options) {
  const auto outstanding = static_cast<std::uint32_t>(options.outstanding);
  Lanes lanes;
  for (std::uint64_t i = 0; i < options.connections; ++i) {
    initiator::ConnectOptions connect = link.connect;
    connect.quota = outstanding;
    connect.handles = outstanding;
    connect.max_requests = outstanding;
    if (is_direct(options.operation)) {
      connect.identity = options.identities.at(i);
      connect.wanted.direct_load = options.operation == BenchOperation::direct_load;
      connect.wanted.direct_alloc = options.operation == BenchOperation::direct_alloc;
      connect.ord = std::max(connect.ord, outstanding);
    }
    auto session = reach_async(*link.provider, link.endpoint, connect);
    if (!session) return unexpected(Trouble{true, session.error().text});
    lanes.push_back(std::make_unique<BenchLane>(std::move(*session), options.operation, outstanding,
                                                static_cast<std::uint32_t>(options.size)));
    const initiator::SessionInfo& info = lanes.back()->info();
    if (const auto granted = check_direct(info, options.operation); !granted)
      return unexpected(Trouble{true, granted.error().text});
    const auto granted =
        check_granted(info, {.blocks = outstanding, .requests = outstanding, .block_size = options.size});
    if (!granted) return unexpected(Trouble{true, granted.error().text});
    if (auto filled = lanes.back()->fill(); !filled) return unexpected(filled.error());
  }
  return lanes;
}

// What tells an embedded target to whom it may grant the direct modes.
std::string direct_config(const Options& options, const std::string& address) {
  std::string text = fmt::format("ird = {}\n", std::max<std::uint64_t>(options.outstanding, 16));
  for (const Uuid& identity : options.identities) {
    text += fmt::format(
        "[[initiator]]\nidentity = \"{}\"\naddress = \"{}\"\nquota = {}\ndirect_load = true\n"
        "direct_alloc = {}\n",
        identity.to_string(), address, options.outstanding,
        options.operation == BenchOperation::direct_alloc);
  }
  return text;
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
  m.op = to_string(options.operation);
  m.size = options.size;
  m.outstanding = options.outstanding;
  m.connections = options.connections;
  m.crc = asks_for_crc(options.link);
  m.spin = options.link.spin;
  m.gbytes_per_s = m.ops_per_s * static_cast<double>(options.size) / 1e9;
  m.p50_us = latencies.percentile_us(0.5);
  m.p99_us = latencies.percentile_us(0.99);
  if (link.child) m.cpu_s_per_gib = cpu / (all_operations * static_cast<double>(options.size) / (1 << 30));
  m.congestion_control = congestion_control_of(options.link);
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

int run_bench(const CLI::App& app, Options options) {
  const std::string command = full_name(app);
  Demand demand{.blocks = options.outstanding * options.connections,
                .block_size = (options.size + 7) / 8 * 8,
                .sessions = options.connections,
                .outstanding = options.outstanding};
  if (is_direct(options.operation)) {
    if (options.link.target && options.identities.empty()) {
      return fail_usage(
          command, "--target needs --identity: a target grants direct modes to initiators that it knows");
    }
    if (options.link.target && options.connections > 1)
      return fail_usage(command, "with --target there is one connection: an identity has one session");
    while (options.identities.size() < options.connections) options.identities.push_back(Uuid::random());
    const auto address = own_address(options.link.transport);
    if (!address) return fail(command, kExitUnreachable, address.error().text);
    demand.config = direct_config(options, *address);
  }
  auto link = Link::open(options.link, demand);
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

void add_benchmark(CLI::App& app, Run& run, BenchOperation operation, const char* summary,
                   const char* footer) {
  CLI::App& sub = *app.add_subcommand(std::string(to_string(operation)), summary);
  const auto options = std::make_shared<Options>();
  options->operation = operation;
  add_link_options(sub, options->link);
  if (is_direct(operation)) {
    add_parsed(
        sub, "--identity",
        [options](const std::string& text) -> Result<> {
          auto uuid = parse_uuid(text);
          if (!uuid) return unexpected(uuid.error());
          options->identities = {*uuid};
          return {};
        },
        "Initiator Identity, as the configuration of --target names it")
        ->type_name("UUID")
        ->needs(sub.get_option("--target"));
  }
  add_number(sub, "--size", options->size, 1, std::uint64_t{1} << 30, "octets of a block (1MiB)");
  add_number(sub, "--outstanding", options->outstanding, 1, 4096,
             "operations under way on each connection (16)");
  add_number(sub, "--connections", options->connections, 1, 1024, "sessions side by side (1)");
  CLI::Option* seconds = add_parsed(
      sub, "--seconds",
      [options](const std::string& text) -> Result<> {
        auto factor = parse_factor(text);
        if (!factor) return unexpected(factor.error());
        if (*factor > 86400) return failure("a run may last a day at most");
        options->seconds = *factor;
        return {};
      },
      "length of one run, after a fifth of a second to warm up (1)");
  seconds->type_name("S");
  add_number(sub, "--ops", options->ops, 1, std::uint64_t{1} << 40,
             "operations of one run, instead of a time")
      ->excludes(seconds);
  add_number(sub, "--runs", options->runs, 1, 1000, "runs; the median is told (3)");
  sub.add_option("--json", options->json, "write the measurement there, - for standard output")
      ->type_name("FILE");
  sub.footer(footer);
  sub.callback([&sub, &run, options] { run = [&sub, options] { return run_bench(sub, *options); }; });
}

}  // namespace

void set_up_bench(CLI::App& app, Run& run) {
  app.footer(kFooter);
  add_benchmark(app, run, BenchOperation::load, "LOADs of sealed blocks", kLoadFooter);
  add_benchmark(app, run, BenchOperation::direct_load, "DIRECT_LOADs of sealed blocks", kDirectLoadFooter);
  add_benchmark(app, run, BenchOperation::direct_alloc, "DIRECT_ALLOC and BIND, each followed by a FREE",
                kDirectAllocFooter);
  set_up_soak(app, run);
}

}  // namespace kbtp::tools
