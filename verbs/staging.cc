#include "verbs/staging.h"

namespace kbtp::verbs {

std::optional<MutableOctets> StagingRing::take(std::size_t size) {
  if (size > memory_.size()) return std::nullopt;
  if (size == 0) {
    ends_.push_back(taken_);
    return MutableOctets{};
  }
  if (ends_.empty()) given_back_ = taken_ = 0;
  std::uint64_t begin = taken_;
  const std::uint64_t to_the_end = memory_.size() - begin % memory_.size();
  if (size > to_the_end) begin += to_the_end;
  if (begin + size - given_back_ > memory_.size()) return std::nullopt;
  taken_ = begin + size;
  ends_.push_back(taken_);
  return memory_.subspan(begin % memory_.size(), size);
}

void StagingRing::give_back() {
  given_back_ = ends_.front();
  ends_.pop_front();
}

}  // namespace kbtp::verbs
