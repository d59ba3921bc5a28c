#include "pcap/ib_decoder.h"

#include <algorithm>
#include <utility>

#include "ib_binding/wire/icrc.h"
#include "pcap/ib_conversation.h"

namespace kbtp::trace {

namespace {

constexpr std::size_t kMostKeys = 8;         // of one conversation
constexpr std::size_t kMostSaid = 16;        // messages of the Communication Manager that are remembered
constexpr std::size_t kMostCandidates = 64;  // conversations of which one direction is known, to be asked
constexpr std::size_t kIpv6AndUdp = 48;

/// The ports of UDP say nothing about the ends.
TransportAddress without_port(TransportAddress address) {
  address.port = 0;
  return address;
}

IcrcState check_icrc(const RocePacket& roce, const ib::Packet& packet) {
  const bool whole = roce.octets.size() == roce.length;
  if (!whole || !packet.icrc || roce.headers.empty()) return IcrcState::unknown;
  ib::Network network = ib::Network::grh;
  if (roce.transport == Transport::rocev2) {
    network = roce.source.v6 ? ib::Network::ipv6_udp : ib::Network::ipv4_udp;
  } else if (roce.transport == Transport::infiniband) {
    network = roce.source.v6 ? ib::Network::lrh_grh : ib::Network::lrh;
  }
  if (network == ib::Network::ipv6_udp && roce.headers.size() != kIpv6AndUdp) return IcrcState::unknown;
  const Octets covered = roce.octets.first(roce.octets.size() - ib::kIcrcSize);
  return ib::invariant_crc(network, roce.headers, covered) == *packet.icrc ? IcrcState::good : IcrcState::bad;
}

/// What can be read of it; nothing when there is no BTH.
std::optional<IbPacket> read_packet(const RocePacket& roce) {
  IbPacket ib;
  ib.length = roce.length;
  if (auto packet = ib::decode_packet(roce.octets, roce.length)) {
    ib.packet = std::move(*packet);
    ib.icrc = check_icrc(roce, ib.packet);
    return ib;
  } else if (roce.octets.size() >= ib::kBthSize) {
    ib.packet.bth = ib::decode_bth(roce.octets.first<ib::kBthSize>());
    ib.error = packet.error().text;
    return ib;
  }
  return std::nullopt;
}

bool is_connected(ib::Service service) {
  return service == ib::Service::reliable_connection || service == ib::Service::unreliable_connection ||
         service == ib::Service::extended_reliable_connection;
}

rdmap::Opcode send_kind(const IbPacket& ib) {
  const bool solicited = ib.packet.bth.solicited_event;
  if (ib.packet.invalidated_key)
    return solicited ? rdmap::Opcode::send_se_invalidate : rdmap::Opcode::send_invalidate;
  return solicited ? rdmap::Opcode::send_se : rdmap::Opcode::send;
}

}  // namespace

std::optional<RocePacket> find_ib(const Packet& packet) {
  if (const auto* udp = std::get_if<UdpDatagram>(&packet)) {
    if (udp->destination.port != kRoceV2Port) return std::nullopt;
    return RocePacket{Transport::rocev2,
                      without_port(udp->source),
                      without_port(udp->destination),
                      udp->payload_length,
                      udp->payload,
                      udp->headers};
  }
  if (const auto* roce = std::get_if<RoceV1Packet>(&packet))
    return RocePacket{Transport::rocev1,    roce->source,  roce->destination,
                      roce->payload_length, roce->payload, roce->headers};
  if (const auto* native = std::get_if<InfinibandPacket>(&packet))
    return RocePacket{Transport::infiniband,  native->source,  native->destination,
                      native->payload_length, native->payload, native->headers};
  return std::nullopt;
}

/// A pair of queue pairs that still may get packets.
class IbDecoder::Live {
 public:
  Live(const RocePacket& first, std::uint64_t number) {
    info.number = number;
    info.transport = first.transport;
    info.client = first.source;
    info.server = first.destination;
  }

  [[nodiscard]] std::optional<std::uint32_t>& qp(Side side) {
    return info.qp[static_cast<std::size_t>(side)];
  }
  [[nodiscard]] IbDirection& direction(Side side) { return directions[static_cast<std::size_t>(side)]; }
  [[nodiscard]] std::size_t held_octets() const {
    return sizeof(Live) + keys.size() * 3 * sizeof(Key) + said_.capacity() * sizeof(Said) +
           directions[0].held_octets() + directions[1].held_octets();
  }

  ConnectionInfo info;
  std::array<IbDirection, 2> directions;  ///< by the Side that sends requests
  std::uint32_t mtu = 0;                  ///< octets of payload in First and Middle packets, once known
  std::vector<Key> keys;
  std::size_t charged = 0;

