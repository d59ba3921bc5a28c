// Why octets are not the message they should be, and what the target's answer to them is: the parser's answer
// is the wire's answer.

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "proto/wire/header.h"
#include "proto/wire/terms.h"

namespace kbtp::wire {

struct WireError {
  /// The status of the COMPLETION that answers; nothing means disconnect (G-38, G-53).
  std::optional<Status> status;
  /// Where it went wrong, in octets from the start of the message. For a length it is the first octet that is
  /// missing or too many.
  std::size_t octet = 0;
  std::string_view rule;  ///< "KBTP-5.1-07" or "G-38"; static storage
  std::string_view what;  ///< a few words, "flag not legal for this opcode"; static storage
  /// The header, when there was one: Request ID and Handle are echoed in the answer (5.1, G-16).
  std::optional<Header> header;

  [[nodiscard]] bool disconnects() const { return !status.has_value(); }
  /// "flag not legal for this opcode at octet 2 (KBTP-5.1-07): INVALID_REQUEST"
  [[nodiscard]] std::string to_string() const;
};

template <class T>
using Decoded = Expected<T, WireError>;

}  // namespace kbtp::wire
