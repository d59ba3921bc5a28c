// One connection of the fake fabric: two endpoints, each with its send queue and the messages it has on the
// wire. Internal to proto/rdma/fake.

#pragma once

#include <deque>
#include <memory>
#include <optional>
#include <vector>

#include "proto/rdma/fake/host.h"
#include "proto/rdma/fake/scheduler.h"

namespace kbtp::fake {

class Endpoint;

/// A part of a Write or Read Response: read from the source at one time, placed at another.
struct Piece {
  std::size_t offset = 0;
  std::size_t length = 0;
  std::vector<std::byte> octets;
  bool sourced = false;
  bool placed = false;
};

/// A posted work request until its completion.
struct Posted {
  rdma::WorkRequest request;
  bool completable = false;
  rdma::WorkStatus status = rdma::WorkStatus::success;
  std::uint64_t original = 0;
};

struct Message {
  Observed::Kind kind = Observed::Kind::send;
  std::vector<std::byte> payload;  // Send
  bool solicited = false;
  std::optional<rdma::STag> invalidate;  // Send with Invalidate
  std::uint64_t value = 0;               // Immediate, Atomic Response
  rdma::RemoteBuffer remote;             // destination of a Write, source of a Read, word of an Atomic
  std::uint64_t length = 0;
  Octets source;       // of a Write
  MutableOctets sink;  // of a Read Response, at the requester
  std::vector<Piece> pieces;
  std::shared_ptr<Posted> posted;  // Read and Atomic: the requester's; Write: the sender's
  std::uint16_t triple = 0;        // Terminate
  bool arrived = false;
  bool ready = false;  // Read and Atomic Response: may be put on the wire
};
using MessagePtr = std::shared_ptr<Message>;

/// Layer << 12 | Error Type << 8 | Error Code (RFC 5040 4.8, RFC 5041 7.1).
enum class Triple : std::uint16_t {
  tagged_invalid_stag = 0x1100,
  tagged_bounds = 0x1101,
  tagged_other_stream = 0x1102,
  tagged_wrap = 0x1103,
  untagged_no_buffer = 0x1202,
  untagged_too_long = 0x1205,
  rdmap_invalid_stag = 0x0100,
  rdmap_bounds = 0x0101,
  rdmap_access = 0x0102,
  rdmap_other_stream = 0x0103,
  rdmap_wrap = 0x0104,
  rdmap_cannot_invalidate = 0x0109,
  rdmap_unexpected_opcode = 0x0206,
  rdmap_unaligned_atomic = 0x0207,
};

class Connection : public std::enable_shared_from_this<Connection> {
 public:
  Connection(Scheduler& scheduler_of, std::size_t index_of) : scheduler(scheduler_of), index(index_of) {}
  void cut();

  Scheduler& scheduler;
  std::size_t index;
  bool severed = false;  // nothing more gets onto the wire
  std::shared_ptr<Endpoint> ends[2];
};

class Endpoint final : public rdma::Stream, public std::enable_shared_from_this<Endpoint> {
 public:
  Endpoint(Connection& connection, Side side, Host& host, FakeLoop& loop, rdma::StreamHandler& handler,
           const rdma::StreamOptions& options, const SocketAddress& peer, const SocketAddress& local);

  [[nodiscard]] rdma::Loop& loop() override { return loop_; }
  [[nodiscard]] const rdma::Capabilities& capabilities() const override { return capabilities_; }
  [[nodiscard]] const SocketAddress& peer() const override { return peer_address_; }
  [[nodiscard]] const SocketAddress& local() const override { return local_address_; }
  void post(std::vector<rdma::WorkRequest> requests) override;
  [[nodiscard]] std::size_t backlog() const override { return queue_.size(); }
  void post_receives(std::uint32_t count) override { receives_ += count; }
  [[nodiscard]] Result<rdma::Region> register_region(const rdma::RegionSpec& spec) override;
  void revoke(rdma::STag stag) override;
  void close(Duration linger) override;
  void abort(std::string why) override;

