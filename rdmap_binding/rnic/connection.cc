#include "rdmap_binding/rnic/connection.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <system_error>
#include <unistd.h>

namespace kbtp::rnic {

using rdma::CloseReason;

namespace {

// A connection gives the others their turn after so much work.
constexpr int kReadsPerStep = 8;
constexpr int kWritesPerStep = 8;
constexpr unsigned kWritesPerEmss = 16;
constexpr std::uint32_t kEvents = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET;

std::string error_text(int error) { return std::generic_category().message(error); }

SocketAddress local_of(int fd) {
  SocketAddress address;
  socklen_t length = SocketAddress::capacity();
  if (::getsockname(fd, address.get(), &length) == 0) address.set_length(length);
  return address;
}

SocketAddress peer_of(int fd) {
  SocketAddress address;
  socklen_t length = SocketAddress::capacity();
  if (::getpeername(fd, address.get(), &length) == 0) address.set_length(length);
  return address;
}

std::size_t emss_of(int fd) {
  int segment = 0;
  socklen_t length = sizeof segment;
  if (::getsockopt(fd, IPPROTO_TCP, TCP_MAXSEG, &segment, &length) != 0 || segment <= 0) return 0;
  return static_cast<std::size_t>(segment);
}

/// For octets that TCP has taken and the peer does not acknowledge: there the engine's own deadline is blind.
void set_user_timeout(int fd, Duration timeout) {
  constexpr std::int64_t kLongest = 0x7FFF'FFFF;
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(timeout).count();
  const auto value = static_cast<int>(std::clamp<std::int64_t>(ms, 1, kLongest));
  ::setsockopt(fd, IPPROTO_TCP, TCP_USER_TIMEOUT, &value, sizeof value);
}

}  // namespace

bool prepare_socket(int fd, const RnicOptions& options) {
  const int on = 1;
  ::setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  // A peer that vanished without a FIN is noticed even when nothing is sent.
  constexpr int kIdleSeconds = 30;
  constexpr int kProbeSeconds = 10;
  ::setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &kIdleSeconds, sizeof kIdleSeconds);
  ::setsockopt(fd, IPPROTO_TCP, TCP_KEEPINTVL, &kProbeSeconds, sizeof kProbeSeconds);
  if (options.socket_buffer > 0) {
    ::setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &options.socket_buffer, sizeof options.socket_buffer);
    ::setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &options.socket_buffer, sizeof options.socket_buffer);
  }
  const std::string& name = options.congestion_control;
  return name.empty() ||
         ::setsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name.data(), static_cast<socklen_t>(name.size())) == 0;
}

// --- Place -----------------------------------------------------------------------------------------------

void Place::drop(Connection& connection) { connections.erase(&connection); }

void Place::shed_handshakes(std::size_t limit) {
  while (!handshakes.empty() && handshakes.size() >= limit) {
    handshakes.front()->end(CloseReason::Kind::deadline, "too many connections in MPA start-up");
  }
}

// --- Creation --------------------------------------------------------------------------------------------

Connection::Connection(Place& place, int fd, std::shared_ptr<ListenerState> listener)
    : place_(place), fd_(fd), listener_(std::move(listener)) {}

Connection::~Connection() {
  if (timer_ != rdma::TimerId::none) place_.loop.cancel(timer_);
  if (in_handshakes_) place_.handshakes.erase(handshake_);
  place_.loop.events().unwatch(fd_, *this);
  if (engine_ && engine_->abortive()) {
    const linger now{1, 0};
    ::setsockopt(fd_, SOL_SOCKET, SO_LINGER, &now, sizeof now);
  }
  engine_.reset();
  if (fd_ >= 0) ::close(fd_);
}

