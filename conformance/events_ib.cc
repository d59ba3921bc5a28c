#include "conformance/events_ib.h"

#include <algorithm>
#include <array>
#include <deque>
#include <utility>

#include "conformance/raw_peer.h"
#include "pcap/ib_conversation.h"

namespace kbtp::conformance {

namespace {

using ib::Operation;
using ib::Place;

constexpr std::uint8_t kPsnSequenceError = 0;  // IBTA Volume 1, 9.7.5.2.8: the requester sends again

std::uint32_t next_psn(std::uint32_t psn, std::uint32_t count = 1) { return (psn + count) & ib::kPsnMask; }

bool is_write(Operation operation) {
  return operation >= Operation::write_first && operation <= Operation::write_only_immediate;
}
bool is_read_response(Operation operation) {
  return operation >= Operation::read_response_first && operation <= Operation::read_response_only;
}
bool starts(const ib::OperationFacts& facts) {
  return facts.place == Place::first || facts.place == Place::only;
}
bool ends(const ib::OperationFacts& facts) {
  return facts.place == Place::last || facts.place == Place::only;
}

/// What one side requests, as the other one takes it.
struct Direction {
  std::optional<std::uint32_t> expected;  ///< PSN of the next request
  std::optional<std::uint32_t> furthest;  ///< the last PSN that was ahead of it
  std::uint32_t send_msn = 1, read_msn = 1;
  std::uint32_t stag = 0;    ///< of the Write that is on its way
  std::uint64_t offset = 0;  ///< octets of the message so far; of a Write its next Tagged Offset

  struct OpenRead {
    std::uint32_t next = 0;  ///< PSN of the next Response
    std::uint64_t offset = 0;
  };
  std::deque<OpenRead> reads;

  /// Whether this request is the next one; the next one is then `count` behind it.
  bool take(std::uint32_t psn, std::uint32_t count) {
    const std::int32_t ahead = expected ? trace::psn_ahead(psn, *expected) : 0;
    if (ahead > 0 && (!furthest || trace::psn_ahead(psn, *furthest) > 0)) furthest = psn;
    if (ahead != 0) return false;
    expected = next_psn(psn, count);
    return true;
  }
  [[nodiscard]] bool lacks_packets() const {
    return expected && furthest && trace::psn_ahead(*furthest, *expected) >= 0;
  }
};

class Translation {
 public:
  Translation(ConnectionIndex index, EventList& out) : index_(index), out_(out) {}

  void take(const trace::Event& event) {
    frame_ = event.frame.number;
    from_ = event.from;
    if (const auto* packet = event.as<trace::IbPacket>()) {
      take(*packet);
    } else if (const auto* cm = event.as<trace::CmMessage>()) {
      if (!cm->repeats) take(cm->cm);
    }
  }

  void finish() {
    for (const Direction& direction : directions_) out_.octets_missing |= direction.lacks_packets();
  }

 private:
  [[nodiscard]] Direction& of(trace::Side side) { return directions_[static_cast<std::size_t>(side)]; }

  void take(const ib::CmMessage& cm) {
    if (cm.path_mtu) mtu_ = ib::path_mtu_octets(*cm.path_mtu);
    // Each says with which PSN the other is to begin (IBTA Volume 1, 12.7.31).
    if (cm.starting_psn) of(trace::other(from_)).expected = cm.starting_psn;
    if (cm.kind == ib::CmKind::disconnect_request || cm.kind == ib::CmKind::connect_reject)
      add(Event::Kind::fin, {});
  }

  void take(const trace::IbPacket& ib) {
    const ib::OperationFacts* facts = ib.facts();
    const ib::Packet& packet = ib.packet;
    if (facts == nullptr || ib.error != nullptr ||
        packet.bth.opcode.service() != ib::Service::reliable_connection)
      return;
    if (!ib.sound()) return add(Event::Kind::unframed, to_vector(packet.payload));
    if (packet.payload.size() != packet.payload_length) out_.octets_missing = true;
    if (is_read_response(facts->operation)) return read_response(*facts, packet);
    if (facts->response) return acknowledge(packet);

    const bool read = facts->operation == Operation::read_request && packet.reth;
    Direction& direction = of(from_);
    if (!direction.take(packet.bth.psn, read ? packets_of(packet.reth->dma_length) : 1)) return;
    if (read) return read_request(direction, packet);
    if (is_write(facts->operation)) return write(direction, *facts, packet);
    if (facts->payload) send(direction, *facts, packet);
  }

