// Session set-up: HELLO (64 octets) and HELLO_ACK (160 octets), both extensible: octets behind the known
// fields are ignored (G-00).

#pragma once

#include <cstdint>
#include <vector>

#include "base/bytes.h"
#include "base/uuid.h"
#include "proto/wire/assignment.h"
#include "proto/wire/error.h"

namespace kbtp::wire {

/// "No preference" as the wanted base handle (G-54).
inline constexpr std::uint64_t kNoBaseHandle = ~std::uint64_t{0};

struct Hello {
  std::uint64_t request_id = 0;
  std::uint64_t base_handle = kNoBaseHandle;  ///< wanted; the header's Handle
  Features wanted{};                          ///< the header's Flags
  std::uint8_t min_version = kVersion;
  std::uint8_t max_version = kVersion;
  std::uint32_t max_requests = 0;   ///< wanted; 0: the target chooses (P-18)
  std::uint32_t receive_size = 64;  ///< largest Send the initiator takes after HELLO_ACK, octets (P-18)
  std::uint32_t quota = 0;          ///< wanted, blocks
  std::uint64_t handle_count = 0;   ///< wanted
  Uuid identity{};                  ///< zero: anonymous
  friend bool operator==(const Hello&, const Hello&) = default;
};

/// Fields of features that are not granted are 0 (P-16); in a refusal all but Status, Request ID and, for
/// UNSUPPORTED_VERSION, Min and Max Version are 0 (P-09).
struct HelloAck {
  std::uint64_t request_id = 0;
  std::uint64_t base_handle = 0;  ///< of the initiator's own range; the header's Handle
  Features granted{};             ///< the header's Flags
  Status status = Status::success;
  std::uint16_t status_code = 0;  ///< as received; sent only when `status` is unassigned
  std::uint8_t version = 0;       ///< chosen
  std::uint8_t min_version = 0;
  std::uint8_t max_version = 0;
  std::uint8_t ring_log2 = 0;      ///< n of the direct ring; 0: there is none
  std::uint32_t max_requests = 0;  ///< credits (G-06)
  std::uint32_t max_inline = 0;    ///< octets; 0: no INLINE (G-08)
  std::uint32_t block_size = 0;    ///< octets
  std::uint64_t handle_count = 0;  ///< of the own range
  std::uint64_t table_base_handle = 0;
  std::uint64_t table_handle_count = 0;
  std::uint64_t pool_blocks = 0;  ///< F, reserve included (P-07)
  std::uint32_t quota = 0;        ///< Allocation Quota, blocks
  std::uint32_t usage = 0;        ///< blocks in use by the own range (G-24)
  std::uint32_t ticket_timeout_ms = 0;
  std::uint32_t table_stag = 0;
  std::uint64_t table_offset = 0;
  std::uint32_t pool_stag = 0;
  std::uint32_t partition_stag = 0;
  std::uint32_t ring_stag = 0;
  std::uint32_t head_stag = 0;
  std::uint64_t ring_offset = 0;
  std::uint64_t head_offset = 0;
  std::uint64_t pool_offset = 0;  ///< first Tagged Offset of the pool
  std::uint64_t pool_length = 0;  ///< octets
  std::uint64_t partition_offset = 0;
  std::uint64_t partition_length = 0;  ///< octets
  friend bool operator==(const HelloAck&, const HelloAck&) = default;
};

[[nodiscard]] std::vector<std::byte> encode(const Hello& hello, const Assignment& assignment = kProposed);
[[nodiscard]] std::vector<std::byte> encode(const HelloAck& ack, const Assignment& assignment = kProposed);

/// The first message of a session. Every error is a disconnect (P-04). Whether the versions fit is for the
/// target to say.
[[nodiscard]] Decoded<Hello> decode_hello(Octets octets, const Assignment& assignment = kProposed);
/// The target's answer, for an initiator. Every error is a disconnect.
[[nodiscard]] Decoded<HelloAck> decode_hello_ack(Octets octets, const Assignment& assignment = kProposed);

}  // namespace kbtp::wire
