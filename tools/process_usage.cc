#include "tools/process_usage.h"

#include <filesystem>
#include <fstream>
#include <string>
#include <system_error>

namespace kbtp::tools {

std::optional<ProcessUsage> usage_of(pid_t pid) {
  const std::string folder = "/proc/" + std::to_string(pid);
  std::ifstream status(folder + "/status");
  ProcessUsage usage;
  for (std::string word; status >> word;) {
    if (word != "VmRSS:") continue;
    status >> usage.resident;
    usage.resident *= 1024;  // "kB" in proc(5) is KiB
    break;
  }
  if (usage.resident == 0) return std::nullopt;  // gone, or a zombie
  std::error_code error;
  for (std::filesystem::directory_iterator at(folder + "/fd", error), end; !error && at != end;
       at.increment(error))
    ++usage.descriptors;
  if (error) return std::nullopt;
  return usage;
}

}  // namespace kbtp::tools
