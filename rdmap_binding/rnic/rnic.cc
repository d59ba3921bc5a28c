#include "rdmap_binding/rnic/rnic.h"

#include <atomic>
#include <cerrno>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>

#include "base/masked_add.h"
#include "rdmap_binding/rnic/connection.h"

namespace kbtp::rnic {

namespace {

std::string error_text(int error) { return std::generic_category().message(error); }

struct Shared {
  explicit Shared(RnicOptions o) : options(std::move(o)) {
    for (unsigned i = 0; i < options.loops; ++i) {
      places.push_back(std::make_unique<Place>(options.spin, options, stags));
    }
  }
  [[nodiscard]] StreamId new_stream() {
    return static_cast<StreamId>(next_stream.fetch_add(1, std::memory_order_relaxed));
  }

  RnicOptions options;
  StagTable stags;
  std::atomic<std::uint64_t> next_stream{1};
  std::vector<std::unique_ptr<Place>> places;
};

/// Accepts on the first loop and deals connections out to all of them in turn.
class TcpListener final : public rdma::Listener, public Watcher {
 public:
  TcpListener(Shared& shared, int fd, const SocketAddress& local, const rdma::AcceptFunction& accept)
      : shared_(shared), fd_(fd), local_(local) {
    // One state per loop, so that the flag needs no lock.
    for (std::size_t i = 0; i < shared_.places.size(); ++i) {
      states_.push_back(std::make_shared<ListenerState>(ListenerState{accept, true}));
    }
    first().post([this] { first().events().watch(fd_, EPOLLIN, *this); });
  }

  ~TcpListener() override {
    rdma::on_loop(first(), [this] {
      first().events().unwatch(fd_, *this);
      if (retry_ != rdma::TimerId::none) first().cancel(retry_);
    });
    ::close(fd_);
    for (std::size_t i = 0; i < states_.size(); ++i) {
      Place& place = *shared_.places[i];
      rdma::on_loop(place.loop, [this, &place, i] {
        states_[i]->open = false;
        const std::list<Connection*> started = place.handshakes;
        for (Connection* connection : started) {
          if (connection->listener() == states_[i]) {
            connection->end(rdma::CloseReason::Kind::graceful, "the listener is closed");
          }
        }
      });
    }
  }

  const SocketAddress& local() const override { return local_; }

  void on_ready(std::uint32_t) override {
    constexpr int kBatch = 64;
    for (int i = 0; i < kBatch; ++i) {
      const int fd = ::accept4(fd_, nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC);
      if (fd < 0) {
        if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM) make_way();
        return;
      }
      const std::size_t index = next_++ % shared_.places.size();
      Place& place = *shared_.places[index];
      if (index == 0) {
        Connection::accepted(place, shared_.new_stream(), fd, states_[index]);
      } else {
        place.loop.post([&place, fd, id = shared_.new_stream(), state = states_[index]] {
          if (state->open) {
            Connection::accepted(place, id, fd, state);
          } else {
            ::close(fd);
          }
        });
      }
    }
  }

 private:
  RnicLoop& first() { return shared_.places.front()->loop; }

  /// No descriptor is left: the oldest unfinished start-up goes, and accepting rests for a moment instead of
  /// turning in circles.
  void make_way() {
    shared_.places.front()->shed_handshakes(1);
    first().events().unwatch(fd_, *this);
    retry_ = first().call_at(first().now() + std::chrono::milliseconds(50), [this] {
      retry_ = rdma::TimerId::none;
      first().events().watch(fd_, EPOLLIN, *this);
    });
  }

  Shared& shared_;
  int fd_;
  SocketAddress local_;
  std::vector<std::shared_ptr<ListenerState>> states_;
  std::size_t next_ = 0;
  rdma::TimerId retry_ = rdma::TimerId::none;
};

class TcpRnic final : public Rnic {
 public:
  explicit TcpRnic(RnicOptions options)
      : shared_(std::move(options)),
        capabilities_(capabilities_of(shared_.options.max_ird, shared_.options.max_ord)) {
    for (const auto& place : shared_.places) place->loop.events().start();
  }

