#include "tools/replay_engine.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace kbtp::tools {

namespace {
// Operations under way for each that may be outstanding: enough that one handle's queue does not idle others.
constexpr std::size_t kQueuedPerOutstanding = 4;
constexpr std::byte kPoison{0xa5};
constexpr double kLongestWaitMs = 1e12;  // thirty years; what is longer does not fit a Duration
}  // namespace

ReplayEngine::ReplayEngine(Sessions sessions, TraceReader& trace, const ReplayOptions& options)
    : options_(options), trace_(trace), lru_(options.capacity), places_(options.capacity) {
  std::size_t outstanding = 0;
  for (auto& session : sessions) {
    Lane lane;
    const std::uint32_t slots = std::min(options.outstanding, session->info().max_requests);
    outstanding += slots;
    lane.memory.resize(std::size_t{slots} * options.block_size);
    for (std::uint32_t slot = slots; slot > 0; --slot) lane.free_slots.push_back(slot - 1);
    lane.session = std::move(session);
    lanes_.push_back(std::move(lane));
  }
  // A miss at capacity needs two at once.
  operations_.resize(std::max<std::size_t>(2, outstanding * kQueuedPerOutstanding));
  for (std::size_t i = operations_.size(); i > 0; --i)
    free_operations_.push_back(static_cast<std::uint32_t>(i - 1));
}

std::uint32_t ReplayEngine::share(std::uint32_t capacity, std::size_t index, std::size_t count) {
  return static_cast<std::uint32_t>(capacity / count + (index < capacity % count ? 1 : 0));
}

std::uint32_t ReplayEngine::owner(std::uint32_t place) const {
  return static_cast<std::uint32_t>(place % lanes_.size());
}

std::uint64_t ReplayEngine::handle(std::uint32_t place) const {
  return lanes_[owner(place)].session->info().base_handle + place / lanes_.size();
}

MutableOctets ReplayEngine::slot_memory(Lane& lane, std::uint32_t slot) const {
  return std::span(lane.memory).subspan(std::size_t{slot} * options_.block_size, options_.block_size);
}

bool ReplayEngine::register_buffers() {
  for (Lane& lane : lanes_) {
    auto buffer = lane.session->register_buffer(lane.memory, initiator::BufferUse::load_and_store);
    if (!buffer) {
      result_.lost = "buffers cannot be registered: " + buffer.error().text;
      return false;
    }
    lane.buffer = *buffer;
  }
  return true;
}

void ReplayEngine::start(std::function<void()> done) {
  done_ = std::move(done);
  started_ = Clock::now();
  if (!register_buffers()) give_up();
  step();
}

void ReplayEngine::step() {
  if (stage_ == Stage::trace) follow_trace();
  if (stage_ == Stage::freeing) free_held();
  if (stage_ == Stage::freeing && idle() && (next_to_free_ == lru_.size() || !result_.lost.empty())) {
    stage_ = Stage::ended;
    std::exchange(done_, nullptr)();
  }
}

void ReplayEngine::follow_trace() {
  while (!over_ && free_operations_.size() >= 2) {
    std::uint64_t id = 0;
    if (!next_reference(id)) {
      if (waiting_ != rdma::TimerId::none) return;
      over_ = true;  // the trace is over
      break;
    }
    // A block is loaded by the initiator whose request refers to it, and stored and freed by the owner of the
    // place.
    const auto initiator = static_cast<std::uint32_t>((result_.requests - 1) % lanes_.size());
    const Lru::Touch touch = lru_.touch(id);
    const std::uint32_t place = touch.place;
    if (touch.hit) {
      ++result_.hits;
      enqueue(Kind::load, place, {id, times_stored_.at(id)}, initiator);
      continue;
    }
    ++result_.misses;
    if (touch.evicted) {
      ++result_.evictions;
      enqueue(Kind::free, place, {*touch.evicted, times_stored_.at(*touch.evicted)}, owner(place));
    }
    enqueue(Kind::alloc_store, place, {id, ++times_stored_[id]}, owner(place));
  }
  if (over_ && idle()) {
    result_.elapsed = Clock::now() - started_;
    lanes_.front().session->loop().cancel(waiting_);
    stage_ = Stage::freeing;
    over_ = false;
  }
}

bool ReplayEngine::next_reference(std::uint64_t& id) {
  if (waiting_ != rdma::TimerId::none) return false;
  while (reference_ == request_.hash_ids.size()) {
    auto next = trace_.next();
    if (!next) {
      result_.bad_trace = next.error().text;
      return false;
    }
    if (!*next) return false;
    request_ = std::move(**next);
    reference_ = 0;
    ++result_.requests;
    progress_.store(result_.requests, std::memory_order_relaxed);
    if (!options_.speed) continue;
    rdma::Loop& loop = lanes_.front().session->loop();
    const auto offset = std::chrono::duration<double, std::milli>(
        std::min(kLongestWaitMs, static_cast<double>(request_.timestamp_ms) / *options_.speed));
    const TimePoint due = started_ + std::chrono::duration_cast<Duration>(offset);
    if (due <= Clock::now()) continue;
    waiting_ = loop.call_at(due, [this] {
      waiting_ = rdma::TimerId::none;
      step();
    });
    return false;
  }
  id = request_.hash_ids[reference_++];
  return true;
}

void ReplayEngine::free_held() {
  if (!result_.lost.empty()) return;  // the sessions are gone; the target frees what they held
  while (next_to_free_ < lru_.size() && !free_operations_.empty()) {
    const std::uint32_t place = next_to_free_++;
    if (!places_[place].bound) continue;
    enqueue(Kind::free, place, places_[place].key, owner(place));
  }
}

