// A KBTP initiator session: asynchronous operations, many outstanding, over any rdma::Provider. No thread, no
// socket, no clock of its own.
//
//   initiator::connect(provider, options, [](Expected<std::shared_ptr<Session>, ConnectError> session) {
//     auto buffer = (*session)->register_buffer(memory, BufferUse::load_and_store);
//     (*session)->alloc_store(handle, buffer->slice(0, 4096), {.seal = true}, [](const Outcome& o) { ... });
//   });
//
// Threads: every function of a Session is called on its loop, session.loop(), and all callbacks run there,
// never from inside the call that started them. Blocking use from outside the loops: sync_initiator.h.
//
// Deadlines: every operation ends. When one is not answered in time the whole session is ended and every
// outstanding operation completes with Outcome::answered == false: after that nobody knows whether the target
// carried it out, so a caller reconnects and looks (G-16: a LOAD with a zero-length descriptor).

#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>

#include "base/result.h"
#include "base/time.h"
#include "base/uuid.h"
#include "proto/rdma/provider.h"
#include "proto/wire/assignment.h"
#include "proto/wire/structures.h"

namespace kbtp::initiator {

struct ConnectOptions {
  SocketAddress address;
  std::size_t loop_index = 0;
  Uuid identity;                             ///< all zero: the range is private to this session (G-24)
  std::optional<std::uint64_t> base_handle;  ///< wanted; none: no preference (G-54)
  std::uint32_t quota = 0;                   ///< wanted blocks; 0 with handles 0: a session that only loads
  std::uint64_t handles = 0;                 ///< wanted size of the own range
  std::uint32_t max_requests = 0;            ///< wanted credits; 0: the target chooses (P-18)
  /// Features asked for; what our own RNIC cannot do is not. With record_completion granted every request
  /// that does not ask for INVALIDATE (E-11) is completed by a record. atomic_unmasked goes with direct_alloc
  /// by itself where our Atomics are plain.
  wire::Features wanted;
  std::uint32_t ird = 16;  ///< Reads of the target that this side answers at once
  std::uint32_t ord = 16;
  Duration setup_deadline = std::chrono::seconds(10);  ///< TCP and MPA start-up each
  Duration hello_deadline = std::chrono::seconds(10);  ///< from the open stream to HELLO_ACK
  /// An allowance for a peer that misses what comes while it finishes its own set-up, and looks again when
  /// more comes (Linux siw): an unanswered HELLO is followed by an RDMA Write of no octets after this time,
  /// by another after twice as long, and so on. Zero: never.
  Duration nudge_after{};
  Duration operation_deadline = std::chrono::seconds(30);  ///< from posting an operation to its completion
  Duration send_deadline = std::chrono::seconds(30);
  wire::Assignment assignment = wire::kProposed;
};

/// What HELLO_ACK says of the direct modes (6.6), checked: a HELLO_ACK that cannot be true is a ConnectError.
/// Offsets are Tagged Offsets, lengths octets; what belongs to a mode that is not granted is 0. For people
/// and for tests: direct_load() and direct_alloc_store() use it themselves.
struct DirectInfo {
  bool load = false;         ///< DIRECT_LOAD is granted: table and pool are set
  bool alloc = false;        ///< DIRECT_ALLOC is granted: ring, head, partition and ticket_timeout are set
  rdma::RemoteBuffer table;  ///< entry of table_base_handle; 16 octets a handle (3.2)
  std::uint64_t table_base_handle = 0;
  std::uint64_t table_handles = 0;
  rdma::RemoteBuffer pool;
  std::uint64_t pool_length = 0;
  unsigned ring_log2 = 0;  ///< n: the own ring has 2^n slots of 16 octets (3.3), 1 to 28 (E-4)
  wire::CounterFormat::Kind counters = wire::CounterFormat::Kind::masked;  ///< of the own ring (3.3 or 9.2)
  rdma::RemoteBuffer ring;
  rdma::RemoteBuffer head;  ///< 8 octets, in the target's memory order (3.3)
  rdma::RemoteBuffer partition;
  std::uint64_t partition_length = 0;
  Duration ticket_timeout{};  ///< from the FetchAdd to BIND (3.4)
};

/// What HELLO_ACK granted.
struct SessionInfo {
  std::uint64_t base_handle = 0;  ///< first handle of the own range
  std::uint64_t handles = 0;      ///< its size
  std::uint32_t quota = 0;        ///< blocks this initiator may hold
  std::uint32_t usage = 0;        ///< blocks it already holds (a returning identity)
  std::uint32_t block_size = 0;
  std::uint64_t blocks = 0;        ///< F of the pool
  std::uint32_t max_requests = 0;  ///< credits
  std::uint32_t max_inline = 0;    ///< octets; 0: no INLINE
  wire::Features features;         ///< granted
  DirectInfo direct;
};

/// How far connecting came (COMMAND.md names the phases; name lookup is the caller's).
enum class ConnectPhase : std::uint8_t {
  tcp,
  mpa,
  hello
};
[[nodiscard]] std::string_view to_string(ConnectPhase phase);

struct ConnectError {
  ConnectPhase phase = ConnectPhase::tcp;
  std::optional<wire::Status> status;  ///< set when the target refused HELLO
  std::string text;                    ///< one sentence for people
};

/// What a target may do with a registered buffer; as little as the use needs.
enum class BufferUse : std::uint8_t {
  load,   ///< sink of LOAD: remote write
  store,  ///< source of STORE and ALLOC_STORE: remote read
  load_and_store,
};

/// A part of a registered buffer.
struct Slice {
  rdma::RemoteBuffer remote;
  std::span<std::byte> memory;
};

/// Memory registered with one session, known to the target by its STag. A value; the memory is not owned and
/// must stay until the session has closed or unregister_buffer() was called.
struct Buffer {
  rdma::Region region;
  std::span<std::byte> memory;
  [[nodiscard]] Slice all() const { return slice(0, memory.size()); }
  [[nodiscard]] Slice slice(std::size_t offset, std::size_t length) const {
    return {{region.stag, region.tagged_offset + offset}, memory.subspan(offset, length)};
  }
};

struct LoadOptions {
  bool allow_unsealed = false;
  bool invalidate = false;  ///< the target ends by revoking the slice's STag: the Buffer is used up (5.1)
  std::uint16_t generation = 0;  ///< expected; 0 = any
};
struct StoreOptions {
  bool seal = false;
  bool invalidate = false;
  std::uint16_t generation = 0;
};

struct DirectLoadOptions {
  std::uint16_t generation = 0;  ///< expected; 0 = any
  /// An attempt that takes longer proves nothing and is made again: the Generation might have gone once
  /// around meanwhile (G-34).
  Duration attempt_bound = std::chrono::seconds(1);
  Duration give_up_after = std::chrono::seconds(5);  ///< no attempt begins later
};
struct DirectStoreOptions {
  bool seal = false;
  std::uint16_t generation = 0;  ///< of the unbound entry, expected; 0 = any (G-14)
};

/// Why a direct operation ended without SUCCESS where no Status of the draft says so.
enum class DirectFailure : std::uint8_t {
  none,
  unavailable,     ///< the mode is not granted, or DIRECT_ALLOC is off for the rest of the session (3.4)
  changed,         ///< DIRECT_LOAD: each attempt met a block that changed, or took too long
  target_lies,     ///< an entry, slot or counter names what lies outside of what HELLO_ACK told
  ticket_timeout,  ///< DIRECT_ALLOC: no block came, or its BIND could not go out, within the Ticket Timeout
};
[[nodiscard]] std::string_view to_string(DirectFailure failure);

/// How an operation ended.
struct Outcome {
  bool answered = false;  ///< false: the session or the direct mode ended it, and `error` says why
  wire::Status status = wire::Status::success;
  std::uint16_t generation = 0;
  std::uint32_t data_length = 0;
  std::uint64_t block_offset = 0;
  bool invalidated = false;                    ///< the slice's STag is revoked, by the target or by us (G-12)
  DirectFailure direct = DirectFailure::none;  ///< set only when `answered` is false
  std::string error;

