#include "proto/rdma/fake/scheduler.h"

#include <utility>

namespace kbtp::fake {

Duration Scheduler::delay() {
  const auto bound = static_cast<std::uint64_t>(options_.max_delay.count());
  const std::uint64_t stretch = below(8) == 0 ? 8 : 1;
  return Duration(static_cast<Duration::rep>(below(bound * stretch + 1)));
}

bool Scheduler::step() {
  if (events_.empty()) return false;
  auto event = events_.extract(events_.begin());
  now_ = event.key().first;
  event.mapped()();
  return true;
}

void FakeLoop::post(rdma::Task task) {
  tasks_.push_back(std::move(task));
  // As many events as tasks: each runs the oldest, so that tasks keep their order whatever the delays are.
  scheduler_.soon([this] {
    const rdma::Task next = std::move(tasks_.front());
    tasks_.pop_front();
    run(next);
  });
}

rdma::TimerId FakeLoop::call_at(TimePoint when, rdma::Task task) {
  const auto id = rdma::TimerId{next_timer_++};
  timers_.emplace(id, std::move(task));
  if (when == kNever) return id;
  scheduler_.at(std::max(when, scheduler_.now()), [this, id] {
    const auto timer = timers_.extract(id);
    if (!timer.empty()) run(timer.mapped());
  });
  return id;
}

void FakeLoop::run(const rdma::Task& task) {
  current_ = true;
  task();
  current_ = false;
}

}  // namespace kbtp::fake
