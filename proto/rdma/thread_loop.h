// The loop of a provider whose streams live on threads of their own: base's event loop as the seam's Loop.

#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <utility>

#include "base/event_loop.h"
#include "proto/rdma/loop.h"

namespace kbtp::rdma {

class ThreadLoop : public Loop {
 public:
  /// With `spin` the loop never sleeps.
  explicit ThreadLoop(bool spin) : events_(spin) {}

  [[nodiscard]] TimePoint now() const override { return events_.now(); }
  void post(Task task) override { events_.post(std::move(task)); }
  TimerId call_at(TimePoint when, Task task) override {
    return TimerId{events_.call_at(when, std::move(task))};
  }
  void cancel(TimerId timer) override { events_.cancel(static_cast<std::uint64_t>(timer)); }
  [[nodiscard]] bool is_current() const override { return events_.is_current(); }

  [[nodiscard]] EventLoop& events() { return events_; }

 private:
  EventLoop events_;
};

/// Runs `task` on `loop`, which another thread runs, and waits for its end. Not on a loop.
inline void on_loop(Loop& loop, const std::function<void()>& task) {
  std::mutex mutex;
  std::condition_variable done;
  bool ran = false;
  loop.post([&] {
    task();
    const std::scoped_lock lock(mutex);
    ran = true;
    done.notify_all();
  });
  std::unique_lock lock(mutex);
  done.wait(lock, [&] { return ran; });
}

}  // namespace kbtp::rdma
