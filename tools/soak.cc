// `kbtp bench soak`: a random mixture of all operations for as long as one likes, with connections cut,
// processes killed and bad starts in between, and a verdict on octets, blocks, memory and descriptors.

#include "tools/soak.h"

#include <csignal>
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <nlohmann/json.hpp>
#include <pthread.h>
#include <random>
#include <thread>
#include <unistd.h>

#include "tools/bad_starts.h"
#include "tools/files.h"
#include "tools/link.h"
#include "tools/measurement.h"
#include "tools/soak_crew.h"
#include "tools/soak_processes.h"
#include "tools/soak_report.h"

namespace kbtp::tools {

namespace {

constexpr const char* kFooter =
    R"(Sessions, half of them with an identity that keeps its blocks, do all operations in a random mixture at --rate; the
answer to each is known beforehand and every loaded octet is checked. Meanwhile sessions are cut, processes with
sessions of their own are killed, and connections start badly. Each --interval the least resident memory and the
least number of descriptors of target and soak are noted. Memory and descriptors are flat when, over the last two
thirds of the readings, the least-squares slope and the difference of greatest and least stay within their limits.
In the end every block must be free, and no descriptor left over.

Exit status: 0 when all was right and flat; 1 when not; 3 when the target could not be started or was lost.

Examples:
  kbtp bench soak --duration 24h --json soak.jsonl
  kbtp bench soak --duration 35m --rate 1000 --seed 7
  kbtp bench soak --target 192.0.2.1:7420 --duration 1h --processes 0)";

constexpr double kMiB = 1 << 20;
constexpr std::chrono::seconds kDescriptorsBack{20};

struct Options {
  LinkOptions link;
  std::optional<std::uint64_t> target_pid;
  std::string target_log = "/dev/null";
  double duration = 86400;
  double interval = 60;
  double rate = 2000;
  std::uint64_t sessions = 8;
  std::uint64_t blocks = 16;
  std::uint64_t block_size = 16384;
  std::uint64_t outstanding = 8;
  double session_life = 30;
  std::uint64_t processes = 1;
  double process_life = 15;
  double bad_starts = 2;
  std::optional<std::uint64_t> seed;
  double memory_slope = 4;  // MiB an hour
  double memory_range = 8;  // MiB
  double descriptor_slope = 12;
  double descriptor_range = 8;
  std::string json;
};

Duration seconds(double count) {
  return std::chrono::duration_cast<Duration>(std::chrono::duration<double>(count));
}

// SIGINT and SIGTERM end a soak early, with its verdict. Blocked before there is another thread.
class EarlyEnd {
 public:
  EarlyEnd() {
    sigemptyset(&set_);
    sigaddset(&set_, SIGINT);
    sigaddset(&set_, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &set_, nullptr);
  }
  // Waits up to `time`; true when a signal has come.
  [[nodiscard]] bool wait(std::chrono::milliseconds time) const {
    const timespec limit{.tv_sec = time.count() / 1000, .tv_nsec = time.count() % 1000 * 1'000'000};
    return sigtimedwait(&set_, nullptr, &limit) > 0;
  }