void Connection::connect(Place& place, StreamId id, const SocketAddress& address, rdma::StreamOptions options,
                         rdma::StreamHandler& handler) {
  auto owned = std::make_unique<Connection>(place, -1, nullptr);
  Connection& self = *owned;
  place.connections.emplace(&self, std::move(owned));
  self.peer_ = address;
  self.send_deadline_ = options.send_deadline;
  const int error = self.open_socket();
  self.engine_ = std::make_unique<Engine>(EngineSetup{place.stags, place.loop.staging(), place.loop, self,
                                                      place.options, id, self.local_, self.peer_},
                                          std::move(options), handler);
  self.connecting_ = true;
  if (error != 0) {
    self.end(CloseReason::Kind::refused, error_text(error).c_str());
    return;
  }
  place.loop.events().watch(self.fd_, kEvents, self);
  self.arm_timer();
}

/// A socket on its way to the peer; returns errno, or 0.
int Connection::open_socket() {
  fd_ = ::socket(peer_.family(), SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd_ < 0) return errno;
  prepare_socket(fd_, place_.options);
  set_user_timeout(fd_, send_deadline_);
  if (::connect(fd_, peer_.get(), peer_.length()) != 0 && errno != EINPROGRESS) return errno;
  local_ = local_of(fd_);
  return 0;
}

/// Another connection to a peer that has closed on our enhanced Request.
void Connection::reopen() {
  place_.loop.events().unwatch(fd_, *this);
  ::close(fd_);
  readable_ = writable_ = peer_closed_ = false;
  const int error = open_socket();
  connecting_ = true;
  if (error != 0) {
    engine_->transport_lost(CloseReason::Kind::refused, error_text(error));
    engine_->pump();
    return;
  }
  engine_->set_local(local_);
  place_.loop.events().watch(fd_, kEvents, *this);
}

void Connection::accepted(Place& place, StreamId id, int fd, std::shared_ptr<ListenerState> listener) {
  place.shed_handshakes(std::max<std::size_t>(1, place.options.max_handshakes / place.options.loops));
  auto owned = std::make_unique<Connection>(place, fd, std::move(listener));
  Connection& self = *owned;
  place.connections.emplace(&self, std::move(owned));
  self.handshake_ = place.handshakes.insert(place.handshakes.end(), &self);
  self.in_handshakes_ = true;
  prepare_socket(fd, place.options);
  self.local_ = local_of(fd);
  self.peer_ = peer_of(fd);
  self.engine_ = std::make_unique<Engine>(EngineSetup{place.stags, place.loop.staging(), place.loop, self,
                                                      place.options, id, self.local_, self.peer_});
  self.engine_->start(emss_of(fd));
  place.loop.events().watch(fd, kEvents, self);
  self.arm_timer();
}

void Connection::established() {
  int error = 0;
  socklen_t length = sizeof error;
  ::getsockopt(fd_, SOL_SOCKET, SO_ERROR, &error, &length);
  connecting_ = false;
  if (error != 0) {
    engine_->transport_lost(CloseReason::Kind::refused, error_text(error));
    return;
  }
  writable_ = true;
  engine_->start(emss_of(fd_));
}

void Connection::end(CloseReason::Kind kind, const char* why) {
  engine_->transport_lost(kind, why);
  settle();
}

// --- Work ------------------------------------------------------------------------------------------------

void Connection::on_ready(std::uint32_t events) {
  if (connecting_) {
    if ((events & (EPOLLOUT | EPOLLERR | EPOLLHUP)) == 0) return;
    established();
  }
  if ((events & (EPOLLIN | EPOLLRDHUP | EPOLLERR | EPOLLHUP)) != 0) readable_ = true;
  if ((events & (EPOLLRDHUP | EPOLLERR | EPOLLHUP)) != 0) peer_closed_ = true;
  if ((events & EPOLLOUT) != 0) writable_ = true;
  step();
}

void Connection::on_turn_end() {
  deferred_ = false;
  step();
}

void Connection::wake() {
  dirty_ = true;
  if (stepping_ || deferred_) return;
  deferred_ = true;
  place_.loop.events().defer(*this);
}

