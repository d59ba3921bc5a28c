// How an operation ends (6.5): the COMPLETION message (36 octets; 40 in the padded alternative) and the
// completion record (24 octets) of bindings that allow it.

#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "proto/wire/assignment.h"
#include "proto/wire/error.h"

namespace kbtp::wire {

struct Completion {
  std::uint64_t request_id = 0;  ///< echoed
  std::uint64_t handle = 0;      ///< echoed (G-48)
  Status status = Status::success;
  std::uint16_t status_code = 0;   ///< as received; sent only when `status` is unassigned
  std::uint16_t generation = 0;    ///< the entry's current one; 0 when the handle is not visible (G-16)
  std::uint32_t data_length = 0;   ///< octets
  std::uint64_t block_offset = 0;  ///< Tagged Offset; 0 on errors and for FREE (G-16, G-17)
  std::uint16_t flags = 0;         ///< 0 on send, ignored on receive, kept for the judge (G-48)
  friend bool operator==(const Completion&, const Completion&) = default;
};

/// `lenient` receivers take either COMPLETION layout, told apart by the message's length.
enum class Lengths : std::uint8_t {
  strict,
  lenient,
};

[[nodiscard]] std::vector<std::byte> encode(const Completion& completion,
                                            const Assignment& assignment = kProposed);
/// For an initiator; every error is a disconnect (G-38).
[[nodiscard]] Decoded<Completion> decode_completion(Octets octets, const Assignment& assignment = kProposed,
                                                    Lengths lengths = Lengths::strict);

/// 0 Request ID64 | 8 Status16 | 10 Generation16 | 12 Data Length32 | 16 Block Offset64 (6.5).
struct CompletionRecord {
  std::uint64_t request_id = 0;
  Status status = Status::success;
  std::uint16_t status_code = 0;  ///< as in Completion
  std::uint16_t generation = 0;
  std::uint32_t data_length = 0;
  std::uint64_t block_offset = 0;
  friend bool operator==(const CompletionRecord&, const CompletionRecord&) = default;
};

[[nodiscard]] std::array<std::byte, kCompletionRecordSize> encode(const CompletionRecord& record,
                                                                  const Assignment& assignment = kProposed);
/// Nothing unless there are exactly 24 octets.
[[nodiscard]] std::optional<CompletionRecord> decode_completion_record(
    Octets octets, const Assignment& assignment = kProposed);

}  // namespace kbtp::wire
