// The heart of the fake fabric: one queue of events in virtual time, the source of chance, and the loops.
// Internal to proto/rdma/fake.

#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <random>
#include <set>
#include <vector>

#include "proto/rdma/fake/fabric.h"
#include "proto/rdma/fake/schedule.h"
#include "proto/rdma/loop.h"

namespace kbtp::fake {

/// What an event is, where a Schedule chooses. Events of one lane keep their order; 0 is none.
struct Tag {
  std::uint64_t lane = 0;
  Touched touched;
};

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

  void at(TimePoint when, rdma::Task task, const Tag& tag = {}) {
    events_.emplace(std::pair{when, ++sequence_}, Event{std::move(task), tag});
  }
  void after(Duration time, rdma::Task task) { at(now_ + time, std::move(task)); }
  void soon(rdma::Task task, const Tag& tag = {}) { at(now_ + delay(), std::move(task), tag); }
  [[nodiscard]] std::uint64_t new_lane() { return ++lanes_; }
  /// The event that happens now touches this, too.
  void touch(std::size_t host, Touched::What what) { touched_ |= Touched(host, what); }

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
  struct Event {
    rdma::Task task;
    Tag tag;
  };
  using Events = std::map<std::pair<TimePoint, std::uint64_t>, Event>;
  [[nodiscard]] std::optional<Events::iterator> chosen();

  FabricOptions options_;
  std::mt19937_64 random_;
  TimePoint now_{std::chrono::seconds(1)};
  std::uint64_t sequence_ = 0;
  std::uint64_t lanes_ = 0;
  Touched touched_;
  Events events_;
};

class FakeLoop final : public rdma::Loop {
 public:
  explicit FakeLoop(Scheduler& scheduler, std::size_t host = 0)
      : scheduler_(scheduler), host_(host), lane_(scheduler.new_lane()) {}

  [[nodiscard]] TimePoint now() const override { return scheduler_.now(); }
  void post(rdma::Task task) override { post(std::move(task), all_of_host()); }
  void post(rdma::Task task, Touched touched);
  /// A task that only tells the host's code something which it takes no notice of.
  [[nodiscard]] Touched no_notice() const { return {host_, Touched::What::tells}; }
  rdma::TimerId call_at(TimePoint when, rdma::Task task) override;
  void cancel(rdma::TimerId timer) override { timers_.erase(timer); }
  [[nodiscard]] bool is_current() const override { return current_; }

 private:
  void run(const rdma::Task& task);

  [[nodiscard]] Touched all_of_host() const { return no_notice() | Touched(host_, Touched::What::works); }

  Scheduler& scheduler_;
  std::size_t host_;
  std::uint64_t lane_;
  std::deque<rdma::Task> tasks_;
  std::map<rdma::TimerId, rdma::Task> timers_;
  std::uint64_t next_timer_ = 1;
  bool current_ = false;
};

}  // namespace kbtp::fake
