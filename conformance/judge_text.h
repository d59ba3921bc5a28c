// Words that several judges share.

#pragma once

#include <string>
#include <vector>

#include "conformance/evidence.h"
#include "conformance/judge.h"
#include "proto/wire/terms.h"

namespace kbtp::conformance {

/// "NOT_BOUND", or "status 77" for one that is not assigned.
[[nodiscard]] std::string status_text(wire::Status status, std::uint16_t code);

/// "Terminate 1/2/03, then FIN", "RST", or "" when the target has not ended the connection.
[[nodiscard]] std::string how_it_ended(const Conversation& conversation);
void add_end_frames(const Conversation& conversation, std::vector<std::uint64_t>& frames);

/// The target ended the connection by itself: before the suite's own FIN or RST. With `after_ours` also when
/// the suite had half-closed first.
[[nodiscard]] bool target_ended(const Conversation& conversation, bool after_ours = false);

}  // namespace kbtp::conformance
