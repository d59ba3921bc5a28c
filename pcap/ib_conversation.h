// One direction of a pair of queue pairs: order of its requests' PSNs, requests that are not answered yet,
// the Send that is being put together. Pure; one thread.

#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "pcap/ib_event.h"

namespace kbtp::trace {

/// How far `psn` is ahead of `from`, negative when behind: 24 bits that wrap (IBTA Volume 1, 9.7.1).
[[nodiscard]] constexpr std::int32_t psn_ahead(std::uint32_t psn, std::uint32_t from) {
  const auto distance = static_cast<std::int32_t>((psn - from) & ib::kPsnMask);
  return distance >= 0x800000 ? distance - 0x1000000 : distance;
}

class IbDirection {
 public:
  /// The Communication Manager has said which PSN comes first.
  void start_at(std::uint32_t psn) { next_psn_ = psn; }
  /// Places a request in the order of PSNs. `mtu`: octets of the path, 0 when not known.
  void order(IbPacket& request, FrameRef frame, std::uint32_t mtu);
  /// Whether a datagram is the one before again. More its PSN does not tell: its sender counts over all
  /// receivers.
  void order_datagram(IbPacket& datagram);
  /// What a response from the other end answers, whose state is changed only when it is `sound`.
  [[nodiscard]] std::optional<IbAnswer> answer(const IbPacket& response, std::uint32_t mtu);
  /// Whether a response with this PSN can be about what was sent here.
  [[nodiscard]] bool fits(std::uint32_t psn) const;

  /// A whole Send.
  struct Assembled {
    std::uint32_t first_psn = 0;
    FrameRef first;
    Octets octets;  ///< valid until the next call
  };
  /// Takes a sound packet with payload; a Send longer than `most` is not put together.
  [[nodiscard]] std::optional<Assembled> assemble(const IbPacket& ib, FrameRef frame, std::size_t most);

  [[nodiscard]] std::size_t held_octets() const { return buffer_.capacity() + open_.size() * sizeof(Open); }

 private:
  struct Open {
    std::uint32_t psn = 0;    ///< of a message of several packets the last
    std::uint32_t count = 1;  ///< PSNs that the response takes
    FrameRef frame;
    ib::Operation operation = ib::Operation::send_only;
    std::uint32_t dma_length = 0;
  };

  std::optional<std::uint32_t> next_psn_;
  bool next_is_least_ = false;  ///< a Read whose packets cannot be counted came before
  std::optional<std::uint32_t> last_psn_, first_psn_;
  std::deque<Open> open_;

  std::vector<std::byte> buffer_;
  bool assembling_ = false;
  std::uint32_t assembly_first_ = 0, assembly_next_ = 0;
  FrameRef assembly_frame_;
  std::optional<std::uint32_t> delivered_;  ///< PSN of the last packet of the last Send
};

}  // namespace kbtp::trace
