// Connections that start badly, on purpose: half open, malformed in the first frame, or silent after it.

#pragma once

#include <cstdint>
#include <random>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/time.h"

namespace kbtp::tools {

/// One thread. Nothing here waits.
class BadStarts {
 public:
  BadStarts(const SocketAddress& target, double per_second, std::uint64_t seed);
  /// Closes every connection.
  ~BadStarts();
  BadStarts(const BadStarts&) = delete;
  BadStarts& operator=(const BadStarts&) = delete;

  /// Starts those that are due at `now` and ends those whose time is up; to be called often.
  void step(TimePoint now);
  void close_all();
  [[nodiscard]] std::uint64_t count() const { return count_; }

 private:
  struct Start {
    int fd = -1;
    std::string unsent;
    TimePoint until;
    bool reset = false;  ///< ends with RST instead of FIN
  };
  void begin(TimePoint now);
  void end(const Start& start) const;
  [[nodiscard]] std::string choose_octets();

  SocketAddress target_;
  double per_second_;
  std::mt19937_64 random_;
  TimePoint next_{};
  std::vector<Start> starts_;
  std::uint64_t count_ = 0;
};

}  // namespace kbtp::tools
