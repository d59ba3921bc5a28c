// KBTP over RDMAP on DDP and MPA (9.1). All that differs from KBTP over InfiniBand and RoCEv2 is here, side
// by side with ib_binding/binding.h: proto/ never asks which binding it runs on, it asks the capabilities
// that come out of permitted().
//
//   choice             here                                        where proto/ acts on it
//   completion         always a COMPLETION; RECORD_COMPLETION      target/completion.cc, initiator/records.h
//                      is never offered (6.5)
//   invalidate         Send with Invalidate                        target/completion.cc
//   counters           Ticket and Slot Offset in one word,         wire::CounterFormat, target/core.cc,
//                      masked FetchAdd (3.3, RFC 7306)             initiator/direct_alloc.cc
//   direct allocation  when the RNIC has the Atomics of RFC 7306   target/direct.cc

#pragma once

#include "proto/rdma/capabilities.h"

namespace kbtp::rdmap_binding {

/// What KBTP may use of an RNIC, whatever else it can do.
[[nodiscard]] constexpr rdma::Capabilities permitted(rdma::Capabilities rnic) {
  // RFC 5040 5.5 rules 3 and 5: a Write may be placed before an earlier one is, and only a later Send says
  // that both are there. A record is a Write, so that whoever reads it early may find the block of an earlier
  // load.
  rnic.ordered_write_visibility = false;
  // 9.1: counters need the Add Mask of RFC 7306. Atomics without it would carry from Slot Offset into Ticket.
  if (rnic.atomics == rdma::Atomics::plain) rnic.atomics = rdma::Atomics::none;
  return rnic;
}

}  // namespace kbtp::rdmap_binding
