// From an address, or an inbound request, to a connection in full operation.

#include <algorithm>
#include <cerrno>
#include <fcntl.h>
#include <sys/epoll.h>
#include <utility>

#include "verbs/connection.h"

namespace kbtp::verbs {

using rdma::CloseReason;

namespace {

// InfiniBand: how often an unanswered packet is sent again, and how often one that met no receive; 7 of the
// latter is for ever, which the send deadline bounds.
constexpr std::uint8_t kRetries = 7;
constexpr std::uint8_t kReceiverNotReadyRetries = 7;
// Reject reasons of the InfiniBand connection manager that rdma_cm passes on.
constexpr int kNobodyListens = 8;

bool set_nonblocking(int fd) { return ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK) == 0; }

SocketAddress address_of(const sockaddr& address) {
  return {&address,
          static_cast<socklen_t>(address.sa_family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6))};
}

int milliseconds(Duration time) {
  constexpr std::int64_t kLongest = 0x7FFF'FFFF;
  return static_cast<int>(std::clamp<std::int64_t>(
      std::chrono::duration_cast<std::chrono::milliseconds>(time).count(), 1, kLongest));
}

std::uint8_t as_depth(std::uint32_t wanted, std::uint32_t limit) {
  return static_cast<std::uint8_t>(std::min({wanted, limit, 255U}));
}

}  // namespace

void Connection::watch_cm() {
  if (std::exchange(cm_watched_, true)) return;
  home_.loop.events().watch(resources_->channel->fd, EPOLLIN, cm_ear_);
}

void Connection::unwatch_cm() {
  if (!std::exchange(cm_watched_, false)) return;
  home_.loop.events().unwatch(resources_->channel->fd, cm_ear_);
}

// --- Initiator -------------------------------------------------------------------------------------------

void Connection::connect(Home& home, ConnectionNumber number, const SocketAddress& address,
                         rdma::StreamOptions options, rdma::StreamHandler& handler) {
  auto owned = std::make_unique<Connection>(home, number, std::move(options), handler);
  Connection& self = *owned;
  home.connections.emplace(number, std::move(owned));
  self.start_connect(address);
}

void Connection::start_connect(const SocketAddress& address) {
  peer_ = address;
  setup_timer_ = home_.loop.call_at(home_.loop.now() + options_.setup_deadline, [this] {
    setup_timer_ = rdma::TimerId::none;
    fail(CloseReason::Kind::deadline, state_ == State::resolving ? "the address was not resolved in time"
                                                                 : "the peer did not answer in time");
    settle();
  });
  resources_->channel.reset(rdma_create_event_channel());
  rdma_cm_id* id = nullptr;
  if (!resources_->channel || !set_nonblocking(resources_->channel->fd) ||
      rdma_create_id(resources_->channel.get(), &id, nullptr, RDMA_PS_TCP) != 0) {
    return fail(CloseReason::Kind::refused, "no RDMA connection can be made: " + error_text(errno));
  }
  resources_->id.reset(id);
  watch_cm();
  SocketAddress to = address;
  if (rdma_resolve_addr(id, nullptr, to.get(), milliseconds(options_.setup_deadline)) != 0)
    fail(CloseReason::Kind::refused, "no RDMA device leads there: " + error_text(errno));
}

void Connection::resolved_address() {
  const Device& device = home_.device;
  if (resources_->id->verbs != device.context) {
    const char* other = resources_->id->verbs == nullptr ? "no RDMA device"
                                                         : ibv_get_device_name(resources_->id->verbs->device);
    return fail(CloseReason::Kind::refused,
                "the way there leads over " + std::string(other) + ", not over " + device.facts.name);
  }
  if (rdma_resolve_route(resources_->id.get(), milliseconds(options_.setup_deadline)) != 0)
    fail(CloseReason::Kind::refused, error_text(errno));
}

