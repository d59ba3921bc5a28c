// Hand-built frames and conversations for the tests of this room.

#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "pcap/frame.h"
#include "rdmap_binding/ddp/segment.h"
#include "rdmap_binding/mpa/fpdu.h"
#include "rdmap_binding/mpa/startup.h"
#include "rdmap_binding/rdmap/opcode.h"

namespace kbtp::trace::test {

using Bytes = std::vector<std::byte>;

inline void append(Bytes& to, Octets what) { to.insert(to.end(), what.begin(), what.end()); }
inline Bytes operator+(Bytes one, const Bytes& other) {
  append(one, other);
  return one;
}
inline Bytes pattern(std::size_t n, std::uint8_t first = 0) {
  Bytes octets(n);
  for (std::size_t i = 0; i < n; ++i) octets[i] = static_cast<std::byte>(first + i * 7);
  return octets;
}

inline TransportAddress v4(std::uint8_t last, std::uint16_t port) {
  TransportAddress address;
  address.host[0] = 10;
  address.host[3] = last;
  address.port = port;
  return address;
}
inline TransportAddress v6(std::uint8_t last, std::uint16_t port) {
  TransportAddress address;
  address.v6 = true;
  address.host[0] = 0xFD;
  address.host[15] = last;
  address.port = port;
  return address;
}

enum Flags : std::uint8_t {
  kFin = 0x01,
  kSyn = 0x02,
  kRst = 0x04,
  kAck = 0x10
};

inline Bytes tcp(std::uint16_t source, std::uint16_t destination, std::uint32_t sequence, std::uint8_t flags,
                 Octets payload, std::uint32_t acknowledgment = 0) {
  Bytes octets(20 + payload.size());
  ByteWriter out(octets);
  out.u16(source);
  out.u16(destination);
  out.u32(sequence);
  out.u32(acknowledgment);
  out.u8(5 << 4);
  out.u8(flags);
  out.zeros(6);  // window, checksum, urgent pointer
  out.bytes(payload);
  return octets;
}
inline Bytes ipv4(const TransportAddress& source, const TransportAddress& destination, std::uint8_t protocol,
                  Octets payload) {
  Bytes octets(20 + payload.size());
  ByteWriter out(octets);
  out.u8(0x45);
  out.u8(0);
  out.u16(static_cast<std::uint16_t>(20 + payload.size()));
  out.u32(0x00004000);  // DF
  out.u8(64);
  out.u8(protocol);
  out.u16(0);
  out.bytes(std::as_bytes(std::span(source.host)).first(4));
  out.bytes(std::as_bytes(std::span(destination.host)).first(4));
  out.bytes(payload);
  return octets;
}
inline Bytes ipv6(const TransportAddress& source, const TransportAddress& destination, std::uint8_t next,
                  Octets payload) {
  Bytes octets(40 + payload.size());
  ByteWriter out(octets);
  out.u32(0x60000000);
  out.u16(static_cast<std::uint16_t>(payload.size()));
  out.u8(next);
  out.u8(64);
  out.bytes(std::as_bytes(std::span(source.host)));
  out.bytes(std::as_bytes(std::span(destination.host)));
  out.bytes(payload);
  return octets;
}
inline Bytes ethernet(std::uint16_t type, Octets payload) {
  Bytes octets(14 + payload.size());
  ByteWriter out(octets);
  out.zeros(12);
  out.u16(type);
  out.bytes(payload);
  return octets;
}

/// A connection of which each segment is written by the test. Each end acknowledges all that the other has
/// said.
class Conversation {
 public:
  explicit Conversation(std::uint32_t client_isn = 1000, std::uint32_t server_isn = 0xFFFFFF00,
                        std::uint16_t client_port = 40000, std::uint8_t client = 1)
      : client_(v4(client, client_port)), server_(v4(2, 7420)), next_{client_isn, server_isn} {}

