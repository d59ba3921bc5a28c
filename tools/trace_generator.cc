#include "tools/trace_generator.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace kbtp::tools {

namespace {
constexpr std::uint64_t kTokensPerBlock = 512;  // as in the Mooncake traces
}

std::uint64_t TraceGenerator::random() {  // splitmix64
  std::uint64_t x = (state_ += 0x9e3779b97f4a7c15);
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

std::uint64_t TraceGenerator::below(std::uint64_t limit) { return random() % limit; }

bool TraceGenerator::happens(double share) {
  return static_cast<double>(random() >> 11) < share * static_cast<double>(std::uint64_t{1} << 53);
}

std::uint64_t TraceGenerator::around(std::uint64_t mean) { return 1 + below(2 * mean - 1); }

TraceRequest TraceGenerator::next() {
  TraceRequest request;
  request.timestamp_ms = now_ms_;
  if (options_.mean_interval_ms > 0) now_ms_ += below(2 * options_.mean_interval_ms + 1);
  const std::uint64_t blocks = around(options_.mean_blocks);
  std::size_t conversation = conversations_.size();
  if (!conversations_.empty() && happens(options_.reuse)) {
    // Of two drawn the later one: recent conversations are hotter.
    conversation = std::max(below(conversations_.size()), below(conversations_.size()));
    const auto& known = conversations_[conversation];
    const auto wanted =
        static_cast<std::uint64_t>(std::lround(options_.prefix_share * static_cast<double>(blocks)));
    const std::size_t prefix = std::min<std::size_t>(known.size(), std::min(wanted, blocks));
    request.hash_ids.assign(known.begin(), known.begin() + static_cast<std::ptrdiff_t>(prefix));
  }
  while (request.hash_ids.size() < blocks) request.hash_ids.push_back(next_id_++);
  request.input_length = blocks * kTokensPerBlock - below(kTokensPerBlock);
  request.output_length = around(300);

  // A request is the newest of its conversation; the oldest conversation is forgotten.
  if (conversation < conversations_.size()) {
    conversations_.erase(conversations_.begin() + static_cast<std::ptrdiff_t>(conversation));
  } else if (conversations_.size() == options_.prefixes) {
    conversations_.erase(conversations_.begin());
  }
  conversations_.push_back(request.hash_ids);
  return request;
}

std::string to_line(const TraceRequest& request) {
  return fmt::format(R"({{"timestamp": {}, "input_length": {}, "output_length": {}, "hash_ids": [{}]}})",
                     request.timestamp_ms, request.input_length, request.output_length,
                     fmt::join(request.hash_ids, ", "));
}

}  // namespace kbtp::tools
