#include "proto/rdma/fake/scheduler.h"

#include <algorithm>
#include <utility>

namespace kbtp::fake {

Duration Scheduler::delay() {
  if (options_.schedule != nullptr) return {};
  const auto bound = static_cast<std::uint64_t>(options_.max_delay.count());
  const std::uint64_t stretch = below(8) == 0 ? 8 : 1;
  return Duration(static_cast<Duration::rep>(below(bound * stretch + 1)));
}

/// Of the events that can happen now, the one that the Schedule wants; nothing when it wants none.
std::optional<Scheduler::Events::iterator> Scheduler::chosen() {
  std::vector<Schedule::EventId> ready;
  std::set<std::uint64_t> lanes;
  const auto end = events_.upper_bound({now_, ~std::uint64_t{0}});
  for (auto event = events_.begin(); event != end; ++event) {
    const std::uint64_t lane = event->second.tag.lane;
    if (lane == 0 || lanes.insert(lane).second) ready.push_back(event->first.second);
  }
  const auto id = options_.schedule->choose(ready);
  if (!id) return std::nullopt;
  return std::find_if(events_.begin(), end, [&](const auto& event) { return event.first.second == *id; });
}

bool Scheduler::step() {
  if (events_.empty()) return false;
  auto next = events_.begin();
  const bool choosing =
      options_.schedule != nullptr && options_.schedule->choosing() && next->first.first <= now_;
  if (choosing) {
    const auto choice = chosen();
    if (!choice) return false;
    next = *choice;
  }
  auto event = events_.extract(next);
  now_ = event.key().first;
  touched_ = event.mapped().tag.touched;
  event.mapped().task();
  if (choosing) options_.schedule->happened(touched_);
  return true;
}

void FakeLoop::post(rdma::Task task, Touched touched) {
  tasks_.push_back(std::move(task));
  // As many events as tasks: each runs the oldest, so that tasks keep their order whatever the delays are.
  scheduler_.soon(
      [this] {
        const rdma::Task next = std::move(tasks_.front());
        tasks_.pop_front();
        run(next);
      },
      {lane_, touched});
}

rdma::TimerId FakeLoop::call_at(TimePoint when, rdma::Task task) {
  const auto id = rdma::TimerId{next_timer_++};
  timers_.emplace(id, std::move(task));
  if (when == kNever) return id;
  scheduler_.at(std::max(when, scheduler_.now()),
                [this, id] {
                  const auto timer = timers_.extract(id);
                  if (!timer.empty()) run(timer.mapped());
                },
                {lane_, all_of_host()});
  return id;
}

void FakeLoop::run(const rdma::Task& task) {
  current_ = true;
  task();
  current_ = false;
}

}  // namespace kbtp::fake
