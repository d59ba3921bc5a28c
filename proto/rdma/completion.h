// What a provider tells the upper layer: ends of work requests, received messages, the end of a stream.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/bytes.h"
#include "proto/rdma/capabilities.h"
#include "proto/rdma/work_request.h"

namespace kbtp::rdma {

enum class WorkStatus : std::uint8_t {
  success,
  flushed,      ///< the stream ended first, or the peer finished and owes the answer of a Read or Atomic
  bad_request,  ///< refused locally: not legal now (no Read depth, a source out of range, stream closing), or
                ///< no operation of this provider's
};

struct Completion {
  WorkId id = 0;
  WorkStatus status = WorkStatus::success;
  std::uint64_t original = 0;  ///< FetchAdd and CompareSwap: the word before, in host order
};

/// One Send (or Immediate Data) of the peer. `payload` is valid during the callback only.
struct Received {
  Octets payload;
  bool solicited = false;
  std::optional<STag> invalidated;         ///< the STag that this Send with Invalidate has revoked
  std::optional<std::uint64_t> immediate;  ///< set for Immediate Data; payload is empty then
};

/// How far a connection had come when it failed, as COMMAND.md names the phases.
enum class Phase : std::uint8_t {
  tcp,
  mpa,   ///< RDMA set-up: MPA start-up frames, or the connection manager's
  open,  ///< in full operation
};

/// Why a stream ended.
struct CloseReason {
  enum class Kind : std::uint8_t {
    graceful,        ///< the peer finished, or we did
    refused,         ///< no connection: refused, unreachable, or rejected by the peer's ULP
    transport_lost,  ///< reset or lost
    local_error,     ///< we found an error in what the peer sent (a Terminate went out if it could)
    remote_error,    ///< the peer sent a Terminate
    deadline,        ///< a deadline of ours passed
  };
  Kind kind = Kind::graceful;
  Phase phase = Phase::open;
  /// Layer << 12 | Error Type << 8 | Error Code of the Terminate sent or received (RFC 5040 4.8).
  std::optional<std::uint16_t> terminate;
  std::string text;  ///< one sentence for people
  /// When the peer's upper layer rejected us: its private data, and its depths if its Reply told them.
  std::vector<std::byte> private_data{};
  std::optional<PeerDepths> peer_depths{};
};

}  // namespace kbtp::rdma
