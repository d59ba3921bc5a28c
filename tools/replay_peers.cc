#include "tools/replay_peers.h"

#include <csignal>
#include <fmt/format.h>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <poll.h>
#include <sys/signalfd.h>
#include <sys/wait.h>
#include <unistd.h>
#include <utility>
#include <vector>

#include "tools/child_process.h"
#include "tools/cli.h"
#include "tools/poll_loop.h"

namespace kbtp::tools {

namespace {

using nlohmann::json;

constexpr std::chrono::seconds kStartDeadline{60};
constexpr std::chrono::seconds kDrainDeadline{60};
constexpr std::chrono::milliseconds kDeathDeadline{500};
constexpr std::string_view kListening = "listening on ";

// SIGINT and SIGTERM as something to read.
class StopSignal {
 public:
  StopSignal() {
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, SIGINT);
    sigaddset(&set, SIGTERM);
    sigprocmask(SIG_BLOCK, &set, nullptr);
    fd_ = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK);
  }
  ~StopSignal() { close(fd_); }
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;
  [[nodiscard]] int fd() const { return fd_; }

 private:
  int fd_;
};

std::string how_it_ended(std::size_t node, int status) {
  return WIFSIGNALED(status) ? fmt::format("node {} was killed by signal {}", node, WTERMSIG(status))
                             : fmt::format("node {} ended with {}", node, WEXITSTATUS(status));
}

/// The nodes as the engine's lanes.
class Nodes : public ReplayLanes {
 public:
  Nodes(const ReplaySettings& settings, const PeerPlaces& places) : settings_(settings), places_(places) {}

  /// Starts them and has each connect to all.
  [[nodiscard]] Result<> start(std::uint64_t share);
  /// Each ends both of its roles; the number of blocks that are free.
  struct Drained {
    std::uint64_t free_blocks = 0;
    std::uint64_t blocks = 0;
  };
  [[nodiscard]] Result<Drained> drain();
  void flush();
  [[nodiscard]] double cpu_seconds() const;
  /// The node that has ended, which is why others lost their sessions; empty when none has.
  [[nodiscard]] std::string find_dead();

  [[nodiscard]] PollLoop& loop() override { return loop_; }
  [[nodiscard]] std::uint32_t count() const override { return static_cast<std::uint32_t>(settings_.peers); }
  [[nodiscard]] std::uint32_t slots(std::uint32_t) const override {
    return static_cast<std::uint32_t>(settings_.outstanding);
  }
  [[nodiscard]] Result<> open() override { return {}; }
  void carry_out(const ReplayOperation& operation, ReplayDone done) override;
  void abandon() override;
  [[nodiscard]] std::string handle_name(std::uint32_t place) const override {
    return fmt::format("handle {} of node {}", handle(place), places_.home(place));
  }

 private:
  struct Node {
    std::unique_ptr<ChildProcess> process;
    std::vector<std::uint64_t> bases;  ///< of its range at each node
    std::string unsent;
  };
  [[nodiscard]] std::uint64_t handle(std::uint32_t place) const {
    return nodes_[places_.owner(place)].bases[places_.home(place)] + places_.index(place);
  }
  void readable(std::size_t number);
  void take_answer(const std::string& line);
  void lose(const std::string& why);

  const ReplaySettings& settings_;
  const PeerPlaces& places_;
  PollLoop loop_;
  std::vector<Node> nodes_;
  std::map<std::uint64_t, ReplayDone> under_way_;
  std::uint64_t next_id_ = 0;
  std::string lost_;
};

