// The heart of the fake fabric: one queue of events in virtual time, the source of chance, and the loops.
// Internal to proto/rdma/fake.

#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <random>
#include <set>
#include <vector>

#include "proto/rdma/fake/fabric.h"
#include "proto/rdma/loop.h"

namespace kbtp::fake {

class Scheduler {
 public:
  explicit Scheduler(const FabricOptions& options) : options_(options), random_(options.seed) {}

  [[nodiscard]] TimePoint now() const { return now_; }
  [[nodiscard]] std::mt19937_64& random() { return random_; }
  [[nodiscard]] const FabricOptions& options() const { return options_; }

  /// Uniform in [0, bound).
  [[nodiscard]] std::uint64_t below(std::uint64_t bound) { return bound == 0 ? 0 : random_() % bound; }
  /// Usually up to max_delay, now and then eight times that.
  [[nodiscard]] Duration delay();

  void at(TimePoint when, rdma::Task task) { events_.emplace(std::pair{when, ++sequence_}, std::move(task)); }
  void after(Duration time, rdma::Task task) { at(now_ + time, std::move(task)); }
  void soon(rdma::Task task) { after(delay(), std::move(task)); }

  bool step();
  [[nodiscard]] TimePoint next() const { return events_.empty() ? kNever : events_.begin()->first.first; }
  void advance_to(TimePoint when) { now_ = std::max(now_, when); }
  void clear() { events_.clear(); }

  void observed(const Observed& what) const {
    if (observer) observer(what);
  }

  std::function<void(const Observed&)> observer;
  std::vector<std::shared_ptr<Connection>> connections;
  std::set<std::uint16_t> black_holes;

 private:
  FabricOptions options_;
  std::mt19937_64 random_;
  TimePoint now_{std::chrono::seconds(1)};
  std::uint64_t sequence_ = 0;
  std::map<std::pair<TimePoint, std::uint64_t>, rdma::Task> events_;
};

class FakeLoop final : public rdma::Loop {
 public:
  explicit FakeLoop(Scheduler& scheduler) : scheduler_(scheduler) {}

  [[nodiscard]] TimePoint now() const override { return scheduler_.now(); }
  void post(rdma::Task task) override;
  rdma::TimerId call_at(TimePoint when, rdma::Task task) override;
  void cancel(rdma::TimerId timer) override { timers_.erase(timer); }
  [[nodiscard]] bool is_current() const override { return current_; }

 private:
  void run(const rdma::Task& task);

  Scheduler& scheduler_;
  std::deque<rdma::Task> tasks_;
  std::map<rdma::TimerId, rdma::Task> timers_;
  std::uint64_t next_timer_ = 1;
  bool current_ = false;
};

}  // namespace kbtp::fake