  ~TcpRnic() override {
    for (const auto& place : shared_.places) {
      rdma::on_loop(place->loop, [&place] {
        while (!place->connections.empty()) {
          place->connections.begin()->second->end(rdma::CloseReason::Kind::graceful, "the RNIC is shut down");
        }
      });
    }
    for (const auto& place : shared_.places) place->loop.events().stop();
  }

  const rdma::Capabilities& capabilities() const override { return capabilities_; }
  std::size_t loop_count() const override { return shared_.places.size(); }
  rdma::Loop& loop(std::size_t index) override { return shared_.places.at(index)->loop; }

  rdma::DomainId create_domain() override {
    return static_cast<rdma::DomainId>(next_domain_.fetch_add(1, std::memory_order_relaxed));
  }
  Result<rdma::Region> register_region(rdma::DomainId domain, const rdma::RegionSpec& spec) override {
    return shared_.stags.add(domain, spec);
  }

  void revoke(rdma::STag stag, rdma::Task done) override {
    shared_.stags.remove_of_domain(stag);
    // Each loop passes a turn after the STag is gone from the table: nobody holds on to the memory then.
    auto left = std::make_shared<std::atomic<std::size_t>>(shared_.places.size());
    auto task = std::make_shared<rdma::Task>(std::move(done));
    for (const auto& place : shared_.places) {
      place->loop.post([stag, left, task, p = place.get()] {
        for (const auto& entry : p->connections) entry.second->forget_memory(stag);
        if (left->fetch_sub(1, std::memory_order_acq_rel) == 1 && *task) (*task)();
      });
    }
  }

  Result<std::unique_ptr<rdma::Listener>> listen(const SocketAddress& address,
                                                 rdma::AcceptFunction accept) override {
    const int fd = ::socket(address.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
    if (fd < 0) return failure("cannot make a socket for " + address.to_string() + ": " + error_text(errno));
    const int on = 1;
    ::setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    prepare_socket(fd, shared_.options);
    SocketAddress local;
    socklen_t length = SocketAddress::capacity();
    if (::bind(fd, address.get(), address.length()) != 0 || ::listen(fd, SOMAXCONN) != 0 ||
        ::getsockname(fd, local.get(), &length) != 0) {
      const int error = errno;
      ::close(fd);
      return failure("cannot listen on " + address.to_string() + ": " + error_text(error));
    }
    local.set_length(length);
    return std::make_unique<TcpListener>(shared_, fd, local, accept);
  }

  void connect(const SocketAddress& address, std::size_t loop_index, rdma::StreamOptions options,
               rdma::StreamHandler& handler) override {
    Place& place = *shared_.places.at(loop_index);
    place.loop.post([this, &place, address, opts = std::move(options), &handler]() mutable {
      Connection::connect(place, shared_.new_stream(), address, std::move(opts), handler);
    });
  }

  std::uint64_t fetch_add_local(std::uint64_t& word, std::uint64_t add, std::uint64_t mask) override {
    return fetch_masked_add(word, add, mask);
  }

 private:
  Shared shared_;
  rdma::Capabilities capabilities_;
  std::atomic<std::uint32_t> next_domain_{1};
};

}  // namespace

Result<std::unique_ptr<Rnic>> Rnic::create(RnicOptions options) {
  if (options.loops == 0) return failure("an RNIC needs at least one loop");
  if (options.mpa_revision != 1 && options.mpa_revision != 2) return failure("MPA has revisions 1 and 2");
  if (options.rtr.empty()) return failure("an RNIC takes one kind of RTR indication at least (RFC 6581 9.2)");
  const int fd = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return failure("cannot make a TCP socket: " + error_text(errno));
  const bool prepared = prepare_socket(fd, options);
  ::close(fd);
  if (!prepared) {
    return failure("this host does not let us use the TCP congestion control '" + options.congestion_control +
                   "' (see /proc/sys/net/ipv4/tcp_allowed_congestion_control)");
  }
  return std::make_unique<TcpRnic>(std::move(options));
}

}  // namespace kbtp::rnic