  [[nodiscard]] bool ok() const { return answered && status == wire::Status::success; }
};
using Done = std::function<void(const Outcome& outcome)>;

struct SessionStats {
  std::uint64_t outstanding = 0;  ///< sent, not answered
  std::uint64_t queued = 0;       ///< waiting for a credit
};

class Session {
 public:
  virtual ~Session() = default;

  [[nodiscard]] virtual const SessionInfo& info() const = 0;
  [[nodiscard]] virtual rdma::Loop& loop() = 0;
  [[nodiscard]] virtual bool is_open() const = 0;
  [[nodiscard]] virtual SessionStats stats() const = 0;

  [[nodiscard]] virtual Result<Buffer> register_buffer(std::span<std::byte> memory, BufferUse use,
                                                       bool remote_invalidate = false) = 0;
  virtual void unregister_buffer(const Buffer& buffer) = 0;

  /// Operations beyond the credits wait here, in order. The slice stays the caller's and untouched until
  /// `done`; with `invalidate` its Buffer must have been registered with remote_invalidate.
  virtual void load(std::uint64_t handle, const Slice& sink, const LoadOptions& options, Done done) = 0;
  virtual void store(std::uint64_t handle, const Slice& source, const StoreOptions& options, Done done) = 0;
  virtual void alloc_store(std::uint64_t handle, const Slice& source, const StoreOptions& options,
                           Done done) = 0;
  virtual void free(std::uint64_t handle, std::uint16_t generation, Done done) = 0;

