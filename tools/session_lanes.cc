#include "tools/session_lanes.h"

#include <algorithm>
#include <fmt/format.h>
#include <utility>

#include "tools/block_check.h"

namespace kbtp::tools {

SessionLanes::SessionLanes(Sessions sessions, std::uint32_t block_size, std::uint32_t outstanding)
    : block_size_(block_size) {
  for (auto& session : sessions) {
    Lane lane;
    const std::uint32_t slots = std::min(outstanding, session->info().max_requests);
    lane.memory.resize(std::size_t{slots} * block_size);
    for (std::uint32_t slot = slots; slot > 0; --slot) lane.free_slots.push_back(slot - 1);
    lane.session = std::move(session);
    lanes_.push_back(std::move(lane));
  }
}

std::uint32_t SessionLanes::share(std::uint32_t capacity, std::size_t index, std::size_t count) {
  return static_cast<std::uint32_t>(capacity / count + (index < capacity % count ? 1 : 0));
}

std::uint32_t SessionLanes::slots(std::uint32_t lane) const {
  return static_cast<std::uint32_t>(lanes_[lane].memory.size() / block_size_);
}

std::uint64_t SessionLanes::handle(std::uint32_t place) const {
  return lanes_[place % lanes_.size()].session->info().base_handle + place / lanes_.size();
}

std::string SessionLanes::handle_name(std::uint32_t place) const {
  return fmt::format("handle {}", handle(place));
}

Result<> SessionLanes::open() {
  for (Lane& lane : lanes_) {
    auto buffer = lane.session->register_buffer(lane.memory, initiator::BufferUse::load_and_store);
    if (!buffer) return failure("buffers cannot be registered: " + buffer.error().text);
    lane.buffer = *buffer;
  }
  return {};
}

void SessionLanes::carry_out(const ReplayOperation& operation, ReplayDone done) {
  Lane& lane = lanes_[operation.lane];
  const std::uint32_t slot = lane.free_slots.back();
  lane.free_slots.pop_back();
  const MutableOctets memory = std::span(lane.memory).subspan(std::size_t{slot} * block_size_, block_size_);
  const initiator::Slice slice = lane.buffer.slice(std::size_t{slot} * block_size_, block_size_);
  const TimePoint issued = Clock::now();
  auto completed = [&lane, slot, memory, operation, issued,
                    done = std::move(done)](const initiator::Outcome& outcome) {
    ReplayOutcome result;
    result.latency = Clock::now() - issued;
    result.generation = outcome.generation;
    if (!outcome.answered) {
      result.lost = outcome.error;
    } else if (outcome.status != wire::Status::success) {
      result.finding = fmt::format("ended with {}", wire::to_string(outcome.status));
    } else if (operation.kind == ReplayKind::load) {
      result.finding = check_loaded(outcome, operation.generation, operation.key, memory);
    }
    lane.free_slots.push_back(slot);
    done(result);
  };
  switch (operation.kind) {
    case ReplayKind::load:
      poison(memory);
      return lane.session->load(handle(operation.place), slice, {}, std::move(completed));
    case ReplayKind::alloc_store:
      make_content(operation.key, memory);
      return lane.session->alloc_store(handle(operation.place), slice, {.seal = true}, std::move(completed));
    case ReplayKind::free:
      return lane.session->free(handle(operation.place), operation.generation, std::move(completed));
  }
}

void SessionLanes::abandon() {
  for (Lane& lane : lanes_) {
    if (lane.session->is_open()) lane.session->abort("another session of the replay was lost");
  }
}

}  // namespace kbtp::tools
