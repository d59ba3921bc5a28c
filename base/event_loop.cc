#include "base/event_loop.h"

#include <algorithm>
#include <array>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

namespace kbtp {

namespace {
constexpr int kEvents = 64;
}

EventLoop::EventLoop(bool spin) : spin_(spin), now_(Clock::now()) {
  epoll_ = ::epoll_create1(EPOLL_CLOEXEC);
  wake_ = ::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.ptr = nullptr;
  ::epoll_ctl(epoll_, EPOLL_CTL_ADD, wake_, &event);
}

EventLoop::~EventLoop() {
  stop();
  ::close(wake_);
  ::close(epoll_);
}

void EventLoop::start() {
  thread_ = std::thread([this] { run(); });
}

void EventLoop::stop() {
  if (!thread_.joinable()) return;
  post([this] { stopping_ = true; });
  thread_.join();
}

void EventLoop::post(Task task) {
  bool first = false;
  {
    const std::scoped_lock lock(mutex_);
    first = posted_.empty();
    posted_.push_back(std::move(task));
    has_posted_.store(true, std::memory_order_release);
  }
  if (first && !spin_ && !is_current()) {
    const std::uint64_t one = 1;
    [[maybe_unused]] const auto n = ::write(wake_, &one, sizeof one);
  }
}

EventLoop::TimerNumber EventLoop::call_at(TimePoint when, Task task) {
  const TimerNumber id = next_timer_++;
  timers_.emplace(TimerKey{when, id}, std::move(task));
  timer_times_.emplace(id, when);
  return id;
}

void EventLoop::cancel(TimerNumber timer) {
  const auto it = timer_times_.find(timer);
  if (it == timer_times_.end()) return;
  timers_.erase({it->second, it->first});
  timer_times_.erase(it);
}

void EventLoop::watch(int fd, std::uint32_t events, Watcher& watcher) {
  epoll_event event{};
  event.events = events;
  event.data.ptr = &watcher;
  ::epoll_ctl(epoll_, EPOLL_CTL_ADD, fd, &event);
}

void EventLoop::unwatch(int fd, Watcher& watcher) {
  ::epoll_ctl(epoll_, EPOLL_CTL_DEL, fd, nullptr);
  forget(watcher);
  unwatched_.push_back(&watcher);
}

void EventLoop::forget(Watcher& watcher) {
  std::erase(deferred_, &watcher);
  std::replace(running_.begin(), running_.end(), &watcher, static_cast<Watcher*>(nullptr));
}

void EventLoop::defer(Watcher& watcher) { deferred_.push_back(&watcher); }

void EventLoop::run_tasks() {
  if (!has_posted_.load(std::memory_order_acquire)) return;
  std::vector<Task> tasks;
  {
    const std::scoped_lock lock(mutex_);
    tasks.swap(posted_);
    has_posted_.store(false, std::memory_order_relaxed);
  }
  for (Task& task : tasks) task();
}

void EventLoop::run_timers() {
  while (!timers_.empty() && timers_.begin()->first.first <= now_) {
    auto node = timers_.extract(timers_.begin());
    timer_times_.erase(node.key().second);
    node.mapped()();
  }
}

void EventLoop::run_deferred() {
  running_.swap(deferred_);
  // By index: a watcher may be unwatched, and another deferred, while one runs.
  for (std::size_t i = 0; i < running_.size(); ++i) {
    if (running_[i] != nullptr) running_[i]->on_turn_end();
  }
  running_.clear();
}

int EventLoop::timeout_ms() const {
  if (spin_ || !deferred_.empty() || has_posted_.load(std::memory_order_acquire)) return 0;
  if (timers_.empty()) return -1;
  const auto wait = timers_.begin()->first.first - Clock::now();
  if (wait <= Duration::zero()) return 0;
  constexpr std::int64_t kLongest = 60'000;
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(wait).count();
  return static_cast<int>(std::min<std::int64_t>(ms, kLongest));
}

void EventLoop::run() {
  std::array<epoll_event, kEvents> events;
  thread_id_.store(std::this_thread::get_id(), std::memory_order_relaxed);
  while (!stopping_) {
    // Descriptors unwatched from here on may still have an event in what epoll_wait() is about to return.
    unwatched_.clear();
    const int n = ::epoll_wait(epoll_, events.data(), kEvents, timeout_ms());
    now_ = Clock::now();
    for (int i = 0; i < n; ++i) {
      auto* watcher = static_cast<Watcher*>(events[static_cast<std::size_t>(i)].data.ptr);
      if (watcher == nullptr) {
        std::uint64_t count = 0;
        [[maybe_unused]] const auto got = ::read(wake_, &count, sizeof count);
      } else if (std::find(unwatched_.begin(), unwatched_.end(), watcher) == unwatched_.end()) {
        watcher->on_ready(events[static_cast<std::size_t>(i)].events);
      }
    }
    run_tasks();
    run_timers();
    run_deferred();
  }
  // What was posted before stop() has run; what these tasks posted still runs, so that nobody waits in vain.
  run_tasks();
}

}  // namespace kbtp
