// The RNIC's engines joined by byte queues, in virtual time: octets are cut anywhere, arrive late, stop at a
// reader that stalls, and are lost with the connection.

#include <cstring>
#include <netinet/in.h>
#include <utility>

#include "base/masked_add.h"
#include "tests/sim/engine_end.h"

namespace kbtp::sim {

namespace {

SocketAddress address_of(std::size_t host, std::uint16_t port) {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_addr.s_addr = htonl(0x0a000001u + static_cast<std::uint32_t>(host));
  v4.sin_port = htons(port);
  return {reinterpret_cast<const sockaddr*>(&v4), sizeof v4};
}

class EngineListener final : public rdma::Listener {
 public:
  EngineListener(EngineRnic& rnic, const SocketAddress& local, std::shared_ptr<ListenerState> state)
      : rnic_(rnic), local_(local), state_(std::move(state)) {}
  ~EngineListener() override {
    state_->open = false;
    rnic_.close_port(local_.port());
  }
  [[nodiscard]] const SocketAddress& local() const override { return local_; }

 private:
  EngineRnic& rnic_;
  SocketAddress local_;
  std::shared_ptr<ListenerState> state_;
};

}  // namespace

EngineRnic::EngineRnic(fake::Scheduler& scheduler_of,
                       std::vector<std::unique_ptr<EngineConnection>>& connections, Resolve resolve,
                       const SocketAddress& address, std::size_t loops, unsigned mpa_revision)
    : scheduler(scheduler_of), connections_(connections), resolve_(std::move(resolve)), address_(address) {
  options.crc = scheduler.below(4) != 0;
  options.markers = scheduler.below(4) == 0;
  options.mpa_revision = mpa_revision;
  capabilities_ = rnic::capabilities_of(options.max_ird, options.max_ord);
  for (std::size_t i = 0; i < loops; ++i) places_.push_back(std::make_unique<Place>(scheduler));
}

SocketAddress EngineRnic::address(std::uint16_t port) const {
  sockaddr_in v4{};
  std::memcpy(&v4, address_.get(), sizeof v4);
  v4.sin_port = htons(port);
  return {reinterpret_cast<const sockaddr*>(&v4), sizeof v4};
}

void EngineRnic::revoke(rdma::STag stag, rdma::Task done) {
  stags.remove_of_domain(stag);
  for (End* end : ends) end->forget_memory(stag);
  places_.front()->loop.post(std::move(done));
}

Result<std::unique_ptr<rdma::Listener>> EngineRnic::listen(const SocketAddress& at,
                                                           rdma::AcceptFunction accept) {
  auto state = std::make_shared<ListenerState>(ListenerState{std::move(accept), true});
  if (!listeners_.emplace(at.port(), state).second) return failure("the port is taken");
  return std::make_unique<EngineListener>(*this, address(at.port()), std::move(state));
}

void EngineRnic::connect(const SocketAddress& to, std::size_t loop_index, rdma::StreamOptions stream,
                         rdma::StreamHandler& handler) {
  Place& place = *places_.at(loop_index);
  const SocketAddress local = address(next_port_++);
  place.loop.post([this, to, local, &place, &handler, asked = std::move(stream)]() mutable {
    connections_.push_back(std::make_unique<EngineConnection>());
    EngineConnection& connection = *connections_.back();
    connection.ends[0] = std::make_shared<End>(connection, Side{0}, *this, place, local, to);
    connection.ends[0]->connect(std::move(asked), handler);
    const auto end = connection.ends[0];
    scheduler.soon([this, to, local, &place, &connection, end] {
      if (connection.severed) return;
      EngineRnic* there = resolve_(to);
      const auto found =
          there == nullptr ? decltype(listeners_)::iterator{} : there->listeners_.find(to.port());
      if (there == nullptr || found == there->listeners_.end()) {
        place.loop.post([end] { end->lose(rdma::CloseReason::Kind::refused, "connection refused"); });
        return;
      }
      Place& theirs = *there->places_[there->next_place_++ % there->places_.size()];
      connection.ends[1] = std::make_shared<End>(connection, Side{1}, *there, theirs, to, local);
      connection.ends[1]->accepted(found->second);
      theirs.loop.post([far = connection.ends[1]] { far->established(); });
      place.loop.post([end] { end->established(); });
    });
  });
}

std::uint64_t EngineRnic::fetch_add_local(std::uint64_t& word, std::uint64_t add, std::uint64_t mask) {
  return fetch_masked_add(word, add, mask);
}

namespace {

class EngineFabric final : public Fabric {
 public:
  EngineFabric(std::uint64_t seed, bool revision_1) : scheduler_({.seed = seed}), revision_1_(revision_1) {}
  ~EngineFabric() override {
    scheduler_.clear();  // events hold ends, which refer to hosts
    connections_.clear();
  }

  rdma::Provider& add_host(std::size_t loops) override {
    const auto resolve = [this](const SocketAddress& to) -> EngineRnic* {
      for (const auto& host : hosts_) {
        if (host->address(0).host() == to.host()) return host.get();
      }
      return nullptr;
    };
    hosts_.push_back(std::make_unique<EngineRnic>(scheduler_, connections_, resolve,
                                                  address_of(hosts_.size(), 0), loops,
                                                  revision_1_ && !hosts_.empty() ? 1 : 2));
    return *hosts_.back();
  }
  SocketAddress address(std::size_t host, std::uint16_t port) const override {
    return address_of(host, port);
  }
  bool step() override { return scheduler_.step(); }
  bool run_until(const std::function<bool()>& done, Duration limit) override {
    const TimePoint end = now() + limit;
    while (!done()) {
      if (scheduler_.next() > end || !step()) return false;
    }
    return true;
  }
  void run_for(Duration time) override {
    const TimePoint end = now() + time;
    while (scheduler_.next() <= end) step();
    scheduler_.advance_to(end);
  }
  TimePoint now() const override { return scheduler_.now(); }
  std::mt19937_64& random() override { return scheduler_.random(); }
  std::size_t connection_count() const override { return connections_.size(); }
  void cut(std::size_t connection) override { connections_.at(connection)->cut(); }
  void stall(std::size_t connection, Side side, bool stalled) override {
    const auto& end = connections_.at(connection)->ends[side];
    if (end) end->set_stalled(stalled);
  }

 private:
  fake::Scheduler scheduler_;
  bool revision_1_;
  std::vector<std::unique_ptr<EngineRnic>> hosts_;
  std::vector<std::unique_ptr<EngineConnection>> connections_;
};

}  // namespace

std::unique_ptr<Fabric> make_engine_fabric(std::uint64_t seed, bool revision_1) {
  return std::make_unique<EngineFabric>(seed, revision_1);
}

}  // namespace kbtp::sim
