#include "pcap/decoder.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "pcap/esp.h"
#include "pcap/ib_decoder.h"

namespace kbtp::trace {

std::string ConnectionInfo::end_text(Side side) const {
  if (transport == Transport::infiniband && !address(side).v6)
    return "LID " + std::to_string(InfinibandPacket::lid(address(side)));
  std::string text = address(side).to_string();
  if (transport == Transport::tcp) return text;
  text.resize(text.rfind(':'));
  return text.starts_with('[') ? text.substr(1, text.size() - 2) : text;
}

namespace {

/// Whether the server sent the first segment that was seen of a connection.
bool is_from_server(const TcpSegment& first) {
  constexpr std::uint16_t kEphemeral = 32768;  // clients get such ports from Linux, others from higher ranges
  if (first.syn) return first.ack;
  const auto startup = mpa::decode_startup(first.payload, std::nullopt);
  if (const auto* whole = std::get_if<mpa::StartupComplete>(&startup))
    return whole->frame.kind == mpa::StartupKind::reply;
  return first.source.port < kEphemeral && first.destination.port >= kEphemeral;
}

}  // namespace

/// A connection that still may get segments.
class Decoder::Live {
 public:
  Live(const TcpSegment& first, std::uint64_t number, const DecodeOptions& options, Observer& observer)
      : observer_(observer), client_(Side::client, *this, options), server_(Side::server, *this, options) {
    const bool from_server = is_from_server(first);
    info_.number = number;
    info_.client = from_server ? first.destination : first.source;
    info_.server = from_server ? first.source : first.destination;
  }
  Live(const Live&) = delete;
  Live& operator=(const Live&) = delete;

  /// Whether `segment` is of another connection between the same ends: by its SYN, or because what it holds
  /// is far behind the end.
  [[nodiscard]] bool reopened_by(const TcpSegment& segment) const {
    const bool from_client = segment.source == info_.client;
    const Direction& own = from_client ? client_ : server_;
    const Direction& peer = from_client ? server_ : client_;
    if (!segment.syn) return own.ended && own.reassembler.is_outside(segment);
    const bool any_octets = own.reassembler.has_octets() || peer.reassembler.has_octets();
    if (const auto syn = own.reassembler.syn_sequence())
      return segment.sequence != *syn && (any_octets || !segment.ack);
    return own.reassembler.has_octets() || (!segment.ack && any_octets);
  }

  void take(const TcpSegment& segment, FrameRef frame) {
    last_ = frame;
    const bool from_client = segment.source == info_.client;
    if (segment.syn && !segment.ack && from_client) info_.opening_seen = true;
    Direction& direction = from_client ? client_ : server_;
    Direction& peer = from_client ? server_ : client_;
    if (segment.ack && !segment.rst) peer.reassembler.acknowledged(segment.acknowledgment, frame);
    const std::uint64_t differing = direction.reassembler.counters().differing;
    direction.reassembler.segment(segment, frame, direction.sink);
    if (direction.reassembler.counters().differing != differing) {
      tell(Event{direction.side,
                 frame,
                 frame,
                 direction.reassembler.next_offset(),
                 Note{"octets were sent again with other values: the first ones are kept",
                      FindingWord("octets-differ")},
                 {},
                 {}});
    }
    if (direction.reassembler.impatient() || peer.reassembler.impatient()) {
      // Of both, so that what answers the other does not come without it.
      for (Direction* each : {&client_, &server_}) {
        each->reassembler.give_up_acknowledged(each->sink);
        each->end_at_fin(frame, *this);
      }
    }
    if (segment.rst) {
      direction.reassembler.finish(frame, direction.sink);
      direction.end(TcpEnd::Kind::rst, frame, *this);
    } else {
      direction.end_at_fin(frame, *this);
    }
  }

  void finish() {
    for (Direction* direction : {&client_, &server_}) {
      direction->reassembler.finish(last_, direction->sink);
      if (direction->ended) continue;
      if (direction->reassembler.fin_offset()) {
        direction->end(TcpEnd::Kind::fin, last_, *this);
      } else {
        direction->stream.end(last_);
      }
    }
    info_.counters = {client_.reassembler.counters(), server_.reassembler.counters()};
    observer_.on_end(info_);
  }

  [[nodiscard]] bool is_of(const TcpSegment& segment) const {
    return (segment.source == info_.client && segment.destination == info_.server) ||
           (segment.source == info_.server && segment.destination == info_.client);
  }
  [[nodiscard]] Flow flow() const { return {info_.client, info_.server}; }
  [[nodiscard]] std::uint64_t number() const { return info_.number; }
  [[nodiscard]] std::size_t held_octets() const {
    return sizeof(Live) + client_.held_octets() + server_.held_octets();
  }

  std::size_t charged = 0;  ///< of held_octets(), in Decoder::held_

 private:
  struct Direction {
    Direction(Side from, Live& live, const DecodeOptions& options)
        : side(from),
          reassembler(options.reassembly),
          stream(from, live.agreement_, options, [&live](const Event& event) { live.tell(event); }),
          sink([this](const Run& run) { stream.take(run); }) {}
    Direction(const Direction&) = delete;
    Direction& operator=(const Direction&) = delete;

