#include "tools/content.h"

#include <algorithm>
#include <cstring>

namespace kbtp::tools {

namespace {

constexpr std::uint64_t kStep = 0x9e3779b97f4a7c15;  // odd, so that words repeat only after 2^64
constexpr std::size_t kWord = sizeof(std::uint64_t);
constexpr std::size_t kChunkWords = 512;

constexpr std::uint64_t scramble(std::uint64_t x) {
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9;
  x = (x ^ (x >> 27)) * 0x94d049bb133111eb;
  return x ^ (x >> 31);
}

constexpr std::uint64_t first_word(ContentKey key) {
  return scramble(scramble(key.hash_id + kStep) + key.times_stored);
}

// The word at `index`, in memory order, as octets of a piece that may be shorter than a word.
void partial_word(std::uint64_t word, std::byte (&octets)[kWord]) { std::memcpy(octets, &word, kWord); }

}  // namespace

void make_content(ContentKey key, MutableOctets destination) {
  const std::uint64_t first = first_word(key);
  const std::size_t words = destination.size() / kWord;
  std::byte* p = destination.data();
  for (std::size_t i = 0; i < words; ++i) {
    const std::uint64_t word = first + i * kStep;
    std::memcpy(p + i * kWord, &word, kWord);
  }
  if (const std::size_t rest = destination.size() % kWord; rest > 0) {
    std::byte tail[kWord];
    partial_word(first + words * kStep, tail);
    std::memcpy(p + words * kWord, tail, rest);
  }
}

std::optional<std::size_t> find_wrong_octet(ContentKey key, Octets octets) {
  const std::uint64_t first = first_word(key);
  const std::size_t words = octets.size() / kWord;
  const std::byte* p = octets.data();
  // Whole chunks without a branch a word; only a chunk that differs is looked at again.
  for (std::size_t begin = 0; begin < words; begin += kChunkWords) {
    const std::size_t end = std::min(words, begin + kChunkWords);
    std::uint64_t difference = 0;
    for (std::size_t i = begin; i < end; ++i) {
      std::uint64_t word;
      std::memcpy(&word, p + i * kWord, kWord);
      difference |= word ^ (first + i * kStep);
    }
    if (difference == 0) continue;
    for (std::size_t at = begin * kWord; at < end * kWord; ++at) {
      std::byte expected[kWord];
      partial_word(first + (at / kWord) * kStep, expected);
      if (p[at] != expected[at % kWord]) return at;
    }
  }
  std::byte tail[kWord];
  partial_word(first + words * kStep, tail);
  for (std::size_t at = words * kWord; at < octets.size(); ++at) {
    if (p[at] != tail[at % kWord]) return at;
  }
  return std::nullopt;
}

}  // namespace kbtp::tools
