#include "tools/conform_run.h"

#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <unistd.h>

#include "conformance/runner.h"
#include "tools/cli.h"
#include "tools/conform_over.h"
#include "tools/conform_profile.h"
#include "tools/conform_target.h"
#include "tools/files.h"
#include "tools/transport.h"
#include "verbs/provider.h"

namespace kbtp::tools {

namespace {

constexpr const char* kFooter = R"(
Without --target and --target-cmd an embedded target is started in a child process on 127.0.0.1. Each case is
judged from a capture of its own; that needs root or CAP_NET_RAW. --capture none judges from what the suite itself
sent and received, and says so in every verdict.

With --expect a 'fail' that the file foretells becomes 'expected-fail', which is no finding; a pass where it foretells
one becomes 'unexpected-pass', which is. --write-expect writes such a file from this run, or brings it up to date.

--over siw boots the lab's guest (QEMU, root) with a target over siw in it; --over rxe boots two, a target over RoCE in
one and the suite in the other. Both load the profile and the expectations that ship with the suite unless others are
named.

With --transport verbs the suite speaks through an RDMA device to a target over RoCE. Cases that need a raw iWARP peer
are skipped, those of completion records are played, and --capture names the interface that leads to the target.

A COMMAND of --target-cmd prints 'listening on HOST:PORT' when ready and is killed at the end. The text {config} in
it stands for the file with which the embedded target is configured.

Exit status: 0 all as expected; 1 findings; 2 usage, or nothing selected; 3 no target, no capture, or nothing decided.

Examples:
  kbtp conform run
  kbtp conform run --only 'kbtp.load.*' --only RFC5041-7.1-06 --out /tmp/report
  kbtp conform run --target 127.0.0.1:7420 --exclude kbtp.generation.wraps
  kbtp conform run --target-cmd './my-target --listen 127.0.0.1:0' --capture lo --strict
  kbtp conform run --over siw --only 'mpa.*'
  kbtp conform run --over rxe --out /tmp/report
  kbtp conform run --transport verbs --target 192.0.2.7:7420 --capture eth0
  kbtp conform run --target 192.0.2.7:7420 --capture eth0 --profile my.profile --write-expect my.expect
  kbtp conform run --target 192.0.2.7:7420 --capture eth0 --profile my.profile --expect my.expect)";

constexpr const char* kLabHost = "10.77.0.1";   // this host, as the guest sees it
constexpr const char* kLabGuest = "10.77.0.2";  // the guest that the suite runs in, as the other one sees it
constexpr std::uint64_t kMaxFile = std::uint64_t{1} << 20;

struct Options {
  std::optional<Endpoint> target;
  std::string command;
  std::vector<std::string> only;
  std::vector<std::string> exclude;
  bool strict = false;
  std::uint64_t repeat = 1;
  std::string out;
  std::string capture = "lo";
  std::string profile;
  std::string expect;
  std::string write_expect;
  std::string over;
  std::string revive;
  TransportOptions transport;
};

std::string default_directory() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  char name[64];
  std::strftime(name, sizeof name, "kbtp-report-%Y%m%d-%H%M%S", &parts);
  return name;
}

Result<Served> serve_for(const Options& options, const std::string& log) {
  if (!options.target) return start_target(options.command, log);
  Served served;
  served.endpoint = *options.target;
  served.name = options.target->to_string();
  return served;
}

void tell_progress(bool terminal, std::size_t number, std::size_t total, const conformance::Case& one,
                   const conformance::CaseResult* result) {
  if (result == nullptr) {
    if (terminal) fmt::print("[{:>{}}/{}] {} ...", number, fmt::formatted_size("{}", total), total, one.name);
  } else {
    fmt::print("{}[{:>{}}/{}] {:<38} {}\n", terminal ? "\r\x1b[K" : "", number,
               fmt::formatted_size("{}", total), total, one.name, to_string(result->state));
    if (!result->deviation.empty()) fmt::print("      {}: {}\n", result->deviation, result->reason);
    if (result->state != conformance::State::pass) fmt::print("      {}\n", result->why);
  }
  std::fflush(stdout);
}

Result<std::string> read_text(const std::string& path) {
  const auto octets = read_file(path, kMaxFile);
  if (!octets) return unexpected(octets.error());
  return std::string(reinterpret_cast<const char*>(octets->data()), octets->size());
}

