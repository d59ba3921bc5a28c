#include "base/shared_memory.h"

#include <atomic>

namespace kbtp {

namespace {

using Word = std::uint64_t;
constexpr std::size_t kWord = sizeof(Word);

/// Calls octet(i) for each octet in front of the first whole word of `shared` and behind the last one, and
/// word(i) for each whole word, i being its offset.
template <class OctetFunction, class WordFunction>
void for_each_part(const std::byte* shared, std::size_t size, OctetFunction octet, WordFunction word) {
  const std::size_t past = reinterpret_cast<std::uintptr_t>(shared) % kWord;
  const std::size_t front = std::min(past == 0 ? 0 : kWord - past, size);
  std::size_t i = 0;
  for (; i < front; ++i) octet(i);
  for (; size - i >= kWord; i += kWord) word(i);
  for (; i < size; ++i) octet(i);
}

// std::atomic_ref wants an object that is not const; load() does not write.
template <class T>
T load(const std::byte* at) {
  return std::atomic_ref<T>(*reinterpret_cast<T*>(const_cast<std::byte*>(at)))
      .load(std::memory_order_relaxed);
}
template <class T>
void store(std::byte* at, T value) {
  std::atomic_ref<T>(*reinterpret_cast<T*>(at)).store(value, std::memory_order_relaxed);
}

}  // namespace

void copy_from_shared(MutableOctets destination, Octets shared) {
  std::byte* to = destination.data();
  const std::byte* from = shared.data();
  for_each_part(
      from, shared.size(), [&](std::size_t i) { to[i] = load<std::byte>(from + i); },
      [&](std::size_t i) {
        const Word word = load<Word>(from + i);
        std::memcpy(to + i, &word, kWord);
      });
}

void copy_to_shared(MutableOctets shared, Octets source) {
  std::byte* to = shared.data();
  const std::byte* from = source.data();
  for_each_part(
      to, source.size(), [&](std::size_t i) { store<std::byte>(to + i, from[i]); },
      [&](std::size_t i) {
        Word word = 0;
        std::memcpy(&word, from + i, kWord);
        store<Word>(to + i, word);
      });
}

void fill_shared(MutableOctets shared, std::byte value) {
  std::byte* to = shared.data();
  Word word = 0;
  std::memset(&word, std::to_integer<int>(value), kWord);
  for_each_part(
      to, shared.size(), [&](std::size_t i) { store<std::byte>(to + i, value); },
      [&](std::size_t i) { store<Word>(to + i, word); });
}

}  // namespace kbtp
