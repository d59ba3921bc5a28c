// Received octets that are not understood yet. They lie in the loop's staging buffer, which stays in the
// second-level cache, as long as the stream is the last that received; when another stream of the loop needs
// the staging, the partial FPDU moves to memory of the stream's own. So a loop with one busy stream never
// copies a partial frame, and an idle stream keeps at most one.
//
// On the loop only.

#pragma once

#include <memory>
#include <vector>

#include "base/bytes.h"

namespace kbtp::rnic {

class InputBuffer;

/// One per loop.
class Staging {
 public:
  static constexpr std::size_t kOctets = 384 * 1024;
  /// One read asks for at most so many octets.
  static constexpr std::size_t kRead = 256 * 1024;

  Staging() : octets_(new std::byte[kOctets]) {}

  /// For one FPDU while it is looked at: the last caller's octets are gone.
  [[nodiscard]] MutableOctets scratch(std::size_t n) {
    if (scratch_.size() < n) scratch_.resize(n);
    return MutableOctets(scratch_).first(n);
  }

 private:
  friend class InputBuffer;
  std::unique_ptr<std::byte[]> octets_;
  std::vector<std::byte> scratch_;
  InputBuffer* owner_ = nullptr;
};

class InputBuffer {
 public:
  explicit InputBuffer(Staging& staging) : staging_(staging) {}
  ~InputBuffer() { clear(); }
  InputBuffer(const InputBuffer&) = delete;
  InputBuffer& operator=(const InputBuffer&) = delete;

  /// What has come and is not consumed. Good until room() of any stream of the loop.
  [[nodiscard]] Octets unread() const;
  void consume(std::size_t n);

  /// Where the next octets go: at least one whole FPDU's worth behind what is unread.
  [[nodiscard]] MutableOctets room();
  void filled(std::size_t n) { end_ += n; }

  void clear();

 private:
  void move_out();

  Staging& staging_;
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::vector<std::byte> own_;  // while another stream has the staging
};

}  // namespace kbtp::rnic
