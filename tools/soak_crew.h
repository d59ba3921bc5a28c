// All lanes of a soak, kept at a given number of operations a second.

#pragma once

#include <cstdint>
#include <vector>

#include "tools/soak_lane.h"

namespace kbtp::tools {

/// Used from one thread that is not the provider's loop.
class SoakCrew {
 public:
  struct Options {
    initiator::ConnectOptions connect;  ///< where to, and what every session begins with
    std::vector<Uuid> identities;       ///< one a lane; zero: anonymous
    std::uint32_t blocks = 0;           ///< of each lane
    std::uint32_t block_size = 0;
    std::uint32_t outstanding = 0;
    double rate = 0;  ///< operations a second, of all lanes together
    std::uint64_t seed = 0;
    Duration session_life{};
  };
  SoakCrew(rdma::Provider& provider, const Options& options);
  /// Only after stop().
  ~SoakCrew();
  SoakCrew(const SoakCrew&) = delete;
  SoakCrew& operator=(const SoakCrew&) = delete;

  void start();
  [[nodiscard]] SoakTally tally();
  /// Every lane frees what it holds and ends its session; what does not end in time is a finding.
  void stop();

 private:
  void tick();
  template <class Task>
  auto on_loop(Task task);

  rdma::Loop& loop_;
  const double rate_;
  SoakTally tally_;
  SoakLane::Lanes lanes_;
  rdma::TimerId ticking_ = rdma::TimerId::none;
  TimePoint last_tick_;
  double allowed_ = 0;
  std::size_t next_ = 0;
  bool stopping_ = false;
};

}  // namespace kbtp::tools
