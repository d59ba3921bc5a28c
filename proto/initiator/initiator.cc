#include "proto/initiator/initiator.h"

#include <utility>

#include "proto/initiator/session_impl.h"

namespace kbtp::initiator {

std::string_view to_string(ConnectPhase phase) {
  switch (phase) {
    case ConnectPhase::tcp:
      return "TCP";
    case ConnectPhase::mpa:
      return "MPA";
    case ConnectPhase::hello:
      return "HELLO";
  }
  return "";
}

std::string_view to_string(DirectFailure failure) {
  switch (failure) {
    case DirectFailure::none:
      return "none";
    case DirectFailure::unavailable:
      return "the direct mode is not available";
    case DirectFailure::changed:
      return "the block kept changing";
    case DirectFailure::target_lies:
      return "the target contradicts itself";
    case DirectFailure::ticket_timeout:
      return "the ticket ran out";
  }
  return "";
}

void connect(rdma::Provider& provider, ConnectOptions options, Connected connected) {
  const auto session = std::make_shared<SessionImpl>(provider, std::move(options), std::move(connected));
  session->loop().post([session] { session->start(); });
}

}  // namespace kbtp::initiator
