// KBTP over InfiniBand reliable connections and RoCEv2 (9.2). All that differs from KBTP over RDMAP is here,
// side by side with rdmap_binding/binding.h: proto/ never asks which binding it runs on, it asks the
// capabilities that come out of permitted().
//
//   choice             here                                        where proto/ acts on it
//   completion         COMPLETION, or a record by RDMA Write       target/completion.cc, initiator/records.h
//                      with Immediate for who asks (6.5)
//   invalidate         Send with Invalidate                        target/completion.cc
//   counters           Ticket in the high half, plain FetchAdd;    wire::CounterFormat, target/core.cc,
//                      slot = 16 * (ticket mod N)                  initiator/direct_alloc.cc
//   direct allocation  when the device has Atomics                 target/direct.cc

#pragma once

#include "proto/rdma/capabilities.h"

namespace kbtp::ib_binding {

/// What KBTP may use of a device, whatever else it can do.
[[nodiscard]] constexpr rdma::Capabilities permitted(rdma::Capabilities device) {
  // 6.5: the responder executes Writes in the order of their packets, so that the data of earlier ones is in
  // place before a record is. The record comes by RDMA Write with Immediate (9.2): without that operation
  // none is offered.
  device.ordered_write_visibility = device.write_immediate;
  // 9.2: masked Atomics are an extension of some vendors, which the counters do not rest on.
  if (device.atomics == rdma::Atomics::masked) device.atomics = rdma::Atomics::plain;
  return device;
}

}  // namespace kbtp::ib_binding
