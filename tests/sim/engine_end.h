// One end of a connection of the engine fabric: an engine, and the octets that it has sent and the other end
// has not taken. Internal to tests/sim.

#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <vector>

#include "proto/rdma/fake/scheduler.h"
#include "rdmap_binding/rnic/engine.h"
#include "tests/sim/fabric.h"

namespace kbtp::sim {

class EngineRnic;
class End;

/// One loop of an RNIC and what its streams share.
struct Place {
  explicit Place(fake::Scheduler& scheduler) : loop(scheduler) {}
  fake::FakeLoop loop;
  rnic::Staging staging;
};

struct ListenerState {
  rdma::AcceptFunction accept;
  bool open = true;
};

struct EngineConnection {
  bool severed = false;
  std::array<std::shared_ptr<End>, 2> ends;
  void cut();
};

class End final : public rnic::EngineHost, public std::enable_shared_from_this<End> {
 public:
  End(EngineConnection& connection, Side side, EngineRnic& host, Place& place, const SocketAddress& local,
      const SocketAddress& peer)
      : connection_(connection), side_(side), host_(host), place_(place), local_(local), peer_(peer) {}
  ~End() override;

  void connect(rdma::StreamOptions options, rdma::StreamHandler& handler);
  void accepted(std::shared_ptr<ListenerState> listener);
  /// TCP is there.
  void established();
  void lose(rdma::CloseReason::Kind kind, const char* why);
  void set_stalled(bool stalled);
  void forget_memory(rdma::STag stag) {
    if (engine_) engine_->forget_memory(stag);
  }

  void wake() override;
  rdma::AcceptDecision decide(Octets private_data,
                              const std::optional<rdma::PeerDepths>& peer_depths) override;

 private:
  friend struct EngineConnection;

  [[nodiscard]] rnic::EngineSetup setup();
  /// The other end is there: TCP has found it.
  [[nodiscard]] bool joined() const { return connection_.ends[1 - side_] != nullptr; }
  [[nodiscard]] End& other() const { return *connection_.ends[1 - side_]; }
  [[nodiscard]] std::size_t some(std::size_t most);
  void turn();
  void send_some();
  void arm_timer();
  void die();
  void expect_octets();
  void arrive();
  void feed(Octets octets);

  EngineConnection& connection_;
  Side side_;
  EngineRnic& host_;
  Place& place_;
  SocketAddress local_;
  SocketAddress peer_;
  std::shared_ptr<ListenerState> listener_;
  std::unique_ptr<rnic::Engine> engine_;
  bool dead_ = false;

  std::vector<std::byte> sent_;  // and not taken by the other end
  bool fin_ = false;             // follows sent_
  bool full_ = false;            // waits for room in sent_
  bool turn_due_ = false;

  bool stalled_ = false;
  bool arriving_ = false;  // an event to take the other's octets is on its way
  bool fin_told_ = false;

  rdma::TimerId timer_ = rdma::TimerId::none;
  TimePoint timer_at_ = kNever;
};

/// A user-space RNIC without sockets.
class EngineRnic final : public rdma::Provider {
 public:
  using Resolve = std::function<EngineRnic*(const SocketAddress& address)>;

  EngineRnic(fake::Scheduler& scheduler, std::vector<std::unique_ptr<EngineConnection>>& connections,
             Resolve resolve, const SocketAddress& address, std::size_t loops, unsigned mpa_revision);

  [[nodiscard]] const rdma::Capabilities& capabilities() const override { return capabilities_; }
  [[nodiscard]] std::size_t loop_count() const override { return places_.size(); }
  [[nodiscard]] rdma::Loop& loop(std::size_t index) override { return places_.at(index)->loop; }
  [[nodiscard]] rdma::DomainId create_domain() override { return rdma::DomainId{++domains_}; }
  [[nodiscard]] Result<rdma::Region> register_region(rdma::DomainId domain,
                                                     const rdma::RegionSpec& spec) override {
    return stags.add(domain, spec);
  }
  void revoke(rdma::STag stag, rdma::Task done) override;
  [[nodiscard]] Result<std::unique_ptr<rdma::Listener>> listen(const SocketAddress& address,
                                                               rdma::AcceptFunction accept) override;
  void connect(const SocketAddress& address, std::size_t loop_index, rdma::StreamOptions options,
               rdma::StreamHandler& handler) override;
  std::uint64_t fetch_add_local(std::uint64_t& word, std::uint64_t add, std::uint64_t mask) override;

  void close_port(std::uint16_t port) { listeners_.erase(port); }
  [[nodiscard]] SocketAddress address(std::uint16_t port) const;
  [[nodiscard]] rnic::StreamId new_stream() { return static_cast<rnic::StreamId>(++streams_); }

  fake::Scheduler& scheduler;
  rnic::StagTable stags;
  rnic::RnicOptions options;
  std::list<End*> ends;

 private:
  std::vector<std::unique_ptr<EngineConnection>>& connections_;
  Resolve resolve_;
  SocketAddress address_;
  rdma::Capabilities capabilities_;
  std::vector<std::unique_ptr<Place>> places_;
  std::map<std::uint16_t, std::shared_ptr<ListenerState>> listeners_;
  std::size_t next_place_ = 0;
  std::uint32_t domains_ = 0;
  std::uint64_t streams_ = 0;
  std::uint16_t next_port_ = 40000;
};

}  // namespace kbtp::sim
