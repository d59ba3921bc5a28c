// `kbtp replay`: the command around ReplayEngine.

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <future>
#include <memory>
#include <nlohmann/json.hpp>
#include <unistd.h>

#include "tools/client.h"
#include "tools/link.h"
#include "tools/measurement.h"
#include "tools/replay_engine.h"
#include "tools/subcommand.h"

namespace kbtp::tools {

namespace {

constexpr const char* kFooter =
    R"(A trace has one JSON object a line: timestamp (ms), input_length, output_length, hash_ids. A block that is held is
loaded and every octet of it checked; another is stored, and at capacity the least recently used one is freed first.
In the end everything is freed. `kbtp-trace-gen` writes traces of this format.

Examples:
  kbtp replay trace.jsonl
  kbtp replay trace.jsonl --capacity 8192 --block-size 64KiB --json replay.json
  kbtp replay trace.jsonl --target '[2001:db8::1]:7420' --initiators 4
  kbtp replay trace.jsonl --speed 10)";

struct Options {
  std::string trace;
  LinkOptions link;
  std::uint64_t capacity = 1024;
  std::uint64_t block_size = 65536;
  std::uint64_t initiators = 1;
  std::uint64_t outstanding = 32;
  std::optional<double> speed;
  std::uint64_t deadline = 30;
  std::string json;
};

// "75,812"
std::string grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

// The trace is read once before anything is started, so that a mistake in it is told at once.
Result<std::uint64_t> count_requests(std::istream& input, const std::string& name) {
  TraceReader reader(input, name);
  std::uint64_t requests = 0;
  for (;;) {
    auto next = reader.next();
    if (!next) return unexpected(next.error());
    if (!*next) return requests;
    ++requests;
  }
}

Result<std::vector<OpenSession>> open_sessions(Link& link, const Options& options) {
  std::vector<OpenSession> sessions;
  const auto capacity = static_cast<std::uint32_t>(options.capacity);
  for (std::size_t i = 0; i < options.initiators; ++i) {
    const std::uint32_t share = ReplayEngine::share(capacity, i, options.initiators);
    initiator::ConnectOptions connect;
    connect.quota = share;
    connect.handles = share;
    connect.max_requests = static_cast<std::uint32_t>(options.outstanding);
    connect.operation_deadline = std::chrono::seconds(options.deadline);
    auto session = reach_async(*link.rnic, link.endpoint, connect);
    if (!session) return unexpected(session.error());
    sessions.push_back(std::move(*session));
    const auto granted = check_granted(sessions.back().session->info(),
                                       {.blocks = share, .requests = 1, .block_size = options.block_size});
    if (!granted) {
      close_and_wait(sessions);
      return unexpected(granted.error());
    }
  }
  return sessions;
}

void run_engine(ReplayEngine& engine, rdma::Loop& loop, std::uint64_t requests) {
  std::promise<void> done;
  std::future<void> ended = done.get_future();
  loop.post([&engine, &done] { engine.start([&done] { done.set_value(); }); });
  const bool terminal = isatty(STDERR_FILENO) == 1;
  while (ended.wait_for(std::chrono::milliseconds(terminal ? 200 : 60'000)) != std::future_status::ready) {
    if (!terminal) continue;
    fmt::print(stderr, "\r{} of {} requests ({} %)", engine.progress(), requests,
               requests == 0 ? 100 : engine.progress() * 100 / requests);
  }
  if (terminal) fmt::print(stderr, "\r\033[K");
}

struct Cpu {
  double before = 0;
  double after = 0;
};

Measurement measure(const Options& options, const ReplayResult& result, const Cpu& cpu, bool embedded) {
  const double seconds = std::chrono::duration<double>(result.elapsed).count();
  const double octets = static_cast<double>(result.octets_checked + result.octets_stored);
  Histogram all = result.loads;
  all.merge(result.stores);
  Measurement m;
  m.op = "replay";
  m.size = options.block_size;
  m.outstanding = options.outstanding;
  m.connections = options.initiators;
  m.crc = options.link.crc;
  m.spin = options.link.spin;
  m.ops_per_s = static_cast<double>(all.count() + result.evictions) / seconds;
  m.gbytes_per_s = octets / seconds / 1e9;
  m.p50_us = all.percentile_us(0.5);
  m.p99_us = all.percentile_us(0.99);
  if (embedded && octets > 0) m.cpu_s_per_gib = (cpu.after - cpu.before) / (octets / (1 << 30));
  m.congestion_control = congestion_control_in_force(options.link.congestion_control);
  return median_of({m});
}

// `out` is standard error when the report goes to standard output.
void print_summary(std::FILE* out, const ReplayResult& result, const Measurement& m) {
  const std::uint64_t references = result.hits + result.misses;
  const double share =
      references == 0 ? 0 : 100.0 * static_cast<double>(result.hits) / static_cast<double>(references);
  fmt::print(out, "{} requests, {} block references: {} hits, {} misses ({:.1f} % hits)\n",
             grouped(result.requests), grouped(references), grouped(result.hits), grouped(result.misses),
             share);
  fmt::print(out, "{:<12}{:>10}{:>12}{:>12}\n", "operation", "count", "p50 us", "p99 us");
  fmt::print(out, "{:<12}{:>10}{:>12.1f}{:>12.1f}\n", "LOAD", result.loads.count(),
             result.loads.percentile_us(0.5), result.loads.percentile_us(0.99));
  fmt::print(out, "{:<12}{:>10}{:>12.1f}{:>12.1f}\n", "ALLOC_STORE", result.stores.count(),
             result.stores.percentile_us(0.5), result.stores.percentile_us(0.99));
  fmt::print(out, "{:<12}{:>10}\n", "FREE", result.evictions + result.freed_at_end);
  fmt::print(out, "{} octets loaded and checked, {} stored, {:.2f} GB/s, {:.0f} operations/s\n",
             grouped(result.octets_checked), grouped(result.octets_stored), m.gbytes_per_s, m.ops_per_s);
}

Result<> write_report(const Options& options, const ReplayResult& result, const Measurement& m) {
  if (options.json.empty()) return {};
  nlohmann::ordered_json json = to_json(m);
  json["requests"] = result.requests;
  json["hits"] = result.hits;
  json["misses"] = result.misses;
  json["evictions"] = result.evictions;
  json["capacity"] = options.capacity;
  json["octets_checked"] = result.octets_checked;
  json["octets_stored"] = result.octets_stored;
  json["load_p50_us"] = result.loads.percentile_us(0.5);
  json["load_p99_us"] = result.loads.percentile_us(0.99);
  json["alloc_store_p50_us"] = result.stores.percentile_us(0.5);
  json["alloc_store_p99_us"] = result.stores.percentile_us(0.99);
  return write_json(options.json, {json});
}

int run_replay(const CLI::App& app, const Options& options) {
  const std::string command = full_name(app);
  if (options.initiators > options.capacity)
    return fail_usage(command, "--capacity must be at least as large as --initiators");
  if (std::error_code unknown; std::filesystem::exists(options.trace, unknown) &&
                               !std::filesystem::is_regular_file(options.trace, unknown)) {
    return fail(command, kExitUnreachable, options.trace + " is no regular file; a trace is read twice");
  }
  std::ifstream trace(options.trace);
  if (!trace)
    return fail(command, kExitUnreachable,
                fmt::format("{} cannot be opened: {}", options.trace, std::strerror(errno)));
  const auto requests = count_requests(trace, options.trace);
  if (!requests) return fail(command, kExitUsage, requests.error().text);
  if (*requests == 0) return fail(command, kExitUsage, options.trace + " holds no request");
  trace.clear();
  trace.seekg(0);

  auto link = Link::open(options.link, {.blocks = options.capacity,
                                        .block_size = (options.block_size + 7) / 8 * 8,
                                        .sessions = options.initiators,
                                        .outstanding = options.outstanding});
  if (!link) return fail(command, kExitUnreachable, link.error().text);
  auto sessions = open_sessions(*link, options);
  if (!sessions) return fail(command, kExitUnreachable, sessions.error().text);

  TraceReader reader(trace, options.trace);
  ReplayEngine::Sessions of_engine;
  for (const OpenSession& open : *sessions) of_engine.push_back(open.session);
  ReplayEngine engine(std::move(of_engine), reader,
                      {.capacity = static_cast<std::uint32_t>(options.capacity),
                       .block_size = static_cast<std::uint32_t>(options.block_size),
                       .outstanding = static_cast<std::uint32_t>(options.outstanding),
                       .speed = options.speed});
  Cpu cpu;
  cpu.before = own_cpu_seconds() + link->child_cpu_seconds();
  run_engine(engine, sessions->front().session->loop(), *requests);
  cpu.after = own_cpu_seconds() + link->child_cpu_seconds();
  close_and_wait(*sessions);

  const ReplayResult& result = engine.result();
  const Measurement measured = measure(options, result, cpu, link->child != nullptr);
  std::FILE* const out = options.json == "-" ? stderr : stdout;
  print_summary(out, result, measured);
  if (!result.bad_trace.empty()) return fail(command, kExitUsage, result.bad_trace);
  if (!result.finding.empty()) return fail(command, kExitFindings, result.finding);
  if (!result.lost.empty()) return fail(command, kExitUnreachable, "the target was lost: " + result.lost);
  if (link->child) {
    const auto drained = link->child->drain();
    if (!drained) return fail(command, kExitUnreachable, drained.error().text);
    if (drained->free_blocks != drained->blocks) {
      return fail(command, kExitFindings,
                  fmt::format("{} of the target's {} blocks are not free at the end",
                              drained->blocks - drained->free_blocks, drained->blocks));
    }
    fmt::print(out, "all {} blocks of the target are free at the end\n", grouped(drained->blocks));
  } else {
    fmt::print(out, "all {} blocks that were held are free at the end\n", grouped(result.freed_at_end));
  }
  if (auto written = write_report(options, result, measured); !written)
    return fail(command, kExitUnreachable, written.error().text);
  return kExitOk;
}

}  // namespace

void set_up_replay(CLI::App& app, Run& run) {
  const auto options = std::make_shared<Options>();
  app.add_option("TRACE", options->trace, "trace file")->required();
  add_link_options(app, options->link);
  add_number(app, "--capacity", options->capacity, 1, std::uint64_t{1} << 26, "blocks held at most (1024)");
  add_number(app, "--block-size", options->block_size, 1, std::uint64_t{1} << 30,
             "octets stored in each block (64KiB)");
  add_number(app, "--initiators", options->initiators, 1, 1024,
             "sessions that share the work; a request's loads are one session's (1)");
  add_number(app, "--outstanding", options->outstanding, 1, 4096,
             "operations under way in each session (32)");
  add_parsed(
      app, "--speed",
      [options](const std::string& text) -> Result<> {
        auto factor = parse_factor(text);
        if (!factor) return unexpected(factor.error());
        options->speed = *factor;
        return {};
      },
      "times the pace of the trace's timestamps (as fast as it can)")
      ->type_name("X");
  add_number(app, "--deadline", options->deadline, 1, 86400, "seconds that one operation may take (30)");
  app.add_option("--json", options->json, "write the measurement there, - for standard output")
      ->type_name("FILE");
  app.footer(kFooter);
  app.callback([&app, &run, options] { run = [&app, options] { return run_replay(app, *options); }; });
}

}  // namespace kbtp::tools
