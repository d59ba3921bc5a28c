// What is known of a target before a run (`--profile`): how its assigned values differ, who the suite can be
// towards it, and what the suite does for its sake so that one defect does not hide all else.

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "base/time.h"
#include "base/uuid.h"
#include "proto/wire/assignment.h"

namespace kbtp::conformance {

/// How long the suite waits for what is due (the verdict rule of error cases: a close within 5 s).
inline constexpr Duration kPatience = std::chrono::seconds(5);

/// Who the suite can be towards this target. Zero: anonymous, or none.
struct Identities {
  Uuid first, second;  ///< of one trust domain
  Uuid foreign;        ///< of another one
  Uuid untrusted;      ///< known to the target, but proven by something that the suite has not
};

/// What the raw peer does, and how its frames are read, for the sake of a target with known defects. Each has
/// a case of its own that does without it.
struct Allowances {
  Duration patience = kPatience;
  /// Nothing is sent for so long after the MPA Reply.
  Duration pause_after_reply{};
  /// Pad and CRC of an FPDU are never divided between two TCP segments.
  bool whole_trailers = false;
  /// The target's Terminates are read as a little-endian machine lays out bit fields: error type in the high
  /// half of the first octet and layer in the low one, M, D and R in the low bits of the third octet.
  bool swapped_terminates = false;
};

struct Profile {
  std::string name;  ///< as reports call it
  wire::Assignment assignment = wire::kProposed;
  Identities identities;
  Allowances allowances;
  /// The most that the target is configured to grant to an anonymous session; a case that needs more is
  /// skipped.
  std::optional<std::uint32_t> quota;
  std::optional<std::uint64_t> handles;
};

}  // namespace kbtp::conformance