/// What --profile and --expect say.
Result<> read_files(const Options& options, conformance::Plan& plan) {
  if (!options.profile.empty()) {
    const auto text = read_text(options.profile);
    if (!text) return unexpected(text.error());
    auto profile = parse_profile(*text, options.profile);
    if (!profile) return unexpected(profile.error());
    plan.profile = std::move(*profile);
  }
  if (!options.expect.empty()) {
    const auto text = read_text(options.expect);
    if (!text) return unexpected(text.error());
    auto expected = conformance::ExpectedOutcomes::parse(*text, options.expect);
    if (!expected) return unexpected(expected.error());
    plan.expected = std::move(*expected);
    plan.expectations_file = options.expect;
  }
  return {};
}

Result<> write_expectations(const Options& options, const conformance::Plan& plan,
                            const conformance::RunReport& report) {
  if (options.write_expect.empty()) return {};
  const auto next = conformance::expectations_from(report, plan.expected);
  const std::string text =
      next.to_text(fmt::format("What `kbtp conform run --expect` is to find at {} (written {}).\n"
                               "Give each deviation a name and say where it is told.",
                               plan.target_name, report.started));
  return conformance::write_file(options.write_expect, text);
}

/// The words of a run in the lab that are the same wherever it runs.
std::vector<std::string> lab_words(const Options& options) {
  std::vector<std::string> words;
  for (const std::string& glob : options.only) words.insert(words.end(), {"--only", shell_quoted(glob)});
  for (const std::string& glob : options.exclude)
    words.insert(words.end(), {"--exclude", shell_quoted(glob)});
  if (options.strict) words.emplace_back("--strict");
  words.insert(words.end(), {"--repeat", std::to_string(options.repeat)});
  return words;
}

/// The run of --over: this program again, in the lab's network or in one of its guests.
int run_over(const std::string& command, const Options& options) {
  const auto peer = peer_files(options.over);
  if (!peer) return fail(command, kExitUnreachable, peer.error().text);
  const auto absolute = [](const std::string& path) { return std::filesystem::absolute(path).string(); };
  LabRun run;
  run.report = absolute(options.out.empty() ? default_directory() : options.out);
  run.profile = absolute(options.profile.empty() ? peer->profile : options.profile);
  run.expect = absolute(options.expect.empty() ? peer->expect : options.expect);
  if (!options.write_expect.empty()) run.write_expect = absolute(options.write_expect);
  run.arguments = lab_words(options);
  const auto status = options.over == "rxe"
                          ? run_in_guests(run, target_config_for(kLabGuest, Shared::nothing))
                          : run_beside_guest(run, target_config_for(kLabHost, Shared::pool));
  if (!status) return fail(command, kExitUnreachable, status.error().text);
  return *status;
}

/// The device that the suite speaks through.
Result<std::unique_ptr<verbs::Verbs>> open_device(const TransportOptions& options,
                                                  const SocketAddress& target) {
  verbs::VerbsOptions wanted;
  wanted.device = options.device;
  wanted.address = target;
  auto device = verbs::Verbs::create(std::move(wanted));
  if (device && (*device)->facts().wire == verbs::Wire::iwarp)
    return failure((*device)->facts().name +
                   " speaks iWARP, which the suite speaks by itself: leave out --transport verbs");
  return device;
}

/// What is wrong with asking for this together; nullptr when nothing is.
const char* contradiction(const Options& options) {
  if (!options.transport.verbs()) return tools::contradiction(options.transport, {});
  if (!options.target) return "--transport verbs needs --target: the embedded target speaks iWARP";
  if (options.capture == "none")
    return "--transport verbs needs --capture IFACE: verdicts rest on the packets that were seen";
  return nullptr;
}

