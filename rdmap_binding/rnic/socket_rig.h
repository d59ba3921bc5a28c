// For tests of the RNIC over real sockets: plain TCP ends beside proto/rdma/waiter.h.

#pragma once

#include <arpa/inet.h>
#include <filesystem>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include "proto/rdma/waiter.h"
#include "rdmap_binding/rnic/rnic.h"

namespace kbtp::rnic::test {

using rdma::test::kPatience;
using rdma::test::on_loop;
using rdma::test::Waiter;

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
