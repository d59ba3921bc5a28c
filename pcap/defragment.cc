#include "pcap/defragment.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace kbtp::trace {

namespace {

constexpr std::size_t kLongest = 65535;
constexpr std::size_t kUnit = 8;

}  // namespace

Defragmenter::List::iterator Defragmenter::find(const IpFragment& fragment) {
  const auto same = [&](const Waiting& waiting) {
    return waiting.identification == fragment.identification && waiting.source == fragment.source &&
           waiting.destination == fragment.destination &&
           (fragment.source.v6 || waiting.protocol == fragment.protocol);
  };
  const auto known = std::ranges::find_if(waiting_, same);
  if (known != waiting_.end()) return known;
  if (waiting_.size() >= limits_.packets) drop_oldest();
  Waiting& fresh = waiting_.emplace_back();
  fresh.source = fragment.source;
  fresh.destination = fragment.destination;
  fresh.identification = fragment.identification;
  fresh.protocol = fragment.protocol;
  return std::prev(waiting_.end());
}

void Defragmenter::drop_oldest() {
  held_ -= waiting_.front().octets.size();
  waiting_.pop_front();
}

std::optional<Packet> Defragmenter::take(const IpFragment& fragment) {
  const std::size_t end = std::size_t{fragment.offset} + fragment.payload.size();
  if (fragment.payload.size() != fragment.payload_length || fragment.payload.empty() || end > kLongest)
    return std::nullopt;
  if (fragment.more && fragment.payload.size() % kUnit != 0) return std::nullopt;
  const auto at = find(fragment);
  Waiting& waiting = *at;
  if (fragment.offset == 0) waiting.protocol = fragment.protocol;
  if (!fragment.more) waiting.length = static_cast<std::uint32_t>(end);
  if (waiting.octets.size() < end) {
    held_ += end - waiting.octets.size();
    waiting.octets.resize(end);
    waiting.have.resize((end + kUnit - 1) / kUnit);
  }
  for (std::size_t from = fragment.offset; from < end; from += kUnit) {
    if (waiting.have[from / kUnit]) continue;
    waiting.have[from / kUnit] = true;
    ++waiting.units;
    const std::size_t n = std::min(kUnit, end - from);
    std::copy_n(fragment.payload.begin() + static_cast<std::ptrdiff_t>(from - fragment.offset), n,
                waiting.octets.begin() + static_cast<std::ptrdiff_t>(from));
  }
  if (waiting.length && waiting.units * kUnit >= *waiting.length &&
      waiting.octets.size() == *waiting.length) {
    held_ -= waiting.octets.size();
    done_ = std::move(*at);
    waiting_.erase(at);
    auto packet =
        decode_ip_payload(done_.protocol, done_.octets, *done_.length, done_.source, done_.destination);
    return packet ? std::optional<Packet>(std::move(*packet)) : std::nullopt;
  }
  while (held_ > limits_.octets) drop_oldest();
  return std::nullopt;
}

}  // namespace kbtp::trace
