// The user-space RNIC: KBTP's RDMA provider over MPA, DDP and RDMAP on TCP sockets (RFC 5044, 6581, 5041,
// 5040, 7306), behind the seam proto/rdma/provider.h.
//
// Threads: an Rnic owns its event loops, one thread each. A stream lives on one of them; its handler's
// callbacks run there. Listener and Rnic are destroyed by a thread that is not one of the loops; destroying
// the Rnic ends every stream first (each handler gets its on_closed()).
//

#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "base/address.h"
#include "base/result.h"
#include "base/time.h"
#include "proto/rdma/provider.h"
#include "rdmap_binding/mpa/negotiation.h"

namespace kbtp::rnic {

enum class Direction : std::uint8_t {
  sent,
  received,
};

enum class CrcVerdict : std::uint8_t {
  good,
  bad,      ///< the FPDU was not used; a Terminate or a close follows
  ignored,  ///< CRCs are off on this connection (both sent C=0)
};

/// One FPDU as it stood on the wire. Fields that its header does not have are 0.
struct FpduEvent {
  Direction direction = Direction::sent;
  CrcVerdict crc = CrcVerdict::good;
  SocketAddress local;
  SocketAddress peer;
  std::uint64_t stream_octet = 0;  ///< octets of this direction before the FPDU, MPA start-up frames included
  std::uint16_t ulpdu_length = 0;  ///< as in the FPDU's first two octets
  std::uint8_t ddp_control = 0;    ///< T 0x80, L 0x40, DV 0x03 (RFC 5041 4.1)
  std::uint8_t rdmap_control = 0;  ///< RV 0xC0, Opcode 0x0F (RFC 5040 4.1)
  rdma::STag stag = 0;             ///< tagged
  std::uint64_t tagged_offset = 0;   ///< tagged
  rdma::STag invalidate_stag = 0;    ///< untagged (RFC 5040 4.1, first word of RsvdULP)
  std::uint32_t queue_number = 0;    ///< untagged
  std::uint32_t msn = 0;             ///< untagged
  std::uint32_t mo = 0;              ///< untagged
  std::uint32_t payload_length = 0;  ///< octets behind the DDP header

  [[nodiscard]] bool tagged() const { return (ddp_control & 0x80) != 0; }
  [[nodiscard]] bool last() const { return (ddp_control & 0x40) != 0; }
  [[nodiscard]] std::uint8_t opcode() const { return rdmap_control & 0x0F; }
};

/// Runs on the stream's loop, for each FPDU wholly handed to TCP and each FPDU wholly received, in stream
/// order. With several loops it must be safe to call from all of them.
using FpduObserver = std::function<void(const FpduEvent&)>;

struct RnicOptions {
  unsigned loops = 1;
  /// C bit of our MPA start-up frames. CRCs are off only when the peer sends C=0 as well (RFC 5044 7.1.1).
  bool crc = true;
  /// Loops poll instead of sleeping: lowest latency, one core each.
  bool spin = false;
  std::string congestion_control;  ///< TCP_CONGESTION of every connection; empty = the system's
  /// M bit of our MPA start-up frames: the peer is to put markers into what it sends us, at the price of one
  /// more copy here (RFC 5044 4.3). What we send has them when the peer's frame asks for them.
  bool markers = false;
  unsigned mpa_revision = 2;  ///< 2: enhanced set-up (RFC 6581); 1: RFC 5044 alone
  /// Initiator: when a peer closes on our enhanced Request without a Reply, connect once more with revision 1
  /// (RFC 6581 10). Not for peer-to-peer streams, which need revision 2.
  bool legacy_peers = false;
  mpa::RtrSet rtr{true, true, true};  ///< RTR indications that we send or take; one at least (RFC 6581 9.2)
  std::size_t max_handshakes =
      256;  ///< inbound connections not yet in full operation; past it the oldest goes
  Duration handshake_deadline = std::chrono::seconds(10);  ///< for an inbound connection's MPA Request
  std::uint32_t max_ird = 128;  ///< ceilings for StreamOptions::ird and ::ord and for what a peer asks
  std::uint32_t max_ord = 128;
  /// Allowances for a peer that cannot take what RFC 5044 lets us send; Linux siw needs both.
  /// A TCP segment ends where an FPDU ends, as RFC 5044 5.1 wants it where TCP can: one call to TCP an FPDU.
  bool one_fpdu_a_segment = false;
  /// Initiator: between the peer's Reply and our first FPDU.
  Duration pause_after_reply{};
  int socket_buffer = 0;       ///< SO_SNDBUF and SO_RCVBUF in octets; 0 = the system's
  FpduObserver fpdu_observer;  ///< unset = no cost
};

class Rnic : public rdma::Provider {
 public:
  /// Starts the loops. Fails with a sentence when the options cannot be had here (no such congestion
  /// control).
  [[nodiscard]] static Result<std::unique_ptr<Rnic>> create(RnicOptions options = {});
};

}  // namespace kbtp::rnic
