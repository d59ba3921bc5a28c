// Puts IP fragments together (RFC 791 3.2, RFC 8200 4.5). The first copy of an octet is kept. What waits is
// bounded: the packet that was begun longest ago makes room. Pure; one thread.

#pragma once

#include <cstdint>
#include <list>
#include <optional>
#include <vector>

#include "pcap/frame.h"

namespace kbtp::trace {

class Defragmenter {
 public:
  struct Limits {
    std::size_t packets = 256;
    std::size_t octets = std::size_t{8} << 20;
  };

  Defragmenter() : Defragmenter(Limits{}) {}
  explicit Defragmenter(Limits limits) : limits_(limits) {}

  /// Takes a fragment. Returns what its packet carries once that is whole; it points into this object and is
  /// valid until the next call. A fragment that was cut short in the capture, or that reaches beyond 65,535
  /// octets, is dropped.
  [[nodiscard]] std::optional<Packet> take(const IpFragment& fragment);

 private:
  struct Waiting {
    TransportAddress source, destination;
    std::uint32_t identification = 0;
    std::uint8_t protocol = 0;
    std::optional<std::uint32_t> length;  ///< once the last fragment was seen
    std::vector<std::byte> octets;
    std::vector<bool> have;  ///< by units of 8 octets: all fragments but the last are made of those
    std::uint32_t units = 0;
  };

  using List = std::list<Waiting>;

  [[nodiscard]] List::iterator find(const IpFragment& fragment);
  void drop_oldest();

  Limits limits_;
  List waiting_;  ///< the one begun longest ago first
  std::size_t held_ = 0;
  Waiting done_;
};

}  // namespace kbtp::trace
