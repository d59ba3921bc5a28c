// The seam between KBTP and RDMA. Behind it stand the user-space RNIC (rdmap_binding/rnic), rdma-core
// (verbs) and a fake fabric for tests (proto/rdma/fake). It is kept small on purpose.
//
// Threads: a Stream's functions and its handler's callbacks run on the stream's loop. Provider's functions
// may be called from any thread unless they say otherwise.

#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <variant>
#include <vector>

#include "base/address.h"
#include "base/result.h"
#include "proto/rdma/capabilities.h"
#include "proto/rdma/completion.h"
#include "proto/rdma/loop.h"
#include "proto/rdma/region.h"
#include "proto/rdma/work_request.h"

namespace kbtp::rdma {

class Stream;

/// The upper layer of one stream. A handler outlives its stream: it may be destroyed once on_closed() has
/// returned.
class StreamHandler {
 public:
  virtual ~StreamHandler() = default;

  /// Set-up succeeded; `private_data` is what the peer's set-up message carried for the ULP. First callback.
  virtual void on_open(Stream& stream, Octets private_data) = 0;

  /// A message arrived; it has used up one posted receive. Messages come in the order sent (RFC 5040 5.5 rule
  /// 10).
  virtual void on_received(const Received& received) = 0;

  /// A work request ended. Requests of one stream complete in the order posted (RFC 5040 5.5 rule 15).
  virtual void on_completion(const Completion& completion) = 0;

  /// The peer will send no more (half close); sending still works. Default: nothing.
  virtual void on_peer_finished() {}

  /// Last callback, exactly once, also when set-up failed. Before it every posted request has completed
  /// (flushed if need be) and every stream-scoped STag is revoked.
  virtual void on_closed(const CloseReason& reason) = 0;
};

struct StreamOptions {
  DomainId domain{};                   ///< protection domain the stream's STags are looked up in
  std::uint32_t receive_size = 256;    ///< octets that one posted receive can hold
  std::uint32_t initial_receives = 2;  ///< posted before the first FPDU can arrive (G-06, G-53)
  std::uint32_t ird = 16;              ///< wanted; Stream::capabilities() tells what was agreed
  std::uint32_t ord = 16;
  std::vector<std::byte> private_data;                 ///< for the peer's ULP
  Duration setup_deadline = std::chrono::seconds(10);  ///< for TCP and MPA start-up each
  Duration send_deadline =
      std::chrono::seconds(30);  ///< a peer that takes no octet for so long is dropped (E-5)
  /// Initiator: the accepting side may send first; it is told by an RTR indication, the first message of the
  /// stream, which neither upper layer sees (RFC 6581 5).
  bool peer_to_peer = false;
};

/// A connection in full operation. Owned by the provider; valid from on_open() until on_closed() returns.
class Stream {
 public:
  virtual ~Stream() = default;

  [[nodiscard]] virtual Loop& loop() = 0;
  [[nodiscard]] virtual const Capabilities& capabilities() const = 0;
  [[nodiscard]] virtual const SocketAddress& peer() const = 0;
  [[nodiscard]] virtual const SocketAddress& local() const = 0;

  /// Posts requests in order. Each ends with exactly one on_completion(), never from inside this call. Reads
  /// and Atomics past the agreed ORD wait inside the provider.
  virtual void post(std::vector<WorkRequest> requests) = 0;

  /// How many of the posted requests have not begun to leave: a peer that takes what it is sent lets it sink
  /// to 0, whatever it still owes an answer to. On the stream's loop.
  [[nodiscard]] virtual std::size_t backlog() const = 0;

  /// Adds `count` receives of StreamOptions::receive_size octets.
  virtual void post_receives(std::uint32_t count) = 0;

  /// Registers memory for this stream alone.
  [[nodiscard]] virtual Result<Region> register_region(const RegionSpec& spec) = 0;
  /// After this returns nobody reaches the memory through `stag` any more. Unknown STags are ignored.
  virtual void revoke(STag stag) = 0;

  /// The graceful end (G-53): what was posted goes out, then FIN; on_closed() follows when the peer has
  /// finished too or after `linger`. Later posts are flushed.
  virtual void close(Duration linger = std::chrono::seconds(5)) = 0;
  /// Ends at once; whatever is posted is flushed.
  virtual void abort(std::string why) = 0;
};

/// What a listener's owner answers to a connection request.
struct Accept {
  StreamHandler* handler = nullptr;  ///< not owned
  StreamOptions options;
};
struct Reject {
  std::vector<std::byte> private_data;
  /// Set when the initiator's IRD was too low: how many Reads at a time this side needs (RFC 6581 9.1).
  std::optional<std::uint32_t> needed_ord{};
};
using AcceptDecision = std::variant<Accept, Reject>;

struct ConnectionRequest {
  SocketAddress peer;
  SocketAddress local;
  Octets private_data;  ///< valid during the call
  std::optional<PeerDepths> peer_depths{};
};
/// Called on the loop that the stream will live on.
using AcceptFunction = std::function<AcceptDecision(const ConnectionRequest& request, Loop& loop)>;

/// Destroying it stops listening and returns once no accept call is running; open streams go on. Not on a
/// loop.
class Listener {
 public:
  virtual ~Listener() = default;
  [[nodiscard]] virtual const SocketAddress& local() const = 0;
};

class Provider {
 public:
  virtual ~Provider() = default;

  /// What streams can do at best, before any is open.
  [[nodiscard]] virtual const Capabilities& capabilities() const = 0;

  [[nodiscard]] virtual std::size_t loop_count() const = 0;
  [[nodiscard]] virtual Loop& loop(std::size_t index) = 0;

  [[nodiscard]] virtual DomainId create_domain() = 0;

  /// Registers memory for every stream of `domain`. It cannot be invalidated by a peer (RFC 5040 8.1.1).
  [[nodiscard]] virtual Result<Region> register_region(DomainId domain, const RegionSpec& spec) = 0;
  /// `done` runs, on one of the loops, once no stream can reach the memory through `stag` any more.
  virtual void revoke(STag stag, Task done) = 0;

  [[nodiscard]] virtual Result<std::unique_ptr<Listener>> listen(const SocketAddress& address,
                                                                 AcceptFunction accept) = 0;

  /// Opens a stream on loop(loop_index). The outcome is on_open(), or on_closed() with the phase that failed.
  virtual void connect(const SocketAddress& address, std::size_t loop_index, StreamOptions options,
                       StreamHandler& handler) = 0;

  /// The host's own masked FetchAdd on a counter, atomic with what peers do to it (G-27); returns the word
  /// before.
  virtual std::uint64_t fetch_add_local(std::uint64_t& word, std::uint64_t add, std::uint64_t mask) = 0;
};

}  // namespace kbtp::rdma
