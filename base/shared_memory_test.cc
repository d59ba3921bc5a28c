#include "base/shared_memory.h"

#include <gtest/gtest.h>
#include <thread>

namespace kbtp {
namespace {

std::vector<std::byte> counting(std::size_t size) {
  std::vector<std::byte> octets(size);
  for (std::size_t i = 0; i < size; ++i) octets[i] = static_cast<std::byte>(i * 37 + 1);
  return octets;
}

TEST(SharedMemory, CopiesExactlyTheOctetsAtEveryAlignment) {
  constexpr std::size_t kSize = 64;
  constexpr std::byte kGuard{0xEE};
  const auto source = counting(kSize);
  for (std::size_t start = 0; start < 17; ++start) {
    for (std::size_t length = 0; start + length <= kSize - 9; ++length) {
      for (std::size_t other = 0; other < 9; ++other) {  // the private side needs no alignment
        SCOPED_TRACE(testing::Message() << start << " " << length << " " << other);
        std::vector<std::byte> memory(kSize, kGuard);
        std::vector<std::byte> expected(kSize, kGuard);
        copy_to_shared(MutableOctets(memory).subspan(start, length), Octets(source).subspan(other, length));
        std::copy_n(source.begin() + static_cast<std::ptrdiff_t>(other), length,
                    expected.begin() + static_cast<std::ptrdiff_t>(start));
        ASSERT_EQ(memory, expected);
        std::vector<std::byte> out(kSize, kGuard);
        copy_from_shared(MutableOctets(out).subspan(other, length), Octets(memory).subspan(start, length));
        ASSERT_TRUE(std::equal(source.begin() + static_cast<std::ptrdiff_t>(other),
                               source.begin() + static_cast<std::ptrdiff_t>(other + length),
                               out.begin() + static_cast<std::ptrdiff_t>(other)));
        ASSERT_EQ(std::count(out.begin(), out.begin() + static_cast<std::ptrdiff_t>(other), kGuard), other);
        ASSERT_EQ(out[other + length], kGuard);
        fill_shared(MutableOctets(memory).subspan(start, length), kGuard);
        ASSERT_EQ(memory, std::vector<std::byte>(kSize, kGuard));
      }
    }
  }
}

/// ThreadSanitizer tells if an access is a plain one; without it, that each word is one writer's.
TEST(SharedMemory, WriterAndReaderMayMeet) {
  constexpr std::size_t kSize = 4096;
  constexpr int kRounds = 500;
  std::vector<std::byte> memory(kSize);
  std::thread writer([&] {
    for (int i = 0; i < kRounds; ++i) {
      const std::vector<std::byte> source(kSize - 6, static_cast<std::byte>(i));
      copy_to_shared(MutableOctets(memory).subspan(3, kSize - 6), source);
      fill_shared(memory, std::byte{0x77});
    }
  });
  std::thread reader([&] {
    std::vector<std::byte> out(kSize);
    for (int i = 0; i < kRounds; ++i) {
      copy_from_shared(out, memory);
      for (std::size_t at = 8; at + 8 < kSize; at += 8) {
        ASSERT_TRUE(std::all_of(out.begin() + static_cast<std::ptrdiff_t>(at),
                                out.begin() + static_cast<std::ptrdiff_t>(at + 8),
                                [&](std::byte octet) { return octet == out[at]; }));
      }
    }
  });
  writer.join();
  reader.join();
}

}  // namespace
}  // namespace kbtp
