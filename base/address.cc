#include "base/address.h"

#include <algorithm>
#include <arpa/inet.h>
#include <charconv>
#include <cstring>
#include <netdb.h>
#include <netinet/in.h>

namespace kbtp {

Result<Endpoint> Endpoint::parse(std::string_view text) {
  const auto wrong = [&](std::string_view why) {
    return failure("'" + std::string(text) + "' is no HOST:PORT: " + std::string(why));
  };
  Endpoint endpoint;
  std::string_view port;
  if (text.starts_with('[')) {
    const auto end = text.find(']');
    if (end == std::string_view::npos) return wrong("the bracket of the IPv6 address is not closed");
    endpoint.host = text.substr(1, end - 1);
    if (end + 1 >= text.size() || text[end + 1] != ':')
      return wrong("a colon and a port must follow the bracket");
    port = text.substr(end + 2);
  } else {
    const auto colon = text.rfind(':');
    if (colon == std::string_view::npos) return wrong("there is no colon with a port behind it");
    endpoint.host = text.substr(0, colon);
    if (endpoint.host.find(':') != std::string::npos)
      return wrong("an IPv6 address stands in brackets: [::1]:7420");
    port = text.substr(colon + 1);
  }
  unsigned value = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), value);
  if (error != std::errc{} || end != port.data() + port.size() || value > 65535) {
    return wrong("the port is a number from 0 to 65535");
  }
  endpoint.port = static_cast<std::uint16_t>(value);
  return endpoint;
}

std::string Endpoint::to_string() const {
  const bool v6 = host.find(':') != std::string::npos;
  return (v6 ? "[" + host + "]" : host) + ":" + std::to_string(port);
}

SocketAddress::SocketAddress(const sockaddr* address, socklen_t length)
    : length_(std::min<socklen_t>(length, sizeof storage_)) {
  std::memcpy(&storage_, address, length_);
}

std::uint16_t SocketAddress::port() const {
  if (family() == AF_INET6) return ntohs(reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_port);
  return ntohs(reinterpret_cast<const sockaddr_in*>(&storage_)->sin_port);
}

void SocketAddress::set_port(std::uint16_t port) {
  if (family() == AF_INET6) {
    reinterpret_cast<sockaddr_in6*>(&storage_)->sin6_port = htons(port);
  } else {
    reinterpret_cast<sockaddr_in*>(&storage_)->sin_port = htons(port);
  }
}

bool SocketAddress::is_loopback() const {
  if (family() == AF_INET) {
    return (ntohl(reinterpret_cast<const sockaddr_in*>(&storage_)->sin_addr.s_addr) >> 24) == 127;
  }
  const auto& v6 = reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_addr;
  if (IN6_IS_ADDR_V4MAPPED(&v6)) return v6.s6_addr[12] == 127;
  return IN6_IS_ADDR_LOOPBACK(&v6);
}

std::string SocketAddress::host() const {
  char text[INET6_ADDRSTRLEN] = "";
  if (family() == AF_INET) {
    inet_ntop(AF_INET, &reinterpret_cast<const sockaddr_in*>(&storage_)->sin_addr, text, sizeof text);
  } else if (family() == AF_INET6) {
    inet_ntop(AF_INET6, &reinterpret_cast<const sockaddr_in6*>(&storage_)->sin6_addr, text, sizeof text);
  }
  return text;
}

std::string SocketAddress::to_string() const { return Endpoint{host(), port()}.to_string(); }

Result<std::vector<SocketAddress>> resolve(const Endpoint& endpoint, bool passive) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_NUMERICSERV | (passive ? AI_PASSIVE : 0);
  addrinfo* found = nullptr;
  const int error = getaddrinfo(endpoint.host.empty() ? nullptr : endpoint.host.c_str(),
                                std::to_string(endpoint.port).c_str(), &hints, &found);
  if (error != 0) return failure("name lookup of '" + endpoint.host + "' failed: " + gai_strerror(error));
  std::vector<SocketAddress> addresses;
  for (const addrinfo* a = found; a != nullptr; a = a->ai_next)
    addresses.emplace_back(a->ai_addr, a->ai_addrlen);
  freeaddrinfo(found);
  return addresses;
}

}  // namespace kbtp
