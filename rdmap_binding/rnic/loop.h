// One event loop of the RNIC: a thread with epoll, a mailbox and timers.

#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "proto/rdma/loop.h"
#include "rdmap_binding/rnic/input_buffer.h"

namespace kbtp::rnic {

/// Told about a descriptor's readiness (edge-triggered), on the loop.
class Watcher {
 public:
  virtual ~Watcher() = default;
  virtual void on_ready(std::uint32_t events) = 0;
  /// Asked for by defer(): at the end of a turn of the loop.
  virtual void on_turn_end() {}
};

class EventLoop final : public rdma::Loop {
 public:
  /// With `spin` the loop never sleeps.
  explicit EventLoop(bool spin);
  ~EventLoop() override;

  void start();
  /// Runs what is posted so far, then ends the thread. From another thread.
  void stop();

  [[nodiscard]] TimePoint now() const override { return now_; }
  void post(rdma::Task task) override;
  rdma::TimerId call_at(TimePoint when, rdma::Task task) override;
  void cancel(rdma::TimerId timer) override;
  [[nodiscard]] bool is_current() const override {
    return std::this_thread::get_id() == thread_id_.load(std::memory_order_relaxed);
  }

  // On the loop only.

  void watch(int fd, std::uint32_t events, Watcher& watcher);
  void unwatch(int fd, Watcher& watcher);
  /// Calls watcher.on_turn_end() before the loop looks at its descriptors again.
  void defer(Watcher& watcher);
  [[nodiscard]] Staging& staging() { return staging_; }

 private:
  void run();
  void run_tasks();
  void run_timers();
  void run_deferred();
  [[nodiscard]] int timeout_ms() const;

  const bool spin_;
  int epoll_ = -1;
  int wake_ = -1;
  std::thread thread_;
  std::atomic<std::thread::id> thread_id_{};
  TimePoint now_;
  bool stopping_ = false;

  std::mutex mutex_;
  std::vector<rdma::Task> posted_;  // under mutex_
  std::atomic<bool> has_posted_{false};

  using TimerKey = std::pair<TimePoint, std::uint64_t>;
  std::map<TimerKey, rdma::Task> timers_;
  std::unordered_map<std::uint64_t, TimePoint> timer_times_;
  std::uint64_t next_timer_ = 1;

  std::vector<Watcher*> deferred_;
  std::vector<Watcher*> running_;    // the deferred ones of this turn
  std::vector<Watcher*> unwatched_;  // events of these that epoll_wait() has returned are not told
  Staging staging_;
};

}  // namespace kbtp::rnic
