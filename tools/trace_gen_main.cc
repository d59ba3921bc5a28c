// kbtp-trace-gen: traces in the Mooncake format with tunable reuse, for those who have none.

#include <CLI/CLI.hpp>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <fmt/format.h>

#include "tools/cli.h"
#include "tools/trace_generator.h"

namespace {

using namespace kbtp;
using namespace kbtp::tools;

constexpr const char* kName = "kbtp-trace-gen";
constexpr const char* kFooter = R"(The same options and the same seed give the same trace.

Examples:
  kbtp-trace-gen --requests 1000 > trace.jsonl
  kbtp-trace-gen --requests 5000 --reuse 0.9 --prefixes 50 --blocks 40 --seed 7 --output hot.jsonl
  kbtp-trace-gen --reuse 0 --output cold.jsonl)";

Result<> parse_share(const std::string& text, double& value) {
  if (text == "0") {
    value = 0;
    return {};
  }
  const auto share = parse_factor(text);
  if (!share || *share > 1) return failure(fmt::format("'{}' is no share from 0 to 1", text));
  value = *share;
  return {};
}

int run(int argc, char** argv) {
  CLI::App app{"Writes a KV-cache trace: one JSON object a line, as `kbtp replay` reads it.", kName};
  GeneratorOptions options;
  std::string output = "-";
  add_number(app, "--requests", options.requests, 1, std::uint64_t{1} << 40, "requests (1000)");
  add_number(app, "--blocks", options.mean_blocks, 1, 4096, "blocks of a request, on average (24)");
  add_parsed(
      app, "--reuse", [&](const std::string& text) { return parse_share(text, options.reuse); },
      "share of requests that begin with a prefix seen before (0.6)")
      ->type_name("SHARE");
  add_parsed(
      app, "--prefix-share", [&](const std::string& text) { return parse_share(text, options.prefix_share); },
      "share of such a request's blocks that its prefix makes up, on average (0.7)")
      ->type_name("SHARE");
  add_number(app, "--prefixes", options.prefixes, 1, std::uint64_t{1} << 20,
             "conversations remembered; fewer means hotter (200)");
  add_number(app, "--interval", options.mean_interval_ms, 0, 86'400'000,
             "milliseconds between requests, on average (250)");
  add_number(app, "--seed", options.seed, 0, ~std::uint64_t{0}, "seed (1)");
  app.add_option("--output", output, "file to write, - for standard output (-)")->type_name("FILE");
  app.footer(kFooter);
  try {
    app.parse(argc, argv);
  } catch (const CLI::Success& success) {
    app.exit(success);
    return kExitOk;
  } catch (const CLI::ParseError& error) {
    return fail_usage(kName, usage_sentence(app, error));
  }
  const bool to_file = output != "-";
  std::FILE* const file = to_file ? std::fopen(output.c_str(), "wb") : stdout;
  if (file == nullptr)
    return fail(kName, kExitUnreachable,
                fmt::format("{} cannot be opened: {}", output, std::strerror(errno)));
  TraceGenerator generator(options);
  bool written = true;
  for (std::uint64_t i = 0; i < options.requests && written; ++i)
    written = std::fputs((to_line(generator.next()) + "\n").c_str(), file) >= 0;
  written = std::fflush(file) == 0 && written;
  const int error = errno;
  if (to_file) std::fclose(file);
  if (!written) {
    return fail(kName, kExitUnreachable,
                fmt::format("{} cannot be written: {}", output, std::strerror(error)));
  }
  return kExitOk;
}

}  // namespace

int main(int argc, char** argv) {
  std::signal(SIGPIPE, SIG_IGN);
  try {
    return run(argc, argv);
  } catch (const std::exception& error) {
    return fail(kName, kExitInternal, fmt::format("internal error: {}", error.what()));
  }
}
