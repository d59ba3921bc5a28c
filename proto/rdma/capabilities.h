// What a provider, or one stream of it, can do. KBTP asks this and never which binding it runs on.

#pragma once

#include <cstdint>
#include <optional>

namespace kbtp::rdma {

enum class Atomics : std::uint8_t {
  none,
  plain,   ///< unmasked FetchAdd and CmpSwap (InfiniBand, 9.2)
  masked,  ///< RFC 7306
};

enum class AtomicScope : std::uint8_t {
  device,  ///< atomic among operations of one device only
  cpu,     ///< atomic with the host's own atomic instructions too
};

/// What the peer's set-up message named as its own Read queue depths, whatever was agreed then (RFC 6581 9.1;
/// 0x3FFF: left to the upper layers).
struct PeerDepths {
  std::uint32_t ird = 0;
  std::uint32_t ord = 0;
  bool operator==(const PeerDepths&) const = default;
};

struct Capabilities {
  bool invalidate_tx = false;  ///< can send Send with Invalidate
  bool invalidate_rx = false;  ///< a Send with Invalidate from the peer revokes the STag
  Atomics atomics = Atomics::none;
  AtomicScope atomic_scope = AtomicScope::device;
  bool write_immediate = false;  ///< RDMA Write with Immediate in one operation
  bool ordered_write_visibility =
      false;  ///< a Write is visible only after earlier Writes' data: RECORD may be offered (6.5)
  bool read_sink_needs_remote_write = false;
  bool offset_is_address =
      false;  ///< regions have their addresses as Tagged Offsets, whatever RegionSpec asks
  std::uint32_t max_private_data = 0;       ///< octets a set-up message can carry for the ULP
  std::uint32_t ird = 0;                    ///< inbound Reads and Atomics outstanding, at most
  std::uint32_t ord = 0;                    ///< outbound Reads and Atomics outstanding, at most
  std::uint32_t inline_limit = 0;           ///< octets of a Send that cost no registration; 0 = no such limit
  std::optional<PeerDepths> peer_depths{};  ///< of an open stream whose set-up told them
};

}  // namespace kbtp::rdma
