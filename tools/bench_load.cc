#include "tools/bench_load.h"

#include <algorithm>
#include <fmt/format.h>
#include <future>

#include "tools/content.h"

namespace kbtp::tools {

namespace {

constexpr std::byte kPoison{0x5a};

// What is wrong with the outcome of an operation, if anything.
std::optional<Trouble> trouble_with(std::string_view what, const initiator::Outcome& outcome) {
  if (!outcome.answered) return Trouble{true, outcome.error};
  if (outcome.ok()) return std::nullopt;
  return Trouble{false, fmt::format("{} ended with {}", what, wire::to_string(outcome.status))};
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

// Lives on the session's loop; the lane's thread only waits for `over`.
class BenchLane::Driver : public std::enable_shared_from_this<Driver> {
 public:
  Driver(initiator::Session& session, const initiator::Buffer& buffer, std::uint32_t outstanding,
         std::uint32_t size, const Length& length)
      : session_(session), buffer_(buffer), size_(size), length_(length), issued_(outstanding) {}

  void start() {
    begun_ = Clock::now() + length_.warm_up;
    for (std::uint32_t i = 0; i < issued_.size(); ++i) issue(i);
  }
  std::future<Run> over() { return over_.get_future(); }

 private:
  void issue(std::uint32_t index) {
    ++outstanding_;
    issued_[index] = Clock::now();
    session_.load(session_.info().base_handle + index, buffer_.slice(std::size_t{index} * size_, size_), {},
                  [self = shared_from_this(), index](const initiator::Outcome& outcome) {
                    self->completed(index, outcome);
                  });
  }

  void completed(std::uint32_t index, const initiator::Outcome& outcome) {
    --outstanding_;
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
    if (!ended_ && !run_.trouble) {
      issue(index);
    } else if (outstanding_ == 0) {
      over_.set_value(std::move(run_));
    }
  }

  static Trouble describe(const initiator::Outcome& outcome) {
    if (auto trouble = trouble_with("LOAD", outcome)) return std::move(*trouble);
    return {false, fmt::format("LOAD brought {} octets", outcome.data_length)};
  }

  initiator::Session& session_;
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

BenchLane::BenchLane(OpenSession open, std::uint32_t outstanding, std::uint32_t size)
    : open_(std::move(open)),
      session_(open_.session),
      outstanding_(outstanding),
      size_(size),
      memory_(std::size_t{outstanding} * size) {}

BenchLane::~BenchLane() { close_and_wait({open_}); }

Expected<void, Trouble> BenchLane::fill() {
  std::promise<Result<initiator::Buffer>> registered;
  session_->loop().post([&] {
    registered.set_value(session_->register_buffer(memory_, initiator::BufferUse::load_and_store));
  });
  auto buffer = registered.get_future().get();
  if (!buffer) return unexpected(Trouble{true, buffer.error().text});
  buffer_ = *buffer;
  for (std::uint32_t i = 0; i < outstanding_; ++i)
    make_content({i, 1}, std::span(memory_).subspan(std::size_t{i} * size_, size_));
  return for_all_blocks(*session_, outstanding_, "ALLOC_STORE", [&](std::uint32_t i, initiator::Done done) {
    session_->alloc_store(session_->info().base_handle + i, buffer_.slice(std::size_t{i} * size_, size_),
                          {.seal = true}, std::move(done));
  });
}

Expected<void, Trouble> BenchLane::empty() {
  return for_all_blocks(*session_, outstanding_, "FREE", [&](std::uint32_t i, initiator::Done done) {
    session_->free(session_->info().base_handle + i, 0, std::move(done));
  });
}

void BenchLane::start(const Length& length) {
  std::fill(memory_.begin(), memory_.end(), kPoison);
  driver_ = std::make_shared<Driver>(*session_, buffer_, outstanding_, size_, length);
  session_->loop().post([driver = driver_] { driver->start(); });
}

BenchLane::Run BenchLane::wait() { return driver_->over().get(); }

Expected<void, Trouble> BenchLane::check() {
  for (std::uint32_t i = 0; i < outstanding_; ++i) {
    const auto wrong = find_wrong_octet({i, 1}, Octets(memory_).subspan(std::size_t{i} * size_, size_));
    if (wrong)
      return unexpected(Trouble{false, fmt::format("buffer {} holds a wrong octet at {}", i, *wrong)});
  }
  return {};
}

}  // namespace kbtp::tools
