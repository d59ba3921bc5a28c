#include "tests/sim/actor.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace kbtp::sim {

using initiator::Outcome;
using std::chrono::milliseconds;
using std::chrono::seconds;
using wire::Status;

namespace {
constexpr std::byte kUntouched{0xEE};
}

Actor::Actor(World& world, Character character) : world_(world), character_(std::move(character)) {
  connect();
}

// --- Sessions --------------------------------------------------------------------------------------------

void Actor::connect() {
  initiator::ConnectOptions options;
  options.address = world_.address();
  options.identity = character_.identity;
  options.quota = character_.quota;
  options.handles = character_.handles;
  options.max_requests = static_cast<std::uint32_t>(world_.below(9));
  options.ird = static_cast<std::uint32_t>(1 + world_.below(8));
  options.ord = static_cast<std::uint32_t>(1 + world_.below(8));
  if (world_.shape.revision_1) {  // nothing is negotiated there: both sides must know (RFC 5044)
    options.ird = world_.shape.config.ord;
    options.ord = world_.shape.config.ird;
  }
  options.setup_deadline = seconds(2);
  options.hello_deadline = seconds(5);
  options.operation_deadline = seconds(8);
  options.send_deadline = seconds(2);
  options.wanted.direct_load = world_.below(8) != 0;
  options.wanted.direct_alloc = world_.below(8) != 0;
  options.wanted.record_completion = world_.shape.infiniband && world_.below(4) != 0;
  initiator::connect(world_.host(character_.host), options,
                     [this, life = world_.life](
                         Expected<std::shared_ptr<initiator::Session>, initiator::ConnectError> session) {
                       world_.note("connected " + character_.name, {session.has_value()});
                       if (session) return connected(*session, life);
                       if (world_.shape.calm && !world_.stopping())
                         world_.fail(character_.name + " cannot connect: " + session.error().text);
                       --character_.budget;
                       later();
                     });
}

void Actor::connected(const std::shared_ptr<initiator::Session>& session, std::uint64_t life) {
  session_ = session;
  leaving_ = false;
  life_ = life;
  most_used_ = session_->info().usage;
  spare_ticket_ = false;
  own_.clear();
  for (std::uint64_t i = 0; i < session_->info().handles; ++i) {
    own_[session_->info().base_handle + i].bound = most_used_ != 0;
  }
  session_->on_closed([this](const rdma::CloseReason& reason) {
    world_.note("closed " + character_.name, {static_cast<std::uint64_t>(reason.kind)});
    if (world_.shape.calm && !leaving_ && !world_.stopping())
      world_.fail(character_.name + "'s session ended: " + reason.text);
    if (under_way_ != 0) {
      world_.fail(
          fmt::format("{}: {} operations have not ended with their session", character_.name, under_way_));
    }
    session_.reset();
    later();
  });
  // The target may have been started anew meanwhile: then nobody can say which one this session is with.
  if (life != world_.life || !world_.target || world_.stopping())
    return session_->abort("a session of unknown age");
  if (session_->info().usage > session_->info().quota) {
    world_.fail(fmt::format("{} holds {} of {} blocks", character_.name, session_->info().usage,
                            session_->info().quota));
  }
  for (int i = 0; i < character_.at_once; ++i) next();
}

void Actor::later() {
  if (character_.budget <= 0 || world_.stopping()) {
    finished_ = true;
    return;
  }
  rdma::Loop& loop = world_.host(character_.host).loop(0);
  const auto pause = milliseconds(world_.below(4) == 0 ? world_.below(50) : 0);
  loop.call_at(loop.now() + pause, [this] { connect(); });
}

// --- Operations ------------------------------------------------------------------------------------------

void Actor::next() {
  if (session_ == nullptr || !session_->is_open() || world_.stopping()) return;
  if (character_.budget-- > 0) return start();
  leaving_ = true;
  session_->close();
}

