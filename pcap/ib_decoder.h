// From InfiniBand packets to the events of conversations: pairs of queue pairs, found by the Communication
// Manager's REQ and REP, or by responses whose PSNs fit. Puts Sends together, checks ICRC and the order of
// PSNs, matches responses with requests. Bounded memory. One thread.

#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "pcap/decoder.h"
#include "pcap/frame.h"
#include "pcap/ib_event.h"

namespace kbtp::trace {

inline constexpr std::uint16_t kRoceV2Port =
    4791;  // IBTA Annex A17: UDP destination port; the source is free

/// An InfiniBand packet inside a frame.
struct RocePacket {
  Transport transport = Transport::rocev2;
  TransportAddress source, destination;  ///< ports are 0
  std::uint32_t length = 0;              ///< from the BTH to the ICRC, on the wire
  Octets octets;                         ///< as far as captured
  Octets headers;                        ///< in front of the BTH, as ib::invariant_crc() wants them; or empty
};
[[nodiscard]] std::optional<RocePacket> find_ib(const Packet& packet);

class IbDecoder {
 public:
  /// `connections` counts the connections of the whole capture.
  IbDecoder(const DecodeOptions& options, Observer& observer, const DecoderLimits& limits,
            std::uint64_t& connections);
  IbDecoder(const IbDecoder&) = delete;
  IbDecoder& operator=(const IbDecoder&) = delete;
  ~IbDecoder();

  /// Fails when there is not even a BTH.
  [[nodiscard]] Expected<void, FrameProblem> packet(const RocePacket& packet, FrameRef frame);
  /// The capture is over.
  void finish();

  [[nodiscard]] std::uint64_t dropped() const { return dropped_; }

 private:
  class Live;
  using Order = std::list<std::unique_ptr<Live>>;  // the one that was silent longest first

  /// Where packets of one direction go, or a Communication ID of one end.
  struct Key {
    enum class Kind : std::uint8_t {
      lane,     ///< value: destination queue pair
      cm_id,    ///< value: Communication ID that the source gave itself
      datagram  ///< value: both queue pairs
    };
    Kind kind = Kind::lane;
    Transport transport = Transport::rocev2;
    TransportAddress source, destination;
    std::uint64_t value = 0;
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    [[nodiscard]] std::size_t operator()(const Key& key) const;
  };
  struct Found {
    Order::iterator at;
    Side side;  ///< that sends what has this key
  };

  Found find(const RocePacket& packet, const IbPacket& ib);
  Found find(const RocePacket& packet, const ib::CmMessage& cm);
  [[nodiscard]] std::optional<Found> find_half(const RocePacket& packet, const IbPacket& ib);
  Found begin(const RocePacket& packet);
  void bind(const Key& key, Found found);
  void end(Order::iterator at);
  void touch(Order::iterator at);
  void charge(Order::iterator at);

  DecodeOptions options_;
  Observer& observer_;
  DecoderLimits limits_;
  std::uint64_t& connections_;
  Order live_;
  std::unordered_map<Key, Found, KeyHash> by_key_;
  std::uint64_t dropped_ = 0;
  std::size_t held_ = 0;
};

}  // namespace kbtp::trace
