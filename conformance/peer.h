// The suite's end of one connection, as far as KBTP goes: it exposes buffers, sends messages, takes what
// comes. RawPeer is one that speaks iWARP octet by octet and can be wrong in any way; ProviderPeer speaks
// through an RDMA provider, and so over any wire that there is a provider for, but only what a provider lets
// it say.
//
// One thread. Nothing blocks for longer than its deadline. Once the connection is gone every function does
// nothing, so that a case need not ask at each step.

#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/bytes.h"
#include "base/time.h"
#include "rdmap_binding/mpa/startup.h"

namespace kbtp::conformance {

/// Memory of the suite that the target may read or write: `octets` between two guards of kGuard octets.
struct ExposedBuffer {
  static constexpr std::size_t kGuard = 64;
  std::uint32_t stag = 0;
  std::uint64_t tagged_offset = 0;  ///< of the first octet behind the front guard
  std::vector<std::byte> storage;   ///< guard, octets, guard
  [[nodiscard]] std::uint32_t size() const { return static_cast<std::uint32_t>(storage.size() - 2 * kGuard); }
  [[nodiscard]] MutableOctets octets() { return MutableOctets(storage).subspan(kGuard, size()); }
};

/// Whether the target may invalidate a buffer's STag. A device can do that for memory windows only.
enum class Revocable : std::uint8_t {
  no,
  by_target,
};

class Peer {
 public:
  /// Told of the local address of a connection: before its first packet where it is known by then, and in any
  /// case once a connection, without an address (port 0) when there is none.
  using OnBound = std::function<void(const SocketAddress& local)>;

  Peer() = default;
  virtual ~Peer() = default;
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;

  /// Connects; false with trouble() when there is no connection.
  [[nodiscard]] virtual bool open(const OnBound& on_bound) = 0;
  /// From the connection to the first message: over iWARP the MPA start-up with this Request.
  [[nodiscard]] virtual bool establish(const mpa::StartupFrame& request) = 0;

  /// Each message as one Send, in this order.
  virtual void send_messages(const std::vector<std::vector<std::byte>>& messages) = 0;
  void send_message(Octets message) { send_messages({to_vector(message)}); }
  /// A buffer that the target may read and write; valid as long as the peer.
  [[nodiscard]] virtual ExposedBuffer& expose(std::size_t size, Revocable revocable = Revocable::no) = 0;

  /// Handles what arrives until `done` says so, the target ends the connection, or the deadline passes.
  /// Returns what `done` says in the end.
  virtual bool pump(const std::function<bool()>& done, Duration patience) = 0;
  bool pump(const std::function<bool()>& done) { return pump(done, patience()); }
  /// Waits until the target has ended the connection.
  bool wait_for_end() {
    return pump([this] { return ended(); });
  }
  /// Messages of the Send family, in the order received; whoever takes one may remove it.
  [[nodiscard]] virtual std::deque<std::vector<std::byte>>& messages() = 0;
  /// How many RDMA Writes with Immediate have come, of which none is among the messages.
  [[nodiscard]] virtual std::size_t immediates() const { return 0; }
  [[nodiscard]] virtual bool ended() const = 0;
  /// Why the connection is of no use, in words; empty when it is.
  [[nodiscard]] virtual const std::string& trouble() const = 0;

  /// Nothing more is sent; what the target still has to say is received where the wire allows that.
  virtual void finish() = 0;
  /// Closes for good.
  virtual void close() = 0;

 protected:
  [[nodiscard]] virtual Duration patience() const = 0;
};

}  // namespace kbtp::conformance
