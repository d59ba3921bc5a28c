#include "verbs/provider.h"

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <fcntl.h>
#include <functional>
#include <mutex>
#include <sys/epoll.h>
#include <unordered_map>

#include "base/log.h"
#include "base/masked_add.h"
#include "verbs/connection.h"
#include "verbs/loopback.h"
#include "verbs/status.h"

namespace kbtp::verbs {

namespace {

constexpr int kBacklog = 128;

bool set_nonblocking(int fd) { return ::fcntl(fd, F_SETFL, ::fcntl(fd, F_GETFL) | O_NONBLOCK) == 0; }

rdma::CloseReason shut_down(const char* why) {
  return {rdma::CloseReason::Kind::graceful, rdma::Phase::open, {}, why};
}

/// The device for `options`.
Result<Device> choose_device(const VerbsOptions& options) {
  const auto contexts = open_devices();
  if (!contexts) return unexpected(contexts.error());
  Device device;
  if (!options.device.empty()) {
    std::string known;
    for (ibv_context* context : *contexts) {
      const std::string name = ibv_get_device_name(context->device);
      known += (known.empty() ? "" : ", ") + name;
      if (name == options.device) device.context = context;
    }
    if (device.context == nullptr)
      return failure("there is no RDMA device '" + options.device + "' on this host; there are: " + known);
  } else if (options.address) {
    device.context = device_at(*options.address);
    if (device.context == nullptr) device.context = device_towards(*options.address);
  }
  if (device.context == nullptr && options.device.empty()) {
    for (ibv_context* context : *contexts) {
      if (device.context == nullptr && facts_of(*context).active) device.context = context;
    }
  }
  if (device.context == nullptr) return failure("no RDMA device of this host is active (see `kbtp devices`)");
  device.facts = facts_of(*device.context);
  if (device.facts.wire == Wire::other)
    return failure("the RDMA device " + device.facts.name +
                   " has no connections of the kind that KBTP needs");
  device.quirks = quirks_of(device.facts);
  device.capabilities = capabilities_of(device.facts);
  return device;
}

class VerbsProvider;

/// Takes connection requests on the first loop and deals them out to all of them in turn.
class CmListener final : public rdma::Listener, public Watcher {
 public:
  CmListener(VerbsProvider& provider, EventChannelHandle channel, CmIdHandle id, const SocketAddress& local,
             const rdma::AcceptFunction& accept);
  ~CmListener() override;
  const SocketAddress& local() const override { return local_; }
  void on_ready(std::uint32_t events) override;

 private:
  void take(rdma_cm_event& event);

  VerbsProvider& provider_;
  EventChannelHandle channel_;
  CmIdHandle id_;
  SocketAddress local_;
  std::vector<std::shared_ptr<ListenerState>> states_;
  std::size_t next_ = 0;
};

class VerbsProvider final : public Verbs, public ConnectionHost, public Watcher {
 public:
  VerbsProvider(VerbsOptions options, Device device)
      : options_(std::move(options)), device_(std::move(device)) {
    for (unsigned i = 0; i < options_.loops; ++i)
      homes_.push_back(std::make_unique<Home>(options_, device_, *this));
    for (const auto& home : homes_) home->loop.events().start();
    set_nonblocking(device_.context->async_fd);
    first().post([this] { first().events().watch(device_.context->async_fd, EPOLLIN, *this); });
  }

  ~VerbsProvider() override {
    rdma::on_loop(first(), [this] { first().events().unwatch(device_.context->async_fd, *this); });
    for (const auto& home : homes_) {
      rdma::on_loop(home->loop, [&home] {
        while (!home->connections.empty())
          home->connections.begin()->second->end(shut_down("the RDMA provider is shut down"));
      });
    }
    for (const auto& home : homes_) home->loop.events().stop();
  }

  const DeviceFacts& facts() const override { return device_.facts; }
  const rdma::Capabilities& capabilities() const override { return device_.capabilities; }
  std::size_t loop_count() const override { return homes_.size(); }
  rdma::Loop& loop(std::size_t index) override { return homes_.at(index)->loop; }

  rdma::DomainId create_domain() override {
    return static_cast<rdma::DomainId>(next_domain_.fetch_add(1, std::memory_order_relaxed));
  }

  Result<rdma::Region> register_region(rdma::DomainId domain, const rdma::RegionSpec& spec) override {
    const std::scoped_lock lock(mutex_);
    std::shared_ptr<ProtectionDomain>& shared = domains_[domain];
    if (shared == nullptr) {
      auto made = new_domain();
      if (!made) return unexpected(made.error());
      shared = std::move(*made);
    }
    std::shared_ptr<const void> counters;
    if (allows(spec.access, rdma::Access::remote_atomic)) {
      auto exposed = share_counters(spec.memory);
      if (!exposed) return unexpected(exposed.error());
      counters = std::move(*exposed);
    }
    rdma::RegionSpec of_domain = spec;
    of_domain.remote_invalidate = false;
    return shared->regions.add(of_domain, false, std::move(counters));
  }

