// Metrics of a target for Prometheus to fetch: GET http://HOST:PORT/metrics.

#pragma once

#include <memory>
#include <string>

#include "base/address.h"
#include "base/result.h"
#include "proto/target/target.h"

namespace kbtp::tools {

/// Serves until destroyed. `target` must outlive it.
class MetricsServer {
 public:
  [[nodiscard]] static Result<std::unique_ptr<MetricsServer>> start(const Endpoint& endpoint,
                                                                    const target::Target& target);
  ~MetricsServer();
  /// "http://127.0.0.1:9420/metrics", with the port that was picked for port 0.
  [[nodiscard]] std::string url() const;
  MetricsServer(const MetricsServer&) = delete;
  MetricsServer& operator=(const MetricsServer&) = delete;

 private:
  class Impl;
  explicit MetricsServer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace kbtp::tools
