// Which RDMA a command runs on: the user-space RNIC over TCP, or a device of the kernel's.

#pragma once

#include <memory>
#include <optional>
#include <string>

#include "rdmap_binding/rnic/rnic.h"
#include "tools/cli.h"

namespace kbtp::tools {

struct TransportOptions {
  std::string transport = "rdmap";  ///< or "verbs"
  std::string device;               ///< of verbs; empty: the one that the address belongs to

  /// Of an initiator: requests are completed by records where device and target can (9.2).
  bool records = false;

  [[nodiscard]] bool verbs() const { return transport == "verbs"; }
};

/// --transport and --device.
void add_transport_options(CLI::App& app, TransportOptions& options);
/// --records.
void add_records_option(CLI::App& app, TransportOptions& options);

/// What is wrong with asking for this together; nullptr when nothing is.
[[nodiscard]] const char* contradiction(const TransportOptions& options, const rnic::RnicOptions& rnic);

/// `rnic` says how many loops there are, whether they spin, and how long an initiator pauses after the Reply,
/// for either; the rest of it is for "rdmap" alone. `address` will be listened on, or reached.
[[nodiscard]] Result<std::unique_ptr<rdma::Provider>> open_provider(
    const TransportOptions& options, const rnic::RnicOptions& rnic,
    const std::optional<SocketAddress>& address);

/// The same, towards a target, whose name is looked up.
[[nodiscard]] Result<std::unique_ptr<rdma::Provider>> open_provider_towards(const TransportOptions& options,
                                                                            const rnic::RnicOptions& rnic,
                                                                            const Endpoint& target);

/// Where a target on the same host can listen so that this transport reaches it.
[[nodiscard]] Result<std::string> own_address(const TransportOptions& options);

}  // namespace kbtp::tools
