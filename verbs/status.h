// How a work request can end, by libibverbs (ibv_poll_cq(3)), and what that means to whoever uses KBTP.

#pragma once

#include <infiniband/verbs.h>

#include "proto/rdma/completion.h"
#include "verbs/facts.h"

namespace kbtp::verbs {

struct StatusMeaning {
  ibv_wc_status status = IBV_WC_GENERAL_ERR;
  const char* name = "";                                                ///< "IBV_WC_..."
  rdma::CloseReason::Kind kind = rdma::CloseReason::Kind::local_error;  ///< how the stream ends
  const char* text = "";                                                ///< one sentence for people
  /// Why it ended is told by an event of the connection manager or of the device, mostly.
  bool event_tells = false;
};

/// Of a device with these quirks. Never fails: a status that no table has is told as such.
[[nodiscard]] const StatusMeaning& meaning_of(ibv_wc_status status, const Quirks& quirks);

/// Asynchronous events that end a connection (ibv_get_async_event(3)); nullptr for all others.
[[nodiscard]] const char* ends_connection(ibv_event_type event);

}  // namespace kbtp::verbs