void Connection::resolved_route() {
  state_ = State::connecting;
  const auto made = make_queues();
  if (!made) return fail(CloseReason::Kind::local_error, made.error().text);
  if (options_.private_data.size() > capabilities_.max_private_data)
    return fail(CloseReason::Kind::local_error, "the private data is too long for a connection request");
  rdma_conn_param parameters{};
  parameters.private_data_len = static_cast<std::uint8_t>(options_.private_data.size());
  parameters.responder_resources = as_depth(options_.ird, capabilities_.ird);
  parameters.initiator_depth = as_depth(options_.ord, capabilities_.ord);
  parameters.retry_count = kRetries;
  parameters.rnr_retry_count = kReceiverNotReadyRetries;
  unwatch_cm();  // until the call has returned
  attempt_ = std::make_shared<Attempt>();
  attempt_->loop = &home_.loop;
  std::thread([this, parameters, attempt = attempt_, resources = resources_,
               data = options_.private_data]() mutable {
    parameters.private_data = data.data();
    const int error = rdma_connect(resources->id.get(), &parameters) == 0 ? 0 : errno;
    resources.reset();  // the connection's own, or nobody's, from here on
    const std::scoped_lock lock(attempt->mutex);
    if (attempt->loop != nullptr) {
      attempt->loop->post([this, error, attempt] {
        // end() may have come between.
        if (attempt->loop != nullptr) connect_returned(error);
      });
    }
  }).detach();
}

void Connection::connect_returned(int error) {
  attempt_.reset();
  if (error != 0) {
    connect_failed(error);
  } else {
    watch_cm();
    on_cm_events();  // what has come meanwhile
    return;
  }
  settle();
}

/// A kernel that sets TCP up inside rdma_connect() tells what went wrong there by errno.
void Connection::connect_failed(int error) {
  const bool tcp =
      error == ECONNREFUSED || error == ETIMEDOUT || error == EHOSTUNREACH || error == ENETUNREACH;
  if (tcp) state_ = State::resolving;
  fail(CloseReason::Kind::refused, error_text(error));
}

void Connection::refused(const rdma_cm_event& event) {
  const auto& data = event.param.conn;
  const bool nobody = home_.device.facts.wire != Wire::iwarp && event.status == kNobodyListens;
  if (nobody) state_ = State::resolving;
  fail(CloseReason::Kind::refused, nobody ? "nobody listens there" : "the peer rejected the connection");
  if (data.private_data != nullptr && data.private_data_len > 0 && ending_) {
    const auto* octets = static_cast<const std::byte*>(data.private_data);
    ending_->private_data.assign(octets, octets + data.private_data_len);
  }
}

// --- Responder -------------------------------------------------------------------------------------------

void Connection::accept(Home& home, ConnectionNumber number, InboundRequest request,
                        const std::shared_ptr<ListenerState>& listener) {
  rdma_cm_id& id = *request.id;
  const auto reject = [&id](const rdma::Reject& rejection) {
    rdma_reject(&id, rejection.private_data.data(),
                static_cast<std::uint8_t>(std::min<std::size_t>(rejection.private_data.size(), 255)));
  };
  if (!listener->open || id.verbs != home.device.context) return reject({});
  rdma::ConnectionRequest asked{
      address_of(*rdma_get_peer_addr(&id)), address_of(*rdma_get_local_addr(&id)), request.private_data, {}};
  if (request.peer_ird != 0 || request.peer_ord != 0)
    asked.peer_depths = rdma::PeerDepths{request.peer_ird, request.peer_ord};
  auto decision = listener->accept(asked, home.loop);
  if (const auto* rejection = std::get_if<rdma::Reject>(&decision)) return reject(*rejection);
  auto& accepted = std::get<rdma::Accept>(decision);
  home.shed_handshakes(std::max<std::size_t>(1, home.options.max_handshakes / home.options.loops));
  auto owned = std::make_unique<Connection>(home, number, std::move(accepted.options), *accepted.handler);
  Connection& self = *owned;
  home.connections.emplace(number, std::move(owned));
  self.handshake_ = home.handshakes.insert(home.handshakes.end(), &self);
  self.in_handshakes_ = true;
  self.listener_ = listener;
  self.peer_ = asked.peer;
  self.local_ = asked.local;
  self.start_accept(std::move(request));
  self.settle();
}

