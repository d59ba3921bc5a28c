// What a lane of the soak does next, and the answer that is then due.

#include <algorithm>
#include <utility>

#include "tools/soak_lane.h"

namespace kbtp::tools {

using wire::Status;

bool SoakLane::chance(unsigned percent) { return random_() % 100 < percent; }

// Whole blocks, short ones and everything between, now and then none at all.
std::uint32_t SoakLane::random_length(std::uint32_t most) {
  const std::uint64_t dice = random_() % 100;
  if (dice < 2) return 0;
  if (dice < 50) return most;
  if (dice < 65) return static_cast<std::uint32_t>(1 + random_() % std::min(most, 64u));
  return static_cast<std::uint32_t>(1 + random_() % most);
}

SoakLane::Operation SoakLane::look(std::uint32_t index, SoakKind kind) const {
  Operation operation;
  operation.kind = kind;
  operation.lane = number_;
  operation.index = index;
  operation.sink = options_.block_size;
  return operation;
}

SoakLane::Operation SoakLane::store_into(std::uint32_t index, SoakKind kind) {
  Operation operation = look(index, kind);
  const bool inlined = kind == SoakKind::store_inline || kind == SoakKind::alloc_store_inline;
  const std::uint32_t most =
      inlined ? std::min(session_->info().max_inline, options_.block_size) : options_.block_size;
  operation.stored = {{number_ << 32 | index, ++stores_}, random_length(most)};
  operation.seal = chance(75);
  return operation;
}

SoakLane::Operation SoakLane::free(std::uint32_t index) {
  Operation operation = look(index, SoakKind::free);
  if (chance(50)) operation.generation = held_[index].generation;
  return operation;
}

SoakLane::Operation SoakLane::settle(std::uint32_t index) const {
  Operation operation = look(index, SoakKind::load);
  operation.settles = true;
  return operation;
}

std::optional<SoakLane::Operation> SoakLane::choose() {
  if (lanes_.size() > 1 && chance(10)) {
    if (auto foreign = choose_foreign()) return foreign;
  }
  // A few tries: most handles are idle.
  for (int tries = 0; tries < 8; ++tries) {
    const auto index = static_cast<std::uint32_t>(random_() % held_.size());
    const Held& handle = held_[index];
    if (handle.changing) continue;
    Operation operation;
    switch (handle.state) {
      case State::unbound:
        operation = choose_for_unbound(index);
        break;
      case State::unsealed:
        operation = handle.content_known ? choose_for_unsealed(index) : free(index);
        break;
      case State::sealed:
        operation = choose_for_sealed(index);
        break;
      case State::doubtful:
        operation = settle(index);
        break;
    }
    if (changes(operation) && handle.readers > 0) continue;
    return operation;
  }
  return std::nullopt;
}

SoakLane::Operation SoakLane::choose_for_unbound(std::uint32_t index) {
  const std::uint64_t dice = random_() % 100;
  if (dice < 12) {
    static constexpr SoakKind kRefused[] = {SoakKind::load, SoakKind::probe, SoakKind::free, SoakKind::store,
                                            SoakKind::store_inline};
    const SoakKind kind = kRefused[dice % std::size(kRefused)];
    const bool stores = kind == SoakKind::store || kind == SoakKind::store_inline;
    Operation operation = stores ? store_into(index, kind) : look(index, kind);
    operation.expected = Status::not_bound;
    return operation;
  }
  if (dice < 45 && session_->info().direct.alloc) return store_into(index, SoakKind::direct_alloc);
  if (dice < 60 && session_->info().max_inline > 0) return store_into(index, SoakKind::alloc_store_inline);
  Operation operation = store_into(index, SoakKind::alloc_store);
  operation.invalidate = operation.stored.length > 0 && chance(20);
  return operation;
}

SoakLane::Operation SoakLane::choose_for_unsealed(std::uint32_t index) {
  const std::uint64_t dice = random_() % 100;
  if (dice < 10) {
    Operation operation = look(index, SoakKind::load);
    operation.expected = Status::not_sealed;
    return operation;
  }
  if (dice < 35) {
    Operation operation = look(index, SoakKind::load);
    operation.allow_unsealed = true;
    return operation;
  }
  if (dice < 40) {
    Operation operation = store_into(index, SoakKind::alloc_store);
    operation.expected = Status::already_bound;
    return operation;
  }
  if (dice < 45) {
    Operation operation = look(index, SoakKind::probe);
    if (held_[index].content.length > 0) operation.expected = Status::length_error;
    return operation;
  }
  if (dice < 55) return free(index);
  if (dice < 70 && session_->info().max_inline > 0) return store_into(index, SoakKind::store_inline);
  Operation operation = store_into(index, SoakKind::store);
  operation.invalidate = operation.stored.length > 0 && chance(20);
  return operation;
}

SoakLane::Operation SoakLane::choose_for_sealed(std::uint32_t index) {
  const Held& handle = held_[index];
  const std::uint64_t dice = random_() % 100;
  if (dice < 15) return free(index);
  if (dice < 19) {
    Operation operation = look(index, SoakKind::probe);
    if (handle.content.length > 0) operation.expected = Status::length_error;
    return operation;
  }
  if (dice < 22) {
    Operation operation = store_into(index, chance(50) ? SoakKind::store : SoakKind::store_inline);
    operation.expected = Status::sealed;
    return operation;
  }
  if (dice < 25) {
    Operation operation = store_into(index, SoakKind::alloc_store);
    operation.expected = Status::already_bound;
    return operation;
  }
  if (dice < 28) {
    Operation operation = look(index, chance(70) ? SoakKind::load : SoakKind::free);
    operation.generation = static_cast<std::uint16_t>(handle.generation + 1);
    if (operation.generation == 0) operation.generation = 1;  // 0 would mean any (5.1)
    operation.expected = Status::generation_mismatch;
    return operation;
  }
  if (dice < 31 && handle.content.length > 0) {
    Operation operation = look(index, SoakKind::load);
    operation.sink = static_cast<std::uint32_t>(random_() % handle.content.length);
    operation.expected = Status::length_error;
    return operation;
  }
  if (dice < 45) {
    Operation operation = look(index, SoakKind::load_invalidate);
    operation.invalidate = true;
    return operation;
  }
  const bool direct = dice < 70 && session_->info().direct.load;
  Operation operation = look(index, direct ? SoakKind::direct_load : SoakKind::load);
  if (chance(50)) operation.generation = handle.generation;
  return operation;
}

// A LOAD of another lane's block, or something that only its owner may do.
std::optional<SoakLane::Operation> SoakLane::choose_foreign() {
  const std::size_t other = (number_ + 1 + random_() % (lanes_.size() - 1)) % lanes_.size();
  const SoakLane& lane = *lanes_[other];
  const auto index = static_cast<std::uint32_t>(random_() % lane.held_.size());
  const Held& handle = lane.held_[index];
  if (lane.session_ == nullptr || lane.ending_ || handle.changing || handle.state != State::sealed)
    return std::nullopt;
  const std::uint64_t dice = random_() % 100;
  SoakKind kind = SoakKind::load;
  Status expected = Status::success;
  if (dice < 10) {
    kind = SoakKind::free;
    expected = Status::not_owner;
  } else if (dice < 40 && session_->info().direct.load) {
    kind = SoakKind::direct_load;
  }
  Operation operation = look(index, kind);
  operation.lane = other;
  operation.generation = handle.generation;
  operation.expected = expected;
  return operation;
}

// While stopping: what is left is settled and freed.
std::optional<SoakLane::Operation> SoakLane::choose_last() {
  for (std::uint32_t index = 0; index < held_.size(); ++index) {
    const Held& handle = held_[index];
    if (handle.changing || handle.readers > 0 || handle.state == State::unbound) continue;
    return handle.state == State::doubtful ? settle(index) : free(index);
  }
  return std::nullopt;
}

}  // namespace kbtp::tools