int run_conformance(const std::string& command, const Options& options) {
  if (!options.over.empty()) return run_over(command, options);
  if (const char* wrong = contradiction(options)) return fail_usage(command, wrong);
  conformance::Plan plan;
  if (auto read = read_files(options, plan); !read) return fail_usage(command, read.error().text);
  plan.only = options.only;
  plan.exclude = options.exclude;
  plan.strict = options.strict;
  plan.repeat = static_cast<unsigned>(options.repeat);
  plan.interface = options.capture == "none" ? "" : options.capture;
  plan.directory = options.out.empty() ? default_directory() : options.out;
  if (conformance::select(plan).empty())
    return fail_usage(command, "no case fits --only and --exclude; 'kbtp conform list' shows them all");
  std::error_code error;
  std::filesystem::create_directories(plan.directory, error);
  if (error)
    return fail(command, kExitUnreachable,
                fmt::format("{} cannot be made: {}", plan.directory, error.message()));

  auto served = serve_for(options, plan.directory + "/target.log");
  if (!served) return fail(command, kExitUnreachable, served.error().text);
  const auto addresses = resolve(served->endpoint);
  if (!addresses) return fail(command, kExitUnreachable, addresses.error().text);
  plan.target = addresses->front();
  plan.target_name = served->name;
  std::unique_ptr<verbs::Verbs> device;
  if (options.transport.verbs()) {
    auto opened = open_device(options.transport, plan.target);
    if (!opened) return fail(command, kExitUnreachable, opened.error().text);
    device = std::move(*opened);
    plan.provider = device.get();
  }
  if (served->configured && plan.profile.identities.first.is_zero())
    plan.profile.identities = configured_identities();

  fmt::print(
      "{} cases against {} ({}). Each opens a few connections, sends right and wrong frames, stores and "
      "frees blocks "
      "of at most 64 KiB in handle ranges that the target gives it, and touches no others. {}\n",
      conformance::select(plan).size() * plan.repeat, plan.target_name, plan.target.to_string(),
      plan.interface.empty() ? "Nothing is captured: verdicts rest on what the suite itself saw."
                             : "Captured on " + plan.interface + ".");
  std::fflush(stdout);
  if (!options.revive.empty()) {
    plan.revive = [&options] {
      if (std::system(options.revive.c_str()) != 0) fmt::print(stderr, "--revive-cmd failed\n");
    };
  }
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  const auto report = conformance::run_suite(
      plan, [terminal](std::size_t number, std::size_t total, const conformance::Case& one,
                       const conformance::CaseResult* result) {
        tell_progress(terminal, number, total, one, result);
      });
  if (!report) return fail(command, kExitUnreachable, report.error().text);
  if (auto written = write_expectations(options, plan, *report); !written)
    return fail(command, kExitUnreachable, written.error().text);
  fmt::print("{} in {:.1f} s; {} rules checked, {} of them KBTP's\nreport: {}\n", report->summary(),
             report->seconds, report->rules_checked(), report->kbtp_rules_checked(),
             std::filesystem::absolute(std::filesystem::path(plan.directory) / "report.html")
                 .lexically_normal()
                 .string());
  return report->exit_status();
}

}  // namespace

void set_up_conform_run(CLI::App& app, Run& run) {
  const auto options = std::make_shared<Options>();
  CLI::Option* target = add_endpoint(app, "--target", options->target, "a target that runs already");
  app.add_option("--target-cmd", options->command, "starts the target; see below")
      ->type_name("COMMAND")
      ->excludes(target);
  CLI::Option* over = app.add_option("--over", options->over,
                                     "a target over the kernel's siw or rxe in a guest of the lab; see below")
                          ->type_name("siw|rxe")
                          ->check(CLI::IsMember({"siw", "rxe"}))
                          ->excludes(target)
                          ->excludes("--target-cmd");
  add_transport_options(app, options->transport);
  over->excludes("--transport")->excludes("--device");
  app.add_option("--only", options->only, "cases whose name or rule fits; may be repeated")
      ->type_name("GLOB")
      ->allow_extra_args(false);
  app.add_option("--exclude", options->exclude, "leave these out; may be repeated")
      ->type_name("GLOB")
      ->allow_extra_args(false);
  app.add_flag("--strict", options->strict, "what is only tolerated (SHOULDs) counts as a finding");
  add_number(app, "--repeat", options->repeat, 1, 1000, "play everything so often (1)");
  app.add_option("--out", options->out, "folder of the report (./kbtp-report-TIME)")->type_name("DIR");
  app.add_option("--capture", options->capture, "interface to capture on (lo), or none")
      ->type_name("IFACE|none")
      ->excludes(over);
  app.add_option("--revive-cmd", options->revive, "run when the target has stopped serving, to bring it back")
      ->type_name("COMMAND")
      ->excludes(over);
  app.add_option("--profile", options->profile,
                 "what is known of the target (TOML): identities, assigned values, ...")
      ->type_name("FILE");
  app.add_option("--expect", options->expect, "known deviations: how cases are expected to come out")
      ->type_name("FILE");
  app.add_option("--write-expect", options->write_expect, "writes such a file from this run")
      ->type_name("FILE");
  app.footer(kFooter);
  app.callback([&app, &run, options] {
    run = [command = full_name(app), options] { return run_conformance(command, *options); };
  });
}

}  // namespace kbtp::tools
