// report.md and junit.xml.

#include <fmt/format.h>

#include "conformance/report.h"

namespace kbtp::conformance {

namespace {

std::string in_table(std::string text) {
  for (std::size_t at = 0; (at = text.find('|', at)) != std::string::npos; at += 2)
    text.replace(at, 1, "\\|");
  return text;
}

/// The checks that are not exact, one line each.
std::string complaints(const CaseResult& result) {
  std::string out;
  for (const Check& check : result.checks) {
    if (check.finding.grade == Grade::exact) continue;
    out += fmt::format("{}: expected {}; observed {}\n", check.rule, check.expected, check.finding.observed);
  }
  return out;
}

}  // namespace

std::string report_markdown(const RunReport& run) {
  std::string out = fmt::format(
      "# KBTP conformance of {}\n\n{}, {:.1f} s, {}. {}: {} rules, {} of them KBTP's.\n\n"
      "| case | rules | state | remark |\n|---|---|---|---|\n",
      run.target, run.started, run.seconds,
      run.interface.empty() ? "judged from the suite's own record (no capture)"
                            : "judged from a capture on " + run.interface,
      run.summary(), run.rules_checked(), run.kbtp_rules_checked());
  for (const CaseResult& result : run.results) {
    const std::string known = result.deviation.empty() ? "" : "*" + result.deviation + "* ";
    out += fmt::format("| {} | {} | {} | {} |\n", result.about->name, fmt::join(result.about->rules, ", "),
                       to_string(result.state), in_table(known + result.why));
  }
  for (const CaseResult& result : run.results) {
    if (result.state != State::fail && result.state != State::pass_weak &&
        result.state != State::expected_fail)
      continue;
    out += fmt::format("\n## {}\n\n{}.\n\n", result.about->name, result.stimulus);
    if (!result.deviation.empty())
      out += fmt::format("Known deviation {}: {}\n\n", result.deviation, result.reason);
    for (const Check& check : result.checks) {
      if (check.finding.grade == Grade::exact) continue;
      out +=
          fmt::format("* {}: expected {}; observed {}\n", check.rule, check.expected, check.finding.observed);
    }
    if (!result.display_filter.empty())
      out += fmt::format("\n`{}/trace.pcap`, display filter `{}`\n", result.folder, result.display_filter);
  }
  return out;
}

std::string junit_xml(const RunReport& run) {
  const std::size_t skipped = run.count(State::skip) + run.count(State::unsupported) +
                              run.count(State::inconclusive) + run.count(State::expected_fail);
  std::string out = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n"
      "<testsuites>\n<testsuite name=\"kbtp conform run\" tests=\"{}\" failures=\"{}\" errors=\"{}\" "
      "skipped=\"{}\" "
      "time=\"{:.3f}\" timestamp=\"{}\">\n",
      run.results.size(), run.findings(), run.count(State::setup_error), skipped, run.seconds, run.started);
  for (const CaseResult& result : run.results) {
    const std::string name(result.about->name);
    const auto dot = name.find('.');
    out += fmt::format("<testcase classname=\"{}\" name=\"{}{}\" time=\"{:.3f}\">", name.substr(0, dot),
                       name.substr(dot + 1), result.round > 1 ? fmt::format(" ({})", result.round) : "",
                       result.seconds);
    const std::string why = escape_markup(result.why);
    const std::string detail = escape_markup(complaints(result));
    switch (result.state) {
      case State::pass:
        break;
      case State::pass_weak:
        out += run.strict && !result.as_expected
                   ? fmt::format("<failure message=\"{}\">{}</failure>", why, detail)
                   : fmt::format("<system-out>pass-weak: {}\n{}</system-out>", why, detail);
        break;
      case State::expected_fail:
        out += fmt::format("<skipped message=\"expected-fail ({}): {}\"/><system-out>{}</system-out>",
                           escape_markup(result.deviation), why, detail);
        break;
      case State::unexpected_pass:
      case State::fail:
        out += fmt::format("<failure message=\"{}\">{}</failure>", why, detail);
        break;
      case State::setup_error:
        out += fmt::format("<error message=\"{}\"/>", why);
        break;
      case State::skip:
      case State::unsupported:
      case State::inconclusive:
        out += fmt::format("<skipped message=\"{}: {}\"/>", to_string(result.state), why);
        break;
    }
    out += "</testcase>\n";
  }
  out += "</testsuite>\n</testsuites>\n";
  return out;
}

}  // namespace kbtp::conformance
