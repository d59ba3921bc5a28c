#include "tools/conform_over.h"

#include <cerrno>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <optional>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

namespace kbtp::tools {

namespace {

namespace fs = std::filesystem;

constexpr int kCannot = 77;               // the lab: this machine lacks QEMU, /dev/net/tun or root
constexpr const char* kTimeout = "3000";  // seconds

// The target in the guest. A peer's octets can take away the listener of a kernel's RNIC under it, and then
// it hangs when it is told to end: hence SIGKILL.
constexpr std::string_view kGuest = R"(cat > /tmp/target.toml <<'END'
{}END
trap 'kill -9 $target; exit 0' TERM
while :; do
  kbtp target --transport verbs --config /tmp/target.toml --listen $LAB_SELF:7471 &
  target=$!
  while [ ! -e /host/revive ] && kill -0 $target 2>/dev/null; do sleep 0.05; done
  kill -9 $target
  wait $target
  rm -f /host/revive
done)";

fs::path own_program() {
  std::error_code error;
  return fs::read_symlink("/proc/self/exe", error);
}

/// `relative` in the folder that this program lies in, or in one above it.
std::optional<fs::path> find_above(const fs::path& relative) {
  for (fs::path folder = own_program().parent_path(); folder.has_relative_path();
       folder = folder.parent_path()) {
    std::error_code error;
    if (fs::exists(folder / relative, error)) return folder / relative;
  }
  return std::nullopt;
}

int wait_for(pid_t child) {
  int status = 0;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

std::string shell_quoted(const std::string& text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') {
      out += "'\\''";
    } else {
      out += c;
    }
  }
  return out + "'";
}

Result<PeerFiles> peer_files(const std::string& peer) {
  const auto profile = find_above(fs::path("conformance/peers") / (peer + ".profile"));
  const auto installed = find_above(fs::path("share/kbtp/peers") / (peer + ".profile"));
  if (!profile && !installed)
    return failure(
        fmt::format("{0}.profile and {0}.expect are neither in conformance/peers of a source tree around {1} "
                    "nor in share/kbtp/peers",
                    peer, own_program().string()));
  const fs::path found = profile ? *profile : *installed;
  return PeerFiles{found.string(), fs::path(found).replace_extension(".expect").string()};
}

Result<int> run_in_lab(const std::string& device, const std::string& config,
                       const std::vector<std::string>& arguments, const std::string& folder) {
  const auto lab = find_above("tests/interop/lab.py");
  if (!lab)
    return failure(
        "the lab is part of the source tree: './run conformance --over siw' there builds and uses it");
  const std::string self = own_program().string();
  const std::string guest = fmt::format(kGuest, config);
  std::string host = "exec " + shell_quoted(self);
  for (const std::string& argument : arguments) host += " " + argument;
  const std::vector<std::string> words = {lab->string(), device,   "--kbtp", self, "--out", folder,
                                          "--timeout",   kTimeout, "--host", host, guest};
  std::vector<char*> pointers;
  for (const std::string& word : words) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return failure(std::string("no process for the lab: ") + std::strerror(errno));
  if (child == 0) {
    // The lab takes its guest and network with it, whatever way it ends; and it ends with us.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent) execv(pointers[0], pointers.data());
    _exit(kCannot);
  }
  const int status = wait_for(child);
  if (status == kCannot) return failure("the lab does not run on this machine; what it lacks is said above");
  return status;
}

}  // namespace kbtp::tools
