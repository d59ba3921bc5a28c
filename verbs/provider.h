// KBTP's RDMA provider over libibverbs and librdmacm: the kernel's and the card's RDMA devices (siw, rxe,
// iw_cxgb4, mlx5 and others) behind the seam proto/rdma/provider.h.
//
// A provider uses one device. Regions belong to a stream's protection domain, which is the stream's own
// unless regions were registered for its whole domain before it was opened. A Read's octets arrive in a
// staging region of the stream and are copied into the sink (G-52); a Write leaves from the caller's memory
// when that lies in a `stable` region of the stream, else from a staging copy.
//
// What differs from the user-space RNIC: there is no half close, a peer that finishes ends the stream;
// private data of an InfiniBand peer comes with zeros behind it; a region's Tagged Offset may be another than
// was asked for where the device does not let us choose (Region tells it).
//
// Threads: as the seam says. The provider owns its loops, one thread each; it is destroyed by a thread that
// is not one of them.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/address.h"
#include "base/result.h"
#include "proto/rdma/provider.h"
#include "verbs/facts.h"

namespace kbtp::verbs {

struct VerbsOptions {
  std::string
      device;  ///< name, as of `kbtp devices`; empty: the device of `address`, else the first active one
  std::optional<SocketAddress> address;  ///< that will be listened on, or reached
  unsigned loops = 1;
  bool spin = false;                           ///< loops poll instead of sleeping: one core each
  std::uint32_t send_depth = 128;              ///< work requests that the device holds for a stream
  std::uint32_t receive_depth = 1024;          ///< posted receives that the device holds; more wait
  std::size_t staging = std::size_t{1} << 20;  ///< octets, for what leaves and for what arrives each
  std::size_t max_handshakes = 256;            ///< inbound connections not yet open; past it the oldest goes
  /// Initiator: from the peer's acceptance to on_open(). A siw that accepts misses what follows at once.
  Duration pause_after_reply{};
};

/// Whether this build has rdma-core at all.
[[nodiscard]] bool available();

/// The devices of this host. Fails when there is no RDMA on it, and says what can be done.
[[nodiscard]] Result<std::vector<DeviceFacts>> devices();

class Verbs : public rdma::Provider {
 public:
  [[nodiscard]] static Result<std::unique_ptr<Verbs>> create(VerbsOptions options = {});

  [[nodiscard]] virtual const DeviceFacts& facts() const = 0;
};

}  // namespace kbtp::verbs
