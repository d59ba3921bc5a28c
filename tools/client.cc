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

Result<std::shared_ptr<initiator::Session>> reach_async(rdma::Provider& provider, const Endpoint& endpoint,
                                                        initiator::ConnectOptions options) {
  using Outcome = Expected<std::shared_ptr<initiator::Session>, initiator::ConnectError>;
  return reach_with<std::shared_ptr<initiator::Session>>(
      endpoint, std::move(options), [&provider](const initiator::ConnectOptions& with) {
        std::promise<Outcome> outcome;
        initiator::connect(provider, with, [&outcome](Outcome got) { outcome.set_value(std::move(got)); });
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

void close_and_wait(const std::vector<std::shared_ptr<initiator::Session>>& sessions) {
  for (const auto& session : sessions) {
    std::promise<void> closed;
    session->loop().post([&session, &closed] {
      if (!session->is_open()) return closed.set_value();
      session->on_closed([&closed](const rdma::CloseReason&) { closed.set_value(); });
      session->close();
    });
    closed.get_future().wait();
  }
}

}  // namespace kbtp::tools
