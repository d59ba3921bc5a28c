// For tests of the RNIC over real sockets: a handler that a test's thread waits for, and plain TCP ends.

#pragma once

#include <arpa/inet.h>
#include <condition_variable>
#include <filesystem>
#include <functional>
#include <gtest/gtest.h>
#include <mutex>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "rdmap_binding/rnic/rnic.h"

namespace kbtp::rnic::test {

inline constexpr auto kPatience = std::chrono::seconds(30);  // of a wait for something that must happen

/// A handler whose records may be waited for from the test's thread.
class Waiter : public rdma::StreamHandler {
 public:
  void on_open(rdma::Stream& s, Octets data) override {
    note([&] {
      stream = &s;
      private_data = to_vector(data);
    });
  }
  void on_received(const rdma::Received& r) override {
    if (echo) {
      stream->post_receives(1);
      stream->post({rdma::Send{0, to_vector(r.payload), false, std::nullopt}});
    }
    note([&] { received.push_back(to_vector(r.payload)); });
  }
  void on_completion(const rdma::Completion& c) override {
    note([&] { completions.push_back(c); });
  }
  void on_peer_finished() override { stream->close(); }
  void on_closed(const rdma::CloseReason& reason) override {
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
  rdma::Stream* stream = nullptr;
  std::vector<std::byte> private_data;
  std::vector<std::vector<std::byte>> received;
  std::vector<rdma::Completion> completions;
  std::optional<rdma::CloseReason> closed;

 private:
  template <class F>
  void note(F&& change) {
    const std::scoped_lock lock(mutex);
    change();
    changed.notify_all();
  }
};

inline void on_loop(rdma::Loop& loop, const std::function<void()>& task) {
  std::mutex mutex;
  std::condition_variable done;
  bool ran = false;
  loop.post([&] {
    task();
    const std::scoped_lock lock(mutex);
    ran = true;
    done.notify_all();
  });
  std::unique_lock lock(mutex);
  done.wait(lock, [&] { return ran; });
}

inline std::unique_ptr<Rnic> make_rnic(RnicOptions options = {}) {
  return std::move(*Rnic::create(std::move(options)));
}

inline SocketAddress loopback(const char* host, std::uint16_t port = 0) {
  return resolve({host, port})->front();
}

inline std::size_t open_descriptors() {
  std::size_t n = 0;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::ignore = entry;
    ++n;
  }
  return n;
}

/// A blocking TCP connection of the test's own; -1 when it cannot be had.
inline int plain_connect(const SocketAddress& address) {
  const int fd = ::socket(address.family(), SOCK_STREAM | SOCK_CLOEXEC, 0);
  const timeval patience{30, 0};
  ::setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  if (::connect(fd, address.get(), address.length()) != 0) {
    ::close(fd);
    return -1;
  }
  return fd;
}

}  // namespace kbtp::rnic::test
