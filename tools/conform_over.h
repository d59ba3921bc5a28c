// `kbtp conform run --over siw`: a target over the kernel's siw in a guest of the lab, the suite on this
// host.

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

/// Boots a guest, starts in it a target over verbs with the configuration `config`, and runs this very
/// program with `arguments` on the host, where the environment names the target (LAB_GUEST, port 7471) and
/// the interface (LAB_INTERFACE); logs go to `folder`. Returns the exit status. An error: there is no lab
/// here, or it cannot run.
[[nodiscard]] Result<int> run_in_lab(const std::string& device, const std::string& config,
                                     const std::vector<std::string>& arguments, const std::string& folder);

/// The shell command that makes the guest of run_in_lab() start its target anew.
inline constexpr const char* kReviveInLab =
    "for share in \"$LAB_OUT\"/a*/share; do touch \"$share/revive\"; done";

/// `text` as one word of a shell command.
[[nodiscard]] std::string shell_quoted(const std::string& text);

}  // namespace kbtp::tools
