#include "tools/conform_run.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fmt/format.h>
#include <memory>
#include <unistd.h>

#include "conformance/runner.h"
#include "tools/cli.h"
#include "tools/embedded_target.h"

namespace kbtp::tools {

namespace {

constexpr const char* kFooter = R"(
Without --target and --target-cmd an embedded target is started in a child process on 127.0.0.1. Each case is
judged from a capture of its own; that needs root or CAP_NET_RAW. --capture none judges from what the suite itself
sent and received, and says so in every verdict.

A COMMAND of --target-cmd prints 'listening on HOST:PORT' when ready and is killed at the end. The text {config} in
it stands for the file with which the embedded target is configured.

Exit status: 0 all as expected; 1 findings; 2 usage, or nothing selected; 3 no target, no capture, or nothing decided.

Examples:
  kbtp conform run
  kbtp conform run --only 'kbtp.load.*' --only RFC5041-7.1-06 --out /tmp/report
  kbtp conform run --target 127.0.0.1:7420 --exclude kbtp.generation.wraps
  kbtp conform run --target-cmd './my-target --listen 127.0.0.1:0' --capture lo --strict)";

// Who the suite can be towards a target that was started with this file. Blocks are plenty: a case uses a
// handful.
constexpr std::string_view kFirst = "6b627470-0000-4000-8000-000000000001";
constexpr std::string_view kSecond = "6b627470-0000-4000-8000-000000000002";
constexpr std::string_view kForeign = "6b627470-0000-4000-8000-000000000003";
constexpr std::string_view kConfig = R"(# Written by `kbtp conform run` for its target.
network = "trusted"
blocks = 256
block_size = 65536
handles = 1024
reserve = 8
max_inline = 4096

[[initiator]]
identity = "{0}"
address = "127.0.0.1"
quota = 8
handles = 8

[[initiator]]
identity = "{1}"
address = "127.0.0.1"
quota = 8
handles = 8

[[initiator]]
identity = "{2}"
address = "127.0.0.1"
trust_domain = "elsewhere"
quota = 8
handles = 8
)";

struct Options {
  std::optional<Endpoint> target;
  std::string command;
  std::vector<std::string> only;
  std::vector<std::string> exclude;
  bool strict = false;
  std::uint64_t repeat = 1;
  std::string out;
  std::string capture = "lo";
};

/// A file that is gone when this is.
class TemporaryFile {
 public:
  static Result<std::unique_ptr<TemporaryFile>> with(const std::string& text) {
    std::string path = (std::filesystem::temp_directory_path() / "kbtp-conform-XXXXXX").string();
    const int file = mkstemp(path.data());
    if (file < 0) return failure("no temporary file: " + std::string(std::strerror(errno)));
    std::unique_ptr<TemporaryFile> made(new TemporaryFile(path));
    const bool good = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
    close(file);
    if (!good) return failure(path + " cannot be written");
    return made;
  }
  ~TemporaryFile() { std::remove(path_.c_str()); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  explicit TemporaryFile(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

Uuid known(std::string_view text) { return Uuid::parse(text).value_or(Uuid{}); }

std::string default_directory() {
  const std::time_t now = std::time(nullptr);
  std::tm parts{};
  localtime_r(&now, &parts);
  char name[64];
  std::strftime(name, sizeof name, "kbtp-report-%Y%m%d-%H%M%S", &parts);
  return name;
}

/// The target of a run: somebody's, or a child of ours with its configuration file.
struct Served {
  std::unique_ptr<TemporaryFile> config;
  std::unique_ptr<EmbeddedTarget> child;
  Endpoint endpoint;
  std::string name;
  bool configured = false;  ///< with our file
};

Result<Served> serve_for(const Options& options, const std::string& log) {
  Served served;
  if (options.target) {
    served.endpoint = *options.target;
    served.name = options.target->to_string();
    return served;
  }
  auto config = TemporaryFile::with(fmt::format(kConfig, kFirst, kSecond, kForeign));
  if (!config) return unexpected(config.error());
  served.config = std::move(*config);
  Result<std::unique_ptr<EmbeddedTarget>> child = failure("");
  if (options.command.empty()) {
    child = EmbeddedTarget::start({"--config", served.config->path()}, log);
    served.configured = true;
    served.name = "the embedded target";
  } else {
    std::string command = options.command;
    const std::string_view place = "{config}";
    for (std::size_t at; (at = command.find(place)) != std::string::npos;) {
      command.replace(at, place.size(), served.config->path());
      served.configured = true;
    }
    child = EmbeddedTarget::start_command(command, log);
    served.name = options.command;
  }
  if (!child) return failure(fmt::format("{} (its log is {})", child.error().text, log));
  served.child = std::move(*child);
  served.endpoint = served.child->endpoint();
  return served;
}

void tell_progress(bool terminal, std::size_t number, std::size_t total, const conformance::Case& one,
                   const conformance::CaseResult* result) {
  if (result == nullptr) {
    if (terminal) fmt::print("[{:>{}}/{}] {} ...", number, fmt::formatted_size("{}", total), total, one.name);
  } else {
    fmt::print("{}[{:>{}}/{}] {:<38} {}\n", terminal ? "\r\x1b[K" : "", number,
               fmt::formatted_size("{}", total), total, one.name, to_string(result->state));
    if (result->state != conformance::State::pass) fmt::print("      {}\n", result->why);
  }
  std::fflush(stdout);
}

int run_conformance(const std::string& command, const Options& options) {
  conformance::Plan plan;
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
  if (served->configured) plan.identities = {known(kFirst), known(kSecond), known(kForeign)};

  fmt::print(
      "{} cases against {} ({}). Each opens a few connections, sends right and wrong frames, stores and "
      "frees blocks "
      "of at most 64 KiB in handle ranges that the target gives it, and touches no others. {}\n",
      conformance::select(plan).size() * plan.repeat, plan.target_name, plan.target.to_string(),
      plan.interface.empty() ? "Nothing is captured: verdicts rest on what the suite itself saw."
                             : "Captured on " + plan.interface + ".");
  std::fflush(stdout);
  const bool terminal = isatty(STDOUT_FILENO) == 1;
  const auto report = conformance::run_suite(
      plan, [terminal](std::size_t number, std::size_t total, const conformance::Case& one,
                       const conformance::CaseResult* result) {
        tell_progress(terminal, number, total, one, result);
      });
  if (!report) return fail(command, kExitUnreachable, report.error().text);
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
      ->type_name("IFACE|none");
  app.footer(kFooter);
  app.callback([&app, &run, options] {
    run = [command = full_name(app), options] { return run_conformance(command, *options); };
  });
}

}  // namespace kbtp::tools
