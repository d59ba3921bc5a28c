#include "tools/files.h"

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <fmt/format.h>
#include <memory>

namespace kbtp::tools {

namespace {

constexpr std::size_t kPiece = 1U << 20;

struct Close {
  void operator()(std::FILE* file) const {
    if (file != stdin && file != stdout) std::fclose(file);
  }
};
using File = std::unique_ptr<std::FILE, Close>;

auto errno_failure(const std::string& path, const char* what) {
  return failure(fmt::format("{} cannot be {}: {}", path, what, std::strerror(errno)));
}

}  // namespace

Result<std::vector<std::byte>> read_file(const std::string& path, std::uint64_t limit) {
  const File file(path == "-" ? stdin : std::fopen(path.c_str(), "rb"));
  if (!file) return errno_failure(path, "opened");
  std::vector<std::byte> octets;
  for (;;) {
    const std::size_t before = octets.size();
    octets.resize(before + kPiece);
    const std::size_t got = std::fread(octets.data() + before, 1, kPiece, file.get());
    octets.resize(before + got);
    if (octets.size() > limit)
      return failure(fmt::format("{} has more than the {} octets that fit", path, limit));
    if (got < kPiece) break;
  }
  if (std::ferror(file.get()) != 0) return errno_failure(path, "read");
  return octets;
}

Result<> write_file(const std::string& path, Octets octets) {
  File file(path == "-" ? stdout : std::fopen(path.c_str(), "wb"));
  if (!file) return errno_failure(path, "opened");
  if (std::fwrite(octets.data(), 1, octets.size(), file.get()) != octets.size() ||
      std::fflush(file.get()) != 0) {
    return errno_failure(path, "written");
  }
  return {};
}

}  // namespace kbtp::tools