void Actor::start() {
  const initiator::SessionInfo& info = session_->info();
  if (!world_.shape.calm && world_.below(150) == 0) {
    world_.note("crash " + character_.name, {});
    leaving_ = true;
    return session_->abort("this initiator's process dies");
  }
  const std::uint64_t any = world_.some_handle();
  const std::uint64_t own = info.handles == 0 ? any : info.base_handle + world_.below(info.handles);
  if (character_.watches && world_.below(8) != 0) return info.direct.load ? direct_load(any) : load(any);
  switch (info.handles == 0 ? 8 + world_.below(6) : world_.below(14)) {
    case 0:
    case 1:
      return alloc_store(own);
    case 2:
    case 3:
      return info.direct.alloc ? direct_alloc(own) : alloc_store(own);
    case 4:
      return store(own);
    case 5:
    case 6:
    case 7:
      return free(own);
    case 8:
      return probe(any);
    case 9:
    case 10:
      if (info.direct.load) return direct_load(any);
      return load(any);
    default:
      return load(any);
  }
}

Actor::ErrandPtr Actor::begin(std::string_view what, std::uint64_t handle) {
  auto errand = std::make_shared<Errand>();
  errand->number = ++errands_;
  errand->handle = handle;
  errand->since = world_.fabric->now();
  errand->moment = world_.content.moment();
  errand->frees_sent = frees_sent_[handle];
  ++under_way_;
  if (const auto own = own_.find(handle); own != own_.end()) ++own->second.busy;
  world_.note(what, {character_.host, errand->number, handle});
  return errand;
}

void Actor::begin_allocation(Errand& errand) {
  errand.allocates = true;
  world_.touched(errand.handle);
  if (++most_used_ > session_->info().quota) {
    ++overdraws_;  // it may take the place of any that is under way
  } else {
    errand.within_quota = overdraws_;
  }
}

/// A handle of the own range that is unbound for all that this session knows.
std::optional<std::uint64_t> Actor::idle_handle() const {
  for (const auto& [handle, own] : own_) {
    if (own.busy == 0 && !own.bound) return handle;
  }
  return std::nullopt;
}

void Actor::end(const ErrandPtr& errand, const Outcome& outcome) {
  world_.note("end",
              {character_.host, errand->number, outcome.answered, static_cast<std::uint64_t>(outcome.status),
               outcome.generation, outcome.data_length, outcome.block_offset});
  if (std::exchange(errand->ended, true)) {
    return world_.fail(fmt::format("{}: operation {} has ended twice", character_.name, errand->number));
  }
  --under_way_;
  if (const auto own = own_.find(errand->handle); own != own_.end()) --own->second.busy;
  answered_ += outcome.answered ? 1 : 0;
  if (world_.shape.calm && !world_.stopping()) {
    const Duration took = world_.fabric->now() - errand->since;
    if (took > kPrompt) {
      world_.fail(fmt::format("{}: operation {} took {} ms, and nothing was in its way", character_.name,
                              errand->number, std::chrono::duration_cast<milliseconds>(took).count()));
    }
  }
  if (outcome.status == Status::target_error) world_.fail(character_.name + ": TARGET_ERROR");
  next();
}

/// Registers memory, starts the operation with a slice of it, and cleans up behind it.
void Actor::alloc_store(std::uint64_t handle) {
  if (world_.shape.calm && own_[handle].to_be_bound) return probe(handle);
  const auto memory = std::make_shared<std::vector<std::byte>>(world_.shape.config.block_size, kUntouched);
  const bool seal = world_.below(2) == 0;
  const auto errand = begin("alloc_store", handle);
  begin_allocation(*errand);
  if (world_.below(3) == 0) {
    const auto data = std::span(*memory).first(
        world_.below(1 + std::min<std::size_t>(memory->size(), session_->info().max_inline)));
    errand->store = world_.content.begin(key(handle), data);
    return session_->alloc_store_inline(handle, data, {.seal = seal}, [this, errand](const Outcome& o) {
      judge_store(*errand, o);
      end(errand, o);
    });
  }
  const bool once = world_.below(4) == 0;
  const auto buffer = session_->register_buffer(*memory, initiator::BufferUse::store, true);
  if (!buffer) return end(errand, {});
  const auto slice = buffer->slice(0, world_.below(memory->size() + 1));
  errand->store = world_.content.begin(key(handle), slice.memory);
  session_->alloc_store(handle, slice, {.seal = seal, .invalidate = once},
                        [this, errand, memory, once, session = session_, buffer = *buffer](const Outcome& o) {
                          judge_store(*errand, o);
                          if (!once) session->unregister_buffer(buffer);
                          end(errand, o);
                        });
}