  void open(std::vector<std::byte> private_data);
  void agree(std::uint32_t ird, std::uint32_t ord);
  void end(rdma::CloseReason reason);
  void set_stalled(bool stalled);
  [[nodiscard]] bool ended() const { return ended_; }

 private:
  friend class Connection;

  // Sending (endpoint_send.cc).
  void pump();
  void send_next();
  void transmit(const std::shared_ptr<Posted>& posted);
  void put_on_wire(const MessagePtr& message);
  void complete(const std::shared_ptr<Posted>& posted);
  void complete_in_order();
  void cut_into_pieces(Message& message);
  [[nodiscard]] bool is_operation(const rdma::WorkRequest& request) const;
  [[nodiscard]] bool source_piece(const Message& message, Piece& piece);
  void send_owed_responses();
  void watch_progress();

  // Receiving what the peer has put on the wire (endpoint_receive.cc).
  void receive_in_order();
  [[nodiscard]] bool place_all(const MessagePtr& last);
  [[nodiscard]] bool place(Message& message, Piece& piece);
  /// A piece that has been read from its source may be placed now.
  void place_early(const MessagePtr& message, std::size_t number);
  [[nodiscard]] bool place_writes_before(const MessagePtr& message);
  void deliver(const MessagePtr& message);
  void deliver_send(const MessagePtr& message);
  void deliver_read_request(const MessagePtr& message);
  void deliver_atomic_request(const MessagePtr& message);
  [[nodiscard]] bool revoke_by_peer(rdma::STag stag);
  void owe(const MessagePtr& response);
  /// The octets that `remote` names here, or the triple that refuses it.
  [[nodiscard]] Expected<MutableOctets, Triple> reach(const rdma::RemoteBuffer& remote, std::uint64_t length,
                                                      rdma::Access wanted, bool tagged) const;
  void terminate(Triple triple, const std::string& text);
  void end_if_both_finished();
  void call_closed();

  [[nodiscard]] Touched touches(Touched::What what) const { return {host_.index(), what}; }
  [[nodiscard]] bool infiniband() const { return scheduler_.options().rules == Rules::infiniband; }
  [[nodiscard]] Endpoint& other() const { return *connection_.ends[1 - side_]; }
  [[nodiscard]] std::shared_ptr<Connection> hold() const { return connection_.shared_from_this(); }

  Connection& connection_;
  Scheduler& scheduler_;
  Side side_;
  Host& host_;
  FakeLoop& loop_;
  Tag queue_tag_;       // pumping
  Tag arrival_tag_;     // of what the peer has sent
  Tag completion_tag_;  // of what was posted
  Tag response_tag_;    // owed
  rdma::StreamHandler& handler_;
  rdma::StreamOptions options_;
  rdma::Capabilities capabilities_;
  SocketAddress peer_address_;
  SocketAddress local_address_;

  std::deque<std::shared_ptr<Posted>> queue_;        // posted, not yet on the wire
  std::deque<std::shared_ptr<Posted>> uncompleted_;  // posted, in order, completion not yet told
  std::deque<MessagePtr> wire_;                      // sent by this side, not yet delivered to the other
  std::vector<MessagePtr> late_;                     // Writes of the peer, delivered here but not all placed
  std::deque<MessagePtr> owed_;                      // responses this side owes, in the order of the requests
  std::uint32_t receives_ = 0;
  std::uint32_t outstanding_reads_ = 0;
  bool pumping_ = false;
  bool stalled_ = false;  // this side takes nothing
  bool opened_ = false;
  bool closing_ = false;
  bool fin_sent_ = false;
  bool fin_received_ = false;
  bool ended_ = false;
  bool closed_called_ = false;
  std::uint64_t sent_ = 0;
  bool watching_ = false;
  rdma::CloseReason reason_;
};

}  // namespace kbtp::fake