 private:
  sigset_t set_{};
};

// One a session; every second one keeps its blocks over a cut. A target that is not ours knows none of them.
std::vector<Uuid> identities(const Options& options) {
  std::vector<Uuid> all(options.sessions);
  if (options.link.target) return all;
  for (std::size_t i = 0; i < all.size(); i += 2)
    all[i] = *parse_uuid(fmt::format("736f616b-0000-4000-8000-{:012x}", i + 1));
  return all;
}

// An initiator charges itself for each allocation under way before it knows that it is refused (G-49), so
// that a session may use all of its handles only with some quota to spare.
std::uint64_t quota(const Options& options) { return options.blocks + options.outstanding; }

std::string configuration(const Options& options) {
  std::string text = "network = \"trusted\"\n";
  for (const Uuid& identity : identities(options)) {
    if (identity.is_zero()) continue;
    text += fmt::format(
        "[[initiator]]\nidentity = \"{}\"\naddress = \"127.0.0.1\"\nquota = {}\nhandles = {}\n"
        "direct_load = true\ndirect_alloc = true\n",
        identity.to_string(), quota(options), options.blocks);
  }
  return text;
}

Result<std::unique_ptr<EmbeddedTarget>> start_target(const Options& options) {
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("kbtp-soak-{}.toml", getpid())).string();
  const std::string text = configuration(options);
  if (auto written = write_file(path, as_octets(text)); !written) return unexpected(written.error());
  // Twice what is held at one time: a range that was cut may be given back after the next one is asked for.
  const std::uint64_t sessions = options.sessions + options.processes * SoakProcesses::kSessions;
  const std::uint64_t held = options.sessions * quota(options) +
                             options.processes * SoakProcesses::kSessions * SoakProcesses::kBlocks;
  const std::uint64_t reserve = sessions * 2;
  auto target = EmbeddedTarget::start(
      {"--config", path, "--blocks", std::to_string(2 * held + reserve), "--reserve", std::to_string(reserve),
       "--handles", std::to_string(2 * held), "--block-size", std::to_string(options.block_size),
       "--max-sessions", std::to_string(2 * sessions + 8), "--max-requests",
       std::to_string(options.outstanding), "--crc", options.link.crc ? "on" : "off"},
      options.target_log);
  std::error_code ignored;
  std::filesystem::remove(path, ignored);
  return target;
}

Measurement measure(const Options& options, const SoakTally& tally, double elapsed) {
  Measurement m;
  m.op = "soak";
  m.size = options.block_size;
  m.outstanding = options.outstanding;
  m.connections = options.sessions;
  m.crc = options.link.crc;
  m.spin = options.link.spin;
  m.ops_per_s = static_cast<double>(tally.total()) / elapsed;
  m.gbytes_per_s = static_cast<double>(tally.octets_checked + tally.octets_stored) / elapsed / 1e9;
  m.p50_us = tally.latencies.percentile_us(0.5);
  m.p99_us = tally.latencies.percentile_us(0.99);
  m.congestion_control = congestion_control_in_force(options.link.congestion_control);
  return median_of({m});
}

// Whether `pid` comes back to `wanted` descriptors once its connections are gone.
bool descriptors_back(pid_t pid, std::uint64_t wanted) {
  const TimePoint deadline = Clock::now() + kDescriptorsBack;
  for (;;) {
    const auto usage = usage_of(pid);
    if (usage && usage->descriptors <= wanted) return true;
    if (Clock::now() > deadline) return false;
    std::this_thread::sleep_for(std::chrono::milliseconds(50));
  }
}

class Soak {
 public:
  Soak(const Options& options, std::uint64_t seed) : options_(options), seed_(seed) {}

  int run(const std::string& command);

 private:
  [[nodiscard]] SoakTally work(SoakCrew& crew, const SocketAddress& address);
  void check_left_over(SoakTally& tally);

  const Options& options_;
  const std::uint64_t seed_;
  EarlyEnd early_end_;
  SoakReport report_;
  std::unique_ptr<EmbeddedTarget> child_;
  Endpoint endpoint_;
  std::unique_ptr<rnic::Rnic> rnic_;
  std::optional<SoakWatch> watch_;
  SoakDisturbance disturbance_;
  std::optional<std::uint64_t> target_descriptors_;  // before the first connection
  std::uint64_t own_descriptors_ = 0;
  double elapsed_ = 0;
};