  /// Remembers what `from` says; the frame in which it said it before, if it did.
  std::optional<std::uint64_t> said_before(Side from, const ib::CmMessage& cm, std::uint64_t frame) {
    const auto same = std::ranges::find_if(said_, [&](const Said& said) {
      return said.from == from && said.kind == cm.kind && said.transaction == cm.transaction;
    });
    if (same != said_.end()) return same->frame;
    if (said_.size() >= kMostSaid) said_.erase(said_.begin());
    said_.push_back({from, cm.kind, cm.transaction, frame});
    return std::nullopt;
  }

 private:
  struct Said {
    Side from;
    ib::CmKind kind;
    std::uint64_t transaction;
    std::uint64_t frame;
  };
  std::vector<Said> said_;
};

std::size_t IbDecoder::KeyHash::operator()(const Key& key) const {
  // The ends' order counts, which a Flow does not tell: the value differs enough between directions.
  return FlowHash{}(Flow(key.source, key.destination)) ^
         (key.value * 8 + static_cast<std::size_t>(key.kind)) * 0x9E3779B97F4A7C15u;
}

IbDecoder::IbDecoder(const DecodeOptions& options, Observer& observer, const DecoderLimits& limits,
                     std::uint64_t& connections)
    : options_(options), observer_(observer), limits_(limits), connections_(connections) {}
IbDecoder::~IbDecoder() = default;

IbDecoder::Found IbDecoder::begin(const RocePacket& packet) {
  if (live_.size() >= limits_.connections) {
    ++dropped_;
    end(live_.begin());
  }
  live_.push_back(std::make_unique<Live>(packet, ++connections_));
  return {std::prev(live_.end()), Side::client};
}

/// What has `key` belongs to that conversation from now on.
void IbDecoder::bind(const Key& key, Found found) {
  Live& live = **found.at;
  if (live.keys.size() >= kMostKeys) return;
  by_key_.insert_or_assign(key, found);
  live.keys.push_back(key);
}

void IbDecoder::end(Order::iterator at) {
  Live& live = **at;
  observer_.on_end(live.info);
  held_ -= live.charged;
  for (const Key& key : live.keys) {
    const auto bound = by_key_.find(key);
    if (bound != by_key_.end() && bound->second.at == at) by_key_.erase(bound);
  }
  live_.erase(at);
}

void IbDecoder::touch(Order::iterator at) { live_.splice(live_.end(), live_, at); }

void IbDecoder::charge(Order::iterator at) {
  Live& live = **at;
  held_ += live.held_octets() - live.charged;
  live.charged = live.held_octets();
  while (held_ > limits_.held_octets && live_.size() > 1) {
    ++dropped_;
    end(live_.begin());
  }
}

/// A conversation between the same addresses of which the other direction alone is known, and which this
/// packet fits: a response by its PSN; a request, or a notification, when there is but one.
std::optional<IbDecoder::Found> IbDecoder::find_half(const RocePacket& packet, const IbPacket& ib) {
  const ib::OperationFacts* facts = ib.facts();
  const bool response = facts != nullptr && facts->response;
  std::optional<Found> only;
  std::size_t asked = 0;
  for (auto at = live_.rbegin(); at != live_.rend() && asked < kMostCandidates; ++at, ++asked) {
    Live& live = **at;
    if (live.info.transport != packet.transport) continue;
    for (const Side from : {Side::server, Side::client}) {
      const Side to = other(from);
      if (live.qp(to) || !live.qp(from)) continue;
      if (live.info.address(to) != packet.destination || live.info.address(from) != packet.source) continue;
      const Found found{std::prev(at.base()), from};
      if (response) {
        if (live.direction(to).fits(ib.packet.bth.psn)) return found;
        continue;
      }
      if (only) return std::nullopt;
      only = found;
    }
  }
  return only;
}

IbDecoder::Found IbDecoder::find(const RocePacket& packet, const IbPacket& ib) {
  const std::uint32_t qp = ib.packet.bth.destination_qp;
  if (ib.packet.deth) {
    // Datagrams name both queue pairs.
    const std::uint32_t from = ib.packet.deth->source_qp;
    const auto both = [](std::uint64_t source, std::uint64_t destination) {
      return source << 24 | destination;
    };
    const Key there{Key::Kind::datagram, packet.transport, packet.source, packet.destination, both(from, qp)};
    if (const auto known = by_key_.find(there); known != by_key_.end()) return known->second;
    const Found found = begin(packet);
    Live& live = **found.at;
    live.qp(Side::client) = from;
    live.qp(Side::server) = qp;
    bind({Key::Kind::datagram, packet.transport, packet.destination, packet.source, both(qp, from)},
         {found.at, Side::server});
    bind(there, found);
    return found;
  }
  const Key lane{Key::Kind::lane, packet.transport, packet.source, packet.destination, qp};
  if (const auto known = by_key_.find(lane); known != by_key_.end()) return known->second;
  const auto half = find_half(packet, ib);
  const Found found = half ? *half : begin(packet);
  (*found.at)->qp(other(found.side)) = qp;
  bind(lane, found);
  return found;
}

/// The conversation that a message of the Communication Manager is about; a REQ begins one.
IbDecoder::Found IbDecoder::find(const RocePacket& packet, const ib::CmMessage& cm) {
  const auto known = [&](const TransportAddress& of, const TransportAddress& to, std::uint32_t id) {
    return by_key_.find(Key{Key::Kind::cm_id, packet.transport, of, to, id});
  };
  std::optional<Found> found;
  if (const auto own = known(packet.source, packet.destination, cm.local_id); own != by_key_.end()) {
    found = own->second;
    // The same identifier for another queue pair: another connection.
    if (cm.kind == ib::CmKind::connect_request && (*found->at)->qp(found->side) != cm.qp) found.reset();
  } else if (cm.kind != ib::CmKind::connect_request) {
    const auto peer = known(packet.destination, packet.source, cm.remote_id);
    if (peer != by_key_.end()) found = Found{peer->second.at, other(peer->second.side)};
  }
  const bool fresh = !found;
  if (!found) found = begin(packet);
  Live& live = **found->at;
  const Key own{Key::Kind::cm_id, packet.transport, packet.source, packet.destination, cm.local_id};
  if (const auto bound = by_key_.find(own); bound == by_key_.end() || bound->second.at != found->at)
    bind(own, *found);
  const bool opens = cm.kind == ib::CmKind::connect_request || cm.kind == ib::CmKind::connect_reply;
  if (!opens || !cm.qp || live.qp(found->side)) return *found;

  live.qp(found->side) = cm.qp;
  if (fresh) live.info.opening_seen = cm.kind == ib::CmKind::connect_request;
  if (cm.path_mtu) live.mtu = ib::path_mtu_octets(*cm.path_mtu);
  const Side peer = other(found->side);
  // The PSN with which the receiver of the message is to begin (IBTA Volume 1, 12.7.31).
  if (cm.starting_psn) live.direction(peer).start_at(*cm.starting_psn);
  const Key lane{Key::Kind::lane, packet.transport, packet.destination, packet.source, *cm.qp};
  if (const auto old = by_key_.find(lane); old != by_key_.end() && old->second.at != found->at)
    end(old->second.at);  // the queue pair had another peer before
  bind(lane, {found->at, peer});
  return *found;
}

Expected<void, FrameProblem> IbDecoder::packet(const RocePacket& roce, FrameRef frame) {
  auto ib = read_packet(roce);
  if (!ib) {
    const bool cut = roce.octets.size() < roce.length;
    return unexpected(FrameProblem{cut ? FrameProblem::Kind::cut_short : FrameProblem::Kind::malformed,
                                   "no room for the BTH"});
  }
  const ib::OperationFacts* facts = ib->facts();
  const bool cm_packet = ib->packet.deth && ib->packet.bth.destination_qp == ib::kGeneralServicesQp &&
                         facts != nullptr && facts->operation == ib::Operation::send_only && ib->sound();
  const auto cm = cm_packet ? ib::decode_cm(ib->packet.payload) : std::nullopt;
  const Found found = cm ? find(roce, *cm) : find(roce, *ib);
  touch(found.at);
  Live& live = **found.at;
  const Side from = found.side;
  const auto tell = [&](Event event) {
    event.from = from;
    event.frame = frame;
    observer_.on_event(live.info, event);
  };

  ib->source_qp = ib->packet.deth ? ib->packet.deth->source_qp : live.qp(from);
  std::optional<IbDirection::Assembled> whole;
  if (is_connected(ib->packet.bth.opcode.service()) && facts != nullptr) {
    const bool goes_on = facts->place == ib::Place::first || facts->place == ib::Place::middle;
    if (goes_on && ib->sound() && ib->packet.payload_length != 0) live.mtu = ib->packet.payload_length;
    if (facts->response) {
      ib->answers = live.direction(other(from)).answer(*ib, live.mtu);
    } else {
      live.direction(from).order(*ib, frame, live.mtu);
      whole = live.direction(from).assemble(*ib, frame, options_.max_message);
    }
  }
  if (ib->packet.deth && !cm) live.direction(from).order_datagram(*ib);
  Event event;
  event.first = frame;
  event.octets = roce.octets;
  event.what = *ib;
  tell(event);
  if (cm) {
    event.octets = ib->packet.payload.first(std::min(ib->packet.payload.size(), ib::kMadSize));
    event.what = CmMessage{*cm, live.said_before(from, *cm, frame.number)};
    tell(event);
  } else if (whole) {
    event.first = whole->first;
    event.octets = whole->octets;
    event.what = Message{send_kind(*ib),
                         0,
                         ib->packet.invalidated_key,
                         whole->octets,
                         wire::decode_message(whole->octets, options_.assignment, options_.lengths),
                         whole->first_psn,
                         ib->packet.immediate};
    tell(event);
  }
  charge(found.at);
  return {};
}

void IbDecoder::finish() {
  std::vector<Order::iterator> rest;
  for (auto at = live_.begin(); at != live_.end(); ++at) rest.push_back(at);
  std::ranges::sort(rest, {}, [](const Order::iterator& at) { return (*at)->info.number; });
  for (const auto at : rest) end(at);
}

}  // namespace kbtp::trace