void Actor::store(std::uint64_t handle) {
  const auto memory = std::make_shared<std::vector<std::byte>>(world_.shape.config.block_size, kUntouched);
  const bool seal = world_.below(2) == 0;
  const auto errand = begin("store", handle);
  if (world_.below(3) == 0) {
    const auto data = std::span(*memory).first(
        world_.below(1 + std::min<std::size_t>(memory->size(), session_->info().max_inline)));
    errand->store = world_.content.begin(key(handle), data);
    return session_->store_inline(handle, data, {.seal = seal}, [this, errand](const Outcome& o) {
      judge_store(*errand, o);
      end(errand, o);
    });
  }
  const auto buffer = session_->register_buffer(*memory, initiator::BufferUse::store);
  if (!buffer) return end(errand, {});
  const auto slice = buffer->slice(0, world_.below(memory->size() + 1));
  errand->store = world_.content.begin(key(handle), slice.memory);
  session_->store(handle, slice, {.seal = seal},
                  [this, errand, memory, session = session_, buffer = *buffer](const Outcome& o) {
                    judge_store(*errand, o);
                    session->unregister_buffer(buffer);
                    end(errand, o);
                  });
}

void Actor::free(std::uint64_t handle) {
  const auto errand = begin("free", handle);
  ++frees_sent_[handle];
  if (persistent())
    std::erase_if(world_.holders, [&](const auto& holder) { return holder.second == handle; });
  session_->free(handle, 0, [this, errand](const Outcome& o) {
    if (o.ok()) {
      world_.content.freed(key(errand->handle), o.generation);
      own_[errand->handle].bound = false;
      if (most_used_ > 0) --most_used_;
    }
    end(errand, o);
  });
}

void Actor::probe(std::uint64_t handle) {
  const auto errand = begin("probe", handle);
  session_->probe(handle, [this, errand](const Outcome& o) { end(errand, o); });
}

void Actor::load(std::uint64_t handle) {
  const auto memory = std::make_shared<std::vector<std::byte>>(world_.shape.config.block_size, kUntouched);
  const bool once = world_.below(4) == 0;
  const bool unsealed = world_.below(4) == 0;
  const auto errand = begin("load", handle);
  const auto buffer = session_->register_buffer(*memory, initiator::BufferUse::load, true);
  if (!buffer) return end(errand, {});
  const auto slice = world_.below(6) == 0 ? buffer->slice(0, world_.below(memory->size())) : buffer->all();
  session_->load(handle, slice, {.allow_unsealed = unsealed, .invalidate = once},
                 [this, errand, memory, once, unsealed, room = slice.memory.size(), session = session_,
                  buffer = *buffer](const Outcome& o) {
                   if (o.answered) {
                     judge_sink(o, *memory, room);
                     if (!unsealed) judge_content(*errand, o, *memory);
                   }
                   if (!once) session->unregister_buffer(buffer);
                   end(errand, o);
                 });
}

void Actor::direct_load(std::uint64_t handle) {
  const auto memory = std::make_shared<std::vector<std::byte>>(world_.shape.config.block_size, kUntouched);
  const auto errand = begin("direct_load", handle);
  session_->direct_load(handle, *memory, {}, [this, errand, memory](const Outcome& o) {
    judge_content(*errand, o, *memory);
    end(errand, o);
  });
}

