#include "rdmap_binding/mpa/negotiation.h"

#include <algorithm>

#include "base/fault.h"

namespace kbtp::mpa {
namespace {

RtrSet rtr_of(const Enhanced& enhanced) { return {enhanced.rtr_send, enhanced.rtr_write, enhanced.rtr_read}; }

RtrSet both(const RtrSet& a, const RtrSet& b) {
  return {a.send && b.send, a.write && b.write, a.read && b.read};
}

void set_rtr(Enhanced& enhanced, const RtrSet& rtr) {
  enhanced.rtr_send = rtr.send;
  enhanced.rtr_write = rtr.write;
  enhanced.rtr_read = rtr.read;
}

std::uint16_t plain_depth(std::uint16_t depth) { return std::min(depth, kMaxReadDepth); }

}  // namespace

Enhanced make_request(const LocalLimits& local, bool peer_to_peer) {
  Enhanced request;
  request.ird = plain_depth(local.wanted.ird);
  request.ord = plain_depth(local.wanted.ord);
  request.peer_to_peer = peer_to_peer;
  if (peer_to_peer) set_rtr(request, local.rtr);
  return request;
}

ResponderOutcome negotiate_as_responder(const Enhanced& request, const LocalLimits& local) {
  ResponderOutcome outcome;
  ReadDepths& depths = outcome.depths;
  depths = {plain_depth(local.wanted.ird), plain_depth(local.wanted.ord)};

  // B, C and D of a Request without A are ignored, and the Reply has none of the four (RFC 6581 9.2).
  RtrSet taken;
  if (request.peer_to_peer) {
    taken = both(rtr_of(request), local.rtr);
    if (taken.empty()) taken = local.rtr;
  }

  if (request.ord != kNoNegotiation) {
    // A Read RTR takes a slot although the initiator wants none otherwise (RFC 6581 9.1).
    const std::uint16_t needed = std::max<std::uint16_t>(request.ord, taken.read ? 1 : 0);
    depths.ird = std::max(depths.ird, std::min(needed, plain_depth(local.max_ird)));
  }
  if (request.ird != kNoNegotiation && !fault(Fault::initiator_ird_ignored))
    depths.ord = std::min(depths.ord, request.ird);

  if (taken.read && depths.ird == 0) {
    // A Read RTR would find no slot: the other kinds, if there is one.
    RtrSet others = {taken.send, taken.write, false};
    if (others.empty()) others = {local.rtr.send, local.rtr.write, false};
    if (!others.empty()) taken = others;
  }

  Enhanced& reply = outcome.reply;
  reply.peer_to_peer = request.peer_to_peer && !fault(Fault::peer_to_peer_answered_plain);
  if (reply.peer_to_peer) set_rtr(reply, taken);
  const bool negotiated = request.ord != kNoNegotiation || fault(Fault::no_negotiation_ignored);
  reply.ird = negotiated ? depths.ird : kNoNegotiation;
  reply.ord = request.ird == kNoNegotiation ? kNoNegotiation : depths.ord;
  return outcome;
}

Expected<InitiatorOutcome, TerminateCode> negotiate_as_initiator(const Enhanced& request,
                                                                 const Enhanced& reply,
                                                                 const LocalLimits& local) {
  InitiatorOutcome outcome;
  ReadDepths& depths = outcome.depths;
  depths = {plain_depth(local.wanted.ird), plain_depth(local.wanted.ord)};
  if (reply.ord != kNoNegotiation && reply.ord > depths.ird) {
    if (reply.ord > local.max_ird) return unexpected(terminate::kMpaInsufficientIrd);
    depths.ird = reply.ord;
  }
  if (reply.ird != kNoNegotiation) depths.ord = std::min(depths.ord, reply.ird);

  if (request.peer_to_peer && !reply.peer_to_peer) return unexpected(terminate::kMpaNoMatchingRtr);
  if (!reply.peer_to_peer) return outcome;
  const RtrSet common = both(rtr_of(reply), local.rtr);
  // A Read RTR needs a slot on the other side even if this side wants no Reads of its own.
  if (common.write) {
    outcome.rtr = RtrKind::write;
  } else if (common.read && reply.ird > 0) {
    outcome.rtr = RtrKind::read;
  } else if (common.send) {
    outcome.rtr = RtrKind::send;
  } else {
    return unexpected(terminate::kMpaNoMatchingRtr);
  }
  return outcome;
}

}  // namespace kbtp::mpa
