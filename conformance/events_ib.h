// From captured InfiniBand packets to the events that judges read, in RDMAP's terms: a judge asks for Sends,
// Writes and Reads and does not see which wire they came over.
//
//   Send, Send with Invalidate   untagged segments of queue 0; the R_Key of the IETH is the STag
//   RDMA Write                   tagged segments; R_Key and Virtual Address are STag and Tagged Offset;
//                                Immediate Data stands beside the last one
//   RDMA Read Request, Response  an untagged segment of queue 1; tagged segments. Where a Response goes is
//                                not on the wire: its STag and its first Tagged Offset are 0
//   a packet with a wrong ICRC   octets without a frame: its receiver drops it
//   a NAK that is no retry       the connection is reset by who sent it
//   DREQ, REJ                    the connection is finished by who sent it
//
// The packets of each direction are taken as their receiver takes them (IBTA Volume 1, 9.7): in the order of
// their PSNs, whatever comes again or too early is left out. Atomics, and the Immediate Data of a Send, make
// no events.

#pragma once

#include <cstdint>
#include <optional>

#include "conformance/events.h"
#include "pcap/trace.h"

namespace kbtp::conformance {

/// The events of `connection`, whose client is the suite, appended to `out` as those of `index`.
void append_ib_events(const trace::Connection& connection, ConnectionIndex index, EventList& out);

/// The port that the suite's end told in its REQ; nothing when the capture does not have it.
[[nodiscard]] std::optional<std::uint16_t> source_port_of(const trace::Connection& connection);

}  // namespace kbtp::conformance