  void open() {
    add(true, kSyn, {});
    ++next_[0];
    add(false, kSyn | kAck, {});
    ++next_[1];
  }
  void say(bool from_client, Octets octets) {
    add(from_client, kAck, octets);
    next_[from_client ? 0 : 1] += static_cast<std::uint32_t>(octets.size());
  }
  /// In segments of at most `chop` octets.
  void say_chopped(bool from_client, Octets octets, std::size_t chop) {
    for (std::size_t at = 0; at < octets.size(); at += chop)
      say(from_client, octets.subspan(at, std::min(chop, octets.size() - at)));
  }
  void fin(bool from_client) {
    add(from_client, kFin | kAck, {});
    ++next_[from_client ? 0 : 1];
  }
  void rst(bool from_client) { add(from_client, kRst, {}); }
  /// A segment at any place: `back` octets before what comes next.
  void add_at(bool from_client, std::uint32_t sequence, Octets octets) {
    put(from_client, sequence, kAck, octets);
  }
  [[nodiscard]] std::uint32_t next(bool from_client) const { return next_[from_client ? 0 : 1]; }
  void skip(bool from_client, std::size_t n) { next_[from_client ? 0 : 1] += static_cast<std::uint32_t>(n); }

  std::vector<Frame> frames;

 private:
  void add(bool from_client, int flags, Octets octets) {
    put(from_client, next_[from_client ? 0 : 1], static_cast<std::uint8_t>(flags), octets);
  }
  void put(bool from_client, std::uint32_t sequence, std::uint8_t flags, Octets octets) {
    const TransportAddress& source = from_client ? client_ : server_;
    const TransportAddress& destination = from_client ? server_ : client_;
    Frame frame;
    frame.number = frames.size() + 1;
    frame.time_ns = static_cast<std::int64_t>(frame.number) * 1000;
    const std::uint32_t acknowledgment = (flags & kAck) != 0 ? next_[from_client ? 1 : 0] : 0;
    frame.octets =
        ethernet(0x0800, ipv4(source, destination, 6,
                              tcp(source.port, destination.port, sequence, flags, octets, acknowledgment)));
    frame.wire_length = static_cast<std::uint32_t>(frame.octets.size());
    frames.push_back(std::move(frame));
  }

  TransportAddress client_, server_;
  std::uint32_t next_[2];
};

inline Bytes request(bool crc = true) {
  mpa::StartupFrame frame;
  frame.crc = crc;
  frame.enhanced = mpa::Enhanced{false, false, 4, false, false, 8};
  return mpa::encode_startup(frame);
}
inline Bytes reply(bool crc = true, bool reject = false) {
  mpa::StartupFrame frame;
  frame.kind = mpa::StartupKind::reply;
  frame.crc = crc;
  frame.reject = reject;
  frame.enhanced = mpa::Enhanced{false, false, 8, false, false, 4};
  return mpa::encode_startup(frame);
}
inline Bytes untagged(rdmap::Opcode opcode, std::uint32_t queue, std::uint32_t msn, std::uint32_t offset,
                      bool last, Octets payload, std::uint32_t invalidate = 0) {
  ddp::UntaggedHeader header;
  header.last = last;
  header.rsvdulp = rdmap::control_octet(opcode);
  header.rsvdulp_stag = invalidate;
  header.queue_number = queue;
  header.msn = msn;
  header.message_offset = offset;
  const auto octets = ddp::encode(header);
  Bytes ulpdu(octets.begin(), octets.end());
  append(ulpdu, payload);
  return mpa::encode_fpdu(ulpdu);
}
inline Bytes tagged(rdmap::Opcode opcode, std::uint32_t stag, std::uint64_t offset, bool last,
                    Octets payload) {
  ddp::TaggedHeader header;
  header.last = last;
  header.rsvdulp = rdmap::control_octet(opcode);
  header.stag = stag;
  header.tagged_offset = offset;
  const auto octets = ddp::encode(header);
  Bytes ulpdu(octets.begin(), octets.end());
  append(ulpdu, payload);
  return mpa::encode_fpdu(ulpdu);
}

}  // namespace kbtp::trace::test
