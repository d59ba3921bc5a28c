#include "tools/replay_report.h"

#include <fmt/format.h>
#include <nlohmann/json.hpp>

namespace kbtp::tools {

std::string grouped(std::uint64_t number) {
  std::string text = std::to_string(number);
  for (std::size_t at = text.size(); at > 3; at -= 3) text.insert(at - 3, ",");
  return text;
}

Measurement measure(const ReplaySettings& settings, const ReplayResult& result, std::uint64_t connections,
                    std::optional<double> cpu_seconds) {
  const double seconds = std::chrono::duration<double>(result.elapsed).count();
  const double octets = static_cast<double>(result.octets_checked + result.octets_stored);
  Histogram all = result.loads;
  all.merge(result.stores);
  Measurement m;
  m.op = "replay";
  m.size = settings.block_size;
  m.outstanding = settings.outstanding;
  m.connections = connections;
  m.crc = asks_for_crc(settings.link);
  m.spin = settings.link.spin;
  m.ops_per_s = static_cast<double>(all.count() + result.evictions) / seconds;
  m.gbytes_per_s = octets / seconds / 1e9;
  m.p50_us = all.percentile_us(0.5);
  m.p99_us = all.percentile_us(0.99);
  if (cpu_seconds && octets > 0) m.cpu_s_per_gib = *cpu_seconds / (octets / (1 << 30));
  m.congestion_control = congestion_control_of(settings.link);
  return median_of({m});
}

void print_summary(std::FILE* out, const ReplayResult& result, const Measurement& measured) {
  const std::uint64_t references = result.hits + result.misses;
  const double share =
      references == 0 ? 0 : 100.0 * static_cast<double>(result.hits) / static_cast<double>(references);
  fmt::print(out, "{} requests, {} block references: {} hits, {} misses ({:.1f} % hits)\n",
             grouped(result.requests), grouped(references), grouped(result.hits), grouped(result.misses),
             share);
  fmt::print(out, "{:<12}{:>10}{:>12}{:>12}\n", "operation", "count", "p50 us", "p99 us");
  fmt::print(out, "{:<12}{:>10}{:>12.1f}{:>12.1f}\n", "LOAD", result.loads.count(),
             result.loads.percentile_us(0.5), result.loads.percentile_us(0.99));
  fmt::print(out, "{:<12}{:>10}{:>12.1f}{:>12.1f}\n", "ALLOC_STORE", result.stores.count(),
             result.stores.percentile_us(0.5), result.stores.percentile_us(0.99));
  fmt::print(out, "{:<12}{:>10}\n", "FREE", result.evictions + result.freed_at_end);
  fmt::print(out, "{} octets loaded and checked, {} stored, {:.2f} GB/s, {:.0f} operations/s\n",
             grouped(result.octets_checked), grouped(result.octets_stored), measured.gbytes_per_s,
             measured.ops_per_s);
}

Result<> write_report(const ReplaySettings& settings, const ReplayResult& result,
                      const Measurement& measured) {
  if (settings.json.empty()) return {};
  nlohmann::ordered_json json = to_json(measured);
  json["requests"] = result.requests;
  json["hits"] = result.hits;
  json["misses"] = result.misses;
  json["evictions"] = result.evictions;
  json["capacity"] = settings.capacity;
  json["octets_checked"] = result.octets_checked;
  json["octets_stored"] = result.octets_stored;
  json["load_p50_us"] = result.loads.percentile_us(0.5);
  json["load_p99_us"] = result.loads.percentile_us(0.99);
  json["alloc_store_p50_us"] = result.stores.percentile_us(0.5);
  json["alloc_store_p99_us"] = result.stores.percentile_us(0.99);
  if (settings.peers > 0) json["peers"] = settings.peers;
  return write_json(settings.json, {json});
}

}  // namespace kbtp::tools
