#include "proto/target/target.h"

#include <utility>

#include "proto/target/core.h"

namespace kbtp::target {

Result<std::unique_ptr<Target>> Target::create(TargetConfig config, rdma::Provider& provider) {
  auto core = Core::create(std::move(config), provider);
  if (!core) return unexpected(core.error());
  return std::unique_ptr<Target>(new Target(std::move(*core)));
}

Target::Target(std::shared_ptr<Core> core) : core_(std::move(core)) {}
Target::~Target() = default;

rdma::AcceptFunction Target::accept_function() {
  return [core = core_](const rdma::ConnectionRequest& request, rdma::Loop& loop) {
    return core->accept(request, loop);
  };
}

const TargetConfig& Target::config() const { return core_->config; }
Snapshot Target::snapshot() const { return core_->snapshot(); }
std::uint64_t Target::free_blocks() const { return core_->free_blocks.load(); }
void Target::drain(std::function<void()> done) { core_->drain(std::move(done)); }

}  // namespace kbtp::target
