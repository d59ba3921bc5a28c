// Reads a file ahead of whoever takes its octets, in a thread of its own: while one chunk is decoded the next
// ones are copied from the kernel. Holds a fixed number of chunks. next() and octets: one thread.

#pragma once

#include <array>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "base/bytes.h"

namespace kbtp::trace {

class ReadAhead {
 public:
  /// In front of a chunk, for what was left of the one before.
  static constexpr std::size_t kHeadroom = std::size_t{64} << 10;
  static constexpr std::size_t kChunk = std::size_t{256} << 10;

  /// Reads `file`, which stays the caller's and is open as long as this is, from where it stands. Nothing
  /// when no thread can be had.
  [[nodiscard]] static std::unique_ptr<ReadAhead> start(int file);
  ReadAhead(const ReadAhead&) = delete;
  ReadAhead& operator=(const ReadAhead&) = delete;
  ~ReadAhead();

  /// The next octets, empty at the end or when reading failed; they, and the kHeadroom octets in front of
  /// them, are the caller's until the next but one call.
  [[nodiscard]] MutableOctets next();
  /// errno of what ended the reading; 0 when the file did. After next() returned nothing.
  [[nodiscard]] int error() const { return error_; }

 private:
  static constexpr std::size_t kSlots = 6;
  struct Slot {
    std::vector<std::byte> octets;
    std::size_t size = 0;
  };

  explicit ReadAhead(int file);
  void run();
  [[nodiscard]] Slot& slot(std::uint64_t number) { return slots_[number % kSlots]; }

  int file_;
  std::array<Slot, kSlots> slots_;
  std::mutex mutex_;
  std::condition_variable changed_;
  // Under mutex_:
  std::uint64_t read_ = 0;   ///< chunks that are there or were
  std::uint64_t taken_ = 0;  ///< of these, given out
  bool over_ = false;
  bool stop_ = false;
  int error_ = 0;
  std::thread thread_;
};

}  // namespace kbtp::trace
