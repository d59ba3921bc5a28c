// Reaching a target from the command line: name lookup, then each address in turn until TCP succeeds.

#pragma once

#include <future>
#include <memory>
#include <vector>

#include "base/address.h"
#include "base/result.h"
#include "proto/initiator/initiator.h"
#include "proto/initiator/sync_initiator.h"

namespace kbtp::tools {

/// The error says which phase failed: "cannot reach HOST:PORT: name lookup: ...", "... TCP: ...", "... MPA:
/// ...",
/// "... HELLO: ...". `options.address` is filled in here. Not on a loop.
[[nodiscard]] Result<std::unique_ptr<initiator::SyncInitiator>> reach(rdma::Provider& provider,
                                                                      const Endpoint& endpoint,
                                                                      initiator::ConnectOptions options);

/// A session that is used asynchronously, on its loop.
struct OpenSession {
  std::shared_ptr<initiator::Session> session;
  std::shared_future<void> closed;  ///< ready once the session has ended and the peer reaches no buffer of it
};
/// The same for such a session, on provider.loop(options.loop_index).
[[nodiscard]] Result<OpenSession> reach_async(rdma::Provider& provider, const Endpoint& endpoint,
                                              initiator::ConnectOptions options);

/// Whether a session got the blocks, as many handles, and blocks of the size that it needs; the error says
/// what the target has. `requests` may be outstanding at one time.
struct Needs {
  std::uint32_t blocks = 0;
  std::uint32_t requests = 1;
  std::uint64_t block_size = 0;
};
[[nodiscard]] Result<> check_granted(const initiator::SessionInfo& info, const Needs& needs);

/// Closes sessions gracefully and returns once they have ended. Not on a loop.
void close_and_wait(const std::vector<OpenSession>& sessions);

}  // namespace kbtp::tools
