// `kbtp conform run --over siw|rxe`: a target over the kernel's siw in a guest of the lab and the suite on
// this host, or target and suite in two guests that speak RoCE.

#pragma once

#include <string>
#include <vector>

#include "base/result.h"

namespace kbtp::tools {

/// What ships with the suite about a kind of peer.
struct PeerFiles {
  std::string profile;
  std::string expect;
};
/// conformance/peers of the source tree that this program was built in, or what was installed beside it.
[[nodiscard]] Result<PeerFiles> peer_files(const std::string& peer);

/// One run of the suite in the lab. Paths are absolute.
struct LabRun {
  std::string report;  ///< folder of the report; what the lab says goes to lab/ in it
  std::string profile, expect;
  std::string write_expect;            ///< empty: none is written
  std::vector<std::string> arguments;  ///< of `kbtp conform run`, as words of a shell command
};

// Each returns the exit status of the run. An error: there is no lab here, or it cannot run.

/// siw: a guest with a target over verbs that has the configuration `config`; this very program plays the
/// cases on the host.
[[nodiscard]] Result<int> run_beside_guest(const LabRun& run, const std::string& config);

/// rxe: two guests, for the target and for this very program, which speaks through verbs. Its report and
/// captures are copied out.
[[nodiscard]] Result<int> run_in_guests(const LabRun& run, const std::string& config);

/// `text` as one word of a shell command.
[[nodiscard]] std::string shell_quoted(const std::string& text);

}  // namespace kbtp::tools
