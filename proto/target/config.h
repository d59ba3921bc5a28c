// What a target serves and whom: a plain value that programs fill in (the TOML file is read by tools/).
//
// Sizes are octets, durations are kbtp::Duration. Target::create() checks the whole and says what is wrong.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/time.h"
#include "base/uuid.h"
#include "proto/wire/assignment.h"

namespace kbtp::target {

/// An initiator that keeps its handles, blocks and quota across sessions (G-24). Who it is comes from here
/// and never from its own word (G-51): a HELLO with `identity` counts only when it comes from `address`.
struct NamedInitiator {
  Uuid identity{};
  std::string address{};                       ///< of the peer, without port: "192.0.2.7", "::1"
  std::string domain{};                        ///< name of its trust domain; "" is the default domain
  std::uint32_t quota = 0;                     ///< blocks it may hold; 0: it only loads
  std::uint64_t handles = 0;                   ///< size of its range; at least 1 when quota is not 0
  std::optional<std::uint64_t> base_handle{};  ///< first handle of its range; none: the target chooses
  /// The direct modes it is trusted with (6.6). A session gets them when it asks for them and its stream can:
  /// Reads or Atomics of the initiator at all (G-35), and masked Atomics for DIRECT_ALLOC (G-36).
  bool direct_load = false;   ///< reads the whole table and pool: needs a target with one trust domain
  bool direct_alloc = false;  ///< its quota is a partition with a ring of its own, in every session (G-26)
};

/// What keeps an initiator's Writes away from a block whose ticket has run out (3.4).
enum class Abandonment : std::uint8_t {
  end_connection,
  invalidate_partition,  ///< the session goes on without DIRECT_ALLOC; a Write on its way ends it (E-10)
};

struct DirectOptions {
  Duration ticket_timeout = std::chrono::seconds(10);  ///< whole milliseconds (G-28)
  Abandonment abandonment = Abandonment::end_connection;
  /// Of each direct ring, 0 by 3.3; another value only to reach the wrap of tickets in tests.
  std::uint32_t first_ticket = 0;
};

/// What happens to a HELLO without an identity, and to one with an identity that is not configured.
struct AnonymousPolicy {
  bool accept_anonymous = true;
  bool accept_unknown_identity = true;  ///< as if anonymous; otherwise refused with ACCESS_DENIED (G-51)
  std::string domain{};                 ///< trust domain of such sessions; "" is the default domain
  std::uint32_t max_quota = 0;          ///< granted to one session at most; 0: all that is left
  std::uint64_t max_handles = 0;        ///< likewise
};

struct Deadlines {
  Duration hello = std::chrono::seconds(5);       ///< from the open stream to HELLO
  Duration allocation = std::chrono::seconds(5);  ///< an allocation that finds no block (P-17)
  Duration read = std::chrono::seconds(30);       ///< an RDMA Read that the initiator does not answer
  Duration send = std::chrono::seconds(30);       ///< a peer that takes no octet for so long is dropped (E-5)
  Duration setup = std::chrono::seconds(10);      ///< TCP and MPA start-up
  Duration linger = std::chrono::seconds(1);      ///< from our FIN to giving up on the peer's (G-53)
  Duration drain = std::chrono::seconds(5);       ///< for requests already accepted, once a session is ending
};

struct TargetConfig {
  std::uint64_t blocks = 1024;       ///< F, the reserve included
  std::uint32_t block_size = 65536;  ///< octets; a multiple of 8, below 2^32 (G-45)
  std::uint64_t handles = 1024;      ///< of the block table
  std::uint64_t table_base_handle = 0;
  /// R: blocks that no quota may claim, so that freed blocks whose LOAD is still being sent never starve
  /// another initiator (E-5). The quotas sum to at most F - R. All sessions together pin at most R blocks,
  /// each its even share (at least one); a LOAD past that is sent from a private copy, slower but never
  /// wrong. None: a sixteenth of the blocks, 64 at most.
  std::optional<std::uint64_t> reserve;
  std::uint32_t max_inline = 4096;  ///< Max Inline Length of HELLO_ACK (G-08); 0: no INLINE
  std::uint32_t max_requests = 64;  ///< C of HELLO_ACK at most (G-06)
  /// Of initiators without a name; more are refused with NO_RESOURCES (P-09). Each named one has a place
  /// besides.
  std::uint32_t max_sessions = 64;
  std::uint32_t ird = 16;  ///< wanted Read depths of a stream
  std::uint32_t ord = 16;
  Deadlines deadlines;
  /// The trust domains are those named here and in `anonymous`. With more than one, a block is cleared before
  /// it returns to the ring (6.4, G-43); ranges of other domains are invisible (G-25).
  std::vector<NamedInitiator> initiators;
  AnonymousPolicy anonymous;
  DirectOptions direct;
  wire::Assignment assignment =
      wire::kProposed;  ///< opcodes, statuses and lengths that the draft's excerpt leaves open
};

}  // namespace kbtp::target
