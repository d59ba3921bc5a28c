// One host of the fake fabric: an rdma::Provider with its loops, regions and listeners. Internal to
// proto/rdma/fake.

#pragma once

#include <map>
#include <memory>
#include <optional>
#include <vector>

#include "proto/rdma/fake/scheduler.h"

namespace kbtp::fake {

class Endpoint;

struct RegionRecord {
  rdma::RegionSpec spec;
  rdma::DomainId domain{};
  const Endpoint* stream = nullptr;  // set: scoped to this stream alone
};

class Host final : public rdma::Provider {
 public:
  Host(Fabric& fabric, std::size_t index, const HostOptions& options);

  [[nodiscard]] const rdma::Capabilities& capabilities() const override { return options_.capabilities; }
  [[nodiscard]] std::size_t loop_count() const override { return loops_.size(); }
  [[nodiscard]] rdma::Loop& loop(std::size_t index) override { return *loops_.at(index); }
  [[nodiscard]] rdma::DomainId create_domain() override { return rdma::DomainId{++domains_}; }
  [[nodiscard]] Result<rdma::Region> register_region(rdma::DomainId domain,
                                                     const rdma::RegionSpec& spec) override;
  void revoke(rdma::STag stag, rdma::Task done) override;
  [[nodiscard]] Result<std::unique_ptr<rdma::Listener>> listen(const SocketAddress& address,
                                                               rdma::AcceptFunction accept) override;
  void connect(const SocketAddress& address, std::size_t loop_index, rdma::StreamOptions options,
               rdma::StreamHandler& handler) override;
  std::uint64_t fetch_add_local(std::uint64_t& word, std::uint64_t add, std::uint64_t mask) override;

  [[nodiscard]] std::size_t index() const { return index_; }
  [[nodiscard]] SocketAddress address(std::uint16_t port) const;
  [[nodiscard]] Result<rdma::Region> add_region(const RegionRecord& record);
  void drop_regions_of(const Endpoint& stream);

  std::map<rdma::STag, RegionRecord> regions;
  std::map<std::uint16_t, rdma::AcceptFunction> listeners;

 private:
  void answer(Host& initiator, const SocketAddress& local, const SocketAddress& address, FakeLoop& loop,
              const rdma::StreamOptions& options, rdma::StreamHandler& handler);

  Fabric& fabric_;
  Scheduler& scheduler_;
  std::size_t index_;
  HostOptions options_;
  std::vector<std::unique_ptr<FakeLoop>> loops_;
  std::size_t next_loop_ = 0;
  std::uint32_t domains_ = 0;
  std::uint16_t next_port_ = 40000;
};

}  // namespace kbtp::fake