  void revoke(rdma::STag stag, rdma::Task done) override {
    {
      const std::scoped_lock lock(mutex_);
      for (const auto& [domain, shared] : domains_) {
        if (shared != nullptr && shared->regions.remove(stag)) break;
      }
    }
    first().post(std::move(done));
  }

  Result<std::unique_ptr<rdma::Listener>> listen(const SocketAddress& address,
                                                 rdma::AcceptFunction accept) override {
    const auto cannot = [&address] {
      return failure("cannot listen on " + address.to_string() + " with RDMA: " + error_text(errno));
    };
    EventChannelHandle channel(rdma_create_event_channel());
    rdma_cm_id* raw = nullptr;
    if (!channel || !set_nonblocking(channel->fd) ||
        rdma_create_id(channel.get(), &raw, nullptr, RDMA_PS_TCP) != 0)
      return cannot();
    CmIdHandle id(raw);
    int on = 1;
    rdma_set_option(raw, RDMA_OPTION_ID, RDMA_OPTION_ID_REUSEADDR, &on, sizeof on);
    if (address.family() == AF_INET6)
      rdma_set_option(raw, RDMA_OPTION_ID, RDMA_OPTION_ID_AFONLY, &on, sizeof on);
    SocketAddress at = address;
    if (rdma_bind_addr(raw, at.get()) != 0) return cannot();
    // A wildcard address belongs to no device; requests that come by another than ours are rejected.
    if (raw->verbs != nullptr && raw->verbs != device_.context) {
      return failure("cannot listen on " + address.to_string() + " with the RDMA device " +
                     device_.facts.name + ": the address belongs to " +
                     ibv_get_device_name(raw->verbs->device));
    }
    if (rdma_listen(raw, kBacklog) != 0) return cannot();
    at.set_port(ntohs(rdma_get_src_port(raw)));
    return std::make_unique<CmListener>(*this, std::move(channel), std::move(id), at, accept);
  }

  void connect(const SocketAddress& address, std::size_t loop_index, rdma::StreamOptions options,
               rdma::StreamHandler& handler) override {
    Home& home = *homes_.at(loop_index);
    home.loop.post([this, &home, address, opts = std::move(options), &handler]() mutable {
      Connection::connect(home, new_connection(), address, std::move(opts), handler);
    });
  }

  std::uint64_t fetch_add_local(std::uint64_t& word, std::uint64_t add, std::uint64_t mask) override {
    if (!device_.facts.atomics || device_.facts.atomics_with_cpu) return fetch_masked_add(word, add, mask);
    // Whether peers reach the word must not change in between.
    const std::scoped_lock lock(counters_mutex_);
    if (loopback_ == nullptr) return fetch_masked_add(word, add, mask);
    if (const auto before = loopback_->fetch_add(word, add, mask)) return *before;
    spdlog::error("RDMA device {}: its atomics have failed, and every connection of it will",
                  device_.facts.name);
    return fetch_masked_add(word, add, mask);
  }

  // For connections.

  Result<std::shared_ptr<const void>> share_counters(std::span<std::byte> memory) override {
    if (!device_.facts.atomics || device_.facts.atomics_with_cpu) return nullptr;
    const std::scoped_lock lock(counters_mutex_);
    if (loopback_ == nullptr) {
      auto opened = Loopback::open(device_);
      if (!opened) return unexpected(opened.error());
      loopback_ = std::move(*opened);
    }
    if (auto exposed = loopback_->expose(memory); !exposed) return unexpected(exposed.error());
    const auto withdraw = [loopback = loopback_, memory](const void*) { loopback->withdraw(memory); };
    return std::shared_ptr<const void>(memory.data(), withdraw);
  }

  Result<std::shared_ptr<ProtectionDomain>> domain_for(rdma::DomainId domain) override {
    const std::scoped_lock lock(mutex_);
    const auto found = domains_.find(domain);
    if (found != domains_.end() && found->second != nullptr) return found->second;
    return new_domain();
  }

  /// Asynchronous events of the device.
  void on_ready(std::uint32_t) override {
    ibv_async_event event{};
    while (ibv_get_async_event(device_.context, &event) == 0) {
      tell(event);
      ibv_ack_async_event(&event);
    }
  }

  [[nodiscard]] rdma::ThreadLoop& first() { return homes_.front()->loop; }
  [[nodiscard]] std::vector<std::unique_ptr<Home>>& homes() { return homes_; }
  [[nodiscard]] ConnectionNumber new_connection() {
    return next_connection_.fetch_add(1, std::memory_order_relaxed);
  }

 private:
  Result<std::shared_ptr<ProtectionDomain>> new_domain() {
    PdHandle pd(ibv_alloc_pd(device_.context));
    if (!pd) return failure("the RDMA device has no protection domain left: " + error_text(errno));
    return std::make_shared<ProtectionDomain>(device_, std::move(pd));
  }

