#include "tests/sim/simulation.h"

#include <algorithm>
#include <fmt/format.h>
#include <memory>
#include <optional>
#include <set>

#include "tests/sim/actor.h"
#include "tests/sim/agent.h"
#include "tests/sim/world.h"

namespace kbtp::sim {

using std::chrono::seconds;
using wire::Status;

namespace {

/// Everything that a run may take, many times over.
constexpr std::uint64_t kMostEvents = 2'000'000;

/// A configured initiator comes back when all is over: its usage is what it has bound, all of that can be
/// loaded and is right, and it is freed.
class Settlement {
 public:
  Settlement(World& world, const Named& named) : world_(world), named_(named) {
    initiator::ConnectOptions options;
    options.address = world.address();
    options.identity = named.identity;
    initiator::connect(
        world.host(named.host), options,
        [this](Expected<std::shared_ptr<initiator::Session>, initiator::ConnectError> session) {
          if (!session) {
            done_ = true;
            return world_.fail(fmt::format("{} does not get back in: {}", named_.name, session.error().text));
          }
          session_ = *session;
          session_->on_closed([this](const rdma::CloseReason&) { done_ = true; });
          handle_ = session_->info().base_handle;
          buffer_ = session_->register_buffer(memory_, initiator::BufferUse::load);
          step();
        });
  }
  [[nodiscard]] bool done() const { return done_; }
  [[nodiscard]] const std::set<std::uint64_t>& blocks() const { return blocks_; }

 private:
  void step() {
    const initiator::SessionInfo& info = session_->info();
    if (handle_ == info.base_handle + info.handles || !buffer_) {
      if (info.usage != blocks_.size()) {
        world_.fail(fmt::format("{} is charged {} blocks and has bound {} (G-24)", named_.name, info.usage,
                                blocks_.size()));
      }
      return session_->close();
    }
    std::ranges::fill(memory_, std::byte{0});
    session_->load(handle_, buffer_->all(), {.allow_unsealed = true}, [this](const initiator::Outcome& o) {
      if (o.status == Status::not_bound) {
        ++handle_;
        return step();
      }
      if (!o.ok()) {
        world_.fail(fmt::format("handle {} of {}: {}", handle_, named_.name, wire::to_string(o.status)));
        return session_->close();
      }
      if (!blocks_.insert(o.block_offset).second) {
        world_.fail(fmt::format("block {:#x} is bound twice (KBTP-3.3-20)", o.block_offset));
      }
      load_sealed(o.generation);
    });
  }
  void load_sealed(std::uint16_t generation) {
    session_->load(handle_, buffer_->all(), {}, [this, generation](const initiator::Outcome& o) {
      if (o.ok()) {
        const auto wrong =
            world_.content.judge({world_.life, handle_}, generation, std::span(memory_).first(o.data_length),
                                 world_.content.moment());
        if (wrong) world_.fail(*wrong);
      }
      session_->free(handle_, generation, [this](const initiator::Outcome& f) {
        if (!f.ok()) world_.fail(fmt::format("handle {} of {} is not freed", handle_, named_.name));
        ++handle_;
        step();
      });
    });
  }

