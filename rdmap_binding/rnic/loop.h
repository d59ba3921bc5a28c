// One event loop of the RNIC: the streams' loop, with the staging buffer that they share.

#pragma once

#include <utility>

#include "base/event_loop.h"
#include "proto/rdma/loop.h"
#include "rdmap_binding/rnic/input_buffer.h"

namespace kbtp::rnic {

class RnicLoop final : public rdma::Loop {
 public:
  /// With `spin` the loop never sleeps.
  explicit RnicLoop(bool spin) : events_(spin) {}

  [[nodiscard]] TimePoint now() const override { return events_.now(); }
  void post(rdma::Task task) override { events_.post(std::move(task)); }
  rdma::TimerId call_at(TimePoint when, rdma::Task task) override {
    return rdma::TimerId{events_.call_at(when, std::move(task))};
  }
  void cancel(rdma::TimerId timer) override { events_.cancel(static_cast<std::uint64_t>(timer)); }
  [[nodiscard]] bool is_current() const override { return events_.is_current(); }

  [[nodiscard]] EventLoop& events() { return events_; }
  [[nodiscard]] Staging& staging() { return staging_; }

 private:
  EventLoop events_;
  Staging staging_;
};

}  // namespace kbtp::rnic