    void end(TcpEnd::Kind kind, FrameRef frame, Live& live) {
      if (ended) return;
      ended = true;
      stream.end(frame);
      live.tell(Event{side, frame, frame, reassembler.next_offset(), TcpEnd{kind}, {}, {}});
    }
    /// Ends it when all octets in front of its FIN were given out.
    void end_at_fin(FrameRef frame, Live& live) {
      const auto fin = reassembler.fin_offset();
      if (fin && reassembler.next_offset() >= *fin) end(TcpEnd::Kind::fin, frame, live);
    }
    [[nodiscard]] std::size_t held_octets() const { return stream.held_octets() + reassembler.held_octets(); }

    Side side;
    Reassembler reassembler;
    IwarpStream stream;
    Reassembler::Sink sink;
    bool ended = false;
  };

  void tell(const Event& event) {
    info_.lacks_octets = {client_.reassembler.lacks_octets(), server_.reassembler.lacks_octets()};
    info_.is_iwarp = info_.is_iwarp || client_.stream.is_iwarp() || server_.stream.is_iwarp();
    observer_.on_event(info_, event);
  }

  Observer& observer_;
  ConnectionInfo info_;
  Agreement agreement_;
  Direction client_, server_;
  FrameRef last_;
};

Decoder::Decoder(const DecodeOptions& options, Observer& observer, DecoderLimits limits)
    : options_(options), observer_(observer), limits_(limits) {}
Decoder::~Decoder() = default;

/// The connection of the segment, now the last to have spoken. A new SYN between ends that have spoken before
/// begins a new one.
Decoder::Live& Decoder::find(const TcpSegment& segment) {
  if (last_ != nullptr && last_->is_of(segment) && !last_->reopened_by(segment)) return *last_;
  const Flow flow(segment.source, segment.destination);
  if (const auto known = by_flow_.find(flow); known != by_flow_.end()) {
    const auto at = known->second;
    if (!(*at)->reopened_by(segment)) {
      live_.splice(live_.end(), live_, at);
      last_ = at->get();
      return *last_;
    }
    end(at);
  }
  if (live_.size() >= limits_.connections) {
    ++dropped_;
    end(live_.begin());
  }
  live_.push_back(std::make_unique<Live>(segment, ++connections_, options_, observer_));
  by_flow_[flow] = std::prev(live_.end());
  last_ = live_.back().get();
  return *last_;
}

void Decoder::end(Order::iterator at) {
  (*at)->finish();
  held_ -= (*at)->charged;
  by_flow_.erase((*at)->flow());
  if (at->get() == last_) last_ = nullptr;
  live_.erase(at);
}

Expected<Packet, FrameProblem> Decoder::unwrap(Expected<Packet, FrameProblem> packet) {
  for (;;) {
    if (const auto* fragment = packet ? std::get_if<IpFragment>(&*packet) : nullptr) {
      auto whole = fragments_.take(*fragment);
      if (!whole) return unexpected(FrameProblem{FrameProblem::Kind::fragment, "an IP fragment"});
      packet = std::move(*whole);
    }
    if (!packet || options_.esp == nullptr) return packet;
    auto opened = options_.esp->open(*packet);
    if (!opened) return packet;
    packet = std::move(*opened);
  }
}

void Decoder::frame(const FrameView& frame) {
  ++frames_;
  if (options_.esp != nullptr) options_.esp->begin_frame();
  const FrameRef ref{frame.number, frame.time_ns};
  auto packet = decode_frame(frame.link, frame.octets, frame.wire_length);
  if (const auto* plain = packet ? std::get_if<TcpSegment>(&*packet) : nullptr) return segment(*plain, ref);
  packet = unwrap(std::move(packet));
  if (const auto* inner = packet ? std::get_if<TcpSegment>(&*packet) : nullptr) return segment(*inner, ref);
  FrameProblem problem =
      packet ? FrameProblem{FrameProblem::Kind::other_protocol, "not TCP"} : packet.error();
  if (const auto roce = packet ? find_ib(*packet) : std::nullopt) {
    const auto done = ib().packet(*roce, ref);
    if (done) return;
    problem = done.error();
  }
  observer_.on_other_frame(frame, problem);
}

void Decoder::segment(const TcpSegment& segment, FrameRef frame) {
  Live& live = find(segment);
  live.take(segment, frame);
  held_ += live.held_octets() - live.charged;
  live.charged = live.held_octets();
  while (held_ > limits_.held_octets && live_.size() > 1) {
    ++dropped_;
    end(live_.begin());
  }
}

void Decoder::finish() {
  if (options_.esp != nullptr) options_.esp->begin_frame();  // what is told now stood in no packet
  std::vector<Order::iterator> rest;
  for (auto at = live_.begin(); at != live_.end(); ++at) rest.push_back(at);
  std::ranges::sort(rest, {}, [](const Order::iterator& at) { return (*at)->number(); });
  for (const auto at : rest) end(at);
  if (ib_) ib_->finish();
}

IbDecoder& Decoder::ib() {
  if (!ib_) ib_ = std::make_unique<IbDecoder>(options_, observer_, limits_, connections_);
  return *ib_;
}

std::uint64_t Decoder::dropped() const { return dropped_ + (ib_ ? ib_->dropped() : 0); }

}  // namespace kbtp::trace