  void tell(const ibv_async_event& event) {
    const char* why = ends_connection(event.event_type);
    if (why == nullptr) return;
    const bool of_queue_pair = event.event_type == IBV_EVENT_QP_FATAL ||
                               event.event_type == IBV_EVENT_QP_REQ_ERR ||
                               event.event_type == IBV_EVENT_QP_ACCESS_ERR;
    if (!of_queue_pair) spdlog::error("RDMA device {}: {}", device_.facts.name, why);
    // The queue pair may be gone when the connection's loop looks: its number tells.
    const ConnectionNumber number =
        of_queue_pair ? reinterpret_cast<ConnectionNumber>(event.element.qp->qp_context) : 0;
    if (of_queue_pair && number == 0) return;  // our own, whose failure is told where it is used
    for (const auto& home : homes_) {
      home->loop.post([home = home.get(), number, why] {
        if (number == 0) {
          std::vector<ConnectionNumber> all;
          for (const auto& entry : home->connections) all.push_back(entry.first);
          for (const ConnectionNumber one : all) {
            const auto found = home->connections.find(one);
            if (found != home->connections.end()) found->second->device_says(why);
          }
        } else if (const auto found = home->connections.find(number); found != home->connections.end()) {
          found->second->device_says(why);
        }
      });
    }
  }

  const VerbsOptions options_;
  const Device device_;
  std::vector<std::unique_ptr<Home>> homes_;
  std::atomic<std::uint32_t> next_domain_{1};
  std::atomic<ConnectionNumber> next_connection_{1};
  std::mutex counters_mutex_;
  std::shared_ptr<Loopback> loopback_;  // under counters_mutex_
  std::mutex mutex_;
  std::unordered_map<rdma::DomainId, std::shared_ptr<ProtectionDomain>> domains_;  // under mutex_
};

CmListener::CmListener(VerbsProvider& provider, EventChannelHandle channel, CmIdHandle id,
                       const SocketAddress& local, const rdma::AcceptFunction& accept)
    : provider_(provider), channel_(std::move(channel)), id_(std::move(id)), local_(local) {
  for (std::size_t i = 0; i < provider_.homes().size(); ++i)
    states_.push_back(std::make_shared<ListenerState>(ListenerState{accept, true}));
  provider_.first().post([this] { provider_.first().events().watch(channel_->fd, EPOLLIN, *this); });
}

CmListener::~CmListener() {
  rdma::on_loop(provider_.first(), [this] { provider_.first().events().unwatch(channel_->fd, *this); });
  for (std::size_t i = 0; i < states_.size(); ++i) {
    Home& home = *provider_.homes()[i];
    rdma::on_loop(home.loop, [this, &home, i] {
      states_[i]->open = false;
      const std::list<Connection*> started = home.handshakes;
      for (Connection* connection : started) {
        if (connection->listener() == states_[i]) connection->end(shut_down("the listener is closed"));
      }
    });
  }
}

void CmListener::on_ready(std::uint32_t) {
  rdma_cm_event* event = nullptr;
  while (rdma_get_cm_event(channel_.get(), &event) == 0) {
    if (event->event == RDMA_CM_EVENT_CONNECT_REQUEST) {
      take(*event);
    } else {
      if (event->event == RDMA_CM_EVENT_DEVICE_REMOVAL)
        spdlog::error("the RDMA device of {} was removed: nobody can connect any more", local_.to_string());
      rdma_ack_cm_event(event);
    }
  }
}

/// Acknowledges `event`, which is gone afterwards.
void CmListener::take(rdma_cm_event& event) {
  auto request = std::make_shared<InboundRequest>();
  const rdma_conn_param& asked = event.param.conn;
  if (asked.private_data != nullptr) {
    const auto* octets = static_cast<const std::byte*>(asked.private_data);
    request->private_data.assign(octets, octets + asked.private_data_len);
  }
  // What we would have to answer is the peer's ORD, what we may ask its IRD (rdma_get_cm_event(3)).
  request->peer_ord = asked.responder_resources;
  request->peer_ird = asked.initiator_depth;
  rdma_cm_id* id = event.id;
  rdma_ack_cm_event(&event);
  request->channel.reset(rdma_create_event_channel());
  request->id.reset(id);
  if (!request->channel || !set_nonblocking(request->channel->fd) ||
      rdma_migrate_id(id, request->channel.get()) != 0) {
    rdma_reject(id, nullptr, 0);
    return;
  }
  const std::size_t index = next_++ % provider_.homes().size();
  Home& home = *provider_.homes()[index];
  home.loop.post([&home, number = provider_.new_connection(), request, state = states_[index]] {
    Connection::accept(home, number, std::move(*request), state);
  });
}

}  // namespace

bool available() { return true; }

Result<std::vector<DeviceFacts>> devices() {
  const auto contexts = open_devices();
  if (!contexts) return unexpected(contexts.error());
  std::vector<DeviceFacts> all;
  for (ibv_context* context : *contexts) {
    all.push_back(facts_of(*context));
    for (const SocketAddress& address : addresses_of(*context))
      all.back().addresses.push_back(address.host());
  }
  return all;
}

Result<std::unique_ptr<Verbs>> Verbs::create(VerbsOptions options) {
  if (options.loops == 0) return failure("a provider needs at least one loop");
  auto device = choose_device(options);
  if (!device) return unexpected(device.error());
  return std::make_unique<VerbsProvider>(std::move(options), std::move(*device));
}

}  // namespace kbtp::verbs
