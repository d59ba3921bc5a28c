// From a packet of ESP to what is inside, in front of a Decoder: finds the key of its SA, finds out whether
// its sequence numbers are extended, and keeps account of what could not be opened. One thread.
//
// ESP stands behind IP, or in UDP (RFC 3948): on ports 4500 and 4501, and on others when a key names the SPI.

#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "pcap/esp_decrypt.h"
#include "pcap/esp_keys.h"
#include "pcap/frame.h"

namespace kbtp::trace {

/// The ESP packet in which something stood.
struct EspSeen {
  std::uint32_t spi = 0;
  std::uint64_t sequence = 0;  ///< 64 bits of it when the SA has extended ones
  bool tunnel = false;         ///< an IP packet stood in it; else what follows an IP header
  bool in_udp = false;
};

class EspStage {
 public:
  /// A security association, as it was seen.
  struct Association {
    std::uint32_t spi = 0;
    TransportAddress source, destination;  ///< ports are 0
    std::uint64_t opened = 0;
    std::uint64_t icv_wrong = 0;  ///< packets that none of its keys fits
    std::uint64_t malformed = 0;
    std::uint64_t cut_short = 0;  ///< in the capture: they cannot be opened
    std::uint64_t odd_padding = 0;
    std::uint64_t without_key = 0;

    /// "SPI 0x00001001 from 10.2.1.1 to 10.2.1.2".
    [[nodiscard]] std::string to_string() const;
  };
  /// Told once for an SA: its first packet that a key was there for and did not fit, while none fitted.
  using OnWrongKey = std::function<void(const Association& association, std::size_t key_line)>;

  explicit EspStage(std::vector<EspKey> keys, OnWrongKey on_wrong_key = {});
  EspStage(const EspStage&) = delete;
  EspStage& operator=(const EspStage&) = delete;
  ~EspStage();

  /// Before the first of a frame.
  void begin_frame() { depth_ = 0; }
  /// Nothing: it is no ESP. What is returned points into this object, until the next frame.
  [[nodiscard]] std::optional<Expected<Packet, FrameProblem>> open(const Packet& packet);
  /// Of what open() returned last in this frame.
  [[nodiscard]] const EspSeen* seen() const { return depth_ == 0 || !seen_ ? nullptr : &*seen_; }

  /// In no order.
  [[nodiscard]] std::vector<Association> associations() const;

 private:
  struct Live;
  struct Id {
    std::uint32_t spi = 0;
    TransportAddress source, destination;
    bool operator==(const Id&) const = default;
  };
  struct IdHash {
    [[nodiscard]] std::size_t operator()(const Id& id) const {
      return FlowHash{}(Flow(id.source, id.destination)) * 31 + id.spi;
    }
  };

  [[nodiscard]] bool is_esp(const UdpDatagram& datagram) const;
  [[nodiscard]] Expected<Packet, FrameProblem> open(const EspPacket& packet, bool in_udp);
  Live& find(const Id& id);

  std::vector<EspKey> keys_;
  std::unordered_set<std::uint32_t> spis_;  ///< that keys name
  OnWrongKey on_wrong_key_;
  std::unordered_map<Id, Live, IdHash> live_;
  /// One for each ESP packet around another.
  std::array<std::vector<std::byte>, 2> scratch_;
  std::size_t depth_ = 0;
  std::optional<EspSeen> seen_;
};

/// The SAs that could not be opened, or not wholly, in sentences for a user; without wrong keys, of which
/// OnWrongKey told.
[[nodiscard]] std::vector<std::string> account_of(const EspStage& stage);

}  // namespace kbtp::trace
