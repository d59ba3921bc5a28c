#include "tests/sim/orders.h"

#include <algorithm>
#include <fmt/format.h>
#include <functional>
#include <memory>
#include <optional>
#include <utility>

#include "proto/initiator/initiator.h"
#include "proto/target/target.h"

namespace kbtp::sim {

namespace {

using initiator::BufferUse;
using initiator::Outcome;
using initiator::Slice;

constexpr std::uint16_t kPort = 7420;
constexpr std::uint32_t kBlockSize = 16;  // two pieces of a word each
const Uuid kIdentity = *Uuid::parse("11111111-2222-3333-4444-555555555555");

std::vector<std::byte> octets(unsigned value) {
  return std::vector<std::byte>(kBlockSize, static_cast<std::byte>(value));
}

/// A target, an initiator, and a block of ones bound to handle 0 and sealed.
class Stage {
 public:
  Stage(const Setting& setting, fake::Schedule& schedule, Case which)
      : schedule_(schedule),
        fabric_({.rules = setting.rules, .max_pieces = 2, .schedule = &schedule, .quiet_sends = true}) {
    const fake::HostOptions host =
        setting.rules == fake::Rules::infiniband ? fake::infiniband_host() : fake::HostOptions{};
    rdma::Provider& target_host = fabric_.add_host(host);
    rdma::Provider& initiator_host = fabric_.add_host(host);
    const bool direct = which == Case::direct_load || which == Case::direct_alloc;
    target::TargetConfig config;
    config.blocks = 2;  // one for the quota, one for pins: a block that is freed is soon another's
    config.reserve = 1;
    config.block_size = kBlockSize;
    config.handles = 2;
    config.initiators.push_back({.identity = kIdentity,
                                 .address = "10.0.0.2",
                                 .quota = 1,
                                 .handles = 2,
                                 .direct_load = direct,
                                 .direct_alloc = direct});
    // Beside the domain of others a block is cleared when it is freed (6.4).
    if (which == Case::load_and_free) config.initiators.front().domain = "apart";
    target_ = std::move(*target::Target::create(config, target_host));
    listener_ = std::move(*target_host.listen(fabric_.address(0, kPort), target_->accept_function()));

    initiator::ConnectOptions options;
    options.address = fabric_.address(0, kPort);
    options.identity = kIdentity;
    options.wanted = {.record_completion = setting.records, .direct_load = direct, .direct_alloc = direct};
    initiator::connect(initiator_host, options, [this](auto connected) {
      if (!connected) return;
      session = *connected;
      session->on_closed([this](const rdma::CloseReason&) { closed_ = true; });
    });
    fabric_.run_until([this] { return session != nullptr; });
    if (session->info().features.record_completion != setting.records) wrong("no records are granted");
    sink = expose(sink_memory, BufferUse::load);
    source = expose(source_memory, BufferUse::store);
    bool bound = false;
    session->alloc_store_inline(0, octets(1), {.seal = which != Case::store && which != Case::store_and_load},
                                [&](const Outcome& o) { bound = o.ok(); });
    fabric_.run_until([&] { return bound; });
    if (which == Case::alloc_store || which == Case::direct_alloc) {
      session->free(0, 0, [&](const Outcome&) { bound = false; });
      fabric_.run_until([&] { return !bound; });
    }
    fabric_.run_for(std::chrono::milliseconds(1));
  }
  ~Stage() {
    schedule_.end();
    session->abort("the case is over");
    fabric_.run_until([this] { return closed_; });
    listener_.reset();
    bool drained = false;
    target_->drain([&] { drained = true; });
    fabric_.run_until([&] { return drained; });
  }
  Stage(const Stage&) = delete;
  Stage& operator=(const Stage&) = delete;

  /// From here on in the order that the schedule chooses, until `count` operations have ended.
  void run(int count) {
    schedule_.begin();
    const bool ended = fabric_.run_until([&] { return ended_ == count; }, std::chrono::seconds(1));
    schedule_.end();
    if (!ended && !schedule_.abandoned()) wrong(fmt::format("{} of {} operations have ended", ended_, count));
  }
  /// Afterwards, in the one order that is always the same: handle 0 holds the source's octets.
  void check_stored() {
    if (schedule_.abandoned() || wrong_) return;
    const int before = ended_;
    session->load(0, sink, {}, loads(2));
    if (!fabric_.run_until([&] { return ended_ > before; }, std::chrono::seconds(1)))
      wrong("a LOAD afterwards does not end");
  }
  void wrong(const std::string& what) {
    if (!wrong_) wrong_ = what;
  }
  [[nodiscard]] const std::optional<std::string>& verdict() const { return wrong_; }

