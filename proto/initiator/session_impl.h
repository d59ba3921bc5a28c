// The state machine behind initiator::Session. Internal to proto/initiator.

#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "proto/initiator/direct_alloc.h"
#include "proto/initiator/initiator.h"
#include "proto/initiator/one_sided.h"
#include "proto/initiator/records.h"
#include "proto/wire/completion.h"
#include "proto/wire/request.h"

namespace kbtp::initiator {

class SessionImpl final : public Session,
                          public rdma::StreamHandler,
                          private AllocationHost,
                          public std::enable_shared_from_this<SessionImpl> {
 public:
  SessionImpl(rdma::Provider& provider, ConnectOptions options, Connected connected);
  void start();

  // Session
  [[nodiscard]] const SessionInfo& info() const override { return info_; }
  [[nodiscard]] rdma::Loop& loop() override { return loop_; }
  [[nodiscard]] bool is_open() const override { return state_ == State::open; }
  [[nodiscard]] SessionStats stats() const override { return {outstanding_.size(), queue_.size()}; }
  [[nodiscard]] Result<Buffer> register_buffer(std::span<std::byte> memory, BufferUse use,
                                               bool remote_invalidate) override;
  void unregister_buffer(const Buffer& buffer) override;
  void load(std::uint64_t handle, const Slice& sink, const LoadOptions& options, Done done) override;
  void store(std::uint64_t handle, const Slice& source, const StoreOptions& options, Done done) override;
  void alloc_store(std::uint64_t handle, const Slice& source, const StoreOptions& options,
                   Done done) override;
  void free(std::uint64_t handle, std::uint16_t generation, Done done) override;
  void store_inline(std::uint64_t handle, Octets data, const StoreOptions& options, Done done) override;
  void alloc_store_inline(std::uint64_t handle, Octets data, const StoreOptions& options, Done done) override;
  void probe(std::uint64_t handle, Done done) override;
  void direct_load(std::uint64_t handle, std::span<std::byte> sink, const DirectLoadOptions& options,
                   Done done) override;
  void direct_alloc_store(std::uint64_t handle, Octets source, const DirectStoreOptions& options,
                          Done done) override;
  void on_closed(std::function<void(const rdma::CloseReason& reason)> callback) override;
  void close() override;
  void abort(std::string why) override;

  // rdma::StreamHandler
  void on_open(rdma::Stream& stream, Octets private_data) override;
  void on_received(const rdma::Received& received) override;
  void on_completion(const rdma::Completion& completion) override;
  void on_peer_finished() override;
  void on_closed(const rdma::CloseReason& reason) override;

 private:
  enum class State : std::uint8_t {
    connecting,
    hello_sent,
    open,
    closing,  ///< close() was called: what is outstanding is waited for
    failed,   ///< the stream is being ended because something went wrong
    closed,
  };
  struct Pending {
    std::vector<std::byte> message;  ///< the request, until it is sent
    rdma::Task begin;                ///< instead of a message: takes the credit and goes on by itself
    wire::Opcode opcode = wire::Opcode::load;
    std::optional<std::uint32_t> sink_length;  ///< of a LOAD, in octets
    std::optional<rdma::STag> may_invalidate;  ///< INVALIDATE was asked for
    bool wants_record = false;                 ///< `message` has a Completion Descriptor, to be filled in
    std::optional<Records::Slot> record;       ///< where its record is to come, once it is sent
    Done done;
  };

  [[nodiscard]] Outcome ended() const;
  void answer_later(const Outcome& outcome, Done done);
  void tell_oldest();
  void submit(const wire::Request& request, Done done);
  void enqueue(std::uint64_t id, Pending pending);
  void send_queued();
  [[nodiscard]] bool has_credit_for(const Pending& pending) const;
  void send(std::uint64_t request_id, Pending pending, std::optional<rdma::Write> write);
  void watch(std::uint64_t id);
  void watch_deadlines();
  [[nodiscard]] bool is_idle() const;

  // Direct modes (session_direct.cc).
  [[nodiscard]] std::uint64_t begin_direct(Done done);
  void finish_direct(std::uint64_t id, const Outcome& outcome);
  void bind(std::optional<rdma::Write> write, const wire::Bind& bind, Done done) override;
  void give_credit_back() override;

  void nudge_later(Duration wait);
  void handle_hello_ack(Octets payload);
  /// What ends an operation, in either of its forms (6.5).
  struct Ending {
    std::uint64_t request_id = 0;
    wire::Status status = wire::Status::success;
    std::uint16_t generation = 0;
    std::uint32_t data_length = 0;
    std::uint64_t block_offset = 0;
    std::optional<rdma::STag> invalidated;
  };
  [[nodiscard]] Pending pending_for(const wire::Request& request, Done done) const;
  void handle_completion(const rdma::Received& received);
  void handle_record(std::uint32_t immediate);
  void end_operation(const Ending& ending);
  void fail(const std::string& why);
  void fail_connect(ConnectError error);
  void cancel_timers(std::initializer_list<rdma::TimerId*> timers);
  void close_when_idle();
  [[nodiscard]] std::string why_closed(const rdma::CloseReason& reason) const;

  rdma::Provider& provider_;
  ConnectOptions options_;
  Connected connected_;
  rdma::Loop& loop_;
  rdma::Stream* stream_ = nullptr;
  State state_ = State::connecting;
  wire::Features wanted_;  ///< what HELLO asked for
  SessionInfo info_;
  std::string failure_;                ///< our own reason for ending the session
  std::shared_ptr<SessionImpl> self_;  ///< until the stream is gone
  std::uint64_t next_request_id_;
  std::deque<std::pair<std::uint64_t, Pending>> queue_;     ///< waiting for a credit, in order
  std::unordered_map<std::uint64_t, Pending> outstanding_;  ///< by Request ID
  std::unordered_map<std::uint64_t, Done> direct_;          ///< direct operations, by an id of their own
  std::uint32_t held_credits_ = 0;                          ///< by direct allocations whose BIND is not sent
  Records records_;
  OneSided one_sided_;
  DirectAllocator allocator_;
  std::deque<std::pair<TimePoint, std::uint64_t>>
      deadlines_;  ///< in order of time; answered ones stay until due
  rdma::TimerId hello_timer_{};
  rdma::TimerId nudge_timer_{};
  rdma::TimerId deadline_timer_{};
  std::deque<std::pair<Outcome, Done>> later_;  ///< refused here, not told yet
  std::function<void(const rdma::CloseReason&)> closed_;
  bool close_called_ = false;
};

}  // namespace kbtp::initiator
