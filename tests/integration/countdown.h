// Waits, with a deadline, until so many things have been done by other threads.

#pragma once

#include <chrono>
#include <condition_variable>
#include <mutex>

namespace kbtp::testing {

class Countdown {
 public:
  explicit Countdown(int count) : count_(count) {}
  /// From any thread.
  void done() {
    const std::scoped_lock lock(mutex_);
    if (--count_ <= 0) zero_.notify_all();
  }
  [[nodiscard]] bool wait() {
    std::unique_lock lock(mutex_);
    return zero_.wait_for(lock, std::chrono::seconds(100), [this] { return count_ <= 0; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable zero_;
  int count_;
};

}  // namespace kbtp::testing
