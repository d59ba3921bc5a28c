#include "proto/target/core.h"

#include <algorithm>
#include <utility>

#include "base/shared_memory.h"
#include "proto/target/session.h"

namespace kbtp::target {

namespace {

wire::CounterFormat::Kind counters_for(rdma::Atomics atomics) {
  switch (atomics) {
    case rdma::Atomics::plain:
      return wire::CounterFormat::Kind::unmasked;  // 9.2
    case rdma::Atomics::masked:
    case rdma::Atomics::none:  // nobody but the target itself ever counts
      break;
  }
  return wire::CounterFormat::Kind::masked;  // 3.3
}

}  // namespace

Core::Core(TargetConfig config_of, rdma::Provider& provider_of, std::uint64_t reserve_of,
           memory::Pool pool_of, memory::BlockTable table_of)
    : config(std::move(config_of)),
      provider(provider_of),
      rdma_domain(provider.create_domain()),
      ring_counters(counters_for(provider.capabilities().atomics)),
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
  // Block Offsets are Tagged Offsets (3.1): they must be those that the region will have.
  auto pool = provider.capabilities().offset_is_address
                  ? memory::Pool::create_at_address(config.blocks, config.block_size)
                  : memory::Pool::create(config.blocks, config.block_size);
  if (!pool) return unexpected(pool.error());
  auto table = memory::BlockTable::create(config.table_base_handle, config.handles);
  if (!table) return unexpected(table.error());

  std::shared_ptr<Core> core(
      new Core(std::move(config), provider, reserve, std::move(*pool), std::move(*table)));
  if (const auto opened = core->open_named_ranges(); !opened) return unexpected(opened.error());
  if (const auto opened = core->open_rings(); !opened) return unexpected(opened.error());
  return core;
}

// The pool is one piece for all, and behind it one for each DIRECT_ALLOC initiator (3.4). What quotas leave,
// the reserve included, stays with the former.
Result<> Core::open_rings() {
  const memory::FetchAdd fetch_add = [&host = provider](std::uint64_t& word, std::uint64_t add,
                                                        std::uint64_t mask) {
    return host.fetch_add_local(word, add, mask);
  };
  std::uint64_t left = config.blocks;
  for (const NamedInitiator& initiator : config.initiators) {
    if (initiator.direct_alloc) left -= initiator.quota;
  }
  std::vector<std::uint64_t> blocks(left);
  for (std::uint64_t i = 0; i < left; ++i) blocks[i] = pool.offset_of(i);
  if (left > 0) {
    auto made = memory::Ring::create(blocks, left, fetch_add, {.counters = ring_counters});
    if (!made) return unexpected(made.error());
    ring = std::move(*made);
  }
  if (left < config.blocks) partitions_from_ = pool.offset_of(left);
  for (const NamedInitiator& initiator : config.initiators) {
    if (!initiator.direct_alloc) continue;
    auto made =
        memory::Partition::create(pool.offset_of(left), initiator.quota, config.block_size, fetch_add,
                                  {.counters = ring_counters, .first_ticket = config.direct.first_ticket});
    if (!made) return unexpected(made.error());
    named.at(initiator.identity).range->partition = made->get();
    partitions_.push_back(std::move(*made));
    left += initiator.quota;
  }
  return {};
}

// 6.6: only to initiators that are trusted with everything behind the STags.
Result<> Core::allow_direct_modes() const {
  if (config.direct.ticket_timeout < std::chrono::milliseconds(1) ||
      config.direct.ticket_timeout > std::chrono::hours(24)) {
    return failure("the Ticket Timeout must be between a millisecond and a day");
  }
  const NamedInitiator* allocates = nullptr;
  for (const NamedInitiator& initiator : config.initiators) {
    const std::string name = "initiator " + initiator.identity.to_string();
    if (initiator.direct_load && several_domains) {
      // Any block may hold data of any domain, now or after the next allocation (G-25, P-11).
      return failure(name + " is to have DIRECT_LOAD, which shows it every block: that needs a target with " +
                     "one trust domain, and this one has " + std::to_string(domains_.size()));
    }
    if (!initiator.direct_alloc) continue;
    if (initiator.quota == 0) return failure(name + " is to have DIRECT_ALLOC but no quota");
    if (allocates != nullptr && allocates->domain != initiator.domain) {  // E-12
      return failure(name + " is to have DIRECT_ALLOC, but another initiator of another trust domain has it");
    }
    allocates = &initiator;
  }
  return {};
}

