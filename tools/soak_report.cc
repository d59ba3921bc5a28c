#include "tools/soak_report.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace kbtp::tools {

namespace {

constexpr double kMiB = 1 << 20;

std::string clock_text(double seconds) {
  const auto whole = static_cast<std::uint64_t>(seconds);
  return fmt::format("{:02}:{:02}:{:02}", whole / 3600, whole / 60 % 60, whole % 60);
}

nlohmann::ordered_json to_json(const SoakTally& tally, const SoakDisturbance& disturbance) {
  nlohmann::ordered_json json = {
      {"operations", tally.total()},
      {"refused", tally.refused},
      {"unanswered", tally.unanswered},
      {"settled", tally.settled},
      {"sessions", tally.sessions},
      {"cuts", tally.cuts},
      {"closes", tally.closes},
      {"bad_starts", disturbance.bad_starts},
      {"kills", disturbance.kills},
      {"octets_checked", tally.octets_checked},
      {"octets_stored", tally.octets_stored},
  };
  return json;
}

}  // namespace

SoakWatch::SoakWatch(std::optional<pid_t> target) {
  if (target)
    subjects_.push_back({.name = "target", .pid = *target, .least = {}, .resident = {}, .descriptors = {}});
  subjects_.push_back({.name = "self", .pid = getpid(), .least = {}, .resident = {}, .descriptors = {}});
}

void SoakWatch::look() {
  for (Subject& subject : subjects_) {
    const auto usage = usage_of(subject.pid);
    if (!usage) continue;
    if (!subject.least) subject.least = usage;
    subject.least->resident = std::min(subject.least->resident, usage->resident);
    subject.least->descriptors = std::min(subject.least->descriptors, usage->descriptors);
  }
}

void SoakWatch::sample(double seconds) {
  for (Subject& subject : subjects_) {
    if (!subject.least) continue;
    subject.resident.push_back({seconds, static_cast<double>(subject.least->resident)});
    subject.descriptors.push_back({seconds, static_cast<double>(subject.least->descriptors)});
    subject.least.reset();
  }
}

Result<SoakReport> SoakReport::open(const std::string& json) {
  SoakReport report;
  report.to_standard_output_ = json == "-";
  if (!json.empty() && json != "-") {
    report.file_.open(json);
    if (!report.file_) return failure(fmt::format("{} cannot be written: {}", json, std::strerror(errno)));
  }
  return report;
}

void SoakReport::say(const std::string& line) const {
  std::FILE* const out = to_standard_output_ ? stderr : stdout;
  fmt::print(out, "{}\n", line);
  std::fflush(out);
}

void SoakReport::write(const nlohmann::ordered_json& object) {
  if (to_standard_output_) {
    fmt::print("{}\n", object.dump());
    std::fflush(stdout);
  } else if (file_.is_open()) {
    file_ << object.dump() << std::endl;  // whoever watches sees it at once
  }
}

void SoakReport::progress(double seconds, const SoakTally& tally, const SoakDisturbance& disturbance,
                          const SoakWatch& watch) {
  const double per_second =
      static_cast<double>(tally.total() - last_total_) / std::max(1e-3, seconds - last_seconds_);
  last_total_ = tally.total();
  last_seconds_ = seconds;
  std::string line = fmt::format("{}  {} operations ({:.0f}/s), {} cuts, {} bad starts, {} kills",
                                 clock_text(seconds), tally.total(), per_second, tally.cuts + tally.closes,
                                 disturbance.bad_starts, disturbance.kills);
  nlohmann::ordered_json json = {{"sample", ++samples_}, {"seconds", seconds}};
  json.update(to_json(tally, disturbance));
  for (const SoakWatch::Subject& subject : watch.subjects()) {
    if (subject.resident.empty()) continue;
    const double resident = subject.resident.back().value;
    const double descriptors = subject.descriptors.back().value;
    line += fmt::format(" | {} {:.2f} MiB, {:.0f} descriptors", subject.name, resident / kMiB, descriptors);
    json[subject.name + "_resident"] = static_cast<std::uint64_t>(resident);
    json[subject.name + "_descriptors"] = static_cast<std::uint64_t>(descriptors);
  }
  say(line);
  write(json);
}

bool SoakReport::verdict(double seconds, const SoakTally& tally, const SoakDisturbance& disturbance,
                         const SoakWatch& watch, const SoakLimits& limits,
                         nlohmann::ordered_json measurement) {
  bool flat = true;
  nlohmann::ordered_json judged = nlohmann::ordered_json::array();
  const auto judge = [&](const std::string& name, const std::vector<Reading>& readings, const FlatRule& rule,
                         double unit, std::string_view unit_name) {
    const Flatness result = judge_flat(readings, rule);
    judged.push_back({{"what", name},
                      {"readings", result.readings},
                      {"slope_per_hour", result.slope_per_hour},
                      {"slope_limit", rule.slope_per_hour},
                      {"range", result.range},
                      {"range_limit", rule.range},
                      {"verdict", !result.judged ? "not judged"
                                  : result.flat  ? "flat"
                                                 : "not flat"}});
    if (!result.judged) {
      return say(fmt::format("{}: not judged, {} readings after the warm-up are fewer than {}", name,
                             result.readings, kFewestReadings));
    }
    flat = flat && result.flat;
    say(fmt::format(
        "{}: {} over the last {} readings; slope {:+.2f}{} an hour (limit {:.2f}), range {:.2f}{} "
        "(limit {:.2f})",
        name, result.flat ? "flat" : "NOT FLAT", result.readings, result.slope_per_hour / unit, unit_name,
        rule.slope_per_hour / unit, result.range / unit, unit_name, rule.range / unit));
  };
  for (const SoakWatch::Subject& subject : watch.subjects()) {
    judge(subject.name + " memory", subject.resident, limits.memory, kMiB, " MiB");
    judge(subject.name + " descriptors", subject.descriptors, limits.descriptors, 1, "");
  }
  std::string mixture;
  nlohmann::ordered_json by_kind;
  for (std::size_t kind = 0; kind < kSoakKinds; ++kind) {
    const std::string_view name = to_string(static_cast<SoakKind>(kind));
    mixture += fmt::format("{}{} {}", mixture.empty() ? "" : ", ", tally.operations[kind], name);
    by_kind[std::string(name)] = tally.operations[kind];
  }
  say(fmt::format(
      "{} operations in {} ({}): {} refused as provoked, {} cut short, of which {} handles were "
      "settled later",
      tally.total(), clock_text(seconds), mixture, tally.refused, tally.unanswered, tally.settled));
  say(fmt::format("{} sessions, {} cut, {} closed, {} bad starts, {} processes killed; {} octets checked",
                  tally.sessions, tally.cuts, tally.closes, disturbance.bad_starts, disturbance.kills,
                  tally.octets_checked));
  measurement["seconds"] = seconds;
  measurement.update(to_json(tally, disturbance));
  measurement["by_kind"] = by_kind;
  measurement["flatness"] = judged;
  measurement["finding"] = tally.finding;
  measurement["verdict"] = flat && !tally.over() ? "pass" : "fail";
  write(measurement);
  return flat;
}

}  // namespace kbtp::tools
