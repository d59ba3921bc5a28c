// What is known of an RDMA device and what follows from it for KBTP. Without libibverbs, so that every build
// has it and tests can make up devices.

#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "proto/rdma/capabilities.h"

namespace kbtp::verbs {

/// What the device speaks.
enum class Wire : std::uint8_t {
  iwarp,       ///< KBTP 9.1
  roce,        ///< KBTP 9.2
  infiniband,  ///< KBTP 9.2
  other,       ///< usNIC, EFA and their like: no reliable connections with RDMA as KBTP needs them
};

/// As the device and its driver tell it (ibv_query_device_ex(3), ibv_query_port(3)); sizes in octets.
struct DeviceFacts {
  std::string name;
  Wire wire = Wire::other;
  std::string firmware;
  std::uint32_t vendor_id = 0;
  std::uint32_t part_id = 0;
  bool active = false;                 ///< a port of it is up
  std::vector<std::string> addresses;  ///< of this host that lead to the device, without ports
  bool atomics = false;                ///< FetchAdd and CmpSwap of 64 bits
  bool atomics_with_cpu = false;       ///< atomic with the processor's own too
  bool memory_management = false;      ///< IBV_DEVICE_MEM_MGT_EXTENSIONS: Send with Invalidate among others
  bool windows_of_type_2 = false;      ///< memory windows that a Send with Invalidate can revoke
  std::uint32_t ird = 0;               ///< inbound Reads and Atomics of a connection
  std::uint32_t ord = 0;               ///< outbound
  std::uint32_t queue_depth = 0;       ///< work requests of a queue
  std::uint32_t completion_depth = 0;  ///< entries of a completion queue
  std::uint32_t inline_limit = 0;      ///< of a Send
  std::uint64_t max_message = 0;
  std::uint64_t max_region = 0;
  std::uint32_t max_regions = 0;
  std::uint32_t max_windows = 0;
};

[[nodiscard]] const char* to_string(Wire wire);

/// What a device or its driver does otherwise than it promises.
struct Quirks {
  /// Send with Invalidate leaves with STag 0, whatever was asked for.
  bool sends_stag_zero = false;
  /// A Send with Invalidate revokes, but its completion does not tell so, nor which STag.
  bool revokes_untold = false;
  /// A region's Tagged Offset is its address, whatever was asked for.
  bool offset_is_address = false;
  /// The length of private data and MPA's own four octets together has 8 bits, and wraps.
  bool wraps_private_data = false;
  /// The Initiator is told its own two read depths the wrong way round.
  bool swaps_depths = false;
  /// A Remote Read needs no right of the region.
  bool reads_without_right = false;
  /// What was posted when the connection ended completes as a request that the device could not make sense
  /// of.
  bool blames_requests_for_ends = false;
};
[[nodiscard]] Quirks quirks_of(const DeviceFacts& facts);

/// Octets of private data that a connection request can carry: 256 of rdma_cm less 4 of MPA revision 2 on
/// iWARP (RFC 6581 9.1), 92 of a CM REQ less 36 of rdma_cm's own header elsewhere.
[[nodiscard]] std::uint32_t max_private_data(const DeviceFacts& facts);

[[nodiscard]] rdma::Capabilities capabilities_of(const DeviceFacts& facts);

/// One thing that KBTP may want of a device.
struct Use {
  std::string name;
  bool possible = false;
  std::string why;  ///< why not, or on what condition; may be empty when possible
};
[[nodiscard]] std::vector<Use> uses_of(const DeviceFacts& facts);

}  // namespace kbtp::verbs