  void send(Direction& direction, const ib::OperationFacts& facts, const ib::Packet& packet) {
    if (starts(facts)) direction.offset = 0;
    const bool solicited = packet.bth.solicited_event;
    rdmap::Opcode opcode = solicited ? rdmap::Opcode::send_se : rdmap::Opcode::send;
    if (facts.invalidates)
      opcode = solicited ? rdmap::Opcode::send_se_invalidate : rdmap::Opcode::send_invalidate;
    const auto header =
        rdmap::make_untagged(opcode, direction.send_msn, static_cast<std::uint32_t>(direction.offset),
                             ends(facts), packet.invalidated_key.value_or(0));
    add(Event::Kind::fpdu, ulpdu(header, packet.payload));
    direction.offset += packet.payload.size();
    if (ends(facts)) ++direction.send_msn;
  }

  void write(Direction& direction, const ib::OperationFacts& facts, const ib::Packet& packet) {
    if (packet.reth) {
      direction.stag = packet.reth->remote_key;
      direction.offset = packet.reth->virtual_address;
    }
    add(Event::Kind::fpdu,
        ulpdu(rdmap::make_tagged(rdmap::Opcode::rdma_write, direction.stag, direction.offset, ends(facts)),
              packet.payload));
    out_.events.back().immediate = packet.immediate;
    direction.offset += packet.payload.size();
  }

  void read_request(Direction& direction, const ib::Packet& packet) {
    const rdmap::ReadRequest request{0, 0, packet.reth->dma_length, packet.reth->remote_key,
                                     packet.reth->virtual_address};
    add(Event::Kind::fpdu, ulpdu(rdmap::make_untagged(rdmap::Opcode::read_request, direction.read_msn++),
                                 rdmap::encode(request)));
    direction.reads.push_back({packet.bth.psn, 0});
  }

  void read_response(const ib::OperationFacts& facts, const ib::Packet& packet) {
    auto& reads = of(trace::other(from_)).reads;
    const auto read = std::ranges::find(reads, packet.bth.psn, &Direction::OpenRead::next);
    if (read == reads.end()) return;
    add(Event::Kind::fpdu,
        ulpdu(rdmap::make_tagged(rdmap::Opcode::read_response, 0, read->offset, ends(facts)),
              packet.payload));
    read->offset += packet.payload.size();
    read->next = next_psn(read->next);
    if (ends(facts)) reads.erase(read);
  }

  void acknowledge(const ib::Packet& packet) {
    if (packet.aeth && packet.aeth->kind() == ib::Aeth::Kind::nak &&
        packet.aeth->value() != kPsnSequenceError)
      add(Event::Kind::reset, {});
  }

  [[nodiscard]] std::uint32_t packets_of(std::uint32_t octets) const {
    return mtu_ == 0 ? 1 : std::max<std::uint32_t>(1, octets / mtu_ + (octets % mtu_ != 0 ? 1 : 0));
  }

  void add(Event::Kind kind, std::vector<std::byte> octets) {
    Event event{.kind = kind,
                .from = from_ == trace::Side::client ? Side::suite : Side::target,
                .connection = index_,
                .frame = frame_};
    event.octets = std::move(octets);
    out_.events.push_back(std::move(event));
  }

  ConnectionIndex index_;
  EventList& out_;
  std::array<Direction, 2> directions_;
  std::uint32_t mtu_ = 0;
  std::uint64_t frame_ = 0;
  trace::Side from_ = trace::Side::client;
};

}  // namespace

void append_ib_events(const trace::Connection& connection, ConnectionIndex index, EventList& out) {
  Translation translation(index, out);
  for (const trace::Event& event : connection.events) translation.take(event);
  translation.finish();
}

std::optional<std::uint16_t> source_port_of(const trace::Connection& connection) {
  for (const trace::Event& event : connection.events) {
    const auto* cm = event.as<trace::CmMessage>();
    if (cm != nullptr && cm->cm.kind == ib::CmKind::connect_request && cm->cm.ip)
      return cm->cm.ip->source_port;
  }
  return std::nullopt;
}

}  // namespace kbtp::conformance
