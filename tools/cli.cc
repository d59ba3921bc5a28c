#include "tools/cli.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <fmt/format.h>

namespace kbtp::tools {

CLI::Option* add_parsed(CLI::App& app, const std::string& names,
                        std::function<Result<>(const std::string&)> parse, const std::string& help) {
  const std::string name = names.substr(0, names.find(','));
  return app.add_option_function<std::string>(
      names,
      [name, parse = std::move(parse)](const std::string& text) {
        if (auto parsed = parse(text); !parsed) throw CLI::ValidationError(name, parsed.error().text);
      },
      help);
}

CLI::Option* add_endpoint(CLI::App& app, const std::string& names, std::optional<Endpoint>& endpoint,
                          const std::string& help) {
  return add_parsed(
             app, names,
             [&endpoint](const std::string& text) -> Result<> {
               auto parsed = Endpoint::parse(text);
               if (!parsed) return unexpected(parsed.error());
               endpoint = *parsed;
               return {};
             },
             help)
      ->type_name("HOST:PORT");
}

CLI::Option* add_number(CLI::App& app, const std::string& names, std::uint64_t& value, std::uint64_t low,
                        std::uint64_t high, const std::string& help) {
  return add_parsed(
             app, names,
             [&value, low, high](const std::string& text) -> Result<> {
               auto parsed = parse_number(text);
               if (!parsed) return unexpected(parsed.error());
               if (*parsed < low || *parsed > high)
                 return failure(fmt::format("{} is not between {} and {}", text, low, high));
               value = *parsed;
               return {};
             },
             help)
      ->type_name("N");
}

CLI::Option* add_real(CLI::App& app, const std::string& names, double& value, const std::string& help) {
  return add_parsed(
             app, names,
             [&value](const std::string& text) -> Result<> {
               const auto parsed = text == "0" ? Result<double>(0) : parse_factor(text);
               if (!parsed) return unexpected(parsed.error());
               value = *parsed;
               return {};
             },
             help)
      ->type_name("X");
}

CLI::Option* add_duration(CLI::App& app, const std::string& names, double& value, const std::string& help) {
  return add_parsed(
             app, names,
             [&value](const std::string& text) -> Result<> {
               const auto parsed = parse_duration(text);
               if (!parsed) return unexpected(parsed.error());
               value = *parsed;
               return {};
             },
             help)
      ->type_name("TIME");
}

CLI::Option* add_switch(CLI::App& app, const std::string& names, bool& value, const std::string& help) {
  return add_parsed(
             app, names,
             [&value](const std::string& text) -> Result<> {
               if (text != "on" && text != "off")
                 return failure(fmt::format("'{}' is neither on nor off", text));
               value = text == "on";
               return {};
             },
             help)
      ->type_name("on|off");
}

CLI::Option* add_word(CLI::App& app, const std::string& names, std::string& value,
                      std::vector<std::string> words, const std::string& help) {
  const std::string choice = fmt::format("{}", fmt::join(words, "|"));
  return add_parsed(
             app, names,
             [&value, words = std::move(words)](const std::string& text) -> Result<> {
               if (std::find(words.begin(), words.end(), text) == words.end()) {
                 return failure(fmt::format("'{}' is none of {}", text, fmt::join(words, ", ")));
               }
               value = text;
               return {};
             },
             help)
      ->type_name(choice);
}

Result<std::uint64_t> parse_number(std::string_view text) {
  std::uint64_t value = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (error == std::errc::result_out_of_range)
    return failure(fmt::format("'{}' does not fit in 64 bits", text));
  if (error != std::errc{}) return failure(fmt::format("'{}' is no whole number", text));
  const std::string_view unit(end, static_cast<std::size_t>(last - end));
  unsigned shift = 0;
  if (unit == "KiB") {
    shift = 10;
  } else if (unit == "MiB") {
    shift = 20;
  } else if (unit == "GiB") {
    shift = 30;
  } else if (!unit.empty()) {
    return failure(fmt::format("'{}' is no whole number (KiB, MiB and GiB are understood)", text));
  }
  if (value > (~std::uint64_t{0} >> shift)) return failure(fmt::format("'{}' does not fit in 64 bits", text));
  return value << shift;
}

Result<double> parse_factor(std::string_view text) {
  double value = 0;
  const char* const last = text.data() + text.size();
  const auto [end, error] = std::from_chars(text.data(), last, value);
  if (error != std::errc{} || end != last || !std::isfinite(value) || value <= 0)
    return failure(fmt::format("'{}' is no positive number", text));
  return value;
}

Result<double> parse_duration(std::string_view text) {
  constexpr double kYear = 365.0 * 86400;
  double unit = 1;
  std::string_view number = text;
  if (text.ends_with('h') || text.ends_with('m') || text.ends_with('s')) {
    unit = text.back() == 'h' ? 3600 : text.back() == 'm' ? 60 : 1;
    number.remove_suffix(1);
  }
  const auto factor = parse_factor(number);
  if (!factor) return failure(fmt::format("'{}' is no duration such as 90s, 35m or 24h", text));
  if (*factor * unit > kYear) return failure(fmt::format("'{}' is longer than a year", text));
  return *factor * unit;
}

Result<Uuid> parse_uuid(std::string_view text) {
  const auto uuid = Uuid::parse(text);
  if (!uuid)
    return failure(fmt::format("'{}' is no UUID such as 123e4567-e89b-12d3-a456-426614174000", text));
  return *uuid;
}

const CLI::App& reached(const CLI::App& app) {
  const auto parsed = app.get_subcommands();
  return parsed.empty() ? app : reached(*parsed.back());
}

std::string full_name(const CLI::App& app) {
  const CLI::App* parent = app.get_parent();
  return parent == nullptr ? app.get_name() : full_name(*parent) + " " + app.get_name();
}

namespace {

std::vector<std::string> subcommand_names(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* sub : app.get_subcommands([](const CLI::App*) { return true; })) {
    names.push_back(sub->get_name());
  }
  return names;
}

}  // namespace

std::string usage_sentence(const CLI::App& root, const CLI::ParseError& error) {
  const CLI::App& app = reached(root);
  if (dynamic_cast<const CLI::ExtrasError*>(&error) != nullptr) {
    const auto extras = root.remaining(true);
    const std::string word = extras.empty() ? "" : extras.front();
    if (word.starts_with("-") && word.size() > 1) return fmt::format("there is no option '{}'", word);
    if (const auto names = subcommand_names(app); !names.empty()) {
      return fmt::format("'{}' is no subcommand; there is {}", word, fmt::join(names, ", "));
    }
    return fmt::format("nothing is done with '{}'", word);
  }
  return error.what();
}

int fail(std::string_view command, ExitStatus status, std::string_view sentence) {
  fmt::print(stderr, "{}: {}\n", command, sentence);
  return status;
}

int fail_usage(std::string_view command, std::string_view sentence) {
  return fail(command, kExitUsage, fmt::format("{} (see '{} --help')", sentence, command));
}

}  // namespace kbtp::tools
