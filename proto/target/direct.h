// What a session may reach by itself (6.6): the STags of its direct modes, and the tickets that it takes from
// its own ring. Internal to proto/target.
//
// All STags are the session's own (stream scope, G-44) and end with it; nothing that they reach is used for
// anybody else before that. Threads: the session's loop.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "base/result.h"
#include "proto/rdma/provider.h"
#include "proto/target/ranges.h"
#include "proto/target/tickets.h"
#include "proto/wire/hello.h"
#include "proto/wire/structures.h"

namespace kbtp::target {

class Session;
struct NamedRange;

/// What of `wanted` the target grants: what `named` is trusted with and the stream is able to carry (G-35,
/// G-36), the rings' counters being `counters`. ATOMIC_UNMASKED is granted with DIRECT_ALLOC where they are
/// those of 9.2, and only to who asks for it: others would take them for those of 3.3.
[[nodiscard]] wire::Features direct_modes(const NamedRange& named, const wire::Features& wanted,
                                          const rdma::Capabilities& capabilities,
                                          wire::CounterFormat::Kind counters);

class DirectAccess {
 public:
  /// Registers what `granted` needs, and fills in its fields of HELLO_ACK. The ring must be new (G-24).
  [[nodiscard]] static Result<std::unique_ptr<DirectAccess>> open(Session& session, rdma::Stream& stream,
                                                                  const Range& range,
                                                                  const wire::Features& granted,
                                                                  wire::HelloAck& ack);
  ~DirectAccess();
  DirectAccess(const DirectAccess&) = delete;
  DirectAccess& operator=(const DirectAccess&) = delete;

  // DIRECT_ALLOC; without it there are no tickets.

  /// Takes up the tickets that the initiator has taken meanwhile. One that takes far more than its quota ends
  /// its session (3.4).
  void look_at_head();
  /// The target has taken `ticket` from the ring itself (G-26).
  void own_ticket(std::uint32_t ticket);
  /// BIND has consumed the slot of `ticket`.
  void bound(std::uint32_t ticket);
  /// Taken and not yet bound.
  [[nodiscard]] std::uint64_t outstanding() const { return tickets_ ? tickets_->count() : 0; }
  /// A Ticket Timeout has passed: no BIND is accepted any more (P-03).
  [[nodiscard]] bool abandoned() const { return abandoned_; }

 private:
  DirectAccess(Session& session, rdma::Stream& stream, memory::Partition* partition);
  [[nodiscard]] Result<> expose_pool(wire::HelloAck& ack);
  [[nodiscard]] Result<> expose_ring(wire::HelloAck& ack);
  void watch();
  void expire();
  void give_up_tickets();
  void tell_count();

  Session& session_;
  rdma::Stream& stream_;
  memory::Partition* partition_;  // with DIRECT_ALLOC
  std::optional<Tickets> tickets_;
  rdma::STag partition_stag_ = 0;
  rdma::STag ring_stag_ = 0;
  rdma::STag head_stag_ = 0;
  std::uint64_t told_ = 0;  // tickets of this session in Core::tickets_outstanding
  bool abandoned_ = false;
  rdma::TimerId timer_{};
};

}  // namespace kbtp::target
