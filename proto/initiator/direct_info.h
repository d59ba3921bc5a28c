// What HELLO_ACK says of the direct modes, checked before anything is read or written by it. Internal to
// proto/initiator.

#pragma once

#include "base/result.h"
#include "proto/initiator/initiator.h"
#include "proto/wire/hello.h"

namespace kbtp::initiator {

/// The direct modes of `ack`, an answer to a HELLO that asked for `wanted`, for an initiator whose RNIC has
/// `own` Atomics: a ring whose counters it cannot advance is as good as none. The error says what cannot be
/// true of it: a mode that nobody asked for, ranges that wrap or are too small, words that are not aligned to
/// 8 octets, n outside of 1 to 28 (E-4), a ring or partition smaller than the quota.
[[nodiscard]] Result<DirectInfo> direct_info(const wire::HelloAck& ack, const wire::Features& wanted,
                                             rdma::Atomics own);

}  // namespace kbtp::initiator
