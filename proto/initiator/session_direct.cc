// The direct modes of a session (6.6): what lies between Session and the operations.

#include <utility>

#include "proto/initiator/session_impl.h"

namespace kbtp::initiator {

void SessionImpl::direct_load(std::uint64_t, std::span<std::byte>, const DirectLoadOptions&, Done done) {
  refuse(DirectFailure::unavailable, "the target does not grant DIRECT_LOAD", std::move(done));
}

void SessionImpl::direct_alloc_store(std::uint64_t, Octets, const DirectStoreOptions&, Done done) {
  refuse(DirectFailure::unavailable, "the target does not grant DIRECT_ALLOC", std::move(done));
}

void SessionImpl::refuse(DirectFailure failure, std::string why, Done done) {
  Outcome outcome;
  outcome.direct = failure;
  outcome.error = std::move(why);
  loop_.post([done = std::move(done), outcome] { done(outcome); });
}

}  // namespace kbtp::initiator
