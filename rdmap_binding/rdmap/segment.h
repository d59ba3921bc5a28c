// One received ULPDU as RDMAP sees it: the DDP header, the opcode, and the RDMAP header or the payload. All
// checks that need no state are here, in the order of the layers: DDP header and DV, QN, RV, opcode, T and QN
// against the opcode, length. What needs state (MSN, MO within the buffer, STags, rights) is the engine's.
// Pure, any thread, no allocation.

#pragma once

#include <cstddef>
#include <cstdint>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "rdmap_binding/ddp/segment.h"
#include "rdmap_binding/rdmap/headers.h"
#include "rdmap_binding/rdmap/opcode.h"
#include "rdmap_binding/rdmap/terminate.h"
#include "rdmap_binding/terminate_code.h"

namespace kbtp::rdmap {

/// What the first 14 or 18 octets of a ULPDU tell.
struct SegmentHead {
  ddp::Header ddp;
  Opcode opcode = Opcode::rdma_write;
  std::size_t payload_size = 0;  ///< octets behind the DDP header: ULP payload, or the RDMAP header

  [[nodiscard]] const OpcodeFacts& facts() const { return rdmap::facts(opcode); }
  [[nodiscard]] bool last() const { return ddp::is_last(ddp); }
  /// Precondition: the opcode's facts say tagged.
  [[nodiscard]] const ddp::TaggedHeader& tagged() const { return *std::get_if<ddp::TaggedHeader>(&ddp); }
  /// Precondition: the opcode's facts say untagged.
  [[nodiscard]] const ddp::UntaggedHeader& untagged() const {
    return *std::get_if<ddp::UntaggedHeader>(&ddp);
  }
};

/// Judges a ULPDU of `ulpdu_length` octets by its first octets (`head` has at least the DDP header, or all of
/// a shorter ULPDU), so that an engine can place payload that has not arrived yet.
///
/// Errors: 1/0/00 shorter than its DDP header; 1/1/04, 1/2/06 DV; 1/2/01 QN above 3; 0/2/05 RV not 01b;
/// 0/2/06 opcode unknown, or its T or QN is another's; for messages that are a header only (Read Request,
/// Immediate, Atomics, Terminate) 0/2/FF when the length is not theirs, and 1/2/04, 0/2/FF when they are not
/// one segment (MO > 0, L=0): they fit the smallest MULPDU, so nobody splits them. RFC 5041 5.2: of a
/// zero-length tagged message only control field and RsvdULP are looked at, which holds here for every tagged
/// one.
[[nodiscard]] Expected<SegmentHead, WireError> decode_head(Octets head, std::size_t ulpdu_length);

/// The opcode of a ULPDU of `ulpdu_length` octets that begins with `header`, or what decode_head() finds
/// wrong in it.
[[nodiscard]] Expected<Opcode, WireError> check_head(const ddp::Header& header, std::size_t ulpdu_length);

/// The DDP header of a tagged message's segment.
[[nodiscard]] constexpr ddp::TaggedHeader make_tagged(Opcode opcode, std::uint32_t stag,
                                                      std::uint64_t tagged_offset, bool last) {
  return {last, 0, ddp::kVersion, control_octet(opcode), stag, tagged_offset};
}
/// The DDP header of an untagged message's segment, on the queue that the opcode belongs to.
/// `invalidate_stag` is 0 unless the opcode invalidates (RFC 5040 4.1).
[[nodiscard]] constexpr ddp::UntaggedHeader make_untagged(Opcode opcode, std::uint32_t msn,
                                                          std::uint32_t message_offset = 0, bool last = true,
                                                          std::uint32_t invalidate_stag = 0) {
  return {last,
          0,
          ddp::kVersion,
          control_octet(opcode),
          invalidate_stag,
          facts(opcode).queue_number,
          msn,
          message_offset};
}

/// ULP payload of a Write, a Read Response or a Send, one segment of it.
struct Payload {
  Octets octets;
};
using Body = std::variant<Payload, ReadRequest, Immediate, AtomicRequest, AtomicResponse, Terminate>;

struct SegmentView {
  SegmentHead head;
  Body body;
};

/// decode_head() on a whole ULPDU, then its RDMAP header. Further errors: 0/2/06 for an AOpCode without a
/// name (RFC 7306 5.2.1 names none), 0/2/FF for a Terminate shorter than its bits promise.
[[nodiscard]] Expected<SegmentView, WireError> decode_segment(Octets ulpdu);

/// A whole ULPDU again; for tests, the raw peer and the fuzzers.
[[nodiscard]] std::vector<std::byte> encode_segment(const SegmentView& segment);

}  // namespace kbtp::rdmap
