// What `kbtp dissect` does once its command line is understood: frames from a file or an interface through
// the decoder to a printer.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace kbtp::tools {

struct DissectOptions {
  std::string command;    ///< "kbtp dissect", for messages
  std::string path;       ///< "-" is standard input; or:
  std::string interface;  ///< live
  std::string capture_filter;
  std::string output = "text";  ///< or json, summary, svg
  std::string filter;
  std::string esp_keys;   ///< a file with keys of ESP SAs
  bool verbose = false;   ///< field by field
  bool octets = false;    ///< with all octets
  bool segments = false;  ///< a line for each segment
  std::optional<std::uint64_t> stream;
  std::optional<std::pair<std::uint64_t, std::uint64_t>> frames;  ///< first and last that are told
  std::string colour = "auto";                                    ///< or always, never
};

/// Runs to the end of the input, or until SIGINT or SIGTERM; an exit status.
[[nodiscard]] int dissect(const DissectOptions& options);

}  // namespace kbtp::tools
