#include "tools/poll_loop.h"

#include <algorithm>
#include <poll.h>
#include <vector>

namespace kbtp::tools {

namespace {
constexpr std::chrono::milliseconds kLongestWait{60'000};
}  // namespace

rdma::TimerId PollLoop::call_at(TimePoint when, rdma::Task task) {
  const auto timer = static_cast<rdma::TimerId>(next_timer_++);
  timers_.emplace(TimerKey{when, timer}, std::move(task));
  due_.emplace(timer, when);
  return timer;
}

void PollLoop::cancel(rdma::TimerId timer) {
  const auto found = due_.find(timer);
  if (found == due_.end()) return;
  timers_.erase({found->second, timer});
  due_.erase(found);
}

void PollLoop::run_due() {
  while (!timers_.empty() && timers_.begin()->first.first <= now()) {
    auto node = timers_.extract(timers_.begin());
    due_.erase(node.key().second);
    node.mapped()();
  }
  // What tasks post runs in the next turn.
  for (auto tasks = std::exchange(tasks_, {}); const rdma::Task& task : tasks) task();
}

void PollLoop::wait() {
  std::chrono::milliseconds time = kLongestWait;
  if (!timers_.empty())
    time = std::min(time, std::chrono::ceil<std::chrono::milliseconds>(timers_.begin()->first.first - now()));
  if (!tasks_.empty() || time.count() < 0) time = std::chrono::milliseconds(0);
  std::vector<pollfd> ready;
  ready.reserve(watched_.size());
  for (const auto& [fd, readable] : watched_) ready.push_back({.fd = fd, .events = POLLIN, .revents = 0});
  if (poll(ready.data(), ready.size(), static_cast<int>(time.count())) <= 0) return;
  for (const pollfd& one : ready) {
    if (one.revents == 0) continue;
    const auto found = watched_.find(one.fd);
    if (found == watched_.end()) continue;  // by a callback before
    const rdma::Task readable = found->second;
    readable();
  }
}

void PollLoop::run(const std::function<bool()>& over, const rdma::Task& before_waiting) {
  while (!over()) {
    run_due();
    before_waiting();
    if (!over()) wait();
  }
}

}  // namespace kbtp::tools
