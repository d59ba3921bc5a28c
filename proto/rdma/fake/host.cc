#include "proto/rdma/fake/host.h"

#include <algorithm>
#include <utility>

#include "base/masked_add.h"
#include "proto/rdma/fake/connection.h"

namespace kbtp::fake {

namespace {

class FakeListener final : public rdma::Listener {
 public:
  FakeListener(Host& host, const SocketAddress& local) : host_(host), local_(local) {}
  ~FakeListener() override { host_.listeners.erase(local_.port()); }
  [[nodiscard]] const SocketAddress& local() const override { return local_; }

 private:
  Host& host_;
  SocketAddress local_;
};

}  // namespace

Host::Host(Fabric& fabric, std::size_t index, const HostOptions& options)
    : fabric_(fabric), scheduler_(*fabric.scheduler_), index_(index), options_(options) {
  for (std::size_t i = 0; i < std::max<std::size_t>(1, options.loops); ++i) {
    loops_.push_back(std::make_unique<FakeLoop>(scheduler_, index));
  }
}

SocketAddress Host::address(std::uint16_t port) const { return fabric_.address(index_, port); }

Result<rdma::Region> Host::add_region(const RegionRecord& record) {
  if (const char* fault = rdma::fault_of(record.spec)) return failure(fault);
  rdma::STag stag = 0;
  while (stag == 0 || regions.contains(stag)) stag = static_cast<rdma::STag>(scheduler_.random()());
  regions.emplace(stag, record);
  return rdma::Region{stag, record.spec.tagged_offset, record.spec.memory.size()};
}

Result<rdma::Region> Host::register_region(rdma::DomainId domain, const rdma::RegionSpec& spec) {
  RegionRecord record{spec, domain, nullptr};
  record.spec.remote_invalidate = false;  // RFC 5040 8.1.1: shared by streams
  return add_region(record);
}

void Host::revoke(rdma::STag stag, rdma::Task done) {
  regions.erase(stag);
  loops_.front()->post(std::move(done));
}

void Host::drop_regions_of(const Endpoint& stream) {
  std::erase_if(regions, [&](const auto& entry) { return entry.second.stream == &stream; });
}

Result<std::unique_ptr<rdma::Listener>> Host::listen(const SocketAddress& at, rdma::AcceptFunction accept) {
  const std::uint16_t port = at.port() != 0 ? at.port() : next_port_++;
  if (!listeners.emplace(port, std::move(accept)).second) {
    return failure("port " + std::to_string(port) + " of the fake host is taken");
  }
  return std::make_unique<FakeListener>(*this, address(port));
}

void Host::connect(const SocketAddress& to, std::size_t loop_index, rdma::StreamOptions options,
                   rdma::StreamHandler& handler) {
  FakeLoop& loop = *loops_.at(loop_index);
  const auto refuse = [&loop, &handler](const rdma::CloseReason& reason) {
    loop.post([&handler, reason] { handler.on_closed(reason); });
  };
  if (scheduler_.black_holes.contains(to.port())) {
    scheduler_.after(options.setup_deadline, [refuse] {
      refuse({rdma::CloseReason::Kind::deadline, rdma::Phase::tcp, {}, "no answer within the deadline"});
    });
    return;
  }
  const SocketAddress local = address(next_port_++);
  scheduler_.after(scheduler_.delay(),
                   [this, to, local, refuse, &loop, &handler, options = std::move(options)] {
                     for (const auto& host : fabric_.hosts_) {
                       if (host->address(0).host() != to.host()) continue;
                       if (!host->listeners.contains(to.port())) break;
                       host->answer(*this, local, to, loop, options, handler);
                       return;
                     }
                     refuse({rdma::CloseReason::Kind::refused, rdma::Phase::tcp, {}, "connection refused"});
                   });
}

void Host::answer(Host& initiator, const SocketAddress& local, const SocketAddress& to, FakeLoop& loop,
                  const rdma::StreamOptions& options, rdma::StreamHandler& handler) {
  FakeLoop& own = *loops_[next_loop_++ % loops_.size()];
  own.post([this, local, to, &initiator, &loop, &own, &handler, options] {
    const auto listener = listeners.find(to.port());
    const auto refuse = [&](const std::string& text) {
      loop.post([&handler, text] {
        handler.on_closed({rdma::CloseReason::Kind::refused, rdma::Phase::mpa, {}, text});
      });
    };
    if (listener == listeners.end()) return refuse("the listener went away");
    const auto decision =
        listener->second({.peer = local, .local = to, .private_data = options.private_data}, own);
    if (std::holds_alternative<rdma::Reject>(decision)) return refuse("the peer rejected the connection");
    const auto& accept = std::get<rdma::Accept>(decision);

    auto connection = std::make_shared<Connection>(scheduler_, scheduler_.connections.size());
    connection->ends[0] =
        std::make_shared<Endpoint>(*connection, 0, initiator, loop, handler, options, to, local);
    connection->ends[1] =
        std::make_shared<Endpoint>(*connection, 1, *this, own, *accept.handler, accept.options, local, to);
    // RFC 6581 9.1: what each side can send is bounded by what the other takes.
    const auto least = [](std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t d) {
      return std::min(std::min(a, b), std::min(c, d));
    };
    const auto& there = initiator.options_.capabilities;
    const auto& here = options_.capabilities;
    const std::uint32_t forward = least(options.ord, there.ord, accept.options.ird, here.ird);
    const std::uint32_t backward = least(accept.options.ord, here.ord, options.ird, there.ird);
    connection->ends[0]->agree(backward, forward);
    connection->ends[1]->agree(forward, backward);
    scheduler_.connections.push_back(connection);
    connection->ends[1]->open(options.private_data);
    connection->ends[0]->open(accept.options.private_data);
  });
}

std::uint64_t Host::fetch_add_local(std::uint64_t& word, std::uint64_t add, std::uint64_t mask) {
  return fetch_masked_add(word, add, mask);
}

}  // namespace kbtp::fake
