#include "proto/rdma/fake/schedule.h"

#include <algorithm>

namespace kbtp::fake {

bool Touched::conflict(Touched a, Touched b, Tell tell) {
  if (tell == Tell::every_order) return true;
  constexpr std::uint64_t kEachHost = 0x0084'2108'4210'8421;
  const auto of = [](Touched t, What what) { return (t.bits_ >> static_cast<unsigned>(what)) & kEachHost; };
  const auto writes = [&](Touched t) { return of(t, What::places) | of(t, What::works); };
  const auto looks = [&](Touched t) { return of(t, What::reads) | of(t, What::works); };
  std::uint64_t both = (of(a, What::sends) & of(b, What::sends)) | (of(a, What::tells) & of(b, What::tells));
  both |= (writes(a) & looks(b)) | (looks(a) & writes(b));
  if (tell == Tell::watched_memory) both |= of(a, What::places) & of(b, What::places);
  return both != 0;
}

std::optional<Schedule::EventId> Schedule::awake(const Step& step) {
  for (const EventId event : step.ready) {
    if (!step.asleep.contains(event)) return event;
  }
  return std::nullopt;
}

std::optional<Schedule::EventId> Schedule::choose(std::span<const EventId> ready) {
  if (abandoned_) return std::nullopt;
  if (chance_) return ready[(*chance_)() % ready.size()];
  if (depth_ == steps_.size()) {
    Step step{{ready.begin(), ready.end()}, asleep_, 0, {}};
    const auto chosen = awake(step);
    if (!chosen) {
      abandoned_ = true;
      return std::nullopt;
    }
    step.chosen = *chosen;
    steps_.push_back(std::move(step));
  }
  const Step& step = steps_[depth_];
  if (!std::ranges::equal(step.ready, ready)) {
    strayed_ = abandoned_ = true;
    return std::nullopt;
  }
  return step.chosen;
}

void Schedule::happened(Touched touched) {
  if (chance_) return;
  Step& step = steps_[depth_++];
  step.touched = touched;
  asleep_.clear();
  for (const auto& [event, its] : step.asleep) {
    if (!Touched::conflict(its, touched, tell_)) asleep_.emplace(event, its);
  }
}

void Schedule::rewind() {
  depth_ = 0;
  choosing_ = abandoned_ = false;
  asleep_.clear();
}

bool Schedule::next() {
  while (!steps_.empty()) {
    Step& step = steps_.back();
    step.asleep.emplace(step.chosen, step.touched);
    if (const auto other = awake(step)) {
      step.chosen = *other;
      return true;
    }
    steps_.pop_back();
  }
  return false;
}

Explored explore(std::uint64_t most_runs, Tell tell,
                 const std::function<std::optional<std::string>(Schedule&)>& program) {
  Explored explored;
  Schedule schedule(tell);
  while (explored.orders + explored.repetitions < most_runs) {
    schedule.rewind();
    const auto wrong = program(schedule);
    if (schedule.strayed()) {
      explored.wrong = "the program went two ways in one order of events";
      return explored;
    }
    ++(schedule.abandoned() ? explored.repetitions : explored.orders);
    if (wrong && !schedule.abandoned()) {
      explored.wrong = *wrong;
      return explored;
    }
    if (!schedule.next()) {
      explored.all = true;
      return explored;
    }
  }
  return explored;
}

Explored sample(std::uint64_t runs, const std::function<std::optional<std::string>(Schedule&)>& program) {
  Explored explored;
  while (explored.orders < runs) {
    Schedule schedule(++explored.orders);
    if (const auto wrong = program(schedule)) {
      explored.wrong = *wrong;
      break;
    }
  }
  return explored;
}

}  // namespace kbtp::fake
