// Command-line pieces that the subcommands share: options that are parsed into our own types with a plain
// sentence when they are wrong, and what is printed for a wrong command line.

#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/address.h"
#include "base/result.h"
#include "base/uuid.h"
#include "tools/exit_status.h"

namespace kbtp::tools {

/// An option whose text goes through `parse`; what that returns as an error is told with the option's name.
CLI::Option* add_parsed(CLI::App& app, const std::string& names,
                        std::function<Result<>(const std::string& text)> parse, const std::string& help);

/// HOST:PORT; IPv6 addresses stand in brackets.
CLI::Option* add_endpoint(CLI::App& app, const std::string& names, std::optional<Endpoint>& endpoint,
                          const std::string& help);

/// A whole number within [low, high]; "64KiB", "1MiB", "2GiB" are understood.
CLI::Option* add_number(CLI::App& app, const std::string& names, std::uint64_t& value, std::uint64_t low,
                        std::uint64_t high, const std::string& help);

/// A decimal number that is not negative.
CLI::Option* add_real(CLI::App& app, const std::string& names, double& value, const std::string& help);

/// A time such as "90s", "35m" or "24h", in seconds; a number alone is seconds. A year at most.
CLI::Option* add_duration(CLI::App& app, const std::string& names, double& value, const std::string& help);

/// "on" or "off".
CLI::Option* add_switch(CLI::App& app, const std::string& names, bool& value, const std::string& help);

/// One of `words`.
CLI::Option* add_word(CLI::App& app, const std::string& names, std::string& value,
                      std::vector<std::string> words, const std::string& help);

[[nodiscard]] Result<std::uint64_t> parse_number(std::string_view text);
/// A positive decimal number such as "2.5".
[[nodiscard]] Result<double> parse_factor(std::string_view text);
/// "35m" is 2100.
[[nodiscard]] Result<double> parse_duration(std::string_view text);
/// "123e4567-e89b-12d3-a456-426614174000".
[[nodiscard]] Result<Uuid> parse_uuid(std::string_view text);

/// The deepest subcommand that the command line reached.
[[nodiscard]] const CLI::App& reached(const CLI::App& app);
/// "kbtp block load".
[[nodiscard]] std::string full_name(const CLI::App& app);
/// One sentence for a command line that CLI11 refused.
[[nodiscard]] std::string usage_sentence(const CLI::App& root, const CLI::ParseError& error);

/// Prints "COMMAND: SENTENCE" to standard error and returns `status`.
int fail(std::string_view command, ExitStatus status, std::string_view sentence);
/// The same for a wrong command line, with a word on where help is; returns 2.
int fail_usage(std::string_view command, std::string_view sentence);

}  // namespace kbtp::tools
