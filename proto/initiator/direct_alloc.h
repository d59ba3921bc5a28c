// Direct allocations of a session (6.6, 3.3, 3.4): tickets, quota, and the way of each from FetchAdd to BIND.
// Internal to proto/initiator.

#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <string>

#include "proto/initiator/initiator.h"
#include "proto/initiator/one_sided.h"
#include "proto/wire/request.h"
#include "proto/wire/structures.h"

namespace kbtp::initiator {

/// What the allocator needs of the session that owns it.
class AllocationHost {
 public:
  virtual ~AllocationHost() = default;
  /// Posts `write`, if any, and BIND behind it, on the credit that the allocation holds. `done` gets the
  /// target's answer.
  virtual void bind(std::optional<rdma::Write> write, const wire::Bind& bind, Done done) = 0;
  /// An allocation that holds a credit needs it no longer: there will be no BIND.
  virtual void give_credit_back() = 0;
};

/// Each allocation holds one of the session's credits from before its FetchAdd until BIND is answered. So a
/// ticket never waits for a credit behind an ALLOC_STORE, which may itself wait for that ticket's slot
/// (docs/ring-model.md, row no-credit-for-BIND).
class DirectAllocator {
 public:
  DirectAllocator(AllocationHost& host, OneSided& one_sided, rdma::Loop& loop, const SessionInfo& info)
      : host_(host), one_sided_(one_sided), loop_(loop), info_(info) {}

  /// HELLO_ACK has come and info.direct is set. A ticket is also given up when less than an eighth of
  /// `operation_deadline` is left.
  void open(Duration operation_deadline);
  /// The session has ended and answers every order.
  void close();

  struct Order {
    std::uint64_t handle = 0;
    Octets source;
    DirectStoreOptions options;
    Done finish;  ///< runs once, never from inside allocate(); keeps the session alive
  };
  /// Why `order` is refused before it asks for a credit.
  [[nodiscard]] std::optional<Outcome> objection(const Order& order) const;
  /// Goes on with an order that has got its credit.
  void allocate(Order order);

  /// Usage (3.4): an ALLOC_STORE goes out; one failed, or a FREE succeeded.
  void charge() { ++usage_; }
  void discharge() {
    if (usage_ > 0) --usage_;
  }
  /// A ticket is held for which there is no order at the moment; its BIND will need a credit.
  [[nodiscard]] bool holds_spare_ticket() const { return !spares_.empty(); }

 private:
  struct Ticket {
    std::uint32_t number = 0;
    std::uint64_t block_offset = wire::kNoBlock;
    TimePoint leave_by{};  // no BIND goes out later
  };
  struct Allocation {
    Order order;
    Ticket ticket;
    std::uint32_t slot_offset = 0;
    std::array<std::byte, wire::kSlotSize> buffer{};  // sink of the slot's Reads
    std::optional<wire::Slot> seen;                   // the ready slot as the Read before has shown it
    Duration pause{};                                 // before the slot is read again
    bool written = false;
    std::optional<Outcome> bound;  // the answer to BIND
  };
  using AllocationPtr = std::shared_ptr<Allocation>;
  enum class Probe : std::uint8_t {
    due,
    sent,
    passed,
  };

  void probe();
  void take_ticket(const AllocationPtr& allocation);
  void read_slot(const AllocationPtr& allocation);
  void judge_slot(const AllocationPtr& allocation);
  void write_and_bind(const AllocationPtr& allocation);
  void bound(const AllocationPtr& allocation);
  void end(const AllocationPtr& allocation, DirectFailure failure, const std::string& why);
  void turn_off(const std::string& why);
  [[nodiscard]] std::optional<wire::Counter> counter(std::uint64_t word) const;
  [[nodiscard]] bool late(const AllocationPtr& allocation);

  AllocationHost& host_;
  OneSided& one_sided_;
  rdma::Loop& loop_;
  const SessionInfo& info_;
  wire::CounterFormat format_{wire::CounterFormat::kMinLog2};
  Duration ticket_time_{};
  Probe probe_ = Probe::due;
  std::string off_;  // why there is no DIRECT_ALLOC any more
  std::uint64_t usage_ = 0;
  std::deque<AllocationPtr> waiting_;  // for the probe
  std::deque<Ticket> spares_;          // of BINDs that were refused (G-30), oldest first
};

}  // namespace kbtp::initiator
