// A lane's sessions: opened, cut, opened again; and how each operation ends. What it does next is chosen in
// soak_choice.cc.

#include "tools/soak_lane.h"

#include <algorithm>
#include <fmt/format.h>
#include <numeric>
#include <utility>

namespace kbtp::tools {

namespace {

using wire::Status;

constexpr std::byte kPoison{0xa5};
constexpr std::chrono::milliseconds kRetry{50};
constexpr std::chrono::seconds kUnreachable{60};
constexpr unsigned kLongestCutDelayUs = 500;

}  // namespace

std::string_view to_string(SoakKind kind) {
  switch (kind) {
    case SoakKind::load:
      return "load";
    case SoakKind::load_invalidate:
      return "load_invalidate";
    case SoakKind::store:
      return "store";
    case SoakKind::store_inline:
      return "store_inline";
    case SoakKind::alloc_store:
      return "alloc_store";
    case SoakKind::alloc_store_inline:
      return "alloc_store_inline";
    case SoakKind::free:
      return "free";
    case SoakKind::probe:
      return "probe";
    case SoakKind::direct_load:
      return "direct_load";
    case SoakKind::direct_alloc:
      return "direct_alloc";
  }
  return "?";
}

std::uint64_t SoakTally::total() const {
  return std::accumulate(operations.begin(), operations.end(), std::uint64_t{0});
}

SoakLane::SoakLane(rdma::Provider& provider, const Options& options, std::size_t number, const Lanes& lanes,
                   SoakTally& tally)
    : provider_(provider),
      loop_(provider.loop(0)),
      options_(options),
      number_(number),
      lanes_(lanes),
      tally_(tally),
      random_(options.seed),
      held_(options.blocks),
      memory_(std::size_t{options.outstanding} * options.block_size),
      free_slots_(options.outstanding) {
  std::iota(free_slots_.begin(), free_slots_.end(), 0);
}

SoakLane::~SoakLane() = default;

MutableOctets SoakLane::slot(std::uint32_t number) const {
  return std::span(memory_).subspan(std::size_t{number} * options_.block_size, options_.block_size);
}

SoakLane::Held& SoakLane::held(const Operation& operation) const {
  return lanes_[operation.lane]->held_[operation.index];
}

void SoakLane::open() {
  connecting_ = true;
  initiator::ConnectOptions connect = options_.connect;
  connect.identity = options_.identity;
  connect.quota = options_.blocks;
  connect.handles = options_.blocks;
  connect.max_requests = options_.outstanding;
  connect.wanted.direct_load = connect.wanted.direct_alloc = !options_.identity.is_zero();
  initiator::connect(provider_, connect,
                     [this](Expected<std::shared_ptr<initiator::Session>, initiator::ConnectError> session) {
                       connected(std::move(session));
                     });
}

void SoakLane::connected(Expected<std::shared_ptr<initiator::Session>, initiator::ConnectError> session) {
  connecting_ = false;
  if (!session) return retry(session.error().text);
  session_ = std::move(*session);
  session_->on_closed([this](const rdma::CloseReason& reason) { closed(reason); });
  ending_ = false;
  const initiator::SessionInfo& info = session_->info();
  if (info.block_size < options_.block_size) {
    tally_.lost = fmt::format("the target's blocks have {} octets, and {} are needed", info.block_size,
                              options_.block_size);
    return end_session(true);
  }
  // The range of a session that was cut may not be given back yet (P-09: a smaller grant).
  if (abandoned_ || info.quota < options_.blocks || info.handles < options_.blocks) return end_session(true);
  auto buffer = session_->register_buffer(memory_, initiator::BufferUse::load_and_store);
  if (!buffer) return end_session(false);
  buffer_ = *buffer;
  unreachable_since_ = kNever;
  ++tally_.sessions;
  if (options_.session_life > Duration::zero()) {
    const auto mean = std::chrono::duration<double>(options_.session_life).count();
    const std::chrono::duration<double> life(std::exponential_distribution<double>(1 / mean)(random_));
    cut_at_ = loop_.now() + std::chrono::duration_cast<Duration>(life);
  }
}

void SoakLane::retry(const std::string& why) {
  if (unreachable_since_ == kNever) unreachable_since_ = loop_.now();
  if (loop_.now() - unreachable_since_ > kUnreachable && tally_.lost.empty())
    tally_.lost = fmt::format("no session for {} s: {}", kUnreachable.count(), why);
  if (abandoned_ || (stopping_ && options_.identity.is_zero())) return;
  connecting_ = true;
  loop_.call_at(loop_.now() + kRetry, [this] {
    connecting_ = false;
    if (!abandoned_) open();
  });
}

void SoakLane::closed(const rdma::CloseReason& reason) {
  if (!ending_ && tally_.finding.empty()) {
    tally_.finding = fmt::format("session {} ended though nobody had cut it: {}", number_,
                                 reason.text.empty() ? "the target ended it" : reason.text);
  }
  session_ = nullptr;
  cut_at_ = kNever;
  // A private range is gone with its session (G-24).
  if (options_.identity.is_zero()) {
    ++epoch_;
    for (Held& handle : held_) {
      const std::uint32_t readers = handle.readers;
      handle = {};
      handle.readers = readers;
    }
  }
  if (stopping_ && holds_nothing()) return;
  retry("the session ended");
}

void SoakLane::end_session(bool gracefully) {
  ending_ = true;
  cut_at_ = kNever;
  if (gracefully) {
    session_->close();
  } else {
    session_->abort("cut by the soak");
  }
}

// In the middle of things: with operations just begun, a moment later.
void SoakLane::disturb(TimePoint now) {
  if (session_ == nullptr || ending_ || stopping_ || cutting_ || now < cut_at_) return;
  for (bool more = true; more; more = step() && chance(90)) {
  }
  cutting_ = true;
  const auto moment = std::chrono::microseconds(random_() % kLongestCutDelayUs);
  loop_.call_at(now + moment, [this, cut = session_] {
    cutting_ = false;
    if (session_ != cut || ending_) return;
    const bool gracefully = chance(25);
    ++(gracefully ? tally_.closes : tally_.cuts);
    end_session(gracefully);
  });
}

void SoakLane::stop() {
  stopping_ = true;
  cut_at_ = kNever;
}

void SoakLane::abandon() {
  stopping_ = abandoned_ = true;
  if (session_ != nullptr) end_session(false);
}

bool SoakLane::holds_nothing() const {
  return std::all_of(held_.begin(), held_.end(),
                     [](const Held& handle) { return handle.state == State::unbound; });
}

bool SoakLane::over() const { return stopping_ && session_ == nullptr && !connecting_ && !cutting_; }

bool SoakLane::step() {
  if (session_ == nullptr || ending_ || free_slots_.empty()) return false;
  auto operation = stopping_ ? choose_last() : choose();
  if (!operation) {
    if (stopping_ && holds_nothing() && free_slots_.size() == options_.outstanding) end_session(true);
    return false;
  }
  begin(std::move(*operation));
  return true;
}

bool SoakLane::changes(const Operation& operation) {
  if (operation.settles) return true;
  if (operation.expected != Status::success) return false;
  switch (operation.kind) {
    case SoakKind::load:
    case SoakKind::load_invalidate:
    case SoakKind::probe:
    case SoakKind::direct_load:
      return false;
    case SoakKind::store:
    case SoakKind::store_inline:
    case SoakKind::alloc_store:
    case SoakKind::alloc_store_inline:
    case SoakKind::free:
    case SoakKind::direct_alloc:
      return true;
  }
  return true;
}

void SoakLane::begin(Operation operation) {
  Held& handle = held(operation);
  if (changes(operation)) {
    handle.changing = true;
  } else {
    ++handle.readers;
  }
  operation.epoch = lanes_[operation.lane]->epoch_;
  operation.slot = free_slots_.back();
  free_slots_.pop_back();
  operation.begun = Clock::now();
  send(operation);
}

void SoakLane::send(const Operation& operation) {
  const std::uint64_t handle = lanes_[operation.lane]->session_->info().base_handle + operation.index;
  const std::size_t at = std::size_t{operation.slot} * options_.block_size;
  const MutableOctets memory = slot(operation.slot);
  const initiator::Slice source = buffer_.slice(at, operation.stored.length);
  const initiator::Slice sink = buffer_.slice(at, operation.sink);
  const initiator::StoreOptions store{
      .seal = operation.seal, .invalidate = operation.invalidate, .generation = operation.generation};
  const auto done_with = [this, operation](const initiator::Outcome& outcome) { done(operation, outcome); };
  // With INVALIDATE the STag is used up, so it is one for this operation alone.
  const auto once = [&](initiator::BufferUse use, std::size_t length) {
    auto buffer = session_->register_buffer(memory.first(length), use, true);
    return buffer ? buffer->all() : initiator::Slice{};
  };
  switch (operation.kind) {
    case SoakKind::load:
    case SoakKind::load_invalidate:
      std::fill(memory.begin(), memory.end(), kPoison);
      return session_->load(handle,
                            operation.invalidate ? once(initiator::BufferUse::load, operation.sink) : sink,
                            {.allow_unsealed = operation.allow_unsealed,
                             .invalidate = operation.invalidate,
                             .generation = operation.generation},
                            done_with);
    case SoakKind::store:
    case SoakKind::alloc_store: {
      make_content(operation.stored.key, memory.first(operation.stored.length));
      const initiator::Slice from =
          operation.invalidate ? once(initiator::BufferUse::store, operation.stored.length) : source;
      return operation.kind == SoakKind::store ? session_->store(handle, from, store, done_with)
                                               : session_->alloc_store(handle, from, store, done_with);
    }
    case SoakKind::store_inline:
    case SoakKind::alloc_store_inline: {
      const MutableOctets data = memory.first(operation.stored.length);
      make_content(operation.stored.key, data);
      return operation.kind == SoakKind::store_inline
                 ? session_->store_inline(handle, data, store, done_with)
                 : session_->alloc_store_inline(handle, data, store, done_with);
    }
    case SoakKind::free:
      return session_->free(handle, operation.generation, done_with);
    case SoakKind::probe:
      return session_->probe(handle, done_with);
    case SoakKind::direct_load:
      std::fill(memory.begin(), memory.end(), kPoison);
      return session_->direct_load(handle, memory, {.generation = operation.generation}, done_with);
    case SoakKind::direct_alloc:
      make_content(operation.stored.key, memory.first(operation.stored.length));
      return session_->direct_alloc_store(handle, memory.first(operation.stored.length),
                                          {.seal = operation.seal}, done_with);
  }
}

void SoakLane::done(const Operation& operation, const initiator::Outcome& outcome) {
  Held& handle = held(operation);
  free_slots_.push_back(operation.slot);
  if (changes(operation)) {
    handle.changing = false;
  } else {
    --handle.readers;
  }
  if (!outcome.answered) return unanswered(operation, outcome);
  ++tally_.operations[static_cast<std::size_t>(operation.kind)];
  tally_.latencies.add(Clock::now() - operation.begun);
  // The owner's range went while we asked: any answer may be right.
  if (operation.epoch != lanes_[operation.lane]->epoch_) return;
  if (operation.settles) return settled(operation, outcome);
  if (outcome.status != operation.expected) {
    return find(operation, fmt::format("ended with {}, but {} was due", wire::to_string(outcome.status),
                                       wire::to_string(operation.expected)));
  }
  if (operation.invalidate && !outcome.invalidated)
    return find(operation, "left an STag that it was to invalidate");
  if (outcome.status != Status::success) ++tally_.refused;
  apply(operation, outcome);
}

void SoakLane::unanswered(const Operation& operation, const initiator::Outcome& outcome) {
  ++tally_.unanswered;
  if (outcome.direct == initiator::DirectFailure::target_lies)
    return find(operation, "met a target that lies: " + outcome.error);
  if (!ending_ && outcome.direct == initiator::DirectFailure::none)
    return find(operation, "was not answered: " + outcome.error);
  if (!changes(operation) || operation.settles) return;
  Held& handle = held(operation);
  const State before = std::exchange(handle.state, State::doubtful);
  handle.may_be_sealed.reset();
  if (operation.kind == SoakKind::free) {
    handle.may_be_unbound = true;
    handle.may_be_unsealed = before == State::unsealed;
    if (before == State::sealed) handle.may_be_sealed = handle.content;
  } else {
    handle.may_be_unbound = before == State::unbound;
    handle.may_be_unsealed = before == State::unsealed || !operation.seal;
    if (operation.seal) handle.may_be_sealed = operation.stored;
  }
}

void SoakLane::apply(const Operation& operation, const initiator::Outcome& outcome) {
  Held& handle = held(operation);
  switch (operation.kind) {
    case SoakKind::load:
    case SoakKind::load_invalidate:
    case SoakKind::direct_load:
      if (outcome.status == Status::success) check_content(operation, outcome, handle.content);
      return;
    case SoakKind::probe:
      if (handle.state == State::unbound) return;
      if (outcome.generation != handle.generation || outcome.data_length != handle.content.length)
        find(operation, fmt::format("told Generation {} and {} octets, not {} and {}", outcome.generation,
                                    outcome.data_length, handle.generation, handle.content.length));
      return;
    case SoakKind::store:
    case SoakKind::store_inline:
    case SoakKind::alloc_store:
    case SoakKind::alloc_store_inline:
    case SoakKind::direct_alloc:
      if (outcome.status != Status::success) return;
      handle.state = operation.seal ? State::sealed : State::unsealed;
      handle.content = operation.stored;
      handle.content_known = true;
      handle.generation = outcome.generation;
      tally_.octets_stored += operation.stored.length;
      return;
    case SoakKind::free:
      if (outcome.status == Status::success) handle.state = State::unbound;
      return;
  }
}

void SoakLane::check_content(const Operation& operation, const initiator::Outcome& outcome,
                             const Stored& content) {
  if (outcome.data_length != content.length)
    return find(operation, fmt::format("brought {} octets of {}", outcome.data_length, content.length));
  const MutableOctets memory = slot(operation.slot);
  if (const auto wrong = find_wrong_octet(content.key, memory.first(content.length)))
    return find(operation, fmt::format("brought a wrong octet at {} of {}", *wrong, content.length));
  // DIRECT_LOAD may leave what it likes behind the data; LOAD writes Data Length octets.
  const bool all_poison = std::all_of(memory.begin() + content.length, memory.end(),
                                      [](std::byte octet) { return octet == kPoison; });
  if (operation.kind != SoakKind::direct_load && !all_poison)
    return find(operation, fmt::format("wrote past its {} octets", content.length));
  tally_.octets_checked += content.length;
}

void SoakLane::settled(const Operation& operation, const initiator::Outcome& outcome) {
  Held& handle = held(operation);
  ++tally_.settled;
  handle.generation = outcome.generation;
  if (outcome.status == Status::not_bound && handle.may_be_unbound) {
    handle.state = State::unbound;
  } else if (outcome.status == Status::not_sealed && handle.may_be_unsealed) {
    handle.state = State::unsealed;
    handle.content_known = false;
  } else if (outcome.status == Status::success && handle.may_be_sealed) {
    handle.state = State::sealed;
    handle.content = *handle.may_be_sealed;
    check_content(operation, outcome, handle.content);
  } else {
    find(operation, fmt::format("after an operation that was cut ended with {}, which cannot be",
                                wire::to_string(outcome.status)));
  }
}

void SoakLane::find(const Operation& operation, const std::string& what) {
  if (tally_.over()) return;
  tally_.finding =
      fmt::format("{} of session {} on handle {} of session {} (content {}.{}) {}", to_string(operation.kind),
                  number_, operation.index, operation.lane, held(operation).content.key.hash_id,
                  held(operation).content.key.times_stored, what);
}

}  // namespace kbtp::tools