  /// The operation succeeds, and `check` says whether all is as it has to be.
  initiator::Done succeeds(std::string name, std::function<bool(const Outcome&)> check = {}) {
    return [this, name = std::move(name), check = std::move(check)](const Outcome& outcome) {
      ++ended_;
      if (!outcome.answered) return wrong(name + " is not answered: " + outcome.error);
      if (outcome.status != wire::Status::success)
        return wrong(fmt::format("{} ends with {}", name, wire::to_string(outcome.status)));
      if (check && !check(outcome)) wrong(name + " brings other octets than it has to");
    };
  }
  /// The sink is all `value`.
  [[nodiscard]] bool brought(unsigned value) const { return sink_memory == octets(value); }
  initiator::Done loads(unsigned value) {
    return succeeds("a LOAD", [this, value](const Outcome&) { return brought(value); });
  }
  Slice expose(std::vector<std::byte>& memory, BufferUse use, bool once = false) const {
    return session->register_buffer(memory, use, once)->all();
  }
  void ends() { ++ended_; }

  std::shared_ptr<initiator::Session> session;
  std::vector<std::byte> sink_memory = octets(0xEE);
  std::vector<std::byte> source_memory = octets(2);
  Slice sink;
  Slice source;

 private:
  fake::Schedule& schedule_;
  fake::Fabric fabric_;
  std::unique_ptr<target::Target> target_;
  std::unique_ptr<rdma::Listener> listener_;
  bool closed_ = false;
  int ended_ = 0;
  std::optional<std::string> wrong_;
};

void perform(Stage& stage, Case which) {
  initiator::Session& session = *stage.session;
  switch (which) {
    case Case::load:
      session.load(0, stage.sink, {}, stage.loads(1));
      return stage.run(1);
    case Case::load_invalidated: {
      const Slice once = stage.expose(stage.sink_memory, BufferUse::load, true);
      session.load(0, once, {.invalidate = true}, stage.succeeds("a LOAD", [&stage](const Outcome& outcome) {
        return outcome.invalidated && stage.brought(1);
      }));
      return stage.run(1);
    }
    case Case::load_and_free:
      // One after the other without a wait: the LOAD's octets are on their way while its block changes hands.
      session.load(0, stage.sink, {}, stage.loads(1));
      session.free(0, 0, stage.succeeds("a FREE"));
      session.alloc_store_inline(1, octets(3), {.seal = true}, stage.succeeds("an ALLOC_STORE"));
      return stage.run(3);
    case Case::store:
      session.store(0, stage.source, {.seal = true}, stage.succeeds("a STORE"));
      stage.run(1);
      return stage.check_stored();
    case Case::store_and_load:
      session.store(0, stage.source, {.seal = true}, stage.succeeds("a STORE"));
      session.load(0, stage.sink, {}, stage.loads(2));
      return stage.run(2);
    case Case::alloc_store:
      session.alloc_store(0, stage.source, {.seal = true}, stage.succeeds("an ALLOC_STORE"));
      stage.run(1);
      return stage.check_stored();
    case Case::direct_load:
      session.direct_load(0, stage.sink_memory, {}, [&stage](const Outcome& outcome) {
        stage.ends();
        if (!outcome.answered) return stage.wrong("a DIRECT_LOAD gives up: " + outcome.error);
        if (outcome.ok() && !stage.brought(1))
          stage.wrong("a DIRECT_LOAD brings other octets than one store's");
      });
      session.free(0, 0, stage.succeeds("a FREE"));
      session.alloc_store_inline(1, octets(3), {.seal = true}, stage.succeeds("an ALLOC_STORE"));
      return stage.run(3);
    case Case::direct_alloc:
      session.direct_alloc_store(0, stage.source_memory, {.seal = true}, stage.succeeds("a DIRECT_ALLOC"));
      stage.run(1);
      return stage.check_stored();
  }
}

}  // namespace

std::string_view to_string(Case which) {
  switch (which) {
    case Case::load:
      return "load";
    case Case::load_and_free:
      return "load_and_free";
    case Case::store:
      return "store";
    case Case::store_and_load:
      return "store_and_load";
    case Case::alloc_store:
      return "alloc_store";
    case Case::direct_load:
      return "direct_load";
    case Case::direct_alloc:
      return "direct_alloc";
    case Case::load_invalidated:
      return "load_invalidated";
  }
  return "";
}

bool is_small(Case which, const Setting& setting) {
  // A record is an RDMA Write of two pieces more.
  if (setting.records && which != Case::load_invalidated)
    return which == Case::load && KBTP_ALL_ORDERS_OF_RECORDS;
  return which == Case::load || which == Case::load_invalidated || which == Case::store ||
         which == Case::alloc_store;
}

fake::Explored explore(Case which, const Setting& setting, std::uint64_t samples) {
  const auto program = [&](fake::Schedule& schedule) {
    Stage stage(setting, schedule, which);
    perform(stage, which);
    return stage.verdict();
  };
  constexpr std::uint64_t kMostRuns = 1'000'000;
  return is_small(which, setting) ? fake::explore(kMostRuns, fake::Tell::outcomes, program)
                                  : fake::sample(samples, program);
}

}  // namespace kbtp::sim