  /// Data inside the request (INLINE); it is copied at once. No longer than info().max_inline, else the
  /// target answers LENGTH_ERROR.
  virtual void store_inline(std::uint64_t handle, Octets data, const StoreOptions& options, Done done) = 0;
  virtual void alloc_store_inline(std::uint64_t handle, Octets data, const StoreOptions& options,
                                  Done done) = 0;

  /// A LOAD with ALLOW_UNSEALED and a zero-length descriptor: SUCCESS or LENGTH_ERROR mean bound, and
  /// generation and data_length are those of the entry (G-16).
  virtual void probe(std::uint64_t handle, Done done) = 0;

  /// DIRECT_LOAD (6.6): the block by RDMA Reads, without the target's processor. The sink is not registered
  /// and indeterminate until `done`; what an entry says ends it with the Status that LOAD would have
  /// (NO_SUCH_HANDLE, NOT_BOUND, NOT_SEALED, GENERATION_MISMATCH, LENGTH_ERROR), the rest with a
  /// DirectFailure. Success means that all `data_length` octets are of the one store that `generation` names.
  /// As many loads as the agreed ORD are under way at once; others wait in order.
  virtual void direct_load(std::uint64_t handle, std::span<std::byte> sink, const DirectLoadOptions& options,
                           Done done) = 0;

  /// DIRECT_ALLOC (6.6): takes a ticket from the own ring, writes the block, and asks the target to BIND it.
  /// The source stays untouched until `done`. What must fail is refused here, with the target's Status and
  /// before a ticket is taken: NO_SPACE at the quota (G-49; counted are ALLOC_STOREs and FREEs of this
  /// session too), NOT_OWNER outside of the own range, LENGTH_ERROR above the Block Size. It holds one of
  /// the credits from its ticket until BIND is answered. The ticket of a BIND that the target refuses serves
  /// the next direct_alloc_store(); without one in time the target abandons it. A ticket that runs out, and
  /// TICKET_ABANDONED, end DIRECT_ALLOC for the session, or the session, as the target is configured (3.4).
  virtual void direct_alloc_store(std::uint64_t handle, Octets source, const DirectStoreOptions& options,
                                  Done done) = 0;

  /// Called once when the session has ended, after every operation has been answered or failed. Graceful ends
  /// by close() come here too.
  virtual void on_closed(std::function<void(const rdma::CloseReason& reason)> callback) = 0;

  /// Ends gracefully: operations already started are waited for, further ones fail.
  virtual void close() = 0;
  /// Ends at once.
  virtual void abort(std::string why) = 0;
};

using Connected = std::function<void(Expected<std::shared_ptr<Session>, ConnectError> session)>;

/// Opens a session; `connected` runs exactly once, on provider.loop(options.loop_index). Any thread. The
/// session keeps itself alive until it has closed; the provider must outlive it.
void connect(rdma::Provider& provider, ConnectOptions options, Connected connected);

}  // namespace kbtp::initiator
