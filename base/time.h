// The clock that all deadlines are told in. State machines are handed a TimePoint and never ask for the time
// themselves, so that a simulation can run them in virtual time.

#pragma once

#include <chrono>

namespace kbtp {

using Clock = std::chrono::steady_clock;
using TimePoint = Clock::time_point;
using Duration = Clock::duration;

inline constexpr TimePoint kNever = TimePoint::max();

}  // namespace kbtp
