// What one event says, for people, in one line: a title of fixed width, then what matters. Without frame,
// time and stream.

#pragma once

#include <cstdint>
#include <string_view>

#include "pcap/event.h"
#include "pcap/output.h"

namespace kbtp::trace {

/// A tagged message, or a Send, of which the segments were counted together.
struct Segments {
  std::uint64_t octets = 0;
  std::uint32_t count = 0;
};

/// In the width that all lines have.
void write_title(std::string_view text, Colour colour, Output& out);

void write_line(const Startup& startup, Output& out);
void write_line(const BadStartup& bad, Output& out);
void write_line(const Fpdu& fpdu, Output& out);
/// `segments`: those that it came in. `kbtp_seen`: the connection speaks KBTP, so that it matters why this is
/// none.
void write_line(const Message& message, std::uint32_t segments, bool kbtp_seen, Output& out);
void write_line(const TcpEnd& end, Output& out);
void write_line(const Missing& missing, Output& out);
void write_line(const Note& note, Output& out);
void write_line(const IbPacket& ib, Output& out);
void write_line(const CmMessage& message, Output& out);
/// A message of InfiniBand that these packets, one or more, make up.
void write_packets(const ib::Packet& first, const ib::Packet& last, Segments segments, Output& out);

/// An RDMA Write or a Read Response that began at `to`; `last` says whether its last segment was seen.
void write_tagged(rdmap::Opcode opcode, std::uint32_t stag, std::uint64_t to, Segments segments, bool last,
                  Output& out);
/// A Send whose message was not put together.
void write_send(rdmap::Opcode opcode, std::uint32_t msn, Segments segments, bool last, Output& out);

}  // namespace kbtp::trace
