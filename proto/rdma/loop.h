// The event loop that streams live on. A stream belongs to one loop for life; its work requests are posted
// and its handler is called on that loop only. Everything that crosses from one loop to another goes through
// post().

#pragma once

#include <cstdint>
#include <functional>

#include "base/time.h"

namespace kbtp::rdma {

using Task = std::function<void()>;
enum class TimerId : std::uint64_t {
  none = 0
};

class Loop {
 public:
  virtual ~Loop() = default;

  /// The time of this turn of the loop (virtual in simulations).
  [[nodiscard]] virtual TimePoint now() const = 0;

  /// Runs `task` on this loop, in the order of posting, never from inside this call. Any thread.
  virtual void post(Task task) = 0;

  /// Runs `task` once `when` has passed. On this loop only; cancel() of a timer that has run does nothing.
  virtual TimerId call_at(TimePoint when, Task task) = 0;
  virtual void cancel(TimerId timer) = 0;

  /// True when the caller runs on this loop.
  [[nodiscard]] virtual bool is_current() const = 0;
};

}  // namespace kbtp::rdma
