// The draft's vocabulary as logical values: opcodes, statuses, flags, features. What number stands for one on
// the wire is the business of Assignment (assignment.h), except for the flags, which the draft itself fixes.

#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace kbtp::wire {

/// The protocol version of this draft (5.1); the header of every message of ours carries it (G-39, G-56).
inline constexpr std::uint8_t kVersion = 1;

/// Messages (Table 2, whose numbers the excerpt leaves out).
enum class Opcode : std::uint8_t {
  hello,
  hello_ack,
  load,
  store,
  alloc_store,
  free,
  bind,
  completion,
};
inline constexpr std::size_t kOpcodeCount = 8;

/// Outcomes. `unassigned` is only ever the result of decoding: a code for which there is no name.
enum class Status : std::uint8_t {
  success,
  invalid_request,
  unsupported_version,
  unsupported_opcode,
  no_such_handle,
  not_owner,
  not_bound,
  already_bound,
  not_sealed,
  sealed,
  generation_mismatch,
  length_error,
  no_space,
  invalid_ticket,
  ticket_abandoned,
  no_resources,
  access_denied,
  target_error,
  unassigned,
};
inline constexpr std::size_t kStatusCount = 18;  ///< without `unassigned`

/// Request flags (5.1), as bits of the header's Flags.
enum class Flag : std::uint16_t {
  inline_data = 0x0001,
  seal = 0x0002,
  record = 0x0004,
  invalidate = 0x0008,
  allow_unsealed = 0x0010,
};
[[nodiscard]] constexpr std::uint16_t bit(Flag flag) { return static_cast<std::uint16_t>(flag); }
[[nodiscard]] constexpr bool has(std::uint16_t flags, Flag flag) { return (flags & bit(flag)) != 0; }

/// Features: wanted in the Flags of HELLO, granted in those of HELLO_ACK.
enum class Feature : std::uint8_t {
  record_completion,  ///< 6.5; never in the RDMAP binding
  direct_load,        ///< 6.6
  direct_alloc,       ///< 6.6
  atomic_unmasked,    ///< counters of 9.2
};
inline constexpr std::size_t kFeatureCount = 4;

struct Features {
  bool record_completion = false;
  bool direct_load = false;
  bool direct_alloc = false;
  bool atomic_unmasked = false;
  std::uint16_t unassigned = 0;  ///< bits without a name, as received: wishes that are not granted (P-05)

  friend bool operator==(const Features&, const Features&) = default;
};

/// Names as the draft and the review write them: "ALLOC_STORE", "NO_SPACE", "DIRECT_LOAD", "INLINE".
[[nodiscard]] std::string_view to_string(Opcode opcode);
[[nodiscard]] std::string_view to_string(Status status);
[[nodiscard]] std::string_view to_string(Feature feature);
[[nodiscard]] std::string_view to_string(Flag flag);
/// "INLINE|SEAL|0x0100", or "0" when none is set.
[[nodiscard]] std::string flags_to_string(std::uint16_t flags);
/// "DIRECT_LOAD|0x0100", or "0" when none is set.
[[nodiscard]] std::string to_string(const Features& features);

}  // namespace kbtp::wire
