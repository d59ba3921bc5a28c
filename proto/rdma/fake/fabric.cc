#include "proto/rdma/fake/fabric.h"

#include <netinet/in.h>

#include "proto/rdma/fake/connection.h"
#include "proto/rdma/fake/host.h"
#include "proto/rdma/fake/scheduler.h"

namespace kbtp::fake {

HostOptions infiniband_host() {
  HostOptions host;
  host.capabilities.atomics = rdma::Atomics::plain;
  host.capabilities.atomic_scope = rdma::AtomicScope::device;
  host.capabilities.write_immediate = true;
  host.capabilities.ordered_write_visibility = true;
  host.capabilities.max_private_data =
      56;  // of the Communication Manager's REQ, less the header of librdmacm
  return host;
}

Fabric::Fabric(FabricOptions options) : scheduler_(std::make_unique<Scheduler>(options)) {}

Fabric::~Fabric() {
  // Events and connections refer to hosts and hold handlers' tasks; they go first.
  scheduler_->clear();
  scheduler_->connections.clear();
}

rdma::Provider& Fabric::add_host(const HostOptions& options) {
  hosts_.push_back(std::make_unique<Host>(*this, hosts_.size(), options));
  return *hosts_.back();
}

SocketAddress Fabric::address(std::size_t host, std::uint16_t port) const {
  sockaddr_in v4{};
  v4.sin_family = AF_INET;
  v4.sin_addr.s_addr = htonl(0x0a000001u + static_cast<std::uint32_t>(host));
  v4.sin_port = htons(port);
  return {reinterpret_cast<const sockaddr*>(&v4), sizeof v4};
}

bool Fabric::step() { return scheduler_->step(); }

bool Fabric::run_until(const std::function<bool()>& done, Duration limit) {
  const TimePoint end = now() + limit;
  while (!done()) {
    if (scheduler_->next() > end || !step()) return false;
  }
  return true;
}

void Fabric::run_for(Duration time) {
  const TimePoint end = now() + time;
  while (scheduler_->next() <= end) step();
  scheduler_->advance_to(end);
}

TimePoint Fabric::now() const { return scheduler_->now(); }
std::mt19937_64& Fabric::random() { return scheduler_->random(); }
std::size_t Fabric::connection_count() const { return scheduler_->connections.size(); }
void Fabric::cut(std::size_t connection) { scheduler_->connections.at(connection)->cut(); }
void Fabric::stall(std::size_t connection, Side side, bool stalled) {
  scheduler_->connections.at(connection)->ends[side]->set_stalled(stalled);
}
void Fabric::black_hole(std::uint16_t port) { scheduler_->black_holes.insert(port); }
void Fabric::observe(std::function<void(const Observed&)> observer) {
  scheduler_->observer = std::move(observer);
}

}  // namespace kbtp::fake
