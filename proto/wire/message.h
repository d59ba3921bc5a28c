// Any KBTP message, for readers that stand beside the session: dissector, judge, inference (G-57).

#pragma once

#include <variant>

#include "proto/wire/completion.h"
#include "proto/wire/hello.h"
#include "proto/wire/request.h"

namespace kbtp::wire {

using Message = std::variant<Hello, HelloAck, Load, Store, AllocStore, Free, Bind, Completion>;

/// Decodes by the opcode, as if every feature were granted. WireError::status is what a target would answer
/// to a request; the header is there whenever there were 24 octets.
[[nodiscard]] Decoded<Message> decode_message(Octets octets, const Assignment& assignment = kProposed,
                                              Lengths lengths = Lengths::strict);

[[nodiscard]] Opcode opcode(const Message& message);

}  // namespace kbtp::wire
