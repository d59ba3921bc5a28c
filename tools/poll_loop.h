// An event loop on the caller's own thread, for descriptors and timers: what a parent of several processes
// waits with.

#pragma once

#include <deque>
#include <functional>
#include <map>
#include <utility>

#include "proto/rdma/loop.h"

namespace kbtp::tools {

/// One thread: nothing here may be called from another.
class PollLoop : public rdma::Loop {
 public:
  [[nodiscard]] TimePoint now() const override { return Clock::now(); }
  void post(rdma::Task task) override { tasks_.push_back(std::move(task)); }
  rdma::TimerId call_at(TimePoint when, rdma::Task task) override;
  void cancel(rdma::TimerId timer) override;
  [[nodiscard]] bool is_current() const override { return true; }

  /// Runs `readable` whenever `fd` can be read, or has come to its end.
  void watch(int fd, rdma::Task readable) { watched_[fd] = std::move(readable); }
  void unwatch(int fd) { watched_.erase(fd); }

  /// Turns until `over` holds; `before_waiting` runs in each turn, after its tasks.
  void run(const std::function<bool()>& over, const rdma::Task& before_waiting);

 private:
  using TimerKey = std::pair<TimePoint, rdma::TimerId>;
  void run_due();
  void wait();

  std::deque<rdma::Task> tasks_;
  std::map<TimerKey, rdma::Task> timers_;
  std::map<rdma::TimerId, TimePoint> due_;
  std::map<int, rdma::Task> watched_;
  std::uint64_t next_timer_ = 1;
};

}  // namespace kbtp::tools
