// From a capture, or from RawPeer's record, to the events that judges read.

#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "conformance/evidence.h"
#include "conformance/raw_peer.h"
#include "pcap/frame.h"
#include "proto/wire/assignment.h"

namespace kbtp::conformance {

struct EventList {
  std::vector<Event> events;
  bool octets_missing = false;  ///< the capture lacks octets of a connection
};

/// `ports` are the suite's local ports by ConnectionIndex: of TCP, or what a REQ of the Communication Manager
/// tells. Connections of other ports are left out.
[[nodiscard]] EventList events_from_capture(std::span<const trace::Frame> frames,
                                            std::span<const std::uint16_t> ports);

/// The record of one connection; frame numbers stay 0.
[[nodiscard]] std::vector<Event> events_from_record(std::span<const RecordEntry> record,
                                                    ConnectionIndex connection);

}  // namespace kbtp::conformance