void Actor::direct_alloc(std::uint64_t any) {
  // A BIND that is refused leaves a ticket that may run out: not when all is to be calm, seldom otherwise.
  const auto idle = idle_handle();
  if (!idle && world_.shape.calm) return alloc_store(any);
  const std::uint64_t handle = idle && (world_.shape.calm || world_.below(8) != 0) ? *idle : any;
  const auto memory = std::make_shared<std::vector<std::byte>>(world_.shape.config.block_size, kUntouched);
  const auto data = std::span(*memory).first(world_.below(memory->size() + 1));
  const auto errand = begin("direct_alloc", handle);
  // It refuses by itself what would exceed the quota, and keeps the ticket of a BIND that is refused: what it
  // holds is counted, whether NO_SPACE was due is not judged.
  if (++most_used_ > session_->info().quota) ++overdraws_;
  own_[handle].to_be_bound = true;
  world_.touched(handle);
  errand->store = world_.content.begin(key(handle), data);
  session_->direct_alloc_store(handle, data, {.seal = world_.below(2) == 0},
                               [this, errand, memory](const Outcome& o) {
                                 own_[errand->handle].to_be_bound = false;
                                 if (o.answered && o.status == Status::already_bound) spare_ticket_ = true;
                                 judge_store(*errand, o);
                                 end(errand, o);
                               });
}

// --- Judgement -------------------------------------------------------------------------------------------

void Actor::judge_store(Errand& errand, const Outcome& outcome) {
  if (!outcome.answered) return;  // it may have happened or not
  if (outcome.ok()) {
    world_.content.stored(errand.store, outcome.generation);
    world_.touched(errand.handle);
    own_[errand.handle].bound = true;
    // Two handles never share a block. What is freed meanwhile, or ends with its session, says nothing.
    if (!persistent() || life_ != world_.life || frees_sent_[errand.handle] != errand.frees_sent) return;
    const auto [holder, first] = world_.holders.try_emplace(outcome.block_offset, errand.handle);
    if (!first && holder->second != errand.handle) {
      world_.fail(fmt::format("handles {} and {} share block {:#x} (KBTP-3.3-20)", errand.handle,
                              holder->second, outcome.block_offset));
    }
    return;
  }
  world_.content.refused(errand.store);
  if (!errand.allocates) return;
  // The blocks behind a ticket that its initiator does not bind come when it runs out, or too late (E-6).
  if (outcome.status == Status::no_space && errand.within_quota == overdraws_ && !spare_ticket_) {
    world_.fail(
        fmt::format("{}: NO_SPACE for handle {} within the quota (3.4)", character_.name, errand.handle));
  }
  --most_used_;
}

/// The target writes Data Length octets and not one more; a refused LOAD writes none.
void Actor::judge_sink(const Outcome& outcome, const std::vector<std::byte>& memory, std::size_t room) {
  const std::size_t length = outcome.ok() ? outcome.data_length : 0;
  if (length > room) {
    return world_.fail(fmt::format("a LOAD of {} octets into {} succeeded (KBTP-6.1-04)", length, room));
  }
  const auto behind = std::span(memory).subspan(length);
  if (std::ranges::any_of(behind, [](std::byte b) { return b != kUntouched; })) {
    world_.fail(fmt::format("octets behind Data Length {} were written (KBTP-6.1-03)", length));
  }
}

void Actor::judge_content(const Errand& errand, const Outcome& outcome,
                          const std::vector<std::byte>& memory) {
  if (!outcome.ok() || outcome.data_length > memory.size()) return;
  const auto wrong = world_.content.judge(key(errand.handle), outcome.generation,
                                          std::span(memory).first(outcome.data_length), errand.moment);
  if (wrong) world_.fail(character_.name + ": " + *wrong);
}

}  // namespace kbtp::sim