  World& world_;
  const Named& named_;
  std::vector<std::byte> memory_ = std::vector<std::byte>(world_.shape.config.block_size);
  std::shared_ptr<initiator::Session> session_;
  Result<initiator::Buffer> buffer_;
  std::uint64_t handle_ = 0;
  std::set<std::uint64_t> blocks_;
  bool done_ = false;
};

void settle_accounts(World& world, std::vector<std::unique_ptr<Settlement>>& settlements) {
  world.end_stalls();
  if (!world.settle()) return;
  std::set<std::uint64_t> all;
  std::uint32_t quotas = 0;
  for (const Named& named : kNamed) {
    const Settlement& settlement = *settlements.emplace_back(std::make_unique<Settlement>(world, named));
    if (!world.fabric->run_until([&] { return settlement.done(); }, seconds(60))) {
      return world.fail(fmt::format("{}'s last session does not end", named.name));
    }
    for (const std::uint64_t block : settlement.blocks()) {
      if (!all.insert(block).second) world.fail(fmt::format("block {:#x} has two owners", block));
    }
  }
  for (const auto& initiator : world.shape.config.initiators) quotas += initiator.quota;
  if (!world.settle()) return;
  const target::Snapshot s = world.target->snapshot();
  if (s.free_blocks != s.blocks) world.fail(fmt::format("{} of {} blocks are free", s.free_blocks, s.blocks));
  if (s.usage != 0 || s.bound_handles != 0 || s.pinned_blocks != 0) {
    world.fail(fmt::format("usage {}, {} bound, {} pinned, and nobody is there", s.usage, s.bound_handles,
                           s.pinned_blocks));
  }
  if (s.quota_granted != quotas) {
    world.fail(fmt::format("quotas of {} are granted, configured are {}", s.quota_granted, quotas));
  }
}

std::vector<std::unique_ptr<Actor>> cast_of(World& world) {
  std::vector<std::unique_ptr<Actor>> actors;
  for (const Named& named : kNamed) {
    if (&named == &kNamed.back() && world.shape.direct) continue;  // an Agent
    Character character{std::string(named.name), named.host, named.identity};
    character.budget = 100 + static_cast<int>(world.below(150));
    character.at_once = 1 + static_cast<int>(world.below(8));
    character.watches = world.below(4) == 0;
    if (character.watches) character.budget *= 2;
    actors.push_back(std::make_unique<Actor>(world, character));
  }
  actors.push_back(std::make_unique<Actor>(
      world, Character{"anonymous", 5, Uuid{}, 2 + static_cast<std::uint32_t>(world.below(3)), 6,
                       60 + static_cast<int>(world.below(100)), 1 + static_cast<int>(world.below(6))}));
  actors.push_back(std::make_unique<Actor>(world, Character{"loader", 5, Uuid{}, 0, 0, 120, 4}));
  return actors;
}

}  // namespace

Report simulate(std::uint64_t seed, bool print) {
  World world(seed, print);
  Report report;
  report.seed = seed;
  report.engines = world.shape.engines;
  report.infiniband = world.shape.infiniband;
  report.calm = world.shape.calm;
  report.direct = world.shape.direct;
  if (!world.journal.failed()) {
    const auto actors = cast_of(world);
    std::vector<std::unique_ptr<Settlement>> settlements;  // callbacks refer to them until the end
    std::optional<Agent> agent;
    if (world.shape.direct) agent.emplace(world, kNamed.back(), 60 + static_cast<int>(world.below(60)));
    const auto all_done = [&] {
      if (agent && !agent->done()) return false;
      return std::ranges::all_of(actors, [](const auto& a) { return a->done(); });
    };
    while (!all_done() && !world.journal.failed()) {
      if (!world.fabric->step() || ++report.events > kMostEvents) {
        for (const auto& actor : actors) {
          if (!actor->done())
            world.fail(fmt::format("{} is stuck: {} under way", actor->name(), actor->under_way()));
        }
        if (agent && !agent->done()) world.fail("the agent is stuck");
        break;
      }
      if (!world.shape.calm && world.below(world.shape.disturbance) == 0) world.disturb();
      if (report.events % 16 == 0) world.check_now();
    }
    if (!world.journal.failed()) settle_accounts(world, settlements);
    for (const auto& actor : actors) report.answered += static_cast<std::uint64_t>(actor->answered());
    if (agent) report.binds = static_cast<std::uint64_t>(agent->bound());
    world.stop(all_done);
  }
  report.failures = world.journal.failures();
  report.hash = world.journal.hash();
  report.loads_judged = world.content.loads_judged();
  report.lives = world.life;
  return report;
}

std::string to_string(const Report& report) {
  std::string text = fmt::format(
      "seed {}: {} ({}{}{}), {} events, {} operations answered, {} loads judged, {} binds, {} lives, hash "
      "{:016x}\n",
      report.seed, report.ok() ? "good" : "FAILED",
      report.engines      ? "engines"
      : report.infiniband ? "fake InfiniBand"
                          : "fake fabric",
      report.direct ? ", direct modes" : "", report.calm ? ", calm" : "", report.events, report.answered,
      report.loads_judged, report.binds, report.lives, report.hash);
  for (const std::string& failure : report.failures) text += "  " + failure + "\n";
  if (!report.ok()) text += fmt::format("  replay: kbtp-sim --seed {} --print\n", report.seed);
  return text;
}

}  // namespace kbtp::sim