SoakTally Soak::work(SoakCrew& crew, const SocketAddress& address) {
  SoakProcesses processes({.target = endpoint_,
                           .count = options_.processes,
                           .mean_life = options_.process_life,
                           .block_size = options_.block_size,
                           .rate = std::max(1.0, options_.rate / 10),
                           .crc = options_.link.crc},
                          seed_ + 1000);
  BadStarts bad_starts(address, options_.bad_starts, seed_ + 2000);
  const TimePoint begun = Clock::now();
  const auto since = [begun] { return std::chrono::duration<double>(Clock::now() - begun).count(); };
  const Duration look_every = seconds(std::min(1.0, options_.interval / 8));
  TimePoint next_look = begun;
  double next_sample = options_.interval;
  std::string trouble;
  crew.start();
  while (trouble.empty() && since() < options_.duration && !early_end_.wait(std::chrono::milliseconds(20))) {
    const TimePoint now = Clock::now();
    trouble = processes.step(now);
    bad_starts.step(now);
    disturbance_ = {bad_starts.count(), processes.kills()};
    if (child_ && child_->ended()) trouble = "the embedded target ended by itself";
    if (now < next_look) continue;
    next_look = now + look_every;
    watch_->look();
    if (crew.tally().over()) break;
    if (since() < next_sample) continue;
    next_sample += options_.interval;
    watch_->sample(since());
    report_.progress(since(), crew.tally(), disturbance_, *watch_);
  }
  elapsed_ = since();
  processes.kill_all();
  bad_starts.close_all();
  crew.stop();
  SoakTally tally = crew.tally();
  if (tally.finding.empty()) tally.finding = trouble;
  return tally;
}

void Soak::check_left_over(SoakTally& tally) {
  if (tally.over()) return;
  if (target_descriptors_ && !descriptors_back(watch_->subjects().front().pid, *target_descriptors_)) {
    tally.finding = fmt::format("the target keeps more than the {} descriptors that it had at the start",
                                *target_descriptors_);
  } else if (!descriptors_back(getpid(), own_descriptors_)) {
    tally.finding =
        fmt::format("the soak keeps more than the {} descriptors that it had at the start", own_descriptors_);
  }
  if (!child_ || tally.over()) return;
  const auto drained = child_->drain();
  if (!drained) {
    tally.finding = drained.error().text;
  } else if (drained->free_blocks != drained->blocks) {
    tally.finding = fmt::format("{} of the target's {} blocks are not free at the end",
                                drained->blocks - drained->free_blocks, drained->blocks);
  } else {
    report_.say(fmt::format("all {} blocks of the target are free at the end", drained->blocks));
  }
}

int Soak::run(const std::string& command) {
  auto report = SoakReport::open(options_.json);
  if (!report) return fail(command, kExitUnreachable, report.error().text);
  report_ = std::move(*report);
  std::optional<pid_t> target_pid;
  if (options_.target_pid) target_pid = static_cast<pid_t>(*options_.target_pid);
  if (options_.link.target) {
    endpoint_ = *options_.link.target;
  } else {
    auto started = start_target(options_);
    if (!started) return fail(command, kExitUnreachable, started.error().text);
    child_ = std::move(*started);
    endpoint_ = child_->endpoint();
    target_pid = child_->pid();
  }
  const auto addresses = resolve(endpoint_);
  if (!addresses) return fail(command, kExitUnreachable, addresses.error().text);
  rnic::RnicOptions rnic;
  rnic.crc = options_.link.crc;
  rnic.spin = options_.link.spin;
  rnic.congestion_control = options_.link.congestion_control;
  options_.link.choices.apply_to(rnic);
  auto created = rnic::Rnic::create(rnic);
  if (!created) return fail(command, kExitUnreachable, created.error().text);
  rnic_ = std::move(*created);

  watch_.emplace(target_pid);
  if (const auto usage = target_pid ? usage_of(*target_pid) : std::nullopt)
    target_descriptors_ = usage->descriptors;
  if (const auto usage = usage_of(getpid())) own_descriptors_ = usage->descriptors;
  report_.say(fmt::format("soak of {} with seed {}: {} sessions, {:.0f} operations/s", endpoint_.to_string(),
                          seed_, options_.sessions, options_.rate));
  SoakTally tally;
  {
    initiator::ConnectOptions connect;
    connect.address = addresses->front();
    options_.link.choices.apply_to(connect);
    SoakCrew crew(*rnic_, {.connect = connect,
                           .identities = identities(options_),
                           .blocks = static_cast<std::uint32_t>(options_.blocks),
                           .block_size = static_cast<std::uint32_t>(options_.block_size),
                           .outstanding = static_cast<std::uint32_t>(options_.outstanding),
                           .rate = options_.rate,
                           .seed = seed_,
                           .session_life = seconds(options_.session_life)});
    tally = work(crew, addresses->front());
  }
  check_left_over(tally);

  const SoakLimits limits{.memory = {options_.memory_slope * kMiB, options_.memory_range * kMiB},
                          .descriptors = {options_.descriptor_slope, options_.descriptor_range}};
  const bool flat = report_.verdict(elapsed_, tally, disturbance_, *watch_, limits,
                                    to_json(measure(options_, tally, elapsed_)));
  if (!tally.finding.empty())
    return fail(command, kExitFindings, tally.finding + fmt::format(" (seed {})", seed_));
  if (!tally.lost.empty()) return fail(command, kExitUnreachable, "the target was lost: " + tally.lost);
  if (!flat) return fail(command, kExitFindings, fmt::format("not everything stayed flat (seed {})", seed_));
  return kExitOk;
}

