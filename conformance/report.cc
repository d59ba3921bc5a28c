#include "conformance/report.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fmt/format.h>
#include <fstream>
#include <set>

namespace kbtp::conformance {

namespace {

std::set<std::string_view> rules_of(const RunReport& run) {
  std::set<std::string_view> rules;
  for (const CaseResult& result : run.results) {
    for (const Check& check : result.checks) rules.insert(check.rule);
  }
  return rules;
}

}  // namespace

std::size_t RunReport::count(State state) const {
  return static_cast<std::size_t>(std::ranges::count(results, state, &CaseResult::state));
}

std::size_t RunReport::rules_checked() const { return rules_of(*this).size(); }

std::size_t RunReport::kbtp_rules_checked() const {
  return static_cast<std::size_t>(
      std::ranges::count_if(rules_of(*this), [](std::string_view id) { return !id.starts_with("RFC"); }));
}

std::size_t RunReport::findings() const {
  const auto weak = std::ranges::count_if(results, [](const CaseResult& result) {
    return result.state == State::pass_weak && !result.as_expected;
  });
  return count(State::fail) + count(State::unexpected_pass) + (strict ? static_cast<std::size_t>(weak) : 0);
}

int RunReport::exit_status() const {
  if (findings() > 0) return 1;
  if (std::ranges::any_of(results, [](const CaseResult& result) {
        return result.state == State::setup_error && !result.as_expected;
      }))
    return 3;
  const std::size_t decided =
      count(State::pass) + count(State::pass_weak) + count(State::expected_fail) + count(State::unsupported);
  return decided > 0 ? 0 : 3;
}

std::string RunReport::summary() const {
  std::vector<std::string> parts;
  for (std::size_t i = 0; i < kStateCount; ++i) {
    const auto state = static_cast<State>(i);
    if (const std::size_t n = count(state); n > 0) parts.push_back(fmt::format("{} {}", n, to_string(state)));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

std::string escape_markup(std::string_view text) {
  std::string out;
  for (const char c : text) {
    switch (c) {
      case '&':
        out += "&amp;";
        break;
      case '<':
        out += "&lt;";
        break;
      case '>':
        out += "&gt;";
        break;
      case '"':
        out += "&quot;";
        break;
      default:
        out += static_cast<unsigned char>(c) < 0x20 && c != '\n' && c != '\t' ? '?' : c;
    }
  }
  return out;
}

Result<> write_file(const std::string& path, const std::string& text) {
  std::ofstream file(path, std::ios::binary | std::ios::trunc);
  file << text;
  file.close();
  if (!file) return failure(path + " cannot be written: " + std::strerror(errno));
  return {};
}

Result<> write_verdict(const RunReport& run, const CaseResult& result) {
  return write_file(run.directory + "/" + result.folder + "/verdict.json", verdict_json(run, result));
}

Result<> write_reports(const RunReport& run) {
  const std::pair<const char*, std::string> files[] = {{"report.json", report_json(run)},
                                                       {"report.html", report_html(run)},
                                                       {"report.md", report_markdown(run)},
                                                       {"junit.xml", junit_xml(run)}};
  for (const auto& [name, text] : files) {
    if (auto written = write_file(run.directory + "/" + name, text); !written) return written;
  }
  return {};
}

}  // namespace kbtp::conformance
