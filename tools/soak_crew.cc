#include "tools/soak_crew.h"

#include <algorithm>
#include <future>
#include <thread>

namespace kbtp::tools {

namespace {

constexpr std::chrono::milliseconds kTick{5};
constexpr std::chrono::seconds kStopDeadline{60};
constexpr double kLongestBurst = 0.1;  // seconds' worth of operations that a late tick may catch up with

}  // namespace

SoakCrew::SoakCrew(rdma::Provider& provider, const Options& options)
    : loop_(provider.loop(0)), rate_(options.rate) {
  for (const Uuid& identity : options.identities) {
    const std::size_t number = lanes_.size();
    lanes_.push_back(std::make_unique<SoakLane>(provider,
                                                SoakLane::Options{.connect = options.connect,
                                                                  .identity = identity,
                                                                  .blocks = options.blocks,
                                                                  .block_size = options.block_size,
                                                                  .outstanding = options.outstanding,
                                                                  .seed = options.seed + number,
                                                                  .session_life = options.session_life},
                                                number, lanes_, tally_));
  }
}

SoakCrew::~SoakCrew() = default;

template <class Task>
auto SoakCrew::on_loop(Task task) {
  std::promise<decltype(task())> result;
  loop_.post([&] { result.set_value(task()); });
  return result.get_future().get();
}

void SoakCrew::start() {
  loop_.post([this] {
    for (auto& lane : lanes_) lane->open();
    last_tick_ = loop_.now();
    tick();
  });
}

void SoakCrew::tick() {
  const TimePoint now = loop_.now();
  allowed_ += rate_ * std::chrono::duration<double>(now - last_tick_).count();
  allowed_ = std::min(allowed_, std::max(1.0, rate_ * kLongestBurst));
  last_tick_ = now;
  for (auto& lane : lanes_) lane->disturb(now);
  // Lanes take turns; a round in which none can start anything ends the tick.
  for (std::size_t idle = 0; (stopping_ || allowed_ >= 1) && idle < lanes_.size();) {
    if (tally_.over()) break;
    SoakLane& lane = *lanes_[next_++ % lanes_.size()];
    if (lane.step()) {
      idle = 0;
      allowed_ -= 1;
    } else {
      ++idle;
    }
  }
  ticking_ = loop_.call_at(now + kTick, [this] { tick(); });
}

SoakTally SoakCrew::tally() {
  return on_loop([this] { return tally_; });
}

void SoakCrew::stop() {
  const auto all_over = [this] {
    return std::all_of(lanes_.begin(), lanes_.end(), [](const auto& lane) { return lane->over(); });
  };
  const TimePoint deadline = Clock::now() + kStopDeadline;
  on_loop([this] {
    stopping_ = true;
    for (auto& lane : lanes_) lane->stop();
    return true;
  });
  for (bool abandoned = false;;) {
    const bool late = Clock::now() > deadline;
    const bool over = on_loop([&] {
      if (late && tally_.finding.empty()) tally_.finding = "sessions did not end when they were told to";
      if (!abandoned && tally_.over()) {
        abandoned = true;
        for (auto& lane : lanes_) lane->abandon();
      }
      if (!all_over()) return false;
      loop_.cancel(ticking_);
      return true;
    });
    if (over) return;
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
}

}  // namespace kbtp::tools
