#include "tools/client.h"

#include <fmt/format.h>
#include <future>
#include <utility>

namespace kbtp::tools {

namespace {

// `connect` is called with each address until it succeeds or gets past TCP.
template <class Connected, class Connect>
Result<Connected> reach_with(const Endpoint& endpoint, initiator::ConnectOptions options, Connect connect) {
  const auto told = [&endpoint](std::string_view phase, std::string_view text) {
    return failure(fmt::format("cannot reach {}: {}: {}", endpoint.to_string(), phase, text));
  };
  const auto addresses = resolve(endpoint);
  if (!addresses) return told("name lookup", addresses.error().text);
  initiator::ConnectError last;
  for (const SocketAddress& address : *addresses) {
    options.address = address;
    Expected<Connected, initiator::ConnectError> connected = connect(options);
    if (connected) return std::move(*connected);
    last = connected.error();
    if (last.phase != initiator::ConnectPhase::tcp) break;
  }
  return told(initiator::to_string(last.phase), last.text);
}

}  // namespace

Result<std::unique_ptr<initiator::SyncInitiator>> reach(rdma::Provider& provider, const Endpoint& endpoint,
                                                        initiator::ConnectOptions options) {
  return reach_with<std::unique_ptr<initiator::SyncInitiator>>(
      endpoint, std::move(options), [&provider](const initiator::ConnectOptions& with) {
        return initiator::SyncInitiator::connect(provider, with);
      });
}

Result<OpenSession> reach_async(rdma::Provider& provider, const Endpoint& endpoint,
                                initiator::ConnectOptions options) {
  using Outcome = Expected<OpenSession, initiator::ConnectError>;
  return reach_with<OpenSession>(
      endpoint, std::move(options), [&provider](const initiator::ConnectOptions& with) {
        std::promise<Outcome> outcome;
        initiator::connect(
            provider, with,
            [&outcome](Expected<std::shared_ptr<initiator::Session>, initiator::ConnectError> session) {
              if (!session) return outcome.set_value(unexpected(session.error()));
              const auto closed = std::make_shared<std::promise<void>>();
              (*session)->on_closed([closed](const rdma::CloseReason&) { closed->set_value(); });
              outcome.set_value(OpenSession{*session, closed->get_future().share()});
            });
        return outcome.get_future().get();
      });
}

Result<> check_granted(const initiator::SessionInfo& info, const Needs& needs) {
  if (info.quota < needs.blocks || info.handles < needs.blocks) {
    return failure(
        fmt::format("the target grants {} blocks of its {} (some are its reserve) and {} handles, and {} of "
                    "each are needed",
                    info.quota, info.blocks, info.handles, needs.blocks));
  }
  if (info.max_requests < needs.requests) {
    return failure(fmt::format("the target takes {} requests at a time, and {} are needed", info.max_requests,
                               needs.requests));
  }
  if (info.block_size < needs.block_size) {
    return failure(fmt::format("the target's blocks have {} octets, and {} are needed", info.block_size,
                               needs.block_size));
  }
  return {};
}

void close_and_wait(const std::vector<OpenSession>& sessions) {
  for (const OpenSession& open : sessions)
    open.session->loop().post([session = open.session] { session->close(); });
  for (const OpenSession& open : sessions) open.closed.wait();
}

}  // namespace kbtp::tools