rdma::AcceptDecision Connection::decide(Octets private_data,
                                        const std::optional<rdma::PeerDepths>& peer_depths) {
  if (!listener_ || !listener_->open) return rdma::Reject{};
  auto decision =
      listener_->accept(rdma::ConnectionRequest{peer_, local_, private_data, peer_depths}, place_.loop);
  if (const auto* accept = std::get_if<rdma::Accept>(&decision)) {
    // A rejected one stays among the handshakes: it may linger, but not beyond their number.
    place_.handshakes.erase(handshake_);
    in_handshakes_ = false;
    set_user_timeout(fd_, accept->options.send_deadline);
  }
  return decision;
}

void Connection::step() {
  stepping_ = true;
  read_some();
  stepping_ = false;
  settle();
}

void Connection::read_some() {
  for (int i = 0; readable_ && i < kReadsPerStep; ++i) {
    const std::span<const iovec> plan = engine_->receive_plan();
    std::size_t asked = 0;
    for (const iovec& piece : plan) asked += piece.iov_len;
    const ssize_t n = plan.size() == 1 ? ::recv(fd_, plan[0].iov_base, plan[0].iov_len, MSG_DONTWAIT)
                                       : ::readv(fd_, plan.data(), static_cast<int>(plan.size()));
    if (n > 0) {
      // A short read has emptied the socket; the next octets come with an event of their own.
      if (static_cast<std::size_t>(n) < asked && !peer_closed_) readable_ = false;
      engine_->received(static_cast<std::size_t>(n));
    } else if (n == 0) {
      readable_ = false;
      engine_->peer_finished();
    } else if (errno == EAGAIN || errno == EINTR) {
      readable_ = errno == EINTR;
    } else {
      readable_ = false;
      engine_->transport_lost(CloseReason::Kind::transport_lost, error_text(errno));
    }
  }
}

void Connection::write_some() {
  for (int i = 0; writable_ && i < kWritesPerStep; ++i) {
    const std::span<const iovec> plan = engine_->send_plan();
    if (plan.empty()) return;
    msghdr message{};
    message.msg_iov = const_cast<iovec*>(plan.data());
    message.msg_iovlen = plan.size();
    // MSG_EOR: what is sent next begins a segment of its own.
    const int end_of_segment = place_.options.one_fpdu_a_segment ? MSG_EOR : 0;
    const ssize_t n = ::sendmsg(fd_, &message, MSG_DONTWAIT | MSG_NOSIGNAL | end_of_segment);
    if (n >= 0) {
      if (++writes_ % kWritesPerEmss == 0) engine_->set_emss(emss_of(fd_));
      engine_->sent(static_cast<std::size_t>(n));
    } else if (errno == EAGAIN) {
      writable_ = false;
    } else if (errno != EINTR) {
      writable_ = false;
      engine_->transport_lost(CloseReason::Kind::transport_lost, error_text(errno));
    }
  }
  if (writable_) dirty_ = true;  // perhaps there is more
}

/// Sends, tells completions (which may bring more to send), and closes when all is over. `this` may be gone
/// afterwards.
void Connection::settle() {
  stepping_ = true;
  constexpr int kRounds = 4;
  dirty_ = true;
  for (int i = 0; dirty_ && i < kRounds; ++i) {
    dirty_ = false;
    write_some();
    engine_->pump();
    if (engine_->fin_due()) {
      ::shutdown(fd_, SHUT_WR);
      engine_->fin_sent();
      engine_->pump();
    }
  }
  stepping_ = false;
  if (engine_->take_restart()) reopen();
  if (engine_->finished()) {
    place_.drop(*this);
    return;
  }
  if ((dirty_ || readable_) && !deferred_) {
    deferred_ = true;
    place_.loop.events().defer(*this);
  }
  arm_timer();
}

void Connection::arm_timer() {
  const TimePoint when = engine_->deadline();
  if (when >= timer_at_) return;  // it will look again when it fires
  if (timer_ != rdma::TimerId::none) place_.loop.cancel(timer_);
  timer_at_ = when;
  timer_ = place_.loop.call_at(when, [this] {
    timer_ = rdma::TimerId::none;
    timer_at_ = kNever;
    engine_->tick();
    settle();
  });
}

}  // namespace kbtp::rnic
