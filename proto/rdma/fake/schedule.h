// Every order in which the events of a small program may happen, one run of the program for each.
//
//   const auto all = explore(100'000, Tell::outcomes, [&](Schedule& schedule) -> std::optional<std::string> {
//     Fabric fabric({.schedule = &schedule});
//     ...connect, in the one order that is always the same...
//     schedule.begin();
//     ...post, and fabric.run_until(...)...
//     schedule.end();
//     ...clean up; what was wrong, if anything...
//   });
//
// Between begin() and end() the fabric asks at each step which of the events that can happen now does. Orders
// that differ only in events which do not touch the same thing are one (sleep sets, Godefroid 1996); a run
// that turns out to be such a repetition stops early, and what it finds does not count. Timers run when
// nothing else is left to happen. The program must do the same when the same order is chosen.

#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <vector>

namespace kbtp::fake {

/// Which orders are worth a run of their own.
enum class Tell : std::uint8_t {
  outcomes,        ///< those that the hosts' own code can tell apart
  watched_memory,  ///< also those that somebody can who looks at all memory after each event
  every_order,     ///< all
};

/// What an event reads and changes, as bits of one host each.
class Touched {
 public:
  enum class What : std::uint8_t {
    sends,   ///< what goes out, and when
    tells,   ///< what the host's own code is to be told next
    reads,   ///< memory
    places,  ///< octets of peers in memory; each in places of its own
    works,   ///< the host's own code: reads and writes memory as it likes
  };
  constexpr Touched() = default;
  constexpr Touched(std::size_t host, What what)
      : bits_(std::uint64_t{1} << (kPerHost * host + static_cast<std::size_t>(what))) {}
  constexpr Touched& operator|=(Touched more) {
    bits_ |= more.bits_;
    return *this;
  }
  friend constexpr Touched operator|(Touched a, Touched b) { return a |= b; }
  /// Whether the order of two events matters.
  [[nodiscard]] static bool conflict(Touched a, Touched b, Tell tell);

 private:
  static constexpr std::size_t kPerHost = 5;
  std::uint64_t bits_ = 0;
};

class Schedule {
 public:
  using EventId = std::uint64_t;

  explicit Schedule(Tell tell) : tell_(tell) {}
  /// An order by chance instead.
  explicit Schedule(std::uint64_t seed) : chance_(std::in_place, seed) {}

  void begin() { choosing_ = true; }
  void end() { choosing_ = false; }
  [[nodiscard]] bool choosing() const { return choosing_; }
  /// This run repeats another one, or goes another way than it did before.
  [[nodiscard]] bool abandoned() const { return abandoned_; }

  // For the fabric.
  /// One of `ready`; nothing when the run is to stop.
  [[nodiscard]] std::optional<EventId> choose(std::span<const EventId> ready);
  void happened(Touched touched);

  // For explore().
  void rewind();
  /// Goes on to the next order; false when there is none.
  [[nodiscard]] bool next();
  [[nodiscard]] bool strayed() const { return strayed_; }

 private:
  struct Step {
    std::vector<EventId> ready;
    std::map<EventId, Touched> asleep;  ///< need not be taken here: orders with them are known
    EventId chosen = 0;
    Touched touched;
  };
  [[nodiscard]] static std::optional<EventId> awake(const Step& step);

  Tell tell_ = Tell::every_order;
  std::optional<std::mt19937_64> chance_;
  bool choosing_ = false;
  bool abandoned_ = false;
  bool strayed_ = false;
  std::size_t depth_ = 0;
  std::vector<Step> steps_;
  std::map<EventId, Touched> asleep_;  ///< at the next step
};

struct Explored {
  std::uint64_t orders = 0;       ///< looked at to the end
  std::uint64_t repetitions = 0;  ///< runs that stopped early
  bool all = false;               ///< there is no other order
  std::string wrong;              ///< what the first wrong one has shown; empty: none was
};
/// Runs `program` in at most `most_runs` orders, until one is wrong.
[[nodiscard]] Explored explore(std::uint64_t most_runs, Tell tell,
                               const std::function<std::optional<std::string>(Schedule&)>& program);

/// Runs `program` in `runs` orders drawn from seeds 1, 2 and so on, until one is wrong: for programs with
/// more orders than can be met.
[[nodiscard]] Explored sample(std::uint64_t runs,
                              const std::function<std::optional<std::string>(Schedule&)>& program);

}  // namespace kbtp::fake
