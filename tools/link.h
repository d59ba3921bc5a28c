// Options that replay and bench share: which target, and what the connections are like.

#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "proto/initiator/initiator.h"
#include "tools/cli.h"
#include "tools/embedded_target.h"
#include "tools/rnic_choices.h"
#include "tools/transport.h"

namespace kbtp::tools {

struct LinkOptions {
  std::optional<Endpoint> target;
  bool crc = true;
  bool spin = false;
  std::string congestion_control;
  RnicChoices choices;
  TransportOptions transport;
};

/// Whether CRCs of MPA were asked for; a kernel's device does not ask by itself.
[[nodiscard]] inline bool asks_for_crc(const LinkOptions& options) {
  return options.crc && !options.transport.verbs();
}
/// The connections' congestion control; "device" where TCP, if there is any, is the device's own business.
[[nodiscard]] std::string congestion_control_of(const LinkOptions& options);

void add_link_options(CLI::App& app, LinkOptions& options);

/// What an embedded target must be able to hold.
struct Demand {
  std::uint64_t blocks = 0;
  std::uint64_t block_size = 0;
  std::uint64_t sessions = 1;
  std::uint64_t outstanding = 1;  ///< requests of each session
  std::string config{};           ///< a configuration file's text, for what no option can say
};

/// This side's RDMA, and the embedded target unless the options name another.
struct Link {
  std::unique_ptr<EmbeddedTarget> child;
  std::unique_ptr<rdma::Provider> provider;
  Endpoint endpoint;
  initiator::ConnectOptions connect;  ///< what every session begins with; who opens it adds what it wants

  /// Call it on the main thread, before there are others.
  [[nodiscard]] static Result<Link> open(const LinkOptions& options, const Demand& demand);
  [[nodiscard]] double child_cpu_seconds() const { return child ? child->cpu_seconds() : 0; }
};

}  // namespace kbtp::tools
