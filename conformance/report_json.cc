// report.json and verdict.json.

#include <nlohmann/json.hpp>

#include "conformance/catalogue.h"
#include "conformance/report.h"

namespace kbtp::conformance {

namespace {

using nlohmann::ordered_json;

ordered_json to_json(const RunReport& run, const CaseResult& result) {
  ordered_json out;
  out["case"] = result.about->name;
  out["round"] = result.round;
  out["state"] = to_string(result.state);
  out["why"] = result.why;
  out["deviation"] = result.deviation;
  out["reason"] = result.reason;
  out["as_expected"] = result.as_expected;
  out["rule"] = result.about->rules.front();
  out["rules"] = result.about->rules;
  out["stimulus"] = result.stimulus;
  out["judged_from"] = run.interface.empty() ? "the suite's own record (--capture none)" : "capture";
  auto& expected = out["expected"] = ordered_json::array();
  auto& observed = out["observed"] = ordered_json::array();
  auto& checks = out["checks"] = ordered_json::array();
  std::vector<std::uint64_t> frames;
  for (const Check& check : result.checks) {
    expected.push_back(check.expected);
    observed.push_back(check.finding.observed);
    ordered_json one;
    one["rule"] = check.rule;
    if (const Rule* rule = find_rule(check.rule)) one["level"] = to_string(rule->level);
    one["state"] = to_string(check.finding.grade);
    one["expected"] = check.expected;
    one["observed"] = check.finding.observed;
    one["frames"] = run.interface.empty() ? std::vector<std::uint64_t>{} : check.finding.frames;
    checks.push_back(std::move(one));
  }
  out["ports"] = result.ports;
  out["frames"] = result.frames;
  out["display_filter"] = result.display_filter;
  out["trace"] = result.frames == 0 ? "" : result.folder + "/trace.pcap";
  out["seconds"] = result.seconds;
  return out;
}

}  // namespace

std::string verdict_json(const RunReport& run, const CaseResult& result) {
  return to_json(run, result).dump(2) + "\n";
}

std::string report_json(const RunReport& run) {
  ordered_json out;
  out["target"] = run.target;
  out["started"] = run.started;
  out["seconds"] = run.seconds;
  out["capture"] = run.interface.empty() ? "none" : run.interface;
  out["dropped_frames"] = run.dropped;
  out["strict"] = run.strict;
  out["profile"] = run.profile;
  out["expectations"] = run.expectations;
  out["exit_status"] = run.exit_status();
  out["rules_checked"] = run.rules_checked();
  auto& summary = out["summary"];
  for (std::size_t i = 0; i < kStateCount; ++i) {
    const auto state = static_cast<State>(i);
    summary[std::string(to_string(state))] = run.count(state);
  }
  auto& cases = out["cases"] = ordered_json::array();
  for (const CaseResult& result : run.results) cases.push_back(to_json(run, result));
  return out.dump(2) + "\n";
}

}  // namespace kbtp::conformance