void Connection::start_accept(InboundRequest request) {
  state_ = State::connecting;
  resources_->channel = std::move(request.channel);
  resources_->id = std::move(request.id);
  private_data_ = std::move(request.private_data);
  peer_ord_ = request.peer_ord;
  peer_ird_ = request.peer_ird;
  setup_timer_ = home_.loop.call_at(home_.loop.now() + options_.setup_deadline, [this] {
    setup_timer_ = rdma::TimerId::none;
    fail(CloseReason::Kind::deadline, "the peer did not finish the set-up in time");
    settle();
  });
  const auto made = make_queues();
  const bool fits = options_.private_data.size() <= capabilities_.max_private_data;
  if (!made || !fits) {
    rdma_reject(resources_->id.get(), nullptr, 0);
    return fail(CloseReason::Kind::local_error,
                fits ? made.error().text : "the private data is too long for an answer");
  }
  rdma_conn_param parameters{};
  parameters.private_data = options_.private_data.data();
  parameters.private_data_len = static_cast<std::uint8_t>(options_.private_data.size());
  parameters.responder_resources = as_depth(options_.ird, capabilities_.ird);
  parameters.initiator_depth = as_depth(options_.ord, capabilities_.ord);
  // MPA of revision 1 tells no depths: the ULPs agree on them by themselves (RFC 5044).
  const bool untold = home_.device.facts.wire == Wire::iwarp && peer_ird_ == 0 && peer_ord_ == 0;
  if (!untold) {
    parameters.initiator_depth = as_depth(parameters.initiator_depth, peer_ird_);
    parameters.responder_resources = as_depth(parameters.responder_resources, peer_ord_);
  }
  capabilities_.ord = parameters.initiator_depth;
  capabilities_.ird = parameters.responder_resources;
  parameters.rnr_retry_count = kReceiverNotReadyRetries;
  watch_cm();
  if (rdma_accept(resources_->id.get(), &parameters) != 0)
    fail(CloseReason::Kind::transport_lost, "the connection could not be accepted: " + error_text(errno));
}

// --- Both ------------------------------------------------------------------------------------------------

Result<> Connection::make_queues() {
  Resources& r = *resources_;
  const Device& device = home_.device;
  auto domain = home_.host.domain_for(options_.domain);
  if (!domain) return unexpected(domain.error());
  r.domain = std::move(*domain);
  r.regions.emplace(device, *r.domain->pd);

  const std::uint32_t send_depth = std::min(home_.options.send_depth, device.facts.queue_depth);
  receive_depth_ = std::min(home_.options.receive_depth, device.facts.queue_depth);
  r.completions.reset(ibv_create_comp_channel(device.context));
  if (!r.completions || !set_nonblocking(r.completions->fd))
    return failure("no completion channel can be made: " + error_text(errno));
  r.queue.reset(ibv_create_cq(device.context, static_cast<int>(send_depth + receive_depth_), nullptr,
                              r.completions.get(), 0));
  if (!r.queue) return failure("no completion queue can be made: " + error_text(errno));
  ibv_qp_init_attr attributes{};
  // A number, never followed: the connection may be gone when an event brings it back.
  attributes.qp_context = reinterpret_cast<void*>(number_);  // NOLINT(performance-no-int-to-ptr)
  attributes.send_cq = r.queue.get();
  attributes.recv_cq = r.queue.get();
  attributes.qp_type = IBV_QPT_RC;
  attributes.cap.max_send_wr = send_depth;
  attributes.cap.max_recv_wr = receive_depth_;
  attributes.cap.max_send_sge = 1;
  attributes.cap.max_recv_sge = 1;
  attributes.cap.max_inline_data = device.facts.inline_limit;
  if (rdma_create_qp(r.id.get(), r.domain->pd.get(), &attributes) != 0)
    return failure("no queue pair can be made: " + error_text(errno));

  auto out = PinnedBuffer::make(*r.domain->pd, home_.options.staging, 0);
  if (!out) return unexpected(out.error());
  // A Read Response is a Write in iWARP's eyes, so that its sink is open to the peer (RFC 5040 8.1.1, G-52).
  const int sink_access =
      IBV_ACCESS_LOCAL_WRITE | (capabilities_.read_sink_needs_remote_write ? IBV_ACCESS_REMOTE_WRITE : 0);
  auto in = PinnedBuffer::make(*r.domain->pd, home_.options.staging, sink_access);
  if (!in) return unexpected(in.error());
  r.out = std::move(*out);
  r.in = std::move(*in);

  QueueLimits limits;
  limits.depth = send_depth;
  limits.ord = std::min(options_.ord, capabilities_.ord);
  limits.inline_limit = device.facts.inline_limit;
  limits.max_message = device.facts.max_message;
  limits.write_immediate = capabilities_.write_immediate;
  limits.plain_atomics = capabilities_.atomics != rdma::Atomics::none;
  limits.send_invalidate = capabilities_.invalidate_tx;
  queue_.emplace(limits, r.out->octets(), r.in->octets(),
                 [&regions = *r.regions](Octets octets) { return regions.find(octets); });
  receives_wanted_ = options_.initial_receives;
  fill_receives();
  if (ending_) return failure(ending_->text);
  return {};
}

