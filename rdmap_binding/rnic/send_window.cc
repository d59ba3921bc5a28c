#include "rdmap_binding/rnic/send_window.h"

#include <algorithm>
#include <atomic>
#include <cstring>

#include "base/crc32c.h"
#include "base/shared_memory.h"

namespace kbtp::rnic {

namespace {
constexpr std::size_t kLengthField = 2;                          // ULPDU_Length (RFC 5044 4.1)
constexpr std::size_t kCrcField = 4;                             // RFC 5044 4.1
constexpr std::size_t kLargestFpdu = 2 + 64768 + 2 + kCrcField;  // RFC 5044 3: MULPDU is at most 64768
constexpr std::size_t kSmallHeaders = 128;  // longest header (RFC 7306 Atomic Request) with its FPDU fields
constexpr std::size_t kArena = SendWindow::kOctetsWithCrc + kLargestFpdu + SendWindow::kFpdus * kSmallHeaders;
// Below this, copying a payload is cheaper than one more piece in the list of sendmsg().
constexpr std::size_t kCopyBelow = 1024;
}  // namespace

void copy_words(MutableOctets destination, Octets source) {
  const auto address = reinterpret_cast<std::uintptr_t>(source.data());
  const std::byte* word_at = source.data() - address % 8;
  std::size_t skip = address % 8;
  std::size_t done = 0;
  while (done < destination.size()) {
    // An atomic_ref needs a non-const object; load() does not write.
    auto* object = reinterpret_cast<std::uint64_t*>(const_cast<std::byte*>(word_at));
    const std::uint64_t word = std::atomic_ref<std::uint64_t>(*object).load(std::memory_order_acquire);
    const std::size_t n = std::min(8 - skip, destination.size() - done);
    std::memcpy(destination.data() + done, reinterpret_cast<const std::byte*>(&word) + skip, n);
    done += n;
    word_at += 8;
    skip = 0;
  }
}

bool SendWindow::has_room(std::size_t largest_fpdu) const {
  const std::size_t limit = crc_ ? kOctetsWithCrc : kOctets;
  return fpdus_.size() < kFpdus && total_ < limit && kArena - arena_used_ >= largest_fpdu + kSmallHeaders;
}

std::byte* SendWindow::arena(std::size_t n) {
  if (!arena_) arena_.reset(new std::byte[kArena]);  // not value-initialized: pages are touched when used
  std::byte* p = arena_.get() + arena_used_;
  arena_used_ += n;
  return p;
}

void SendWindow::push_piece(const std::byte* data, std::size_t size) {
  if (size == 0) return;
  total_ += size;
  if (!pieces_.empty()) {
    iovec& last = pieces_.back();
    if (static_cast<std::byte*>(last.iov_base) + last.iov_len == data) {
      last.iov_len += size;
      return;
    }
  }
  pieces_.push_back({const_cast<std::byte*>(data), size});
}

void SendWindow::append(Octets ulpdu_header, const Payload& payload, std::uint64_t completes) {
  const std::size_t ulpdu = ulpdu_header.size() + payload.octets.size();
  const std::size_t pad = (4 - (kLengthField + ulpdu) % 4) % 4;  // RFC 5044 4.1
  std::byte* start = arena(kLengthField + ulpdu_header.size());
  store_be(start, static_cast<std::uint16_t>(ulpdu));
  std::memcpy(start + kLengthField, ulpdu_header.data(), ulpdu_header.size());
  const Octets front(start, kLengthField + ulpdu_header.size());

  Fpdu fpdu;
  fpdu.start = start;
  fpdu.completes = completes;
  if (markers_) {
    append_marked(fpdu, front, payload, pad);
    return;
  }
  fpdu.begin = total_;
  push_piece(start, front.size());
  Crc32c crc;
  if (crc_) crc.update(front);
  append_payload(fpdu, payload, crc);
  std::byte* trailer = arena(pad + kCrcField);
  std::memset(trailer, 0, pad + kCrcField);
  if (crc_) {
    crc.update(Octets(trailer, pad));
    store_crc32c(trailer + pad, crc.value());
  }
  push_piece(trailer, pad + kCrcField);
  fpdu.end = total_;
  fpdus_.push_back(fpdu);
}

void SendWindow::append_payload(Fpdu& fpdu, const Payload& payload, Crc32c& crc) {
  if (payload.source == Source::in_place && payload.octets.size() >= kCopyBelow) {
    if (crc_) crc.update(payload.octets);
    // A piece of its own, so that make_private() can find it.
    pieces_.push_back({const_cast<std::byte*>(payload.octets.data()), payload.octets.size()});
    total_ += payload.octets.size();
    fpdu.in_place = true;
    fpdu.payload_index = pieces_.size() - 1;
    fpdu.stag = payload.stag;
  } else if (!payload.octets.empty()) {
    const MutableOctets copy(arena(payload.octets.size()), payload.octets.size());
    if (payload.source == Source::words) {
      copy_words(copy, payload.octets);
      if (crc_) crc.update(copy);
    } else if (payload.source == Source::shared) {
      copy_from_shared(copy, payload.octets);
      if (crc_) crc.update(copy);
    } else if (crc_) {
      copy_with_crc(copy, payload.octets, crc);
    } else {
      std::memcpy(copy.data(), payload.octets.data(), copy.size());
    }
    push_piece(copy.data(), copy.size());
  }
}

// --- Markers ---------------------------------------------------------------------------------------------

void SendWindow::append_marked(Fpdu& fpdu, Octets front, const Payload& payload, std::size_t pad) {
  Crc32c crc;
  markers_->begin_fpdu();
  put_due_marker(crc);  // between FPDUs: the first octets of this one's CRC (RFC 5044 4.4)
  fpdu.begin = total_;
  put_marked(front, crc);
  Octets source = payload.octets;
  if (payload.source == Source::words || payload.source == Source::shared) {
    // 508 is no multiple of a word: each word is read once, before the payload is cut.
    words_.resize(source.size());
    if (payload.source == Source::words) {
      copy_words(words_, source);
    } else {
      copy_from_shared(words_, source);
    }
    source = words_;
  }
  put_marked(source, crc);
  constexpr std::array<std::byte, mpa::kMaxPad> kZeros{};
  put_marked(Octets(kZeros).first(pad), crc);
  put_due_marker(crc);  // between PAD and CRC
  std::array<std::byte, kCrcField> field{};
  if (crc_) store_crc32c(field.data(), crc.value());
  put_marked(field, crc);
  fpdu.end = total_;
  fpdus_.push_back(fpdu);
}

void SendWindow::put_marked(Octets clean, Crc32c& crc) {
  while (!clean.empty()) {
    put_due_marker(crc);
    const Octets run = clean.first(std::min(clean.size(), markers_->run()));
    put_copy(run, crc);
    markers_->advance(run.size());
    clean = clean.subspan(run.size());
  }
}

void SendWindow::put_due_marker(Crc32c& crc) {
  if (markers_->marker_due()) put_copy(markers_->next_marker(), crc);
}

void SendWindow::put_copy(Octets octets, Crc32c& crc) {
  const MutableOctets copy(arena(octets.size()), octets.size());
  if (crc_) {
    copy_with_crc(copy, octets, crc);
  } else {
    std::memcpy(copy.data(), octets.data(), copy.size());
  }
  push_piece(copy.data(), copy.size());
}

void SendWindow::append_raw(Octets octets) {
  std::byte* copy = arena(octets.size());
  std::memcpy(copy, octets.data(), octets.size());
  push_piece(copy, octets.size());
}

std::span<const iovec> SendWindow::pieces() const { return std::span(pieces_).subspan(next_piece_); }

std::span<const iovec> SendWindow::pieces_of_one() {
  std::size_t left = (next_fpdu_ < fpdus_.size() ? fpdus_[next_fpdu_].end : total_) - sent_;
  one_.clear();
  for (const iovec& piece : pieces()) {
    if (left == 0) break;
    one_.push_back({piece.iov_base, std::min(piece.iov_len, left)});
    left -= one_.back().iov_len;
  }
  return one_;
}

void SendWindow::advance(std::size_t n) {
  sent_ += n;
  while (n != 0) {
    iovec& piece = pieces_[next_piece_];
    const std::size_t taken = std::min(n, piece.iov_len);
    piece.iov_base = static_cast<std::byte*>(piece.iov_base) + taken;
    piece.iov_len -= taken;
    n -= taken;
    if (piece.iov_len == 0) ++next_piece_;
  }
}

void SendWindow::reset() {
  arena_used_ = 0;
  pieces_.clear();
  next_piece_ = 0;
  fpdus_.clear();
  next_fpdu_ = 0;
  total_ = sent_ = 0;
  private_.clear();
}

void SendWindow::make_private(rdma::STag stag) {
  for (std::size_t i = next_fpdu_; i < fpdus_.size(); ++i) {
    if (fpdus_[i].stag == stag) copy_payload(fpdus_[i]);
  }
}

void SendWindow::make_all_private() {
  for (std::size_t i = next_fpdu_; i < fpdus_.size(); ++i) copy_payload(fpdus_[i]);
}

void SendWindow::copy_payload(Fpdu& fpdu) {
  if (!fpdu.in_place) return;
  fpdu.in_place = false;
  if (fpdu.payload_index < next_piece_) return;  // all of it is sent
  iovec& piece = pieces_[fpdu.payload_index];
  auto& copy = private_.emplace_back(new std::byte[piece.iov_len]);
  std::memcpy(copy.get(), piece.iov_base, piece.iov_len);
  piece.iov_base = copy.get();
}

}  // namespace kbtp::rnic
