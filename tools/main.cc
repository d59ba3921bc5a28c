// The command `kbtp`: a table of subcommands, and the exit status of each run.

#include <csignal>
#include <exception>
#include <fmt/format.h>
#include <new>

#include "base/log.h"
#include "tools/cli.h"
#include "tools/exit_status.h"
#include "tools/subcommand.h"

namespace {

using namespace kbtp::tools;

// One line a subcommand.
constexpr Subcommand kSubcommands[] = {
    {"target", "serve a block pool", set_up_target},
    {"block", "one operation on one block: load, store, alloc-store, free, stat", set_up_block},
    {"replay", "drive a target with a KV-cache trace and check every loaded octet", set_up_replay},
    {"bench", "throughput and latency of one operation", set_up_bench},
    {"dissect", "what a capture, or a live interface, says: MPA, DDP, RDMAP and KBTP", set_up_dissect},
    {"conform", "the conformance suite: list, run, explain", set_up_conform},
    {"devices", "the RDMA devices of this host and what each can do for KBTP", set_up_devices},
};

constexpr const char* kFooter = R"(Each subcommand has its own --help with examples.

Exit status: 0 all as expected; 1 findings, or a status other than SUCCESS; 2 usage; 3 could not reach, open or
set up; 4 internal error.)";

int run_command(int argc, char** argv) {
  CLI::App app{"KBTP, the KV Cache Block Transfer Protocol over RDMA: target, initiator and tests.", "kbtp"};
  app.footer(kFooter);
  app.set_version_flag("--version", "kbtp " KBTP_VERSION);
  app.get_formatter()->column_width(32);
  Run run;
  for (const Subcommand& subcommand : kSubcommands) {
    subcommand.set_up(*app.add_subcommand(subcommand.name, subcommand.summary), run);
  }
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {  // --help, --version
    app.exit(success);
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    return fail_usage(full_name(reached(app)), usage_sentence(app, error));
  }
  if (!run) return fail_usage(full_name(reached(app)), "a subcommand is missing");
  return run();
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  kbtp::set_up_log(spdlog::level::info);
  try {
    return run_command(argc, argv);
  } catch (const std::bad_alloc&) {
    return fail("kbtp", kExitUnreachable, "there is not enough memory for what was asked");
  } catch (const std::exception& error) {
    return fail("kbtp", kExitInternal, fmt::format("internal error: {}", error.what()));
  }
}
