#include "tools/replay_engine.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

namespace kbtp::tools {

namespace {
// Operations under way for each that may be outstanding: enough that one handle's queue does not idle others.
constexpr std::size_t kQueuedPerOutstanding = 4;
constexpr double kLongestWaitMs = 1e12;  // thirty years; what is longer does not fit a Duration
}  // namespace

ReplayEngine::ReplayEngine(ReplayPlaces& places, ReplayLanes& lanes, TraceReader& trace,
                           const ReplayOptions& options)
    : options_(options),
      trace_(trace),
      places_of_(places),
      carriers_(lanes),
      lanes_(lanes.count()),
      places_(places.capacity()) {
  std::size_t outstanding = 0;
  for (std::uint32_t lane = 0; lane < lanes_.size(); ++lane) {
    lanes_[lane].free_slots = lanes.slots(lane);
    outstanding += lanes_[lane].free_slots;
  }
  // A miss at capacity needs two at once.
  operations_.resize(std::max<std::size_t>(2, outstanding * kQueuedPerOutstanding));
  for (std::size_t i = operations_.size(); i > 0; --i)
    free_operations_.push_back(static_cast<std::uint32_t>(i - 1));
}

void ReplayEngine::start(std::function<void()> done) {
  done_ = std::move(done);
  started_ = Clock::now();
  if (const auto opened = carriers_.open(); !opened) {
    result_.lost = opened.error().text;
    give_up();
  }
  step();
}

void ReplayEngine::stop() {
  if (stage_ != Stage::trace || over_) return;
  result_.stopped = over_ = true;
  step();
}

void ReplayEngine::step() {
  if (stage_ == Stage::trace) follow_trace();
  if (stage_ == Stage::freeing) free_held();
  if (stage_ == Stage::freeing && idle() && (next_to_free_ == places_.size() || !result_.lost.empty())) {
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
    const std::uint64_t request = result_.requests - 1;
    const Lru::Touch touch = places_of_.touch(request, id);
    const std::uint32_t place = touch.place;
    const std::uint32_t owner = places_of_.owner(place);
    if (touch.hit) {
      ++result_.hits;
      enqueue(ReplayKind::load, place, {id, times_stored_.at(id)}, places_of_.reader(request));
      continue;
    }
    ++result_.misses;
    if (touch.evicted) {
      ++result_.evictions;
      enqueue(ReplayKind::free, place, {*touch.evicted, times_stored_.at(*touch.evicted)}, owner);
    }
    enqueue(ReplayKind::alloc_store, place, {id, ++times_stored_[id]}, owner);
  }
  if (over_ && idle()) {
    result_.elapsed = Clock::now() - started_;
    carriers_.loop().cancel(waiting_);
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
    rdma::Loop& loop = carriers_.loop();
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
  if (!result_.lost.empty()) return;  // the lanes are gone; the target frees what they held
  while (next_to_free_ < places_.size() && !free_operations_.empty()) {
    const std::uint32_t place = next_to_free_++;
    if (!places_[place].bound) continue;
    enqueue(ReplayKind::free, place, places_[place].key, places_of_.owner(place));
  }
}

void ReplayEngine::enqueue(ReplayKind kind, std::uint32_t place, ContentKey key, std::uint32_t lane) {
  const std::uint32_t index = free_operations_.back();
  free_operations_.pop_back();
  operations_[index] = {.what = {.kind = kind, .lane = lane, .place = place, .generation = 0, .key = key},
                        .next = kNone};
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
    if (operation.what.kind != ReplayKind::load && at.loads > 0) return;
    at.first = operation.next;
    if (at.first == kNone) at.last = kNone;
    if (over_ && gone_wrong) {
      free_operations_.push_back(index);
      continue;
    }
    if (operation.what.kind == ReplayKind::load) {
      ++at.loads;
    } else {
      at.exclusive = true;
    }
    Lane& lane = lanes_[operation.what.lane];
    lane.ready.push_back(index);
    issue(lane);
  }
}

void ReplayEngine::issue(Lane& lane) {
  while (!lane.ready.empty() && lane.free_slots > 0) {
    const std::uint32_t index = lane.ready.front();
    lane.ready.pop_front();
    send(lane, index);
  }
}

void ReplayEngine::send(Lane& lane, std::uint32_t index) {
  --lane.free_slots;
  ReplayOperation& operation = operations_[index].what;
  if (operation.kind != ReplayKind::alloc_store) operation.generation = places_[operation.place].generation;
  carriers_.carry_out(operation, [this, index](const ReplayOutcome& outcome) { completed(index, outcome); });
}

void ReplayEngine::completed(std::uint32_t index, const ReplayOutcome& outcome) {
  const ReplayOperation operation = operations_[index].what;
  Place& place = places_[operation.place];
  if (!outcome.lost.empty()) {
    if (result_.lost.empty()) result_.lost = outcome.lost;
    give_up();
  } else if (!outcome.finding.empty()) {
    find(operation, outcome.finding);
  } else {
    switch (operation.kind) {
      case ReplayKind::load:
        result_.loads.add(outcome.latency);
        result_.octets_checked += options_.block_size;
        break;
      case ReplayKind::alloc_store:
        result_.stores.add(outcome.latency);
        result_.octets_stored += options_.block_size;
        place.bound = true;
        place.generation = outcome.generation;
        place.key = operation.key;
        break;
      case ReplayKind::free:
        place.bound = false;
        if (stage_ == Stage::freeing) ++result_.freed_at_end;
        break;
    }
  }
  release(index);
  start_ready(operation.place);
  issue(lanes_[operation.lane]);
  step();
}

void ReplayEngine::release(std::uint32_t index) {
  const ReplayOperation& operation = operations_[index].what;
  Place& place = places_[operation.place];
  if (operation.kind == ReplayKind::load) {
    --place.loads;
  } else {
    place.exclusive = false;
  }
  ++lanes_[operation.lane].free_slots;
  free_operations_.push_back(index);
}

void ReplayEngine::find(const ReplayOperation& operation, std::string_view what) {
  static constexpr std::string_view kNames[] = {"LOAD", "ALLOC_STORE", "FREE"};
  if (result_.finding.empty()) {
    result_.finding = fmt::format(
        "{} of {} (hash_id {}, stored {} times) {}", kNames[static_cast<std::size_t>(operation.kind)],
        carriers_.handle_name(operation.place), operation.key.hash_id, operation.key.times_stored, what);
  }
  give_up();
}

void ReplayEngine::give_up() {
  if (stage_ == Stage::trace) over_ = true;
  if (!result_.lost.empty()) carriers_.abandon();
}

}  // namespace kbtp::tools