int run_soak(const CLI::App& app, const Options& options) {
  const std::string command = full_name(app);
  if (options.block_size % 8 != 0) return fail_usage(command, "--block-size must be a multiple of 8");
  if (options.rate <= 0 || options.process_life <= 0)
    return fail_usage(command, "--rate and --process-life must not be 0");
  if (options.link.transport.verbs())
    return fail_usage(command, "a soak disturbs TCP connections: it is for --transport rdmap alone");
  return Soak(options, options.seed ? *options.seed : std::random_device{}()).run(command);
}

}  // namespace

void set_up_soak(CLI::App& bench, Run& run) {
  CLI::App& app =
      *bench.add_subcommand("soak", "all operations, disturbed, for hours: octets, blocks, leaks");
  const auto options = std::make_shared<Options>();
  add_link_options(app, options->link);
  add_duration(app, "--duration", options->duration, "how long (24h)");
  add_duration(app, "--interval", options->interval,
               "from one reading of memory and descriptors to the next (60s)");
  add_real(app, "--rate", options->rate, "operations a second of all sessions together (2000)");
  add_number(app, "--sessions", options->sessions, 1, 1024, "sessions of this process (8)");
  add_number(app, "--blocks", options->blocks, 1, 65536, "blocks and handles of each session (16)");
  add_number(app, "--block-size", options->block_size, 8, std::uint64_t{1} << 24,
             "octets of a block (16KiB)");
  add_number(app, "--outstanding", options->outstanding, 1, 1024, "operations under way in each session (8)");
  add_real(app, "--session-life", options->session_life,
           "mean seconds until a session is cut and opened again, 0 for never (30)");
  add_number(app, "--processes", options->processes, 0, 64,
             "other initiator processes, which are killed (1)");
  add_real(app, "--process-life", options->process_life, "mean seconds until one of them is killed (15)");
  add_real(app, "--bad-starts", options->bad_starts, "connections that start badly, a second (2)");
  add_parsed(
      app, "--seed",
      [options](const std::string& text) -> Result<> {
        auto number = parse_number(text);
        if (!number) return unexpected(number.error());
        options->seed = *number;
        return {};
      },
      "of the random choices (a new one, which is told); the order of answers is not in it")
      ->type_name("N");
  add_parsed(
      app, "--target-pid",
      [options](const std::string& text) -> Result<> {
        auto number = parse_number(text);
        if (!number) return unexpected(number.error());
        options->target_pid = *number;
        return {};
      },
      "process of --target on this machine, to be watched")
      ->type_name("PID");
  app.add_option("--target-log", options->target_log, "the embedded target's log (/dev/null)")
      ->type_name("FILE");
  add_real(app, "--memory-slope", options->memory_slope, "limit of the memory's slope, MiB an hour (4)");
  add_real(app, "--memory-range", options->memory_range, "limit of greatest minus least memory, MiB (8)");
  add_real(app, "--descriptor-slope", options->descriptor_slope,
           "limit of the descriptors' slope an hour (12)");
  add_real(app, "--descriptor-range", options->descriptor_range,
           "limit of greatest minus least number of descriptors (8)");
  app.add_option("--json", options->json,
                 "write an object each interval and the verdict there, - for standard output")
      ->type_name("FILE");
  app.footer(kFooter);
  app.callback([&app, &run, options] { run = [&app, options] { return run_soak(app, *options); }; });
}

}  // namespace kbtp::tools
