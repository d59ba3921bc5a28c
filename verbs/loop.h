// One event loop of the verbs provider.

#pragma once

#include <utility>

#include "base/event_loop.h"
#include "proto/rdma/loop.h"

namespace kbtp::verbs {

class VerbsLoop final : public rdma::Loop {
 public:
  explicit VerbsLoop(bool spin) : events_(spin) {}

  [[nodiscard]] TimePoint now() const override { return events_.now(); }
  void post(rdma::Task task) override { events_.post(std::move(task)); }
  rdma::TimerId call_at(TimePoint when, rdma::Task task) override {
    return rdma::TimerId{events_.call_at(when, std::move(task))};
  }
  void cancel(rdma::TimerId timer) override { events_.cancel(static_cast<std::uint64_t>(timer)); }
  [[nodiscard]] bool is_current() const override { return events_.is_current(); }

  [[nodiscard]] EventLoop& events() { return events_; }

 private:
  EventLoop events_;
};

}  // namespace kbtp::verbs