Result<> Nodes::start(std::uint64_t share) {
  json endpoints = json::array();
  for (std::size_t number = 0; number < settings_.peers; ++number) {
    std::vector<std::string> words = {"kbtp",
                                      "replay",
                                      "-",
                                      "--node",
                                      std::to_string(number),
                                      "--peers",
                                      std::to_string(settings_.peers),
                                      "--capacity",
                                      std::to_string(share),
                                      "--block-size",
                                      std::to_string(settings_.block_size),
                                      "--outstanding",
                                      std::to_string(settings_.outstanding),
                                      "--deadline",
                                      std::to_string(settings_.deadline),
                                      "--crc",
                                      settings_.link.crc ? "on" : "off",
                                      "--wait",
                                      settings_.link.spin ? "spin" : "block"};
    if (!settings_.link.congestion_control.empty()) {
      words.emplace_back("--congestion-control");
      words.push_back(settings_.link.congestion_control);
    }
    auto process = ChildProcess::start(kOwnProgram, std::move(words), {.log = {}, .input = true});
    if (!process) return unexpected(process.error());
    nodes_.push_back({.process = std::move(*process), .bases = {}, .unsent = {}});
    const auto line = nodes_.back().process->read_line(kStartDeadline);
    if (!line) return failure(fmt::format("node {} did not start: {}", number, line.error().text));
    if (!line->starts_with(kListening))
      return failure(fmt::format("node {} said '{}' instead of where it listens", number, *line));
    endpoints.push_back(line->substr(kListening.size()));
  }
  const std::string connect = json{{"connect", endpoints}}.dump() + "\n";
  for (const Node& node : nodes_) static_cast<void>(node.process->write(connect));
  for (std::size_t number = 0; number < nodes_.size(); ++number) {
    const auto line = nodes_[number].process->read_line(kStartDeadline);
    if (!line) return failure(fmt::format("node {} did not connect to all: {}", number, line.error().text));
    const json ready = json::parse(*line, nullptr, false);
    if (!ready.is_object() || !ready.contains("ready"))
      return failure(fmt::format("node {} said '{}' instead of being ready", number, *line));
    nodes_[number].bases = ready["ready"].get<std::vector<std::uint64_t>>();
    loop_.watch(nodes_[number].process->output(), [this, number] { readable(number); });
  }
  return {};
}

void Nodes::carry_out(const ReplayOperation& operation, ReplayDone done) {
  static constexpr const char* kNames[] = {"load", "alloc_store", "free"};
  const std::uint64_t id = next_id_++;
  under_way_.emplace(id, std::move(done));
  if (!lost_.empty()) return loop_.post([this] { lose(lost_); });
  const json order = {{"id", id},
                      {"op", kNames[static_cast<std::size_t>(operation.kind)]},
                      {"at", places_.home(operation.place)},
                      {"handle", handle(operation.place)},
                      {"hash_id", operation.key.hash_id},
                      {"times", operation.key.times_stored},
                      {"generation", operation.generation}};
  nodes_[operation.lane].unsent += order.dump() + "\n";
}

void Nodes::flush() {
  for (Node& node : nodes_) {
    if (node.unsent.empty()) continue;
    static_cast<void>(node.process->write(node.unsent));  // who reads no more has ended, which is read
    node.unsent.clear();
  }
}

void Nodes::readable(std::size_t number) {
  ChildProcess& process = *nodes_[number].process;
  const bool there = process.fill();
  while (auto line = process.take_line()) take_answer(*line);
  if (there) return;
  loop_.unwatch(process.output());
  lose(how_it_ended(number, process.wait()));
}

void Nodes::take_answer(const std::string& line) {
  const json answer = json::parse(line, nullptr, false);
  const auto found =
      answer.is_object() ? under_way_.find(answer.value("id", ~std::uint64_t{0})) : under_way_.end();
  if (found == under_way_.end()) return lose("a node's answer is not understood: " + line);
  const ReplayDone done = std::move(found->second);
  under_way_.erase(found);
  done({.lost = answer.value("lost", std::string()),
        .finding = answer.value("finding", std::string()),
        .generation = answer.value("generation", std::uint16_t{0}),
        .latency = std::chrono::nanoseconds(answer.value("ns", std::int64_t{0}))});
}

// Whatever is under way ends with it; there is nothing to go on with.
void Nodes::lose(const std::string& why) {
  if (lost_.empty()) lost_ = why;
  while (!under_way_.empty()) {
    const auto first = under_way_.extract(under_way_.begin());
    first.mapped()({.lost = lost_, .finding = {}, .generation = 0, .latency = {}});
  }
}

