// One connection: an identifier of librdmacm with its queue pair, from set-up to the end, as an rdma::Stream.
// Internal to verbs.
//
// Everything runs on the connection's loop, but for rdma_connect(), which the kernel's soft iWARP blocks in
// until TCP is established: that is called on a thread of its own.

#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>

#include "proto/rdma/provider.h"
#include "proto/rdma/thread_loop.h"
#include "verbs/provider.h"
#include "verbs/regions.h"
#include "verbs/work_queue.h"

namespace kbtp::verbs {

class Connection;
using ConnectionNumber = std::uint64_t;

/// A protection domain with the regions registered for all its streams.
struct ProtectionDomain {
  ProtectionDomain(const Device& device, PdHandle pd_of) : pd(std::move(pd_of)), regions(device, *pd) {}
  PdHandle pd;
  Regions regions;  // under the provider's mutex when the domain is shared
};

/// What a listener and the connections that came through it share.
struct ListenerState {
  rdma::AcceptFunction accept;
  bool open = true;  ///< of a connection's own loop: each loop keeps one
};

/// What connections ask of their provider; any thread.
class ConnectionHost {
 public:
  virtual ~ConnectionHost() = default;
  /// The shared protection domain when it has regions, else a new one.
  [[nodiscard]] virtual Result<std::shared_ptr<ProtectionDomain>> domain_for(rdma::DomainId domain) = 0;
  /// `memory` holds counters that peers add to: until what is returned is gone, the host's own additions go
  /// by the device too.
  [[nodiscard]] virtual Result<std::shared_ptr<const void>> share_counters(std::span<std::byte> memory) = 0;
};

/// One loop and what lives on it. Used on that loop only, but for construction and destruction.
struct Home {
  Home(const VerbsOptions& options_of, const Device& device_of, ConnectionHost& host_of)
      : loop(options_of.spin), options(options_of), device(device_of), host(host_of) {}

  /// Ends a connection's life; it is gone afterwards.
  void drop(Connection& connection);
  void shed_handshakes(std::size_t limit);

  rdma::ThreadLoop loop;
  const VerbsOptions& options;
  const Device& device;
  ConnectionHost& host;
  std::list<Connection*> handshakes;  ///< accepted and not open yet, oldest first
  std::unordered_map<ConnectionNumber, std::unique_ptr<Connection>> connections;
};

/// What the kernel and the driver hold for a connection, given back in the right order.
struct Resources {
  Resources() = default;
  ~Resources();
  Resources(const Resources&) = delete;
  Resources& operator=(const Resources&) = delete;
  /// From here on the device reaches no memory through this connection.
  void destroy_queue_pair();

  EventChannelHandle channel;
  CmIdHandle id;
  std::shared_ptr<ProtectionDomain> domain;
  CompletionChannelHandle completions;
  CqHandle queue;
  std::vector<PinnedBuffer> receives;
  std::optional<PinnedBuffer> out;
  std::optional<PinnedBuffer> in;
  std::optional<Regions> regions;  ///< of the stream
};

/// An inbound request, copied from its event.
struct InboundRequest {
  EventChannelHandle channel;
  CmIdHandle id;
  std::vector<std::byte> private_data;
  std::uint32_t peer_ord = 0;
  std::uint32_t peer_ird = 0;
};

class Connection final : public rdma::Stream {
 public:
  /// Opens a connection; the outcome comes through `handler`.
  static void connect(Home& home, ConnectionNumber number, const SocketAddress& address,
                      rdma::StreamOptions options, rdma::StreamHandler& handler);
  /// Asks the listener's owner, and accepts or rejects.
  static void accept(Home& home, ConnectionNumber number, InboundRequest request,
                     const std::shared_ptr<ListenerState>& listener);

  Connection(Home& home, ConnectionNumber number, rdma::StreamOptions options, rdma::StreamHandler& handler);
  ~Connection() override;

  /// Ends it now; gone afterwards.
  void end(const rdma::CloseReason& why);
  /// An asynchronous event of the device says that it is over.
  void device_says(const char* why);
  [[nodiscard]] const std::shared_ptr<ListenerState>& listener() const { return listener_; }
  [[nodiscard]] ConnectionNumber number() const { return number_; }

  // The upper layer's side (rdma::Stream).

