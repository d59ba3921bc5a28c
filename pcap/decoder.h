// From frames to the events of connections, one frame at a time: nothing is kept that later frames do not
// need. One thread.

#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>

#include "pcap/defragment.h"
#include "pcap/event.h"
#include "pcap/frame.h"
#include "pcap/iwarp_stream.h"
#include "pcap/reassembly.h"

namespace kbtp::trace {

enum class Transport : std::uint8_t {
  tcp,
  rocev2,
  rocev1,
  infiniband,
};
inline constexpr std::array<std::string_view, 4> kTransportNames{"tcp", "rocev2", "rocev1", "infiniband"};
[[nodiscard]] constexpr std::string_view to_string(Transport transport) {
  return kTransportNames[static_cast<std::size_t>(transport)];
}

/// A TCP connection, or a pair of queue pairs that talk to each other, as far as it has been seen. For the
/// client of TCP see Side; that of queue pairs is who sent the REQ, or else who sent first.
struct ConnectionInfo {
  std::uint64_t number = 0;  ///< 1 for the first of the capture
  Transport transport = Transport::tcp;
  TransportAddress client, server;                 ///< ports are 0 unless TCP
  std::array<std::optional<std::uint32_t>, 2> qp;  ///< by Side, its own; as learnt up to now
  bool opening_seen = false;                       ///< the client's SYN, or its REQ, is in the capture
  bool is_iwarp = false;                           ///< as IwarpStream::is_iwarp(), of either direction
  /// By the Side that sent, with each event: octets are lacking that may still come.
  std::array<bool, 2> lacks_octets{};
  std::array<Reassembler::Counters, 2> counters;  ///< by the Side that sent; at the end

  [[nodiscard]] const TransportAddress& address(Side side) const {
    return side == Side::client ? client : server;
  }
  /// Address and port; where there are queue pairs the address or LID alone.
  [[nodiscard]] std::string end_text(Side side) const;
};

/// Who is told. What is handed over is valid during the call.
class Observer {
 public:
  virtual ~Observer() = default;
  /// Events of one connection come in the order of the frames that completed them; those of a direction that
  /// lacks octets may come behind later ones of the other.
  virtual void on_event(const ConnectionInfo& connection, const Event& event) = 0;
  /// It ended, or the capture did, or it made room for others: the last call about it.
  virtual void on_end(const ConnectionInfo& connection) = 0;
  /// A frame without a TCP segment or an InfiniBand packet.
  virtual void on_other_frame(const FrameView& frame, const FrameProblem& problem) = 0;
};

/// Bounds of what a Decoder holds.
struct DecoderLimits {
  std::size_t connections = 32768;  ///< beyond it the one that was silent longest ends
  /// Memory of all connections together, likewise: their state, octets behind gaps, messages put together.
  std::size_t held_octets = std::size_t{128} << 20;
  // Both count for TCP connections and for queue pairs, each by themselves.
};

class IbDecoder;

class Decoder {
 public:
  Decoder(const DecodeOptions& options, Observer& observer, DecoderLimits limits = {});
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;
  ~Decoder();

  void frame(const FrameView& frame);
  /// The capture is over: ends every connection, in the order of their first segments, those of TCP first.
  void finish();

  [[nodiscard]] std::uint64_t frames() const { return frames_; }
  /// Connections that ended early to make room.
  [[nodiscard]] std::uint64_t dropped() const;

 private:
  class Live;
  using Order = std::list<std::unique_ptr<Live>>;  // the one that was silent longest first

  Live& find(const TcpSegment& segment);
  void segment(const TcpSegment& segment, FrameRef frame);
  void end(Order::iterator at);
  /// Puts fragments together and opens ESP, the one in the other.
  [[nodiscard]] Expected<Packet, FrameProblem> unwrap(Expected<Packet, FrameProblem> packet);
  [[nodiscard]] IbDecoder& ib();

  DecodeOptions options_;
  Observer& observer_;
  DecoderLimits limits_;
  Defragmenter fragments_;
  std::unique_ptr<IbDecoder> ib_;  ///< once there is an InfiniBand packet
  Order live_;
  Live* last_ = nullptr;  ///< to which the last segment belonged, the last of live_
  std::unordered_map<Flow, Order::iterator, FlowHash> by_flow_;
  std::uint64_t connections_ = 0;
  std::uint64_t frames_ = 0;
  std::uint64_t dropped_ = 0;
  std::size_t held_ = 0;
};

}  // namespace kbtp::trace
