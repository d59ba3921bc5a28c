// A thread with epoll, a mailbox and timers: what the RNIC's and the verbs provider's loops are made of.

#pragma once

#include <atomic>
#include <functional>
#include <map>
#include <mutex>
#include <thread>
#include <unordered_map>
#include <vector>

#include "base/time.h"

namespace kbtp {

/// Told about a descriptor's readiness (edge-triggered), on the loop.
class Watcher {
 public:
  virtual ~Watcher() = default;
  virtual void on_ready(std::uint32_t events) = 0;
  /// Asked for by defer(): at the end of a turn of the loop.
  virtual void on_turn_end() {}
};

class EventLoop {
 public:
  using Task = std::function<void()>;
  /// Of a timer; 0 is none.
  using TimerNumber = std::uint64_t;

  /// With `spin` the loop never sleeps.
  explicit EventLoop(bool spin);
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  void start();
  /// Runs what is posted so far, then ends the thread. From another thread.
  void stop();

  /// Runs `task` on the loop, in the order of posting, never from inside this call. Any thread.
  void post(Task task);
  [[nodiscard]] bool is_current() const {
    return std::this_thread::get_id() == thread_id_.load(std::memory_order_relaxed);
  }

  // On the loop only.

  /// The time of this turn.
  [[nodiscard]] TimePoint now() const { return now_; }
  TimerNumber call_at(TimePoint when, Task task);
  void cancel(TimerNumber timer);
  void watch(int fd, std::uint32_t events, Watcher& watcher);
  void unwatch(int fd, Watcher& watcher);
  /// `watcher` is about to go away: nothing of what it has deferred is called any more.
  void forget(Watcher& watcher);
  /// Calls watcher.on_turn_end() before the loop looks at its descriptors again. One that does so each time
  /// is called in every turn, and the loop does not sleep.
  void defer(Watcher& watcher);

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
  std::vector<Task> posted_;  // under mutex_
  std::atomic<bool> has_posted_{false};

  using TimerKey = std::pair<TimePoint, std::uint64_t>;
  std::map<TimerKey, Task> timers_;
  std::unordered_map<std::uint64_t, TimePoint> timer_times_;
  std::uint64_t next_timer_ = 1;

  std::vector<Watcher*> deferred_;
  std::vector<Watcher*> running_;    // the deferred ones of this turn
  std::vector<Watcher*> unwatched_;  // events of these that epoll_wait() has returned are not told
};

}  // namespace kbtp
