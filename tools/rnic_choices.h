// Options that make the user-space RNIC fit a peer: which MPA revision, and allowances for known defects.

#pragma once

#include <cstdint>
#include <string>

#include "proto/initiator/initiator.h"
#include "rdmap_binding/rnic/rnic.h"
#include "tools/cli.h"

namespace kbtp::tools {

struct RnicChoices {
  std::uint64_t mpa_revision = 2;
  std::string allow_for;  ///< empty: nobody

  void apply_to(rnic::RnicOptions& options) const;
  void apply_to(initiator::ConnectOptions& options) const;
};

/// --mpa-revision and --allow-for.
void add_rnic_choices(CLI::App& app, RnicChoices& choices);

}  // namespace kbtp::tools
