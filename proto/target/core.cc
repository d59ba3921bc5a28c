#include "proto/target/core.h"

#include <algorithm>
#include <utility>

#include "proto/target/session.h"

namespace kbtp::target {

Core::Core(TargetConfig config_of, rdma::Provider& provider_of, std::uint64_t reserve_of,
           memory::Pool pool_of, memory::BlockTable table_of)
    : config(std::move(config_of)),
      provider(provider_of),
      rdma_domain(provider.create_domain()),
      reserve(reserve_of),
      pool(std::move(pool_of)),
      table(std::move(table_of)),
      quotas(config.blocks, reserve),
      ranges(config.table_base_handle, config.handles),
      free_blocks(config.blocks),
      pins(config.blocks, [this](std::uint64_t number) { give_back(number); }),
      scrub_(std::make_unique<std::atomic<bool>[]>(config.blocks)) {}

Result<std::shared_ptr<Core>> Core::create(TargetConfig config, rdma::Provider& provider) {
  if (config.max_requests == 0 || config.max_sessions == 0) {
    return failure("a target needs at least one session with one request outstanding");
  }
  const std::uint64_t reserve = config.reserve.value_or(std::min<std::uint64_t>(64, config.blocks / 16));
  if (reserve > config.blocks) return failure("the reserve for pins is larger than the pool");
  auto pool = memory::Pool::create(config.blocks, config.block_size);
  if (!pool) return unexpected(pool.error());
  auto table = memory::BlockTable::create(config.table_base_handle, config.handles);
  if (!table) return unexpected(table.error());

  std::shared_ptr<Core> core(
      new Core(std::move(config), provider, reserve, std::move(*pool), std::move(*table)));
  std::vector<std::uint64_t> blocks(core->config.blocks);
  for (std::uint64_t i = 0; i < blocks.size(); ++i) blocks[i] = core->pool.offset_of(i);
  auto ring = memory::Ring::create(blocks, blocks.size(),
                                   [&provider](std::uint64_t& word, std::uint64_t add, std::uint64_t mask) {
                                     return provider.fetch_add_local(word, add, mask);
                                   });
  if (!ring) return unexpected(ring.error());
  core->ring = std::move(*ring);
  if (const auto opened = core->open_named_ranges(); !opened) return unexpected(opened.error());
  return core;
}

Result<> Core::open_named_ranges() {
  domains_.push_back(config.anonymous.domain);
  for (const NamedInitiator& initiator : config.initiators) {
    if (std::find(domains_.begin(), domains_.end(), initiator.domain) == domains_.end()) {
      domains_.push_back(initiator.domain);
    }
  }
  several_domains = domains_.size() > 1;
  // Those that ask for a place first, so that the others do not happen to take it.
  std::vector<NamedInitiator> order;
  for (const bool placed : {true, false}) {
    for (const NamedInitiator& initiator : config.initiators) {
      if (initiator.base_handle.has_value() == placed) order.push_back(initiator);
    }
  }
  for (const NamedInitiator& initiator : order) {
    const std::string name = "initiator " + initiator.identity.to_string();
    if (initiator.identity.is_zero()) return failure("a configured initiator has the anonymous identity");
    if (initiator.address.empty()) return failure(name + " has no address that proves it");
    if (named.contains(initiator.identity)) return failure(name + " is configured twice");
    if (initiator.quota > quotas.available()) {
      return failure(name + " is to have " + std::to_string(initiator.quota) + " blocks, but only " +
                     std::to_string(quotas.available()) + " are left for quotas");
    }
    std::shared_ptr<Range> range;
    if (initiator.handles > 0) {
      range = ranges.open(initiator.base_handle, initiator.handles, [](Range&) {});
      if (range == nullptr || range->count != initiator.handles ||
          (initiator.base_handle && range->base != *initiator.base_handle)) {
        return failure("the block table has no room for the range of " + name);
      }
    } else {
      if (initiator.quota > 0) return failure(name + " has a quota but no handles");
      range = std::make_shared<Range>();
    }
    const auto grant = quotas.open(initiator.quota);
    range->owner = grant.owner;
    range->quota = grant.quota;
    range->domain = domain_index(initiator.domain);
    range->persistent = true;
    named.emplace(initiator.identity, NamedRange{initiator.address, range});
  }
  return {};
}

std::uint32_t Core::domain_index(const std::string& name) const {
  return static_cast<std::uint32_t>(std::find(domains_.begin(), domains_.end(), name) - domains_.begin());
}

// Streams that have not said HELLO yet are bounded like open sessions. When they are too many the oldest
// goes, so that silent peers cannot keep a good one out. With the mutex held.
bool Core::make_room() {
  if (sessions_.size() < 2 * std::size_t{config.max_sessions}) return true;
  for (const auto& [number, session] : sessions_) {
    if (!session->give_up_waiting()) continue;
    session->loop().post([session] { session->disconnect(); });
    return true;
  }
  return false;
}

rdma::AcceptDecision Core::accept(const rdma::ConnectionRequest&, rdma::Loop& loop) {
  const std::scoped_lock lock(mutex_);
  if (draining_ || !make_room()) return rdma::Reject{};
  auto session = std::make_shared<Session>(shared_from_this(), loop, sessions_total_);
  rdma::Accept accept{session.get(), {}};
  accept.options.domain = rdma_domain;
  accept.options.receive_size = session->receive_size();
  accept.options.initial_receives = 2;  // G-06, G-53
  accept.options.ird = config.ird;
  accept.options.ord = config.ord;
  accept.options.setup_deadline = config.deadlines.setup;
  accept.options.send_deadline = config.deadlines.send;
  sessions_.emplace(sessions_total_++, std::move(session));
  return accept;
}

bool Core::session_opened() {
  if (open_.fetch_add(1) < config.max_sessions) return true;
  open_.fetch_sub(1);
  return false;
}

void Core::session_gone(const std::shared_ptr<Session>& session, bool was_open) {
  if (was_open) {
    open_.fetch_sub(1);
  } else {
    refused.fetch_add(1, std::memory_order_relaxed);
  }
  std::vector<std::function<void()>> done;
  {
    const std::scoped_lock lock(mutex_);
    sessions_.erase(session->number());
    if (draining_ && sessions_.empty()) done.swap(drained_);
  }
  for (auto& call : done) session->loop().post(std::move(call));
}

void Core::drain(std::function<void()> done) {
  std::vector<std::shared_ptr<Session>> sessions;
  {
    const std::scoped_lock lock(mutex_);
    draining_ = true;
    for (const auto& [number, session] : sessions_) sessions.push_back(session);
    if (!sessions.empty()) drained_.push_back(done);
  }
  if (sessions.empty()) return provider.loop(0).post(std::move(done));
  for (auto& session : sessions) {
    rdma::Loop& loop = session->loop();
    loop.post([session = std::move(session)] { session->disconnect(); });
  }
}

bool Core::take_unit(memory::OwnerId owner) {
  if (!quotas.reserve(owner)) return false;
  usage.fetch_add(1);
  return true;
}

void Core::return_unit(memory::OwnerId owner) {
  quotas.release(owner);
  usage.fetch_sub(1);
}

bool Core::try_pin(std::uint32_t session_pins) {
  if (reserve == 0) return false;
  const std::uint64_t share = std::max<std::uint64_t>(1, reserve / std::max(1u, open_.load()));
  if (session_pins >= share) return false;
  if (pinned_.fetch_add(1) < reserve) return true;
  pinned_.fetch_sub(1);
  return false;
}

void Core::unpin() { pinned_.fetch_sub(1); }

void Core::retire(std::uint64_t block_offset, bool scrub) {
  const std::uint64_t number = pool.number_of(block_offset).value_or(0);
  if (scrub) scrub_[number].store(true, std::memory_order_relaxed);
  pins.retire(number);
}

void Core::give_back(std::uint64_t number) {
  // KBTP 6.4: what may go to another trust domain is cleared before it returns.
  const std::uint64_t block_offset = pool.offset_of(number);
  if (scrub_[number].exchange(false, std::memory_order_relaxed)) pool.scrub(block_offset);
  ring->free(block_offset);
  free_blocks.fetch_add(1);
}

void Core::put_back(std::uint64_t block_offset) { retire(block_offset, several_domains); }

void Core::count(wire::Opcode opcode, wire::Status status, std::uint64_t octets) {
  Counters& counters = counters_[static_cast<std::size_t>(opcode)];
  counters.by_status[static_cast<std::size_t>(status)].fetch_add(1, std::memory_order_relaxed);
  if (octets > 0) counters.octets.fetch_add(octets, std::memory_order_relaxed);
}

Snapshot Core::snapshot() const {
  Snapshot s;
  {
    const std::scoped_lock lock(mutex_);
    s.sessions_open = sessions_.size();
    s.sessions_total = sessions_total_;
  }
  s.sessions_refused = refused.load(std::memory_order_relaxed);
  s.blocks = config.blocks;
  s.free_blocks = free_blocks.load();
  s.bound_handles = bound_handles.load();
  s.pinned_blocks = pinned_.load();
  s.quota_granted = config.blocks - reserve - quotas.available();
  s.usage = usage.load();
  s.copied_loads = copied_loads.load(std::memory_order_relaxed);
  for (std::size_t op = 0; op < wire::kOpcodeCount; ++op) {
    OperationCounters counters;
    counters.octets = counters_[op].octets.load(std::memory_order_relaxed);
    for (std::size_t status = 0; status < wire::kStatusCount; ++status) {
      const auto n = counters_[op].by_status[status].load(std::memory_order_relaxed);
      if (n > 0) counters.by_status[static_cast<wire::Status>(status)] = n;
    }
    if (!counters.by_status.empty()) s.operations[static_cast<wire::Opcode>(op)] = std::move(counters);
  }
  return s;
}

}  // namespace kbtp::target
