// The table of subcommands that main.cc walks. A subcommand is a file that adds its options to a CLI::App and
// hands back what runs once the command line has been read.

#pragma once

#include <CLI/CLI.hpp>
#include <functional>

namespace kbtp::tools {

/// Runs the subcommand and returns an exit status (exit_status.h). Anything it throws is a defect of ours.
using Run = std::function<int()>;

struct Subcommand {
  const char* name;
  const char* summary;  ///< one line for `kbtp --help`
  /// Adds options and nested subcommands to `app`; each callback it registers sets `run`.
  void (*set_up)(CLI::App& app, Run& run);
};

void set_up_target(CLI::App& app, Run& run);
void set_up_block(CLI::App& app, Run& run);
void set_up_replay(CLI::App& app, Run& run);
void set_up_bench(CLI::App& app, Run& run);
void set_up_dissect(CLI::App& app, Run& run);
void set_up_conform(CLI::App& app, Run& run);
void set_up_devices(CLI::App& app, Run& run);

}  // namespace kbtp::tools
