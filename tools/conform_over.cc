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

#include "tools/exit_status.h"
#include "tools/files.h"

namespace kbtp::tools {

namespace {

namespace fs = std::filesystem;

constexpr int kCannot = 77;               // the lab: this machine lacks QEMU, /dev/net/tun or root
constexpr const char* kTimeout = "3000";  // seconds
// MiB of a guest: the suite holds a case's capture, and what it decodes from it (kbtp.generation.wraps).
constexpr const char* kMemory = "2048";
constexpr std::uint64_t kMaxFile = std::uint64_t{1} << 20;

// The target in the guest of siw. A peer's octets can take away the listener of a kernel's RNIC under it, and
// then it hangs when it is told to end: hence SIGKILL.
constexpr std::string_view kSiwTarget = R"(cat > /tmp/target.toml <<'END'
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

/// The shell command that makes it start anew.
constexpr const char* kRevive = "for share in \"$LAB_OUT\"/a*/share; do touch \"$share/revive\"; done";

// Of rxe: the target in guest B, the suite in guest A. What guest A writes under /host is ours.
constexpr std::string_view kRxeTarget = R"(cat > /tmp/target.toml <<'END'
{}END
exec kbtp target --transport verbs --config /tmp/target.toml --listen $LAB_SELF:7471)";
constexpr std::string_view kRxeSuite = R"(cat > /tmp/profile <<'END'
{}
END
cat > /tmp/expect <<'END'
{}
END
kbtp conform run --transport verbs --target $LAB_OTHER:7471 --capture eth0 --profile /tmp/profile --expect /tmp/expect \
  --out /host/report {})";
constexpr const char* kWritten = "/host/report/next.expect";  // of --write-expect

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

namespace {

/// Runs lab.py with `words` behind the options that each run has.
Result<int> run_lab(const std::string& device, const LabRun& run, const std::vector<std::string>& words) {
  const auto lab = find_above("tests/interop/lab.py");
  if (!lab)
    return failure(fmt::format(
        "the lab is part of the source tree: './run conformance --over {}' there builds and uses it",
        device));
  std::vector<std::string> all = {lab->string(),       device,      "--kbtp", own_program().string(), "--out",
                                  run.report + "/lab", "--timeout", kTimeout};
  all.insert(all.end(), words.begin(), words.end());
  std::vector<char*> pointers;
  for (const std::string& word : all) pointers.push_back(const_cast<char*>(word.c_str()));
  pointers.push_back(nullptr);
  const pid_t parent = getpid();
  const pid_t child = fork();
  if (child < 0) return failure(std::string("no process for the lab: ") + std::strerror(errno));
  if (child == 0) {
    // The lab takes its guests and network with it, whatever way it ends; and it ends with us.
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() == parent) execv(pointers[0], pointers.data());
    _exit(kCannot);
  }
  const int status = wait_for(child);
  if (status == kCannot) return failure("the lab does not run on this machine; what it lacks is said above");
  return status;
}

Result<std::string> text_of(const std::string& path) {
  const auto octets = read_file(path, kMaxFile);
  if (!octets) return unexpected(octets.error());
  return std::string(reinterpret_cast<const char*>(octets->data()), octets->size());
}

/// Where the suite in guest A writes, as this host sees it: a guest that dies is booted anew in another
/// folder.
std::vector<fs::path> places_of_report(const LabRun& run) {
  const fs::path lab = fs::path(run.report) / "lab";
  return {lab / "a/share/report", lab / "a-again/share/report"};
}

/// Moves what the suite in guest A wrote to where it was asked for.
Result<> bring_out(const LabRun& run) {
  std::error_code error;
  fs::path written;
  for (const fs::path& one : places_of_report(run)) {
    if (fs::exists(one, error)) written = one;
  }
  if (written.empty()) return failure("the suite in the guest has written no report");
  const auto copy = [&error](const fs::path& from, const fs::path& to) {
    if (!error) fs::copy(from, to, fs::copy_options::recursive | fs::copy_options::overwrite_existing, error);
  };
  const fs::path next = written / fs::path(kWritten).filename();
  if (!run.write_expect.empty() && fs::exists(next, error)) {
    copy(next, run.write_expect);
    fs::remove(next, error);
  }
  copy(written, run.report);
  if (error)
    return failure(
        fmt::format("the report cannot be copied out of {}: {}", written.string(), error.message()));
  fs::remove_all(written, error);
  return {};
}

}  // namespace

Result<int> run_beside_guest(const LabRun& run, const std::string& config) {
  std::string host = "exec " + shell_quoted(own_program().string()) +
                     " conform run --target $LAB_GUEST:7471 --capture $LAB_INTERFACE --out " +
                     shell_quoted(run.report) + " --profile " + shell_quoted(run.profile) + " --expect " +
                     shell_quoted(run.expect) + " --revive-cmd " + shell_quoted(kRevive);
  if (!run.write_expect.empty()) host += " --write-expect " + shell_quoted(run.write_expect);
  for (const std::string& argument : run.arguments) host += " " + argument;
  return run_lab("siw", run, {"--host", host, fmt::format(kSiwTarget, config)});
}

Result<int> run_in_guests(const LabRun& run, const std::string& config) {
  const auto profile = text_of(run.profile);
  if (!profile) return unexpected(profile.error());
  const auto expect = text_of(run.expect);
  if (!expect) return unexpected(expect.error());
  std::string arguments = run.write_expect.empty() ? "" : fmt::format("--write-expect {} ", kWritten);
  for (const std::string& argument : run.arguments) arguments += argument + " ";
  auto status = run_lab("rxe", run,
                        {"--memory", kMemory, "--other", fmt::format(kRxeTarget, config),
                         fmt::format(kRxeSuite, *profile, *expect, arguments)});
  if (!status) return status;
  if (*status > kExitInternal) return failure(fmt::format("the suite in the guest ended with {}", *status));
  if (auto brought = bring_out(run); !brought) {
    if (*status == kExitOk) return unexpected(brought.error());
    return status;  // what was said above tells why there is none
  }
  fmt::print("copied out of the guest; report: {}\n",
             (fs::path(run.report) / "report.html").lexically_normal().string());
  return status;
}

}  // namespace kbtp::tools