void Nodes::abandon() {
  if (!lost_.empty()) return;
  lost_ = "another operation's session was lost";
  loop_.post([this] { lose(lost_); });
}

double Nodes::cpu_seconds() const {
  double sum = 0;
  for (const Node& node : nodes_) sum += node.process->cpu_seconds();
  return sum;
}

std::string Nodes::find_dead() {
  for (const TimePoint deadline = Clock::now() + kDeathDeadline; Clock::now() < deadline;
       poll(nullptr, 0, 5)) {
    for (std::size_t number = 0; number < nodes_.size(); ++number) {
      if (nodes_[number].process->ended()) return how_it_ended(number, nodes_[number].process->wait());
    }
  }
  return {};
}

Result<Nodes::Drained> Nodes::drain() {
  for (Node& node : nodes_) node.process->close_input();
  Drained all;
  for (std::size_t number = 0; number < nodes_.size(); ++number) {
    ChildProcess& process = *nodes_[number].process;
    const auto line = process.read_line(kDrainDeadline);
    if (!line) return failure(fmt::format("node {} did not drain: {}", number, line.error().text));
    unsigned long long free_blocks = 0;
    unsigned long long blocks = 0;
    if (std::sscanf(line->c_str(), "drained: %llu of %llu blocks", &free_blocks, &blocks) != 2)
      return failure(fmt::format("node {} ended with the words '{}'", number, *line));
    if (const int status = process.wait(); status != 0) return failure(how_it_ended(number, status));
    all.free_blocks += free_blocks;
    all.blocks += blocks;
  }
  return all;
}

}  // namespace

int replay_with_peers(const std::string& command, const ReplaySettings& settings, std::ifstream& trace) {
  const StopSignal stop;
  const std::uint64_t pairs = settings.peers * (settings.peers - 1);
  const std::uint64_t share = settings.capacity / pairs;
  PeerPlaces places(static_cast<std::uint32_t>(settings.peers), static_cast<std::uint32_t>(share));
  Nodes nodes(settings, places);
  if (auto started = nodes.start(share); !started)
    return fail(command, kExitUnreachable, started.error().text);
  TraceReader reader(trace, settings.trace);
  ReplayEngine engine(
      places, nodes, reader,
      {.block_size = static_cast<std::uint32_t>(settings.block_size), .speed = settings.speed});
  nodes.loop().watch(stop.fd(), [&] {
    nodes.loop().unwatch(stop.fd());
    engine.stop();
  });
  const double cpu_before = nodes.cpu_seconds();
  bool over = false;
  engine.start([&over] { over = true; });
  nodes.loop().run([&over] { return over; }, [&nodes] { nodes.flush(); });
  const double cpu = nodes.cpu_seconds() - cpu_before;

  const ReplayResult& result = engine.result();
  const Measurement measured = measure(settings, result, settings.peers * settings.peers, cpu);
  std::FILE* const out = settings.json == "-" ? stderr : stdout;
  print_summary(out, result, measured);
  if (!result.bad_trace.empty()) return fail(command, kExitUsage, result.bad_trace);
  if (!result.finding.empty()) return fail(command, kExitFindings, result.finding);
  if (!result.lost.empty()) {
    const std::string dead = nodes.find_dead();
    return fail(command, kExitUnreachable, "a node was lost: " + (dead.empty() ? result.lost : dead));
  }
  const auto drained = nodes.drain();
  if (!drained) return fail(command, kExitUnreachable, drained.error().text);
  if (drained->free_blocks != drained->blocks) {
    return fail(command, kExitFindings,
                fmt::format("{} of the nodes' {} blocks are not free at the end",
                            drained->blocks - drained->free_blocks, drained->blocks));
  }
  fmt::print(out, "all {} blocks of the {} nodes are free at the end\n", grouped(drained->blocks),
             settings.peers);
  if (result.stopped)
    return fail(command, kExitUnreachable, fmt::format("interrupted after {} requests", result.requests));
  if (auto written = write_report(settings, result, measured); !written)
    return fail(command, kExitUnreachable, written.error().text);
  return kExitOk;
}

}  // namespace kbtp::tools
