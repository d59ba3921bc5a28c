#include "rdmap_binding/rnic/input_buffer.h"

#include <algorithm>
#include <cstring>

namespace kbtp::rnic {

namespace {
// A whole FPDU is at most 64776 octets (RFC 5044 3 and 4.1); room() always has more than that left.
constexpr std::size_t kLeastRoom = 128 * 1024;
}  // namespace

Octets InputBuffer::unread() const {
  if (staging_.owner_ == this) return Octets(staging_.octets_.get() + begin_, end_ - begin_);
  return own_;
}

void InputBuffer::consume(std::size_t n) {
  if (staging_.owner_ == this) {
    begin_ += n;
    if (begin_ == end_) begin_ = end_ = 0;
  } else {
    own_.erase(own_.begin(), own_.begin() + static_cast<std::ptrdiff_t>(n));
  }
}

MutableOctets InputBuffer::room() {
  std::byte* const octets = staging_.octets_.get();
  if (staging_.owner_ != this) {
    if (staging_.owner_ != nullptr) staging_.owner_->move_out();
    staging_.owner_ = this;
    begin_ = 0;
    end_ = own_.size();
    if (!own_.empty()) std::memcpy(octets, own_.data(), own_.size());
    own_ = {};
  }
  if (Staging::kOctets - end_ < kLeastRoom) {
    std::memmove(octets, octets + begin_, end_ - begin_);
    end_ -= begin_;
    begin_ = 0;
  }
  return MutableOctets(octets + end_, std::min(Staging::kRead, Staging::kOctets - end_));
}

void InputBuffer::move_out() {
  own_.assign(staging_.octets_.get() + begin_, staging_.octets_.get() + end_);
  begin_ = end_ = 0;
  staging_.owner_ = nullptr;
}

void InputBuffer::clear() {
  if (staging_.owner_ == this) staging_.owner_ = nullptr;
  begin_ = end_ = 0;
  own_ = {};
}

}  // namespace kbtp::rnic
