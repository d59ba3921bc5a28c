// Keeps fuzz/corpus in step with the golden tables: a test lists the seeds that a fuzzer's corpus must hold,
// and this compares them with the files. With KBTP_WRITE_FUZZ_SEEDS set in the environment it writes them
// first, which is how the committed files are made.

#pragma once

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <span>
#include <string>
#include <vector>

#include "base/bytes.h"

namespace kbtp::fuzz {

/// File name to content.
using Seeds = std::map<std::string, std::vector<std::byte>>;

/// The seeds whose file in `folder` is missing or different; empty when all is well.
[[nodiscard]] inline std::vector<std::string> stale_seeds(const std::filesystem::path& folder,
                                                          const Seeds& seeds) {
  if (std::getenv("KBTP_WRITE_FUZZ_SEEDS") != nullptr) {
    std::filesystem::create_directories(folder);
    for (const auto& [name, octets] : seeds) {
      std::ofstream out(folder / name, std::ios::binary | std::ios::trunc);
      out.write(reinterpret_cast<const char*>(octets.data()), static_cast<std::streamsize>(octets.size()));
    }
  }
  std::vector<std::string> stale;
  for (const auto& [name, octets] : seeds) {
    std::ifstream in(folder / name, std::ios::binary);
    const std::vector<char> found((std::istreambuf_iterator<char>(in)), std::istreambuf_iterator<char>());
    const auto content = std::as_bytes(std::span(found));
    if (!in.is_open() || !std::equal(content.begin(), content.end(), octets.begin(), octets.end())) {
      stale.push_back(name);
    }
  }
  return stale;
}

}  // namespace kbtp::fuzz
