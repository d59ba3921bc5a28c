// What `kbtp target` serves, from its options and from a TOML file (docs/man/kbtp-target.1 lists the keys).

#pragma once

#include <optional>
#include <string>

#include "base/address.h"
#include "base/result.h"
#include "proto/target/config.h"
#include "rdmap_binding/rnic/rnic.h"
#include "tools/transport.h"

namespace kbtp::tools {

enum class Network : std::uint8_t {
  unsaid,
  trusted,
  untrusted,
};

struct ServeSettings {
  std::optional<Endpoint> listen;
  std::optional<Endpoint> metrics;
  Network network = Network::unsaid;
  bool handles_given = false;  ///< otherwise there are as many as blocks
  target::TargetConfig target;
  TransportOptions transport;
  rnic::RnicOptions rnic;  ///< of transport verbs: loops and spin alone
};

/// The settings of a file's text over the defaults. `name` stands in errors, each "NAME:LINE: what is wrong".
/// Keys that are not known are errors.
[[nodiscard]] Result<ServeSettings> parse_target_config(std::string_view text, const std::string& name);

}  // namespace kbtp::tools
