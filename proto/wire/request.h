// Requests: LOAD, STORE, ALLOC_STORE, FREE, BIND (6.1 to 6.4, 6.6).
//
// Layout: header 24 | Data Descriptor 16 (LOAD, STORE, ALLOC_STORE) or Ticket, Data Length, Block Offset
// (BIND) | Completion Descriptor 16 when RECORD | inline data when INLINE (G-09, G-10).
//
// Flags that say what a message is made of (INLINE, RECORD) follow from the optional members; the encoder
// sets them. Decoded views (inline data) point into the octets that were decoded.

#pragma once

#include <cstdint>
#include <optional>
#include <variant>
#include <vector>

#include "base/bytes.h"
#include "proto/wire/assignment.h"
#include "proto/wire/error.h"
#include "proto/wire/header.h"

namespace kbtp::wire {

/// What every request carries.
struct RequestHead {
  std::uint64_t request_id = 0;  ///< unique among the session's outstanding requests (G-23)
  std::uint64_t handle = 0;
  std::uint16_t generation = 0;  ///< expected one; 0 is any (5.1)
  std::uint16_t status = 0;      ///< 0 on send; ignored by a target, kept for the judge (G-55)
  friend bool operator==(const RequestHead&, const RequestHead&) = default;
};

/// Block Load (6.1), 40 octets, 56 with RECORD.
struct Load {
  RequestHead head{};
  DataDescriptor destination{};
  std::optional<CompletionDescriptor> record{};
  bool invalidate = false;
  bool allow_unsealed = false;
  friend bool operator==(const Load&, const Load&) = default;
};

/// What STORE and ALLOC_STORE share: 40 octets, 56 with RECORD, and the inline data.
struct StoreBody {
  /// Without INLINE the buffer to be read. With it STag and Tagged Offset should be 0 (5.2; others are
  /// accepted, P-12) and Length is the size of the inline data: the encoder takes it from there.
  DataDescriptor source{};
  std::optional<CompletionDescriptor> record{};
  std::optional<Octets> inline_data{};  ///< set, perhaps empty, when INLINE
  bool seal = false;
  bool invalidate = false;
  /// Inline data compares by its octets.
  friend bool operator==(const StoreBody& a, const StoreBody& b);
};
/// Block Mapped Store (6.2).
struct Store {
  RequestHead head{};
  StoreBody body{};
  friend bool operator==(const Store&, const Store&) = default;
};
/// Block Unmapped Store (6.3).
struct AllocStore {
  RequestHead head{};
  StoreBody body{};
  friend bool operator==(const AllocStore&, const AllocStore&) = default;
};

/// Block Free (6.4), 24 octets, 40 with RECORD.
struct Free {
  RequestHead head{};
  std::optional<CompletionDescriptor> record{};
  friend bool operator==(const Free&, const Free&) = default;
};

/// Binding of a directly allocated block (6.6), 40 octets, 56 with RECORD.
struct Bind {
  RequestHead head{};
  std::uint32_t ticket = 0;
  std::uint32_t data_length = 0;   ///< octets
  std::uint64_t block_offset = 0;  ///< Tagged Offset (G-02)
  std::optional<CompletionDescriptor> record{};
  bool seal = false;
  friend bool operator==(const Bind&, const Bind&) = default;
};

using Request = std::variant<Load, Store, AllocStore, Free, Bind>;

[[nodiscard]] const RequestHead& head(const Request& request);
[[nodiscard]] Opcode opcode(const Request& request);
/// The Flags that `request` goes out with.
[[nodiscard]] std::uint16_t flags(const Request& request);
/// Where the completion record is asked for (RECORD).
[[nodiscard]] const std::optional<CompletionDescriptor>& record_of(const Request& request);
/// Asks for a completion record in `slot`.
void ask_for_record(Request& request, const CompletionDescriptor& slot);
/// The STag that the completion is asked to invalidate (INVALIDATE); also when it is 0.
[[nodiscard]] std::optional<std::uint32_t> stag_to_invalidate(const Request& request);

[[nodiscard]] std::vector<std::byte> encode(const Request& request, const Assignment& assignment = kProposed);
/// Puts another Completion Descriptor into an encoded request that has one.
void set_record(MutableOctets message, Opcode opcode, const CompletionDescriptor& record,
                const Assignment& assignment = kProposed);

/// What a target makes of a message that arrives after HELLO. Steps 1 to 6 of G-15 in that order: 24 octets
/// (else disconnect), Version, Opcode (HELLO, HELLO_ACK and COMPLETION disconnect, P-04), feature granted
/// (BIND needs DIRECT_ALLOC, P-01), Flags, exact length. A decoded request is "well formed" (P-14).
[[nodiscard]] Decoded<Request> decode_request(Octets octets, const Features& granted,
                                              const Assignment& assignment = kProposed);

}  // namespace kbtp::wire
