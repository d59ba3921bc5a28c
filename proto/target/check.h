// The order in which a request is checked (G-15): the first violation decides the status. Internal to
// proto/target.

#pragma once

#include <optional>

#include "proto/target/session.h"
#include "proto/wire/request.h"
#include "proto/wire/structures.h"

namespace kbtp::target {

/// Steps 8 to 15, when it is the request's turn on its handle; steps 1 to 6 are wire::decode_request(), step
/// 7 is Session's. `entry` is the handle's entry as it is now. Nothing means that the request may go on; for
/// ALLOC_STORE one unit of usage has then been taken.
[[nodiscard]] std::optional<wire::Status> check(Session& session, const wire::Request& request,
                                                const wire::TableEntry& entry);

}  // namespace kbtp::target
