#include "tools/conform_target.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <unistd.h>

namespace kbtp::tools {

namespace {

// Who the suite can be towards a target that was started with this file. Blocks are plenty: a case uses a
// handful.
constexpr std::string_view kFirst = "6b627470-0000-4000-8000-000000000001";
constexpr std::string_view kSecond = "6b627470-0000-4000-8000-000000000002";
constexpr std::string_view kForeign = "6b627470-0000-4000-8000-000000000003";
constexpr std::string_view kUntrusted = "6b627470-0000-4000-8000-000000000004";
constexpr std::string_view kPool = R"(# Written by `kbtp conform run` for its target.
network = "trusted"
blocks = 256
block_size = 65536
handles = 1024
reserve = 8
max_inline = 4096
)";
constexpr std::string_view kInitiator = R"(
[[initiator]]
identity = "{}"
address = "{}"
quota = 8
handles = 8
{})";
constexpr std::string_view kNobody = "192.0.2.1";  // RFC 5737: an address that nobody has

Uuid known(std::string_view text) { return Uuid::parse(text).value_or(Uuid{}); }

}  // namespace

Result<std::unique_ptr<TemporaryFile>> TemporaryFile::with(const std::string& text) {
  std::string path = (std::filesystem::temp_directory_path() / "kbtp-conform-XXXXXX").string();
  const int file = mkstemp(path.data());
  if (file < 0) return failure("no temporary file: " + std::string(std::strerror(errno)));
  std::unique_ptr<TemporaryFile> made(new TemporaryFile(path));
  const bool good = write(file, text.data(), text.size()) == static_cast<ssize_t>(text.size());
  close(file);
  if (!good) return failure(path + " cannot be written");
  return made;
}

TemporaryFile::~TemporaryFile() { std::remove(path_.c_str()); }

std::string target_config_for(const std::string& address, Shared shared) {
  const bool direct = shared == Shared::pool;
  const std::string_view more = direct ? "direct_load = true\n" : "";
  std::string config(kPool);
  config += fmt::format(kInitiator, kFirst, address, more);
  config += fmt::format(kInitiator, kSecond, address, more);
  if (!direct) config += fmt::format(kInitiator, kForeign, address, "trust_domain = \"elsewhere\"\n");
  config += fmt::format(kInitiator, kUntrusted, kNobody, "");
  return config;
}

conformance::Identities configured_identities() {
  return {known(kFirst), known(kSecond), known(kForeign), known(kUntrusted)};
}

Result<Served> start_target(const std::string& command_line, const std::string& log) {
  Served served;
  auto config = TemporaryFile::with(target_config_for("127.0.0.1", Shared::nothing));
  if (!config) return unexpected(config.error());
  served.config = std::move(*config);
  Result<std::unique_ptr<EmbeddedTarget>> child = failure("");
  if (command_line.empty()) {
    child = EmbeddedTarget::start({"--config", served.config->path()}, log);
    served.configured = true;
    served.name = "the embedded target";
  } else {
    std::string command = command_line;
    const std::string_view place = "{config}";
    for (std::size_t at; (at = command.find(place)) != std::string::npos;) {
      command.replace(at, place.size(), served.config->path());
      served.configured = true;
    }
    child = EmbeddedTarget::start_command(command, log);
    served.name = command_line;
  }
  if (!child) return failure(fmt::format("{} (its log is {})", child.error().text, log));
  served.child = std::move(*child);
  served.endpoint = served.child->endpoint();
  return served;
}

}  // namespace kbtp::tools