  rdma::Loop& loop() override { return home_.loop; }
  const rdma::Capabilities& capabilities() const override { return capabilities_; }
  const SocketAddress& peer() const override { return peer_; }
  const SocketAddress& local() const override { return local_; }
  void post(std::vector<rdma::WorkRequest> requests) override;
  [[nodiscard]] std::size_t backlog() const override { return queue_ ? queue_->waiting() : 0; }
  void post_receives(std::uint32_t count) override;
  Result<rdma::Region> register_region(const rdma::RegionSpec& spec) override;
  void revoke(rdma::STag stag) override;
  void close(Duration linger) override;
  void abort(std::string why) override;

 private:
  enum class State : std::uint8_t {
    resolving,      ///< of the peer's address and the way there
    connecting,     ///< the connection manager's messages, or MPA's
    open,           ///< in full operation
    disconnecting,  ///< our end is told to the peer, whose own is awaited
  };
  /// Calls a function of the connection when a descriptor is ready.
  class Ear final : public Watcher {
   public:
    Ear(Connection& connection, void (Connection::*heard)()) : connection_(connection), heard_(heard) {}
    void on_ready(std::uint32_t) override { (connection_.*heard_)(); }
    void on_turn_end() override { connection_.on_turn(); }

   private:
    Connection& connection_;
    void (Connection::*heard_)();
  };
  /// Shared with the thread that stands in rdma_connect().
  struct Attempt {
    std::mutex mutex;
    rdma::ThreadLoop* loop = nullptr;  // under mutex; null when nobody waits for the outcome any more
  };

  // connection_setup.cc
  void start_connect(const SocketAddress& address);
  void start_accept(InboundRequest request);
  void on_cm_events();
  void on_cm_event(const rdma_cm_event& event);
  void resolved_address();
  void resolved_route();
  void connect_returned(int error);
  void connect_failed(int error);
  void refused(const rdma_cm_event& event);
  void established(const rdma_conn_param& agreed);
  void disconnected();
  Result<> make_queues();
  void open_in_time();
  void become_open();
  void watch_cm();
  void unwatch_cm();

  // connection_io.cc
  void on_completion_event();
  void on_turn();
  /// Takes completions from the device, at most `most`; false when there may be more.
  bool poll(std::size_t most);
  void on_work_completion(const ibv_wc& completion);
  void on_receive(const ibv_wc& completion);
  void fill_receives();
  bool add_receives();
  bool hand_over(const Order& order);
  void pump();
  void wake();
  void settle();
  void begin_disconnect();
  void watch_sending();

  // connection.cc
  void fail(rdma::CloseReason::Kind kind, std::string text);
  [[nodiscard]] rdma::CloseReason reason(rdma::CloseReason::Kind kind, std::string text) const;
  void cancel(rdma::TimerId& timer);

  Home& home_;
  const ConnectionNumber number_;
  rdma::StreamOptions options_;
  rdma::StreamHandler& handler_;
  rdma::Capabilities capabilities_;
  std::shared_ptr<ListenerState> listener_;
  SocketAddress local_;
  SocketAddress peer_;
  State state_ = State::resolving;
  std::shared_ptr<Resources> resources_;
  std::shared_ptr<Attempt> attempt_;
  Ear cm_ear_{*this, &Connection::on_cm_events};
  Ear work_ear_{*this, &Connection::on_completion_event};
  bool cm_watched_ = false;
  bool work_watched_ = false;
  bool deferred_ = false;
  bool opened_ = false;   // on_open() has been called
  bool closing_ = false;  // close() has been called
  std::vector<std::byte> private_data_;
  std::uint32_t peer_ord_ = 0;  // as its request told
  std::uint32_t peer_ird_ = 0;
  std::optional<rdma::CloseReason> ending_;
  std::list<Connection*>::iterator handshake_;
  bool in_handshakes_ = false;

  std::optional<WorkQueue> queue_;
  std::uint64_t next_order_ = 0;
  std::vector<std::uint32_t> free_receives_;  // slots, see receive_slot()
  std::uint64_t receives_wanted_ = 0;
  std::uint32_t receives_posted_ = 0;
  std::uint32_t receive_depth_ = 0;

  rdma::TimerId setup_timer_ = rdma::TimerId::none;
  rdma::TimerId linger_timer_ = rdma::TimerId::none;
  rdma::TimerId send_timer_ = rdma::TimerId::none;
  rdma::TimerId error_timer_ = rdma::TimerId::none;
  rdma::TimerId pause_timer_ = rdma::TimerId::none;
  std::uint64_t orders_seen_ = 0;  // when send_timer_ was set
};

}  // namespace kbtp::verbs
