#include "tests/sim/world.h"

#include <algorithm>
#include <array>
#include <fmt/format.h>
#include <spdlog/spdlog.h>
#include <utility>

#include "tests/sim/seeded_random.h"

namespace kbtp::sim {

using std::chrono::milliseconds;
using std::chrono::seconds;

const std::vector<Named> kNamed = {
    {"alice", *Uuid::parse("11111111-2222-3333-4444-555555555555"), 1},
    {"bob", *Uuid::parse("99999999-2222-3333-4444-555555555555"), 2},
    {"carol", *Uuid::parse("77777777-2222-3333-4444-555555555555"), 3},
    {"dave", *Uuid::parse("33333333-2222-3333-4444-555555555555"), 4},
};

namespace {

constexpr std::uint16_t kPort = 7420;
constexpr std::size_t kHosts = 6;  // the target, the configured initiators, one for all others

Shape draw_shape(std::mt19937_64& random) {
  const auto below = [&random](std::uint64_t bound) { return random() % bound; };
  Shape shape;
  shape.engines = below(2) == 0;
  shape.calm = below(6) == 0;
  shape.revision_1 = shape.engines && below(6) == 0;
  shape.direct = below(4) != 0;
  shape.disturbance = 150 + below(8) * 300;

  target::TargetConfig& config = shape.config;
  constexpr std::array<std::uint32_t, 4> kSizes{64, 512, 512, 4096};
  config.block_size = kSizes[below(kSizes.size())];
  config.reserve = 1 + below(4);
  config.handles = 60;
  config.max_inline = 64 + static_cast<std::uint32_t>(below(3)) * 64;
  config.max_requests = 1 + static_cast<std::uint32_t>(below(8));
  config.ird = config.ord = 1 + static_cast<std::uint32_t>(below(8));
  config.deadlines = {.hello = seconds(1),
                      .allocation = seconds(1),
                      .read = seconds(2),
                      .send = seconds(1),
                      .setup = seconds(2),
                      .linger = milliseconds(500),
                      .drain = seconds(1)};
  config.direct.ticket_timeout = milliseconds(200);
  config.direct.abandonment =
      below(2) == 0 ? target::Abandonment::end_connection : target::Abandonment::invalidate_partition;
  // The wraps of ticket, slot and sign are where a comparison may be wrong.
  constexpr std::array<std::uint32_t, 4> kFirst{0, 0xFFFF'FFFB, 0x7FFF'FFFC, 12345};
  config.direct.first_ticket = kFirst[below(kFirst.size())];
  const bool several_domains = !shape.direct && below(3) == 0;
  std::uint32_t quotas = 0;
  for (const Named& named : kNamed) {
    target::NamedInitiator initiator;
    initiator.identity = named.identity;
    initiator.address = fmt::format("10.0.0.{}", named.host + 1);
    initiator.quota = 2 + static_cast<std::uint32_t>(below(5));
    initiator.handles = 8 + below(4);
    initiator.direct_load = shape.direct && below(4) != 0;
    initiator.direct_alloc = shape.direct && (&named == &kNamed.back() || below(3) != 0);
    if (several_domains && named.host == 1) initiator.domain = "apart";
    quotas += initiator.quota;
    config.initiators.push_back(initiator);
  }
  config.blocks = *config.reserve + quotas + 2 + below(4);
  shape.infiniband = !shape.engines && below(2) == 0;
  return shape;
}

}  // namespace

World::World(std::uint64_t seed, bool print) : journal(print) {
  seed_random(seed);
  spdlog::set_level(spdlog::level::off);  // peers that vanish are the point
  std::mt19937_64 random(seed);
  shape = draw_shape(random);
  fabric = shape.engines ? make_engine_fabric(random(), shape.revision_1)
                         : make_fake_fabric(random(), shape.infiniband);
  restarts_left_ = shape.calm ? 0 : random() % 3;
  for (std::size_t i = 0; i < kHosts; ++i) hosts_.push_back(&fabric->add_host(i == 0 ? 2 : 1));
  start_target();
}

std::uint64_t World::some_handle() {
  return below(4) == 0 ? below(shape.config.handles) : recent_[below(recent_.size())];
}

SocketAddress World::address() const { return fabric->address(0, kPort); }

void World::start_target() {
  auto created = target::Target::create(shape.config, *hosts_[0]);
  if (!created) return fail("no target: " + created.error().text);
  target = std::move(*created);
  auto listening = hosts_[0]->listen(address(), target->accept_function());
  if (!listening) return fail("the target cannot listen: " + listening.error().text);
  listener_ = std::move(*listening);
  ++life;
  holders.clear();
  first_connection_ = fabric->connection_count();
  note("target starts", {life});
}

/// The old target is kept until all of its streams have noticed: a real process would be gone, and so is this
/// one for everybody else, since nothing reaches it and nothing that it says arrives.
void World::bury() {
  auto grave = std::make_shared<Grave>();
  grave->target = std::move(target);
  graves_.push_back(grave);
  grave->target->drain([grave] { grave->drained = true; });
}

void World::restart_target() {
  if (!target) return;
  note("target dies", {life});
  listener_.reset();
  for (std::size_t i = first_connection_; i < fabric->connection_count(); ++i) fabric->cut(i);
  bury();
  later(milliseconds(1 + below(100)), [this] {
    if (!target && !stopping_) start_target();
  });
}

void World::disturb() {
  const std::size_t connections = fabric->connection_count();
  if (connections == first_connection_) return;
  const std::size_t latest = std::min<std::size_t>(connections - first_connection_, 6);
  const std::size_t connection = connections - 1 - below(latest);
  const std::uint64_t what = below(16);
  if (what < 4 && restarts_left_ > 0) {
    --restarts_left_;
    return restart_target();
  }
  if (what < 9) {
    note("cut", {connection});
    return fabric->cut(connection);
  }
  // Mostly the initiator's side, which is a stalled reader to the target (E-5). Short ones and such that
  // outlast deadlines.
  const Side side = below(4) == 0 ? 1 : 0;
  const auto time = milliseconds(below(4) == 0 ? below(3000) : below(20));
  note("stall", {connection, side, static_cast<std::uint64_t>(time.count())});
  fabric->stall(connection, side, true);
  const std::uint64_t number = ++stalls_begun_;
  stalls_[number] = {connection, side};
  later(time, [this, number] { end_stall(number); });
}

void World::later(Duration time, rdma::Task task) {
  rdma::Loop& loop = hosts_.back()->loop(0);
  loop.call_at(loop.now() + time, std::move(task));
}

void World::end_stall(std::uint64_t number) {
  const auto found = stalls_.find(number);
  if (found == stalls_.end()) return;
  const Stall stall = found->second;
  stalls_.erase(found);
  fabric->stall(stall.connection, stall.side, false);
}

void World::end_stalls() {
  while (!stalls_.empty()) end_stall(stalls_.begin()->first);
}

void World::check_now() {
  if (!target) return;
  const target::Snapshot s = target->snapshot();
  if (s.usage < s.bound_handles)
    fail(fmt::format("usage {} with {} bound handles", s.usage, s.bound_handles));
  if (s.usage > s.quota_granted) fail(fmt::format("usage {} of {} granted", s.usage, s.quota_granted));
  if (s.quota_granted + *shape.config.reserve > s.blocks) {
    fail(fmt::format("quotas of {} and a reserve of {} for {} blocks (3.4, P-07)", s.quota_granted,
                     *shape.config.reserve, s.blocks));
  }
  if (s.free_blocks + s.bound_handles > s.blocks) {
    fail(fmt::format("{} free and {} bound of {} blocks", s.free_blocks, s.bound_handles, s.blocks));
  }
  if (s.pinned_blocks > *shape.config.reserve) fail(fmt::format("{} blocks pinned (E-5)", s.pinned_blocks));
}

void World::check_grave(const target::Target& dead) {
  const target::Snapshot s = dead.snapshot();
  if (s.usage != s.bound_handles || s.free_blocks + s.bound_handles != s.blocks || s.pinned_blocks != 0) {
    fail(fmt::format("a dead target: usage {}, {} bound, {} free of {}, {} pinned", s.usage, s.bound_handles,
                     s.free_blocks, s.blocks, s.pinned_blocks));
  }
}

bool World::settle() {
  if (!target) start_target();
  const bool quiet = fabric->run_until(
      [&] {
        return target->snapshot().sessions_open == 0 &&
               std::ranges::all_of(graves_, [](const auto& grave) { return grave->drained; });
      },
      seconds(60));
  if (!quiet) fail(fmt::format("{} sessions do not end", target->snapshot().sessions_open));
  for (const auto& grave : graves_) {
    if (grave->drained) check_grave(*grave->target);
  }
  return quiet;
}

void World::stop(const std::function<bool()>& all_gone) {
  stopping_ = true;
  end_stalls();
  listener_.reset();
  if (target) bury();
  for (std::size_t i = 0; i < fabric->connection_count(); ++i) fabric->cut(i);
  (void)fabric->run_until(
      [&] {
        return all_gone() && std::ranges::all_of(graves_, [](const auto& grave) { return grave->drained; });
      },
      seconds(120));
}

}  // namespace kbtp::sim
