// The target that `kbtp conform run` starts, and the configuration that it and the target in the lab's guest
// have.

#pragma once

#include <memory>
#include <string>

#include "base/address.h"
#include "base/result.h"
#include "conformance/profile.h"
#include "tools/embedded_target.h"

namespace kbtp::tools {

/// A file that is gone when this is.
class TemporaryFile {
 public:
  [[nodiscard]] static Result<std::unique_ptr<TemporaryFile>> with(const std::string& text);
  ~TemporaryFile();
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  [[nodiscard]] const std::string& path() const { return path_; }

 private:
  explicit TemporaryFile(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

/// What the named initiators may read by RDMA: the pool only in a target with one trust domain.
enum class Shared : std::uint8_t {
  nothing,
  pool,
};
/// A configuration file in which initiators are named that come from `address`.
[[nodiscard]] std::string target_config_for(const std::string& address, Shared shared);
/// Who the suite can be towards a target with that configuration.
[[nodiscard]] conformance::Identities configured_identities();

struct Served {
  std::unique_ptr<TemporaryFile> config;
  std::unique_ptr<EmbeddedTarget> child;
  Endpoint endpoint;
  std::string name;
  bool configured = false;  ///< with our file
};

/// A child of ours with its configuration file: the embedded target, or a command in which {config} stands
/// for that file. Its log goes to the file `log`.
[[nodiscard]] Result<Served> start_target(const std::string& command_line, const std::string& log);

}  // namespace kbtp::tools