void ReplayEngine::enqueue(Kind kind, std::uint32_t place, ContentKey key, std::uint32_t session) {
  const std::uint32_t index = free_operations_.back();
  free_operations_.pop_back();
  operations_[index] = {
      .kind = kind, .place = place, .next = kNone, .session = session, .slot = 0, .key = key, .issued = {}};
  Place& at = places_[place];
  (at.last == kNone ? at.first : operations_[at.last].next) = index;
  at.last = index;
  start_ready(place);
}

void ReplayEngine::start_ready(std::uint32_t place) {
  Place& at = places_[place];
  const bool gone_wrong = !result_.finding.empty() || !result_.lost.empty();
  while (at.first != kNone && !at.exclusive) {
    const std::uint32_t index = at.first;
    Operation& operation = operations_[index];
    if (operation.kind != Kind::load && at.loads > 0) return;
    at.first = operation.next;
    if (at.first == kNone) at.last = kNone;
    if (over_ && gone_wrong) {
      free_operations_.push_back(index);
      continue;
    }
    if (operation.kind == Kind::load) {
      ++at.loads;
    } else {
      at.exclusive = true;
    }
    Lane& lane = lanes_[operation.session];
    lane.ready.push_back(index);
    issue(lane);
  }
}

void ReplayEngine::issue(Lane& lane) {
  while (!lane.ready.empty() && !lane.free_slots.empty()) {
    const std::uint32_t index = lane.ready.front();
    lane.ready.pop_front();
    send(lane, index);
  }
}

void ReplayEngine::send(Lane& lane, std::uint32_t index) {
  Operation& operation = operations_[index];
  operation.slot = lane.free_slots.back();
  lane.free_slots.pop_back();
  operation.issued = Clock::now();
  const std::uint64_t at = handle(operation.place);
  const MutableOctets memory = slot_memory(lane, operation.slot);
  const initiator::Slice slice =
      lane.buffer.slice(std::size_t{operation.slot} * options_.block_size, options_.block_size);
  const auto done = [this, index](const initiator::Outcome& outcome) { completed(index, outcome); };
  switch (operation.kind) {
    case Kind::load:
      // So that octets that the target did not write cannot pass for right ones.
      std::fill(memory.begin(), memory.end(), kPoison);
      lane.session->load(at, slice, {}, done);
      break;
    case Kind::alloc_store:
      make_content(operation.key, memory);
      lane.session->alloc_store(at, slice, {.seal = true}, done);
      break;
    case Kind::free:
      lane.session->free(at, places_[operation.place].generation, done);
      break;
  }
}

void ReplayEngine::completed(std::uint32_t index, const initiator::Outcome& outcome) {
  Operation& operation = operations_[index];
  Place& place = places_[operation.place];
  Lane& lane = lanes_[operation.session];
  const Duration latency = Clock::now() - operation.issued;
  if (!outcome.answered) {
    if (result_.lost.empty()) result_.lost = outcome.error;
    give_up();
  } else if (outcome.status != wire::Status::success) {
    find(operation, fmt::format("ended with {}", wire::to_string(outcome.status)));
  } else {
    switch (operation.kind) {
      case Kind::load:
        result_.loads.add(latency);
        check_load(operation, outcome);
        break;
      case Kind::alloc_store:
        result_.stores.add(latency);
        result_.octets_stored += options_.block_size;
        place.bound = true;
        place.generation = outcome.generation;
        place.key = operation.key;
        break;
      case Kind::free:
        place.bound = false;
        if (stage_ == Stage::freeing) ++result_.freed_at_end;
        break;
    }
  }
  release(index);
  start_ready(operation.place);
  issue(lane);
  step();
}

void ReplayEngine::check_load(const Operation& operation, const initiator::Outcome& outcome) {
  const Place& place = places_[operation.place];
  if (outcome.generation != place.generation) {
    find(operation, fmt::format("found Generation {}, but the block was stored with Generation {}",
                                outcome.generation, place.generation));
  }
  if (outcome.data_length != options_.block_size) {
    find(operation, fmt::format("brought {} octets of {}", outcome.data_length, options_.block_size));
    return;
  }
  const auto wrong = find_wrong_octet(operation.key, slot_memory(lanes_[operation.session], operation.slot));
  if (wrong) find(operation, fmt::format("brought a wrong octet at {}", *wrong));
  result_.octets_checked += options_.block_size;
}

void ReplayEngine::release(std::uint32_t index) {
  const Operation& operation = operations_[index];
  Place& place = places_[operation.place];
  if (operation.kind == Kind::load) {
    --place.loads;
  } else {
    place.exclusive = false;
  }
  lanes_[operation.session].free_slots.push_back(operation.slot);
  free_operations_.push_back(index);
}

void ReplayEngine::find(const Operation& operation, std::string_view what) {
  static constexpr std::string_view kNames[] = {"LOAD", "ALLOC_STORE", "FREE"};
  if (result_.finding.empty()) {
    result_.finding = fmt::format("{} of handle {} (hash_id {}, stored {} times) {}",
                                  kNames[static_cast<std::size_t>(operation.kind)], handle(operation.place),
                                  operation.key.hash_id, operation.key.times_stored, what);
  }
  give_up();
}

void ReplayEngine::give_up() {
  if (stage_ == Stage::trace) over_ = true;
  if (result_.lost.empty()) return;
  for (Lane& lane : lanes_) {
    if (lane.session->is_open()) lane.session->abort("another session of the replay was lost");
  }
}

}  // namespace kbtp::tools
