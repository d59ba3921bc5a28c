// For tests of providers in real time: a handler that a test's thread waits for.

#pragma once

#include <condition_variable>
#include <functional>
#include <mutex>
#include <optional>
#include <vector>

#include "proto/rdma/provider.h"
#include "proto/rdma/thread_loop.h"

namespace kbtp::rdma::test {

using rdma::on_loop;

inline constexpr auto kPatience = std::chrono::seconds(30);  // of a wait for something that must happen

/// A handler whose records may be waited for from the test's thread.
class Waiter : public StreamHandler {
 public:
  void on_open(Stream& s, Octets data) override {
    note([&] {
      stream = &s;
      private_data = to_vector(data);
    });
  }
  void on_received(const Received& r) override {
    if (echo) {
      stream->post_receives(1);
      stream->post({Send{0, to_vector(r.payload), false, std::nullopt}});
    }
    note([&] {
      if (r.immediate) {
        immediates.push_back(*r.immediate);
      } else {
        received.push_back(to_vector(r.payload));
      }
    });
  }
  void on_completion(const Completion& c) override {
    note([&] { completions.push_back(c); });
  }
  void on_peer_finished() override { stream->close(); }
  void on_closed(const CloseReason& reason) override {
    note([&] { closed = reason; });
  }
  template <class F>
  [[nodiscard]] bool wait(F&& condition) {
    std::unique_lock lock(mutex);
    return changed.wait_for(lock, kPatience, condition);
  }
  [[nodiscard]] bool wait_open() {
    return wait([&] { return stream != nullptr || closed.has_value(); }) && stream != nullptr;
  }
  [[nodiscard]] bool wait_closed() {
    return wait([&] { return closed.has_value(); });
  }

  std::mutex mutex;
  std::condition_variable changed;
  bool echo = false;
  Stream* stream = nullptr;
  std::vector<std::byte> private_data;
  std::vector<std::vector<std::byte>> received;
  std::vector<std::uint64_t> immediates;
  std::vector<Completion> completions;
  std::optional<CloseReason> closed;

 private:
  template <class F>
  void note(F&& change) {
    const std::scoped_lock lock(mutex);
    change();
    changed.notify_all();
  }
};

}  // namespace kbtp::rdma::test
