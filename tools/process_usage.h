// What a process holds of this machine, from /proc.

#pragma once

#include <cstdint>
#include <optional>
#include <sys/types.h>

namespace kbtp::tools {

struct ProcessUsage {
  std::uint64_t resident = 0;     ///< octets of memory (VmRSS)
  std::uint64_t descriptors = 0;  ///< open files, sockets included
};

/// Nothing when there is no such process, or it is somebody else's.
[[nodiscard]] std::optional<ProcessUsage> usage_of(pid_t pid);

}  // namespace kbtp::tools
