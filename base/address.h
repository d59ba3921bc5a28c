// Where a peer is: HOST:PORT as people write it, and the socket address it stands for.

#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <sys/socket.h>
#include <vector>

#include "base/result.h"

namespace kbtp {

/// HOST:PORT as given on a command line; an IPv6 address stands in brackets ("[::1]:7420").
struct Endpoint {
  std::string host;
  std::uint16_t port = 0;

  [[nodiscard]] static Result<Endpoint> parse(std::string_view text);
  [[nodiscard]] std::string to_string() const;
};

/// An IPv4 or IPv6 address with its port.
class SocketAddress {
 public:
  SocketAddress() = default;
  SocketAddress(const sockaddr* address, socklen_t length);

  [[nodiscard]] const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&storage_); }
  [[nodiscard]] sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage_); }
  [[nodiscard]] socklen_t length() const { return length_; }
  void set_length(socklen_t length) { length_ = length; }
  static constexpr socklen_t capacity() { return sizeof(sockaddr_storage); }

  [[nodiscard]] int family() const { return storage_.ss_family; }
  [[nodiscard]] std::uint16_t port() const;
  void set_port(std::uint16_t port);
  [[nodiscard]] bool is_loopback() const;
  /// "127.0.0.1:7420" or "[::1]:7420".
  [[nodiscard]] std::string to_string() const;
  /// The address alone: "127.0.0.1" or "::1".
  [[nodiscard]] std::string host() const;

 private:
  sockaddr_storage storage_{};
  socklen_t length_ = 0;
};

/// All addresses of an endpoint, in the order of the resolver (getaddrinfo: blocks; call it before a loop
/// runs). `passive` is for listening, where an empty host means every address.
[[nodiscard]] Result<std::vector<SocketAddress>> resolve(const Endpoint& endpoint, bool passive = false);

}  // namespace kbtp
