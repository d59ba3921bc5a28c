#include "tools/metrics.h"

#include <exception>
#include <fmt/format.h>
#include <prometheus/collectable.h>
#include <prometheus/exposer.h>
#include <prometheus/metric_family.h>

namespace kbtp::tools {

namespace {

prometheus::MetricFamily family(std::string name, std::string help, prometheus::MetricType type) {
  prometheus::MetricFamily made;
  made.name = std::move(name);
  made.help = std::move(help);
  made.type = type;
  return made;
}

void add(prometheus::MetricFamily& to, double value,
         std::vector<prometheus::ClientMetric::Label> labels = {}) {
  prometheus::ClientMetric metric;
  metric.label = std::move(labels);
  if (to.type == prometheus::MetricType::Counter) {
    metric.counter.value = value;
  } else {
    metric.gauge.value = value;
  }
  to.metric.push_back(std::move(metric));
}

class SnapshotCollector : public prometheus::Collectable {
 public:
  explicit SnapshotCollector(const target::Target& target) : target_(target) {}

  std::vector<prometheus::MetricFamily> Collect() const override {
    const target::Snapshot now = target_.snapshot();
    std::vector<prometheus::MetricFamily> families;
    const auto one = [&](const char* name, const char* help, prometheus::MetricType type,
                         std::uint64_t value) {
      families.push_back(family(name, help, type));
      add(families.back(), static_cast<double>(value));
    };
    using prometheus::MetricType;
    one("kbtp_sessions_open", "Streams that are open, HELLO done or not", MetricType::Gauge,
        now.sessions_open);
    one("kbtp_sessions_total", "Streams since the start", MetricType::Counter, now.sessions_total);
    one("kbtp_sessions_refused_total", "Streams whose HELLO was refused or never came", MetricType::Counter,
        now.sessions_refused);
    one("kbtp_blocks", "Blocks of the pool", MetricType::Gauge, now.blocks);
    one("kbtp_free_blocks", "Blocks that are neither bound, nor being stored to, nor pinned",
        MetricType::Gauge, now.free_blocks);
    one("kbtp_bound_handles", "Handles that are bound to a block", MetricType::Gauge, now.bound_handles);
    one("kbtp_pinned_blocks", "Blocks being sent from where they lie", MetricType::Gauge, now.pinned_blocks);
    one("kbtp_quota_blocks", "Sum of the quotas granted", MetricType::Gauge, now.quota_granted);
    one("kbtp_usage_blocks", "Blocks charged to quotas", MetricType::Gauge, now.usage);
    one("kbtp_copied_loads_total", "LOADs sent from a private copy", MetricType::Counter, now.copied_loads);
    one("kbtp_direct_sessions", "Open sessions with a direct mode", MetricType::Gauge, now.direct_sessions);
    one("kbtp_tickets_outstanding", "Tickets that initiators have taken by themselves and not yet bound",
        MetricType::Gauge, now.tickets_outstanding);
    one("kbtp_tickets_abandoned_total", "Such tickets that were given up", MetricType::Counter,
        now.tickets_abandoned);

    auto operations =
        family("kbtp_operations_total", "Requests answered, by operation and status", MetricType::Counter);
    auto octets =
        family("kbtp_block_octets_total", "Octets of block data moved, by operation", MetricType::Counter);
    for (const auto& [opcode, counters] : now.operations) {
      const std::string name(wire::to_string(opcode));
      for (const auto& [status, count] : counters.by_status) {
        add(operations, static_cast<double>(count),
            {{"operation", name}, {"status", std::string(wire::to_string(status))}});
      }
      add(octets, static_cast<double>(counters.octets), {{"operation", name}});
    }
    families.push_back(std::move(operations));
    families.push_back(std::move(octets));
    return families;
  }

 private:
  const target::Target& target_;
};

}  // namespace

class MetricsServer::Impl {
 public:
  Impl(const Endpoint& endpoint, const target::Target& target)
      : collector_(std::make_shared<SnapshotCollector>(target)), exposer_(endpoint.to_string(), 1) {
    exposer_.RegisterCollectable(collector_);
    url_ = fmt::format(
        "http://{}/metrics",
        Endpoint{endpoint.host, static_cast<std::uint16_t>(exposer_.GetListeningPorts().at(0))}.to_string());
  }
  [[nodiscard]] const std::string& url() const { return url_; }

 private:
  std::shared_ptr<SnapshotCollector> collector_;
  std::string url_;
  prometheus::Exposer exposer_;  // destroyed first: its threads call the collector
};

Result<std::unique_ptr<MetricsServer>> MetricsServer::start(const Endpoint& endpoint,
                                                            const target::Target& target) {
  // prometheus-cpp reports a taken or foreign address by an exception.
  try {
    return std::unique_ptr<MetricsServer>(new MetricsServer(std::make_unique<Impl>(endpoint, target)));
  } catch (const std::exception& error) {
    return failure(fmt::format("metrics cannot be served on {}: {}", endpoint.to_string(), error.what()));
  }
}

MetricsServer::MetricsServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
MetricsServer::~MetricsServer() = default;
std::string MetricsServer::url() const { return impl_->url(); }

}  // namespace kbtp::tools
