#include "pcap/read_ahead.h"

#include <cerrno>
#include <system_error>
#include <unistd.h>

namespace kbtp::trace {

namespace {

/// Reads until `to` is full or the file ends; less than asked for at its end only. Negative: errno.
ssize_t read_whole(int file, MutableOctets to) {
  std::size_t size = 0;
  while (size < to.size()) {
    const ssize_t n = ::read(file, to.data() + size, to.size() - size);
    if (n == 0) break;
    if (n < 0 && errno != EINTR) return size > 0 ? static_cast<ssize_t>(size) : -errno;
    if (n > 0) size += static_cast<std::size_t>(n);
  }
  return static_cast<ssize_t>(size);
}

}  // namespace

std::unique_ptr<ReadAhead> ReadAhead::start(int file) {
  std::unique_ptr<ReadAhead> reader(new ReadAhead(file));
  try {
    reader->thread_ = std::thread([raw = reader.get()] { raw->run(); });
  } catch (const std::system_error&) {
    return nullptr;
  }
  return reader;
}

ReadAhead::ReadAhead(int file) : file_(file) {
  for (Slot& slot : slots_) slot.octets.resize(kHeadroom + kChunk);
}

ReadAhead::~ReadAhead() {
  {
    const std::lock_guard lock(mutex_);
    stop_ = true;
  }
  changed_.notify_all();
  if (thread_.joinable()) thread_.join();
}

/// Two slots are the caller's, the others are filled. So that threads do not wake each other for every chunk,
/// the reader waits until half of its slots are free again.
void ReadAhead::run() {
  constexpr std::uint64_t kAhead = kSlots - 2;
  std::unique_lock lock(mutex_);
  while (!stop_) {
    if (read_ - taken_ >= kAhead) {
      changed_.wait(lock, [this] { return stop_ || read_ - taken_ <= kAhead / 2; });
      continue;
    }
    Slot& to = slot(read_);
    lock.unlock();
    const ssize_t n = read_whole(file_, MutableOctets(to.octets).subspan(kHeadroom));
    lock.lock();
    if (n <= 0) {
      error_ = static_cast<int>(-n);
      over_ = true;
    } else {
      to.size = static_cast<std::size_t>(n);
      ++read_;
    }
    if (over_ || read_ - taken_ == 1) changed_.notify_all();
    if (over_) return;
  }
}

MutableOctets ReadAhead::next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return over_ || read_ != taken_; });
  if (read_ == taken_) return {};
  Slot& from = slot(taken_++);
  if (read_ - taken_ == (kSlots - 2) / 2) changed_.notify_all();
  return MutableOctets(from.octets).subspan(kHeadroom, from.size);
}

}  // namespace kbtp::trace
