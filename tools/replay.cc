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
#include <unistd.h>

#include "tools/client.h"
#include "tools/replay_node.h"
#include "tools/replay_peers.h"
#include "tools/replay_report.h"
#include "tools/session_lanes.h"
#include "tools/subcommand.h"

namespace kbtp::tools {

namespace {

constexpr const char* kFooter =
    R"(A trace has one JSON object a line: timestamp (ms), input_length, output_length, hash_ids. A block that is held is
loaded and every octet of it checked; another is stored, and at capacity the least recently used one is freed first.
In the end everything is freed. With --peers each of N nodes, a process of its own, is target and initiator at
once: request r is decoded by node r mod N and prefilled by one of the others, each in turn, which loads the blocks
that are held and stores the rest straight into the decode node's pool. `kbtp-trace-gen` writes traces of this format.

Examples:
  kbtp replay trace.jsonl
  kbtp replay trace.jsonl --capacity 8192 --block-size 64KiB --json replay.json
  kbtp replay trace.jsonl --target '[2001:db8::1]:7420' --initiators 4
  kbtp replay trace.jsonl --speed 10
  kbtp replay trace.jsonl --peers 4)";

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

Result<std::vector<OpenSession>> open_sessions(Link& link, const ReplaySettings& options) {
  std::vector<OpenSession> sessions;
  const auto capacity = static_cast<std::uint32_t>(options.capacity);
  for (std::size_t i = 0; i < options.initiators; ++i) {
    const std::uint32_t share = SessionLanes::share(capacity, i, options.initiators);
    initiator::ConnectOptions connect = link.connect;
    connect.quota = share;
    connect.handles = share;
    connect.max_requests = static_cast<std::uint32_t>(options.outstanding);
    connect.operation_deadline = std::chrono::seconds(options.deadline);
    auto session = reach_async(*link.provider, link.endpoint, connect);
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

int run_replay(const CLI::App& app, const ReplaySettings& options) {
  const std::string command = full_name(app);
  if (options.node) return run_replay_node(command, options);
  if (options.initiators > options.capacity)
    return fail_usage(command, "--capacity must be at least as large as --initiators");
  if (options.peers > 0 && options.link.transport.verbs())
    return fail_usage(command, "--peers is for --transport rdmap alone");
  if (options.peers > 0 && options.capacity < options.peers * (options.peers - 1)) {
    return fail_usage(command,
                      fmt::format("--capacity must be at least {}, one block for each ordered pair of nodes",
                                  options.peers * (options.peers - 1)));
  }
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
  if (options.peers > 0) return replay_with_peers(command, options, trace);

  auto link = Link::open(options.link, {.blocks = options.capacity,
                                        .block_size = (options.block_size + 7) / 8 * 8,
                                        .sessions = options.initiators,
                                        .outstanding = options.outstanding});
  if (!link) return fail(command, kExitUnreachable, link.error().text);
  auto sessions = open_sessions(*link, options);
  if (!sessions) return fail(command, kExitUnreachable, sessions.error().text);

  TraceReader reader(trace, options.trace);
  SessionLanes::Sessions of_lanes;
  for (const OpenSession& open : *sessions) of_lanes.push_back(open.session);
  SessionLanes lanes(std::move(of_lanes), static_cast<std::uint32_t>(options.block_size),
                     static_cast<std::uint32_t>(options.outstanding));
  SharedPlaces places(static_cast<std::uint32_t>(options.capacity), lanes.count());
  ReplayEngine engine(places, lanes, reader,
                      {.block_size = static_cast<std::uint32_t>(options.block_size), .speed = options.speed});
  std::optional<double> cpu;
  const double cpu_before = own_cpu_seconds() + link->child_cpu_seconds();
  run_engine(engine, lanes.loop(), *requests);
  if (link->child) cpu = own_cpu_seconds() + link->child_cpu_seconds() - cpu_before;
  close_and_wait(*sessions);

  const ReplayResult& result = engine.result();
  const Measurement measured = measure(options, result, options.initiators, cpu);
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
  const auto options = std::make_shared<ReplaySettings>();
  app.add_option("TRACE", options->trace, "trace file")->required();
  add_link_options(app, options->link);
  add_number(app, "--capacity", options->capacity, 1, std::uint64_t{1} << 26, "blocks held at most (1024)");
  add_number(app, "--block-size", options->block_size, 1, std::uint64_t{1} << 30,
             "octets stored in each block (64KiB)");
  add_number(app, "--initiators", options->initiators, 1, 1024,
             "sessions that share the work; a request's loads are one session's (1)");
  add_number(app, "--peers", options->peers, 2, 64,
             "nodes that are target and initiator at once, instead of one target; --capacity is shared by "
             "their pools")
      ->excludes("--target")
      ->excludes("--initiators");
  // For our own children alone; a group without a name is not listed.
  app.add_option("--node", options->node, "")->group("");
  add_number(app, "--outstanding", options->outstanding, 1, 4096,
             "operations under way in each session, or of each node (32)");
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
