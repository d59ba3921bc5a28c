#include "proto/rdma/fake/fabric.h"
#include "tests/sim/fabric.h"

namespace kbtp::sim {

namespace {

class FakeFabric final : public Fabric {
 public:
  FakeFabric(std::uint64_t seed, bool infiniband)
      : host_(infiniband ? fake::infiniband_host() : fake::HostOptions{}),
        fabric_({.seed = seed, .rules = infiniband ? fake::Rules::infiniband : fake::Rules::rdmap}) {}

  rdma::Provider& add_host(std::size_t loops) override {
    host_.loops = loops;
    return fabric_.add_host(host_);
  }
  SocketAddress address(std::size_t host, std::uint16_t port) const override {
    return fabric_.address(host, port);
  }
  bool step() override { return fabric_.step(); }
  bool run_until(const std::function<bool()>& done, Duration limit) override {
    return fabric_.run_until(done, limit);
  }
  void run_for(Duration time) override { fabric_.run_for(time); }
  TimePoint now() const override { return fabric_.now(); }
  std::mt19937_64& random() override { return fabric_.random(); }
  std::size_t connection_count() const override { return fabric_.connection_count(); }
  void cut(std::size_t connection) override { fabric_.cut(connection); }
  void stall(std::size_t connection, Side side, bool stalled) override {
    fabric_.stall(connection, side, stalled);
  }

 private:
  fake::HostOptions host_;
  fake::Fabric fabric_;
};

}  // namespace

std::unique_ptr<Fabric> make_fake_fabric(std::uint64_t seed, bool infiniband) {
  return std::make_unique<FakeFabric>(seed, infiniband);
}

}  // namespace kbtp::sim
