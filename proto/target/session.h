// One session: WAIT_HELLO -> OPEN -> DRAIN -> CLOSED. It takes requests in, hands each to the handler of its
// section, and sends their completions. Internal to proto/target.
//
// Threads: everything runs on the stream's loop, except where it says otherwise.

#pragma once

#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "proto/rdma/provider.h"
#include "proto/target/core.h"
#include "proto/target/direct.h"
#include "proto/target/operation.h"
#include "proto/wire/completion.h"
#include "proto/wire/hello.h"

namespace kbtp::target {

class Session final : public rdma::StreamHandler, public std::enable_shared_from_this<Session> {
 public:
  Session(std::shared_ptr<Core> core, rdma::Loop& loop, std::uint64_t number)
      : core_(std::move(core)), loop_(loop), number_(number) {}

  void on_open(rdma::Stream& stream, Octets private_data) override;
  void on_received(const rdma::Received& received) override;
  void on_completion(const rdma::Completion& completion) override;
  void on_peer_finished() override { disconnect(); }
  void on_closed(const rdma::CloseReason& reason) override;

  [[nodiscard]] Core& core() { return *core_; }
  [[nodiscard]] rdma::Loop& loop() { return loop_; }
  [[nodiscard]] std::uint64_t number() const { return number_; }
  /// True once, and only for a session that holds nothing yet, or never came to hold anything and is only
  /// waited for to end: the caller then has it shed(). Any thread.
  [[nodiscard]] bool give_up() { return waiting_.exchange(false) || only_ending_.exchange(false); }
  /// Ends it at once, for others need its place.
  void shed();
  [[nodiscard]] std::uint32_t receive_size() const;
  [[nodiscard]] bool is_named() const { return named_ != nullptr; }
  [[nodiscard]] bool closed() const { return state_ == State::closed; }
  [[nodiscard]] std::uint32_t domain() const { return domain_; }
  [[nodiscard]] bool owns(std::uint64_t handle) const {
    return range_ != nullptr && range_->contains(handle);
  }
  [[nodiscard]] const Range& range() const { return *range_; }
  [[nodiscard]] memory::OwnerId owner() const { return range_->owner; }
  /// The ring that this session's blocks come from.
  [[nodiscard]] memory::Ring& ring() const { return core_->ring_of(*range_); }
  /// What it has been granted of the direct modes; nothing, or until the stream ends.
  [[nodiscard]] DirectAccess* direct() const { return direct_.get(); }
  /// Tickets that the initiator has taken by itself and not yet bound, as Head stands now.
  [[nodiscard]] std::uint64_t tickets_outstanding();
  /// Whether the handle is in a range of the session's trust domain (G-25, P-11).
  [[nodiscard]] bool sees(std::uint64_t handle) const;
  /// RDMA Reads are possible at all (G-35).
  [[nodiscard]] bool can_read() const { return stream_ != nullptr && stream_->capabilities().ord > 0; }

  /// The end by G-53: nothing more is accepted, what was accepted is answered, then FIN.
  void disconnect();
  /// Another session of the same identity waits (G-51): ends soon, then `gone` runs on any loop.
  void supersede(std::function<void()> gone);

  // For operations.

  /// The front of the block := the initiator's buffer; ends in operation->on_read().
  void read(const std::shared_ptr<Operation>& operation, std::uint64_t block_offset,
            const wire::DataDescriptor& source);
  /// Pins `block_offset` if the session's share allows; the pin drops when the Write that complete() gets
  /// ends.
  [[nodiscard]] bool try_pin(std::uint64_t block_offset);
  /// Ends an operation with its COMPLETION, after `write` if there is one. It forgets the operation.
  void complete(Operation& operation, const Answer& answer, std::optional<rdma::Write> write = {},
                std::optional<std::uint64_t> pinned_block = {});
  /// Forgets an operation that can no longer be answered.
  void drop(Operation& operation);
  /// It is the turn of a handle whose range ends.
  void reclaim_handle(std::uint64_t handle);

 private:
  enum class State : std::uint8_t {
    connecting,
    wait_hello,
    hello_waits,  ///< for the identity's older session to end
    open,
    drain,
    closed,
  };
  /// What was posted, oldest first: completions come in that order (RFC 5040 5.5 rule 15).
  struct Posted {
    enum class Kind : std::uint8_t {
      send,
      write,
      read
    };
    Kind kind = Kind::send;
    std::optional<std::uint64_t> pinned_block;
    std::shared_ptr<Operation> operation;
    TimePoint since{};
  };

  // hello.cc
  void handle_hello(Octets payload);
  [[nodiscard]] std::optional<wire::Status> find_range(const wire::Hello& hello);
  void claim_range(const wire::Hello& hello);
  [[nodiscard]] bool open_private_range(const wire::Hello& hello);
  void accept_hello(const wire::Hello& hello);
  [[nodiscard]] bool open_direct_modes(const wire::Hello& hello, wire::HelloAck& ack);
  void refuse_hello(const wire::Hello& hello, wire::Status status);

  // completion.cc
  /// `request` is what is completed; none when it was not well formed.
  void send_completion(const wire::Completion& completion, const wire::Request* request,
                       std::optional<rdma::Write> write, std::optional<std::uint64_t> pinned_block);
  [[nodiscard]] rdma::WorkRequest completion_message(const wire::Completion& completion,
                                                     std::optional<std::uint32_t> invalidate);
  [[nodiscard]] rdma::WorkRequest completion_record(const wire::Completion& completion,
                                                    const wire::CompletionDescriptor& slot);
  void answer_at_once(const wire::Header& header, wire::Status status, const wire::Request* request);
  void repost_receive();

  void handle_request(Octets payload);
  void watch_reads();
  void close_when_idle();
  void finish_when_idle();
  void reclaim();
  void gone();

  std::shared_ptr<Core> core_;
  rdma::Loop& loop_;
  const std::uint64_t number_;
  std::atomic<bool> waiting_{true};       // for HELLO
  std::atomic<bool> only_ending_{false};  // without ever having been open
  rdma::Stream* stream_ = nullptr;
  State state_ = State::connecting;
  std::uint32_t domain_ = 0;
  const NamedRange* named_ = nullptr;
  std::shared_ptr<Range> range_;
  wire::Features granted_;
  std::unique_ptr<DirectAccess> direct_;
  std::unordered_map<std::uint64_t, std::shared_ptr<Operation>> operations_;  // outstanding, by Request ID
  std::deque<Posted> posted_;
  std::uint64_t next_work_ = 0;    // id of the next work request
  std::uint64_t oldest_work_ = 0;  // id of posted_.front()
  std::uint32_t pins_ = 0;
  std::uint32_t max_requests_ = 1;  // C of HELLO_ACK
  std::uint64_t reclaimed_to_ = 0;  // handles of the range that have been looked at
  std::uint64_t reclaiming_ = 0;    // handles whose turn has not come yet
  bool counted_open_ = false;
  bool claimed_ = false;
  bool close_called_ = false;
  bool finished_ = false;
  bool gone_called_ = false;
  rdma::TimerId hello_timer_{};
  rdma::TimerId read_timer_{};
  rdma::TimerId drain_timer_{};
  std::vector<std::function<void()>> when_gone_;
};

}  // namespace kbtp::target
