#include "tools/bench_lane.h"

#include <algorithm>
#include <fmt/format.h>
#include <future>
#include <utility>

#include "tools/content.h"

namespace kbtp::tools {

namespace {

constexpr std::byte kPoison{0x5a};

// As the draft calls it.
std::string_view term(BenchOperation operation) {
  switch (operation) {
    case BenchOperation::load:
      return "LOAD";
    case BenchOperation::direct_load:
      return "DIRECT_LOAD";
    case BenchOperation::direct_alloc:
      return "DIRECT_ALLOC";
  }
  return "";
}

// What is wrong with the outcome of an operation, if anything.
std::optional<Trouble> trouble_with(std::string_view what, const initiator::Outcome& outcome) {
  using initiator::DirectFailure;
  if (outcome.ok()) return std::nullopt;
  if (outcome.answered)
    return Trouble{false, fmt::format("{} ended with {}", what, wire::to_string(outcome.status))};
  if (outcome.direct == DirectFailure::none || outcome.direct == DirectFailure::unavailable)
    return Trouble{true, outcome.error};
  return Trouble{false, fmt::format("{}: {}", what, outcome.error)};
}

// Calls `each(index, done)` for every block on the session's loop and waits for all the outcomes.
template <class Each>
Expected<void, Trouble> for_all_blocks(initiator::Session& session, std::uint32_t count,
                                       std::string_view what, Each each) {
  std::promise<std::optional<Trouble>> over;
  std::optional<Trouble> trouble;
  std::uint32_t left = count;
  session.loop().post([&] {
    for (std::uint32_t i = 0; i < count; ++i) {
      each(i, [&](const initiator::Outcome& outcome) {
        if (!trouble) trouble = trouble_with(what, outcome);
        if (--left == 0) over.set_value(trouble);
      });
    }
  });
  if (auto first = over.get_future().get()) return unexpected(std::move(*first));
  return {};
}

}  // namespace

std::string_view to_string(BenchOperation operation) {
  switch (operation) {
    case BenchOperation::load:
      return "load";
    case BenchOperation::direct_load:
      return "direct-load";
    case BenchOperation::direct_alloc:
      return "direct-alloc";
  }
  return "";
}

// Lives on the session's loop; the lane's thread only waits for `over`.
class BenchLane::Driver : public std::enable_shared_from_this<Driver> {
 public:
  Driver(initiator::Session& session, BenchOperation operation, const initiator::Buffer& buffer,
         std::uint32_t outstanding, std::uint32_t size, const Length& length)
      : session_(session),
        operation_(operation),
        buffer_(buffer),
        size_(size),
        length_(length),
        issued_(outstanding) {}

  void start() {
    begun_ = Clock::now() + length_.warm_up;
    outstanding_ = issued_.size();
    for (std::uint32_t i = 0; i < issued_.size(); ++i) issue(i);
  }
  std::future<Run> over() { return over_.get_future(); }

 private:
  void issue(std::uint32_t index) {
    issued_[index] = Clock::now();
    const std::uint64_t handle = session_.info().base_handle + index;
    const initiator::Slice slice = buffer_.slice(std::size_t{index} * size_, size_);
    auto done = [self = shared_from_this(), index](const initiator::Outcome& outcome) {
      self->completed(index, outcome);
    };
    switch (operation_) {
      case BenchOperation::load:
        return session_.load(handle, slice, {}, std::move(done));
      case BenchOperation::direct_load:
        return session_.direct_load(handle, slice.memory, {}, std::move(done));
      case BenchOperation::direct_alloc:
        return session_.direct_alloc_store(handle, slice.memory, {.seal = true}, std::move(done));
    }
  }

  void completed(std::uint32_t index, const initiator::Outcome& outcome) {
    const TimePoint now = Clock::now();
    if (!outcome.ok() || outcome.data_length != size_) {
      if (!run_.trouble) run_.trouble = describe(outcome);
    } else if (now < begun_) {
      ++run_.warm_up_operations;
    } else if (!ended_) {
      ++run_.operations;
      run_.latencies.add(now - issued_[index]);
      run_.elapsed = now - begun_;
      ended_ = length_.operations ? run_.operations >= *length_.operations : run_.elapsed >= length_.measured;
    }
    if (operation_ != BenchOperation::direct_alloc || !outcome.ok()) return go_on(index);
    session_.free(session_.info().base_handle + index, outcome.generation,
                  [self = shared_from_this(), index](const initiator::Outcome& freed) {
                    if (!self->run_.trouble) self->run_.trouble = trouble_with("FREE", freed);
                    self->go_on(index);
                  });
  }

