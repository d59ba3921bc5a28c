// A socket around an engine: reads where the engine says, sends what it gives, closes when it is finished.

#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <unordered_map>

#include "rdmap_binding/rnic/engine.h"
#include "rdmap_binding/rnic/loop.h"

namespace kbtp::rnic {

class Connection;

/// What a listener and the connections that came through it share.
struct ListenerState {
  rdma::AcceptFunction accept;
  bool open = true;  ///< of a connection's own loop: each loop keeps one
};

/// One loop and what lives on it. Used on that loop only, but for construction and destruction.
struct Place {
  Place(bool spin, const RnicOptions& rnic_options, StagTable& table)
      : loop(spin), options(rnic_options), stags(table) {}

  /// Ends a connection's life; `connection` is gone afterwards.
  void drop(Connection& connection);
  /// Makes room for one more connection in start-up, at the cost of the oldest.
  void shed_handshakes(std::size_t limit);

  RnicLoop loop;
  const RnicOptions& options;
  StagTable& stags;
  std::list<Connection*> handshakes;  ///< inbound and not accepted, oldest first
  std::unordered_map<Connection*, std::unique_ptr<Connection>> connections;
};

/// Socket options that every socket of the RNIC has; false when the congestion control is not to be had.
bool prepare_socket(int fd, const RnicOptions& options);

class Connection final : public Watcher, public EngineHost {
 public:
  /// Opens a connection; the outcome comes through `handler`.
  static void connect(Place& place, StreamId id, const SocketAddress& address, rdma::StreamOptions options,
                      rdma::StreamHandler& handler);
  /// Takes over an accepted socket.
  static void accepted(Place& place, StreamId id, int fd, std::shared_ptr<ListenerState> listener);

  Connection(Place& place, int fd, std::shared_ptr<ListenerState> listener);
  ~Connection() override;

  /// Ends it now (the RNIC or its listener goes away, too many handshakes); gone afterwards.
  void end(rdma::CloseReason::Kind kind, const char* why);
  void forget_memory(rdma::STag stag) { engine_->forget_memory(stag); }
  [[nodiscard]] const std::shared_ptr<ListenerState>& listener() const { return listener_; }

  void on_ready(std::uint32_t events) override;
  void on_turn_end() override;
  void wake() override;
  rdma::AcceptDecision decide(Octets private_data,
                              const std::optional<rdma::PeerDepths>& peer_depths) override;

 private:
  int open_socket();
  void reopen();
  void established();
  void step();
  void read_some();
  void write_some();
  void settle();
  void arm_timer();

  Place& place_;
  int fd_;
  Duration send_deadline_{};  // as Initiator
  std::shared_ptr<ListenerState> listener_;
  SocketAddress local_;
  SocketAddress peer_;
  std::unique_ptr<Engine> engine_;
  bool connecting_ = false;
  bool readable_ = false;
  bool writable_ = false;
  bool peer_closed_ = false;  // epoll said so: read on to the end of the stream
  bool dirty_ = false;        // the engine has something to send or to tell
  bool deferred_ = false;
  bool stepping_ = false;
  unsigned writes_ = 0;
  rdma::TimerId timer_ = rdma::TimerId::none;
  TimePoint timer_at_ = kNever;
  std::list<Connection*>::iterator handshake_;
  bool in_handshakes_ = false;
};

}  // namespace kbtp::rnic
