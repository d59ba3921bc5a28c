// The memory of both ends that peers reach through STags, as far as messages have told of it: buffers of
// requests, and the table, pool, ring, counter and partition of HELLO_ACK. Internal to the Analyzer.

#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "pcap/event.h"
#include "proto/wire/hello.h"
#include "proto/wire/request.h"
#include "proto/wire/structures.h"

namespace kbtp::trace {

/// A buffer that a request named.
struct Buffer {
  std::uint64_t begin = 0;  ///< Tagged Offset
  std::uint64_t length = 0;
  wire::Opcode op = wire::Opcode::load;
  std::uint64_t request_id = 0;
  std::uint64_t frame = 0;

  [[nodiscard]] bool holds(std::uint64_t to) const { return to >= begin && to - begin < length; }
};

/// STags are told apart by the end whose memory they name.
class KnownMemory {
 public:
  void add_buffer(std::uint32_t stag, const Buffer& buffer);
  /// The request was completed: its buffer is nobody's business any more.
  void remove_buffers(std::uint64_t request_id);
  [[nodiscard]] const Buffer* find_buffer(std::uint32_t stag, std::uint64_t to);

  void invalidated(std::uint32_t stag, std::uint64_t frame);
  /// The frame with which the STag was invalidated and not told of again.
  [[nodiscard]] std::optional<std::uint64_t> invalidated_in(std::uint32_t stag) const;

  void granted(const wire::HelloAck& ack) { ack_ = ack; }
  [[nodiscard]] const std::optional<wire::HelloAck>& session() const { return ack_; }
  /// "entry of handle 7", "block 0x2000", "ring slot 3", "Head"; empty for an STag that HELLO_ACK did not
  /// name.
  [[nodiscard]] std::string direct_name(std::uint32_t stag, std::uint64_t to) const;
  /// Buffers and STags that are remembered.
  [[nodiscard]] std::size_t held() const { return order_.size() + invalidated_order_.size(); }
  [[nodiscard]] bool is_head(std::uint32_t stag) const {
    return ack_ && ack_->head_stag != 0 && ack_->head_stag == stag;
  }

 private:
  static constexpr std::size_t kMost = 4096;
  struct Place {
    std::uint32_t stag = 0;
    std::uint64_t request_id = 0;
  };
  void forget(const Place& place);

  std::unordered_map<std::uint32_t, std::vector<Buffer>> buffers_;
  std::deque<Place> order_;  ///< of buffers, the oldest first; some may be gone
  std::unordered_map<std::uint32_t, std::uint64_t> invalidated_;
  std::deque<std::uint32_t> invalidated_order_;
  std::optional<wire::HelloAck> ack_;
};

}  // namespace kbtp::trace