Result<> Core::open_named_ranges() {
  if (config.anonymous.accept_anonymous || config.anonymous.accept_unknown_identity)
    domains_.push_back(config.anonymous.domain);
  for (const NamedInitiator& initiator : config.initiators) {
    if (std::find(domains_.begin(), domains_.end(), initiator.domain) == domains_.end()) {
      domains_.push_back(initiator.domain);
    }
  }
  several_domains = domains_.size() > 1;
  if (const auto allowed = allow_direct_modes(); !allowed) return allowed;
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
    named.emplace(initiator.identity,
                  NamedRange{initiator.address, range, initiator.direct_load, initiator.direct_alloc});
    direct_load_ = direct_load_ || initiator.direct_load;
  }
  return {};
}

std::uint32_t Core::domain_index(const std::string& name) const {
  return static_cast<std::uint32_t>(std::find(domains_.begin(), domains_.end(), name) - domains_.begin());
}

// Streams that have not said HELLO yet, or were refused and linger, are bounded like open sessions. When they
// are too many the oldest goes, so that peers who say nothing, or nonsense, cannot keep a good one out. With
// the mutex held.
bool Core::make_room() {
  if (sessions_.size() < 2 * std::size_t{config.max_sessions} + named.size()) return true;
  for (const auto& [number, session] : sessions_) {
    if (!session->give_up()) continue;
    session->loop().post([session] { session->shed(); });
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

bool Core::session_opened(bool has_name) {
  if (!has_name && nameless_.fetch_add(1) >= config.max_sessions) {
    nameless_.fetch_sub(1);
    return false;
  }
  open_.fetch_add(1);
  return true;
}

void Core::session_closed(bool has_name) {
  open_.fetch_sub(1);
  if (!has_name) nameless_.fetch_sub(1);
}

void Core::session_gone(const std::shared_ptr<Session>& session, bool was_open) {
  if (was_open) {
    session_closed(session->is_named());
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

bool Core::take_unit(memory::OwnerId owner, std::uint64_t tickets) {
  if (!quotas.reserve(owner, tickets)) return false;
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

memory::Partition* Core::partition_of(std::uint64_t block_offset) const {
  if (!peer_writes(block_offset)) return nullptr;
  const auto after = std::upper_bound(
      partitions_.begin(), partitions_.end(), block_offset,
      [](std::uint64_t offset, const auto& partition) { return offset < partition->offset(); });
  return std::prev(after)->get();
}

void Core::took(std::uint64_t block_offset) {
  free_blocks.fetch_sub(1);
  if (memory::Partition* own = partition_of(block_offset)) own->took(block_offset);
}

void Core::write_block(std::uint64_t block_offset, Octets data) const {
  const MutableOctets block = pool.block(block_offset).first(data.size());
  if (shared(block_offset)) return copy_to_shared(block, data);
  std::copy(data.begin(), data.end(), block.begin());
}

std::vector<std::byte> Core::copy_block(std::uint64_t block_offset, std::uint32_t length) const {
  const Octets block = pool.block(block_offset).first(length);
  if (!peer_writes(block_offset)) return to_vector(block);
  std::vector<std::byte> copy(length);
  copy_from_shared(copy, block);
  return copy;
}

void Core::retire(std::uint64_t block_offset, bool scrub) {
  const std::uint64_t number = pool.number_of(block_offset).value_or(0);
  // A block of a partition never goes to anybody else.
  if (scrub && !peer_writes(block_offset)) scrub_[number].store(true, std::memory_order_relaxed);
  pins.retire(number);
}

void Core::give_back(std::uint64_t number) {
  // KBTP 6.4: what may go to another trust domain is cleared before it returns.
  const std::uint64_t block_offset = pool.offset_of(number);
  if (scrub_[number].exchange(false, std::memory_order_relaxed))
    pool.scrub(block_offset, shared(block_offset));
  free_blocks.fetch_add(1);
  if (memory::Partition* own = partition_of(block_offset)) return own->free(block_offset);
  ring->free(block_offset);
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
  s.direct_sessions = direct_sessions.load();
  s.tickets_outstanding = tickets_outstanding.load();
  s.tickets_abandoned = tickets_abandoned.load();
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
