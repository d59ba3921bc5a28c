#include "tools/measurement.h"

#include <algorithm>
#include <ctime>
#include <fmt/format.h>
#include <fstream>
#include <nlohmann/json.hpp>

#include "tools/files.h"

namespace kbtp::tools {

Measurement median_of(std::vector<Measurement> runs) {
  std::sort(runs.begin(), runs.end(),
            [](const Measurement& a, const Measurement& b) { return a.gbytes_per_s < b.gbytes_per_s; });
  Measurement median = runs[runs.size() / 2];
  median.runs = runs.size();
  median.min_gbytes_per_s = runs.front().gbytes_per_s;
  median.max_gbytes_per_s = runs.back().gbytes_per_s;
  return median;
}

nlohmann::ordered_json to_json(const Measurement& m) {
  nlohmann::ordered_json json = {
      {"op", m.op},
      {"size", m.size},
      {"outstanding", m.outstanding},
      {"connections", m.connections},
      {"crc", m.crc},
      {"wait", m.spin ? "spin" : "block"},
      {"ops_per_s", m.ops_per_s},
      {"gbytes_per_s", m.gbytes_per_s},
      {"p50_us", m.p50_us},
      {"p99_us", m.p99_us},
      {"cpu_s_per_gib", nullptr},
      {"congestion_control", m.congestion_control},
      {"runs", m.runs},
      {"min", m.min_gbytes_per_s},
      {"max", m.max_gbytes_per_s},
  };
  if (m.cpu_s_per_gib) json["cpu_s_per_gib"] = *m.cpu_s_per_gib;
  return json;
}

std::string to_table(const std::vector<Measurement>& measurements) {
  std::string table = fmt::format("{:<13}{:>10}{:>6}{:>6}{:>5}{:>7}{:>12}{:>8}{:>16}{:>10}{:>10}{:>10}\n",
                                  "op", "size", "outst", "conns", "crc", "wait", "ops/s", "GB/s", "min..max",
                                  "p50 us", "p99 us", "CPU s/GiB");
  for (const Measurement& m : measurements) {
    table += fmt::format("{:<13}{:>10}{:>6}{:>6}{:>5}{:>7}{:>12.0f}{:>8.2f}{:>16}{:>10.1f}{:>10.1f}{:>10}\n",
                         m.op, m.size, m.outstanding, m.connections, m.crc ? "on" : "off",
                         m.spin ? "spin" : "block", m.ops_per_s, m.gbytes_per_s,
                         fmt::format("{:.2f}..{:.2f}", m.min_gbytes_per_s, m.max_gbytes_per_s), m.p50_us,
                         m.p99_us, m.cpu_s_per_gib ? fmt::format("{:.3f}", *m.cpu_s_per_gib) : "?");
  }
  return table;
}

Result<> write_json(const std::string& path, const std::vector<nlohmann::ordered_json>& objects) {
  std::string text;
  for (const auto& object : objects) text += object.dump() + "\n";
  return write_file(path, as_octets(text));
}

double own_cpu_seconds() {
  timespec used{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return static_cast<double>(used.tv_sec) + static_cast<double>(used.tv_nsec) * 1e-9;
}

std::string congestion_control_in_force(const std::string& asked) {
  if (!asked.empty()) return asked;
  std::string name = "unknown";
  std::ifstream("/proc/sys/net/ipv4/tcp_congestion_control") >> name;
  return name;
}

}  // namespace kbtp::tools