void Connection::on_cm_events() {
  rdma_cm_event* event = nullptr;
  while (!ending_ && rdma_get_cm_event(resources_->channel.get(), &event) == 0) {
    // Its private data is gone with the acknowledgement, and the identifier cannot be destroyed before.
    const rdma_cm_event copy = *event;
    on_cm_event(copy);
    rdma_ack_cm_event(event);
    if (copy.event == RDMA_CM_EVENT_ESTABLISHED && !ending_) open_in_time();
    if (attempt_) return;  // nobody listens while a thread is in there
  }
  settle();
}

void Connection::on_cm_event(const rdma_cm_event& event) {
  switch (event.event) {
    case RDMA_CM_EVENT_ADDR_RESOLVED:
      return resolved_address();
    case RDMA_CM_EVENT_ROUTE_RESOLVED:
      return resolved_route();
    case RDMA_CM_EVENT_ADDR_ERROR:
      return fail(CloseReason::Kind::refused, "no RDMA device leads there: " + error_text(-event.status));
    case RDMA_CM_EVENT_ROUTE_ERROR:
      return fail(CloseReason::Kind::refused,
                  "there is no way to that address: " + error_text(-event.status));
    case RDMA_CM_EVENT_CONNECT_ERROR:
      return fail(CloseReason::Kind::refused, "the set-up failed: " + error_text(-event.status));
    case RDMA_CM_EVENT_UNREACHABLE:
      return fail(CloseReason::Kind::deadline, "the peer does not answer: " + error_text(-event.status));
    case RDMA_CM_EVENT_REJECTED:
      return refused(event);
    case RDMA_CM_EVENT_ESTABLISHED:
      return established(event.param.conn);
    case RDMA_CM_EVENT_DISCONNECTED:
      return disconnected();
    case RDMA_CM_EVENT_DEVICE_REMOVAL:
      return fail(CloseReason::Kind::transport_lost, "the RDMA device was removed");
    case RDMA_CM_EVENT_ADDR_CHANGE:
    case RDMA_CM_EVENT_TIMEWAIT_EXIT:
    case RDMA_CM_EVENT_CONNECT_REQUEST:
    case RDMA_CM_EVENT_CONNECT_RESPONSE:
    case RDMA_CM_EVENT_MULTICAST_JOIN:
    case RDMA_CM_EVENT_MULTICAST_ERROR:
      return;
  }
}

void Connection::established(const rdma_conn_param& agreed) {
  // The Initiator learns what was agreed, unless MPA is of revision 1; the Responder knows it already.
  capabilities_.ord = std::min(capabilities_.ord, options_.ord);
  capabilities_.ird = std::min(capabilities_.ird, options_.ird);
  std::uint32_t ord = agreed.initiator_depth;
  std::uint32_t ird = agreed.responder_resources;
  if (home_.device.quirks.swaps_depths) std::swap(ord, ird);
  if (!listener_ && ord != 0) capabilities_.ord = std::min(capabilities_.ord, ord);
  if (!listener_ && ird != 0) capabilities_.ird = std::min(capabilities_.ird, ird);
  queue_->set_ord(capabilities_.ord);
  if (!listener_ && agreed.private_data != nullptr) {
    const auto* octets = static_cast<const std::byte*>(agreed.private_data);
    private_data_.assign(octets, octets + agreed.private_data_len);
  }
  local_ = address_of(*rdma_get_local_addr(resources_->id.get()));
}

void Connection::open_in_time() {
  if (listener_ || home_.options.pause_after_reply <= Duration{}) return become_open();
  pause_timer_ = home_.loop.call_at(home_.loop.now() + home_.options.pause_after_reply, [this] {
    pause_timer_ = rdma::TimerId::none;
    if (!ending_) become_open();
    settle();
  });
}

void Connection::become_open() {
  if (opened_) return;
  state_ = State::open;
  opened_ = true;
  cancel(setup_timer_);
  if (std::exchange(in_handshakes_, false)) home_.handshakes.erase(handshake_);
  if (!home_.options.spin) {
    work_watched_ = true;
    home_.loop.events().watch(resources_->completions->fd, EPOLLIN, work_ear_);
    ibv_req_notify_cq(resources_->queue.get(), 0);
  }
  handler_.on_open(*this, private_data_);
  wake();  // messages may be there already
}

/// The peer has finished, or our own end is acknowledged. There is no half close: what it sent before is
/// delivered, and that is all.
void Connection::disconnected() {
  if (!opened_) return fail(CloseReason::Kind::refused, "the peer ended the connection during set-up");
  while (!ending_ && !poll(~std::size_t{0})) {
  }
  fail(CloseReason::Kind::graceful, closing_ ? "finished" : "the peer has ended the connection");
}

}  // namespace kbtp::verbs
