// An initiator of DIRECT_ALLOC that does each step of 6.6 by itself, with time in between: it holds tickets
// while it allocates and frees otherwise, sends BINDs that must be refused, takes more tickets than its
// quota, and lets tickets run out and writes all the same. initiator::Session does none of that.

#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "proto/wire/completion.h"
#include "proto/wire/hello.h"
#include "proto/wire/request.h"
#include "proto/wire/structures.h"
#include "tests/sim/world.h"

namespace kbtp::sim {

class Agent final : public rdma::StreamHandler {
 public:
  Agent(World& world, const Named& named, int budget);

  [[nodiscard]] bool done() const { return finished_; }
  [[nodiscard]] int bound() const { return binds_; }

  void on_open(rdma::Stream& stream, Octets private_data) override;
  void on_received(const rdma::Received& received) override;
  void on_completion(const rdma::Completion& completion) override;
  void on_peer_finished() override;
  void on_closed(const rdma::CloseReason& reason) override;

 private:
  using Then = std::function<void()>;
  using Answered = std::function<void(const wire::Completion& completion)>;
  /// A direct allocation between its FetchAdd and its BIND.
  struct Ticket {
    std::uint32_t number = 0;
    std::uint64_t handle = 0;
    std::uint64_t block_offset = wire::kNoBlock;
    StoreId store = 0;
    std::uint32_t length = 0;
    TimePoint taken{};
  };

  // Sessions and what goes over them.
  void connect();
  void later();
  void leave();
  void send(std::vector<std::byte> message);
  void ask(wire::Request request, Answered answered);
  void ask_next();
  void work(rdma::WorkRequest request, std::function<void(const rdma::Completion&)> done);
  void after(Duration time, Then then);
  void accept(const wire::HelloAck& ack);

  // What it does.
  void free_all(std::uint64_t handle);
  void cycle();
  void take(std::uint64_t handle);
  void await_slot(const std::shared_ptr<Ticket>& ticket, std::optional<wire::Slot> seen);
  void write(const std::shared_ptr<Ticket>& ticket);
  void choose(const Ticket& ticket);
  void bind(const Ticket& ticket, const Then& then);
  void hold(const Ticket& ticket);
  void churn(std::uint64_t handle);
  void release(const Ticket& ticket);
  void send_wrong_binds(const Ticket& ticket);
  void wrong_bind(const char* what, const wire::Bind& bind, wire::Status expected, const Then& then);
  void run_out(const Ticket& ticket);
  void alloc(std::uint64_t handle, Answered answered);
  void free(std::uint64_t handle, const Then& then);

  [[nodiscard]] wire::Bind bind_of(const Ticket& ticket) const;
  [[nodiscard]] wire::CounterFormat format() const {
    using Kind = wire::CounterFormat::Kind;
    return wire::CounterFormat(ack_.ring_log2, ack_.granted.atomic_unmasked ? Kind::unmasked : Kind::masked);
  }
  [[nodiscard]] std::optional<std::uint64_t> unbound_handle() const;
  [[nodiscard]] bool in_time(const Ticket& ticket) const;
  [[nodiscard]] HandleKey key(std::uint64_t handle) const { return {life_, handle}; }

  World& world_;
  const Named& named_;
  int budget_;
  int binds_ = 0;
  bool finished_ = false;

  // Of the session.
  std::uint64_t session_ = 0;
  std::uint64_t life_ = 0;
  rdma::Stream* stream_ = nullptr;
  bool leaving_ = false;
  std::optional<std::uint64_t> hello_;
  wire::HelloAck ack_;
  std::uint64_t next_id_ = 1;
  std::deque<std::pair<wire::Request, Answered>> queue_;  // for a credit
  std::map<std::uint64_t, Answered> asked_;
  std::map<rdma::WorkId, std::function<void(const rdma::Completion&)>> works_;
  std::map<std::uint64_t, bool> bound_;  // own handles; true also while an operation is under way
  std::deque<Ticket> history_;           // bound in this session

  // While a ticket is held.
  std::uint64_t holds_ = 0;  // a later one, or a later step of it, is none of a timer's business
  std::size_t churners_ = 0;
  std::uint64_t frees_left_ = 0;
  TimePoint hold_until_{};
  std::map<std::uint64_t, TimePoint> frees_since_;  // FREEs that are not answered
  Then when_still_;
};

}  // namespace kbtp::sim
