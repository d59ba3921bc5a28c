// KV-cache traces in the Mooncake format (Qin et al., FAST'25): one JSON object a line with the four members
// timestamp (ms, relative), input_length and output_length (tokens), hash_ids (one per prefix block; an equal
// id means the same reusable block). Read a line at a time; memory does not grow with the trace.

#pragma once

#include <cstdint>
#include <istream>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"

namespace kbtp::tools {

struct TraceRequest {
  std::uint64_t timestamp_ms = 0;
  std::uint64_t input_length = 0;
  std::uint64_t output_length = 0;
  std::vector<std::uint64_t> hash_ids;
};

class TraceReader {
 public:
  static constexpr std::size_t kMaxLine = 8U << 20;  ///< octets of one line, at most

  /// `name` stands in error messages. `input` outlives the reader.
  TraceReader(std::istream& input, std::string name) : input_(input), name_(std::move(name)) {}

  /// The next request, nothing at the end, or an error that names file and line. Empty lines are errors
  /// except at the very end.
  [[nodiscard]] Result<std::optional<TraceRequest>> next();

  [[nodiscard]] std::uint64_t line() const { return line_; }

 private:
  std::istream& input_;
  std::string name_;
  std::string text_;
  std::uint64_t line_ = 0;
};

}  // namespace kbtp::tools
