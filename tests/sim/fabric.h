// What a simulation needs of a fabric in virtual time: hosts, each an rdma::Provider, one queue of events,
// and ways to be unkind. Two stand behind it: the fake fabric (proto/rdma/fake), which places and delivers in
// any order that RFC 5040 5.5, or InfiniBand, allows, and the RNIC's engines joined by byte queues
// (engine_fabric.cc), which is the code that runs on TCP but for its sockets.

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <random>

#include "base/address.h"
#include "base/time.h"
#include "proto/rdma/provider.h"

namespace kbtp::sim {

/// The two ends of a connection: 0 is the side that connected, 1 the one that accepted.
using Side = std::size_t;

class Fabric {
 public:
  virtual ~Fabric() = default;

  /// A host with the address 10.0.0.N, N counting from 1. Lives as long as the fabric.
  [[nodiscard]] virtual rdma::Provider& add_host(std::size_t loops) = 0;
  [[nodiscard]] virtual SocketAddress address(std::size_t host, std::uint16_t port) const = 0;

  /// Runs the next event; false when there is none.
  virtual bool step() = 0;
  /// False when `limit` has passed first, or nothing is left to happen.
  virtual bool run_until(const std::function<bool()>& done, Duration limit) = 0;
  virtual void run_for(Duration time) = 0;
  [[nodiscard]] virtual TimePoint now() const = 0;
  [[nodiscard]] virtual std::mt19937_64& random() = 0;
  [[nodiscard]] std::uint64_t below(std::uint64_t bound) { return random()() % bound; }

  /// Connections count from 0 in the order in which they came to be.
  [[nodiscard]] virtual std::size_t connection_count() const = 0;
  /// Nothing more arrives on either side; each learns of it at some time.
  virtual void cut(std::size_t connection) = 0;
  /// `side` stops taking octets, or goes on.
  virtual void stall(std::size_t connection, Side side, bool stalled) = 0;
};

[[nodiscard]] std::unique_ptr<Fabric> make_fake_fabric(std::uint64_t seed, bool infiniband);
/// `revision_1`: initiators set up MPA by RFC 5044 alone.
[[nodiscard]] std::unique_ptr<Fabric> make_engine_fabric(std::uint64_t seed, bool revision_1);

}  // namespace kbtp::sim
