// What two enhanced start-up frames agree on: Inbound and Outbound RDMA Read Queue Depth and the RTR
// indication (RFC 6581 9.1 to 9.3). Pure functions of the frames and of what this side can do.

#pragma once

#include <cstdint>
#include <optional>

#include "base/result.h"
#include "rdmap_binding/mpa/startup.h"

namespace kbtp::mpa {

/// Simultaneous inbound and outbound RDMA Reads (and Atomics, which share the queue) of one endpoint.
struct ReadDepths {
  std::uint16_t ird = 0;
  std::uint16_t ord = 0;
  bool operator==(const ReadDepths&) const = default;
};

/// The message that tells the responder that it may send (RFC 6581 5).
enum class RtrKind : std::uint8_t {
  send,   ///< zero-length Send: QN 0, MSN 1, takes a receive buffer
  write,  ///< zero-length RDMA Write: takes nothing
  read,   ///< zero-length RDMA Read: QN 1, MSN 1, one IRD slot; answered by a zero-length Read Response
};

struct RtrSet {
  bool send = false;
  bool write = false;
  bool read = false;
  bool operator==(const RtrSet&) const = default;
  [[nodiscard]] constexpr bool empty() const { return !send && !write && !read; }
};

/// What this side wants, and how far it can go for the peer's sake.
struct LocalLimits {
  ReadDepths wanted;          ///< each at most kMaxReadDepth
  std::uint16_t max_ird = 0;  ///< most inbound Reads it can grant, >= wanted.ird
  RtrSet rtr;                 ///< RTR indications it can send (initiator) or take (responder)
};

/// The enhanced octets of a Request. Peer-to-peer sets B, C, D for every supported indication (9.2).
[[nodiscard]] Enhanced make_request(const LocalLimits& local, bool peer_to_peer);

struct ResponderOutcome {
  Enhanced reply;     ///< for an accepting Reply
  ReadDepths depths;  ///< what the responder uses from now on
  bool operator==(const ResponderOutcome&) const = default;
};

/// The responder's side: its ORD is at most the Request's IRD (MUST), its IRD at least the Request's ORD as
/// far as max_ird allows, one more when a Read RTR needs it; 0x3FFF leaves the pair alone and comes back
/// crossed over (9.1). The Reply repeats A, and with A=1 lists the offered RTRs that it takes, or, if it
/// takes none of those, all that it does take (9.2).
[[nodiscard]] ResponderOutcome negotiate_as_responder(const Enhanced& request, const LocalLimits& local);

struct InitiatorOutcome {
  ReadDepths depths;           ///< what the initiator uses from now on
  std::optional<RtrKind> rtr;  ///< what it sends first; nothing in the client-server model
  bool operator==(const InitiatorOutcome&) const = default;
};

/// The initiator's side, on an accepting enhanced Reply. IRD is raised to the Reply's ORD, else 2/0/06; ORD
/// is lowered to the Reply's IRD; without a common RTR, or when the Reply drops the peer-to-peer model,
/// 2/0/07 (9.1, 9.2). Of several common RTRs it takes Write, which needs nothing of the peer, then Read if it
/// has an outbound slot, then Send.
[[nodiscard]] Expected<InitiatorOutcome, TerminateCode> negotiate_as_initiator(const Enhanced& request,
                                                                               const Enhanced& reply,
                                                                               const LocalLimits& local);

}  // namespace kbtp::mpa