  void go_on(std::uint32_t index) {
    if (!ended_ && !run_.trouble) return issue(index);
    if (--outstanding_ == 0) over_.set_value(std::move(run_));
  }

  [[nodiscard]] Trouble describe(const initiator::Outcome& outcome) const {
    if (auto trouble = trouble_with(term(operation_), outcome)) return std::move(*trouble);
    return {false, fmt::format("{} told of {} octets", term(operation_), outcome.data_length)};
  }

  initiator::Session& session_;
  BenchOperation operation_;
  initiator::Buffer buffer_;
  std::uint32_t size_;
  Length length_;
  std::vector<TimePoint> issued_;
  std::size_t outstanding_ = 0;
  TimePoint begun_;
  bool ended_ = false;
  Run run_;
  std::promise<Run> over_;
};

BenchLane::BenchLane(OpenSession open, BenchOperation operation, std::uint32_t outstanding,
                     std::uint32_t size)
    : open_(std::move(open)),
      session_(open_.session),
      operation_(operation),
      outstanding_(outstanding),
      size_(size),
      memory_(std::size_t{outstanding} * size) {}

BenchLane::~BenchLane() { close_and_wait({open_}); }

std::span<std::byte> BenchLane::memory_of(std::uint32_t index) {
  return std::span(memory_).subspan(std::size_t{index} * size_, size_);
}
initiator::Slice BenchLane::slice_of(std::uint32_t index) const {
  return buffer_.slice(std::size_t{index} * size_, size_);
}

Expected<void, Trouble> BenchLane::fill() {
  std::promise<Result<initiator::Buffer>> registered;
  session_->loop().post([&] {
    registered.set_value(session_->register_buffer(memory_, initiator::BufferUse::load_and_store));
  });
  auto buffer = registered.get_future().get();
  if (!buffer) return unexpected(Trouble{true, buffer.error().text});
  buffer_ = *buffer;
  for (std::uint32_t i = 0; i < outstanding_; ++i) make_content({i, 1}, memory_of(i));
  if (operation_ == BenchOperation::direct_alloc) return {};
  return for_all_blocks(*session_, outstanding_, "ALLOC_STORE", [&](std::uint32_t i, initiator::Done done) {
    session_->alloc_store(session_->info().base_handle + i, slice_of(i), {.seal = true}, std::move(done));
  });
}

Expected<void, Trouble> BenchLane::free_all() {
  return for_all_blocks(*session_, outstanding_, "FREE", [&](std::uint32_t i, initiator::Done done) {
    session_->free(session_->info().base_handle + i, 0, std::move(done));
  });
}

Expected<void, Trouble> BenchLane::empty() {
  return operation_ == BenchOperation::direct_alloc ? Expected<void, Trouble>{} : free_all();
}

void BenchLane::start(const Length& length) {
  if (operation_ != BenchOperation::direct_alloc) std::fill(memory_.begin(), memory_.end(), kPoison);
  driver_ = std::make_shared<Driver>(*session_, operation_, buffer_, outstanding_, size_, length);
  session_->loop().post([driver = driver_] { driver->start(); });
}

BenchLane::Run BenchLane::wait() { return driver_->over().get(); }

Expected<void, Trouble> BenchLane::check() {
  const auto allocated = operation_ == BenchOperation::direct_alloc;
  if (allocated) {
    auto bound = for_all_blocks(*session_, outstanding_, "DIRECT_ALLOC", [&](std::uint32_t i, auto done) {
      session_->direct_alloc_store(session_->info().base_handle + i, memory_of(i), {.seal = true},
                                   std::move(done));
    });
    if (!bound) return bound;
    std::fill(memory_.begin(), memory_.end(), kPoison);
    auto loaded = for_all_blocks(*session_, outstanding_, "LOAD", [&](std::uint32_t i, auto done) {
      session_->load(session_->info().base_handle + i, slice_of(i), {}, std::move(done));
    });
    if (!loaded) return loaded;
  }
  for (std::uint32_t i = 0; i < outstanding_; ++i) {
    if (const auto wrong = find_wrong_octet({i, 1}, memory_of(i)))
      return unexpected(Trouble{false, fmt::format("buffer {} holds a wrong octet at {}", i, *wrong)});
  }
  return allocated ? free_all() : Expected<void, Trouble>{};
}

}  // namespace kbtp::tools
