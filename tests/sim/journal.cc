#include "tests/sim/journal.h"

#include <fmt/format.h>
#include <utility>

namespace kbtp::sim {

namespace {
constexpr std::size_t kFailuresKept = 10;

std::int64_t nanoseconds(TimePoint t) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(t.time_since_epoch()).count();
}
}  // namespace

void Journal::fold(std::uint64_t number) {
  hash_ ^= number;
  hash_ *= 0x0000'0100'0000'01B3u;
  hash_ ^= hash_ >> 29;
}

void Journal::note(TimePoint now, std::string_view what, std::initializer_list<std::uint64_t> numbers) {
  fold(static_cast<std::uint64_t>(nanoseconds(now)));
  for (const char c : what) fold(static_cast<std::uint64_t>(c));
  for (const std::uint64_t number : numbers) fold(number);
  if (!print_) return;
  fmt::print("{:>14} {}", nanoseconds(now), what);
  for (const std::uint64_t number : numbers) fmt::print(" {:x}", number);
  fmt::print("\n");
}

void Journal::fail(TimePoint now, std::string text) {
  note(now, text, {});
  if (failures_.size() < kFailuresKept) failures_.push_back(std::move(text));
}

}  // namespace kbtp::sim
