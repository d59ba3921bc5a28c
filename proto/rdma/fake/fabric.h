// A fake fabric for tests: any number of hosts, each an rdma::Provider, in one thread and in virtual time. It
// is as unkind as the rules of a transport allow.
//
// RDMAP (RFC 5040 5.5): a Write is read from its source and placed in pieces,
// late and in any order, until a later Send, Read Request or Read Response of its direction is delivered
// (rules 3, 5, 12); Reads are fetched in any order (20) and after whatever was sent later (12); Sends are
// delivered in order (10) and operations complete in order (15), a Write as soon as its source has been read
// (9). STags, rights, bounds, receives and Read depths are checked as an RNIC does, with the same Terminate
// triples.
//
// InfiniBand, as 6.5 and 9.2 take it: the same, but no octet of a Write is placed before all octets of the
// Writes sent earlier; inside of one Write the order is free still. Write with Immediate is one operation
// with 32 bits of immediate, Immediate Data alone is none; Atomics take no masks. A refusal is a NAK: both
// sides end, without a Terminate's codes. That a Read may return what was written by later Writes holds here
// too, for a request that comes twice is executed twice.
//
// Everything is drawn from one seed: same seed, same program, same run.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <random>
#include <string_view>
#include <vector>

#include "proto/rdma/provider.h"

namespace kbtp::fake {

class Host;
class Connection;
class Schedule;
class Scheduler;

enum class Rules : std::uint8_t {
  rdmap,
  infiniband,
};

struct FabricOptions {
  std::uint64_t seed = 1;
  Rules rules = Rules::rdmap;
  Duration max_delay = std::chrono::microseconds(20);  ///< usual bound of each single delay
  std::uint32_t max_pieces = 4;                        ///< of one Write or Read Response
  /// Chooses the order of events instead of chance; then a Write or Read Response has max_pieces pieces of
  /// about one size. Outlives the fabric.
  Schedule* schedule = nullptr;
  /// With a schedule: the hosts' code does nothing with the completions of Sends, so that it does not matter
  /// when they come.
  bool quiet_sends = false;
};

struct HostOptions {
  std::size_t loops = 1;
  rdma::Capabilities capabilities{.invalidate_tx = true,
                                  .invalidate_rx = true,
                                  .atomics = rdma::Atomics::masked,
                                  .atomic_scope = rdma::AtomicScope::cpu,
                                  .max_private_data = 508,
                                  .ird = 16,
                                  .ord = 16};
};

/// A host whose device is an InfiniBand one; for Rules::infiniband.
[[nodiscard]] HostOptions infiniband_host();

/// The two ends of a connection: 0 is the side that connected, 1 the one that accepted.
using Side = std::size_t;

/// One message as it leaves its sender, for tests that judge what goes over the wire.
struct Observed {
  enum class Kind : std::uint8_t {
    send,
    write,
    write_immediate,  ///< InfiniBand's one operation; of RDMAP's two messages the second is `immediate`
    read_request,
    read_response,
    atomic_request,
    atomic_response,
    immediate,
    terminate,  ///< or a NAK
    fin,
  };
  Kind kind = Kind::send;
  std::size_t connection = 0;
  Side sender = 0;
  Octets payload;             ///< of a Send, during the callback only
  std::uint64_t length = 0;   ///< octets of payload; of a Read Request, octets asked for
  rdma::RemoteBuffer buffer;  ///< destination of a Write, source of a Read Request, word of an Atomic
  std::uint64_t immediate = 0;
  std::optional<rdma::STag> invalidate;  ///< of a Send with Invalidate
};

class Fabric {
 public:
  explicit Fabric(FabricOptions options = {});
  ~Fabric();
  Fabric(const Fabric&) = delete;
  Fabric& operator=(const Fabric&) = delete;

  /// A host with the address 10.0.0.N, N counting from 1. Lives as long as the fabric.
  rdma::Provider& add_host(const HostOptions& options = {});
  [[nodiscard]] SocketAddress address(std::size_t host, std::uint16_t port) const;

  /// Runs the next event; false when there is none.
  bool step();
  /// Runs until `done` holds (looked at after each event); false when `limit` of virtual time has passed or
  /// nothing is left to happen.
  bool run_until(const std::function<bool()>& done, Duration limit = std::chrono::minutes(5));
  /// Runs everything that happens within `time`, and moves the clock there.
  void run_for(Duration time);
  [[nodiscard]] TimePoint now() const;
  [[nodiscard]] std::mt19937_64& random();

  /// Connections count from 0 in the order in which they were accepted.
  [[nodiscard]] std::size_t connection_count() const;
  /// The wire is cut: nothing more arrives on either side, both learn of it at some time (transport_lost).
  void cut(std::size_t connection);
  /// `side` stops taking octets from the wire (a stalled receiver), or goes on. The sender's deadline runs.
  void stall(std::size_t connection, Side side, bool stalled);
  /// Connecting to `port` of any host is never answered (a deadline test).
  void black_hole(std::uint16_t port);

  void observe(std::function<void(const Observed&)> observer);

 private:
  friend class Host;
  std::unique_ptr<Scheduler> scheduler_;
  std::vector<std::unique_ptr<Host>> hosts_;
};

}  // namespace kbtp::fake
