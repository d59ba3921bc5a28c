// The FPDUs that are built and not yet wholly taken by TCP: octets of their own (headers, padding, CRCs,
// private copies of payload) in one arena, and payload where it lies, as one list for sendmsg().
//
// A window is filled, sent to its end, then filled again: that keeps the arena a plain array, and the CRC of
// a window's payload is made just before the kernel copies the same octets.
//
// With markers (the peer asked for them) all octets are copied into the arena, 508 between two markers: runs
// that short are cheaper to copy than to hand to sendmsg() one by one, of which a large FPDU would have 128.

#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <sys/uio.h>
#include <vector>

#include "base/bytes.h"
#include "base/crc32c.h"
#include "proto/rdma/region.h"
#include "rdmap_binding/mpa/marker.h"

namespace kbtp::rnic {

class SendWindow {
 public:
  /// Octets and FPDUs of a full window. CRCs on: what stays in the second-level cache between CRC and copy.
  static constexpr std::size_t kOctetsWithCrc = 256 * 1024;
  static constexpr std::size_t kOctets = 1024 * 1024;
  static constexpr std::size_t kFpdus = 128;

  enum class Source : std::uint8_t {
    in_place,  ///< sent from where it lies; must not change until it is sent
    copied,    ///< copied into the arena now
    words,     ///< read word by word with acquire into the arena now
    shared,    ///< read with relaxed atomic accesses into the arena now (Content::shared)
  };
  struct Payload {
    Octets octets;
    Source source = Source::in_place;
    rdma::STag stag = 0;  ///< in place: the region it belongs to; 0 for the poster's own memory
  };

  /// What is known about one FPDU until the last of it is taken.
  struct Fpdu {
    std::size_t begin = 0;             ///< octets of the window in front of its length field
    std::size_t end = 0;               ///< octets of the window up to its end
    const std::byte* start = nullptr;  ///< its length field, followed by the DDP header, free of markers
    std::uint64_t completes = 0;       ///< number of the posted request that this FPDU ends; 0 = none
    bool in_place = false;             ///< its payload is a piece of its own, not in the arena
    std::size_t payload_index = 0;     ///< which piece
    rdma::STag stag = 0;               ///< the region it lies in; 0 for the poster's own memory
  };

  explicit SendWindow(bool crc) : crc_(crc) {}
  void set_crc(bool crc) { crc_ = crc; }
  /// From the first FPDU on: the direction's first octet is a marker.
  void set_markers() { markers_.emplace(); }
  [[nodiscard]] bool markers() const { return markers_.has_value(); }

  /// Whether one more FPDU may be appended before the window is sent.
  [[nodiscard]] bool has_room(std::size_t largest_fpdu) const;
  /// `ulpdu_header` is what stands in the FPDU between its length field and its payload.
  void append(Octets ulpdu_header, const Payload& payload, std::uint64_t completes);
  /// Start-up frames: octets that are no FPDU.
  void append_raw(Octets octets);

  [[nodiscard]] bool empty() const { return sent_ == total_; }
  [[nodiscard]] std::span<const iovec> pieces() const;
  /// Those up to the end of the first FPDU that is not wholly taken.
  [[nodiscard]] std::span<const iovec> pieces_of_one();
  /// `n` more octets are taken; calls done(fpdu) for each FPDU that ended with them.
  template <class F>
  void sent(std::size_t n, F&& done) {
    advance(n);
    while (next_fpdu_ < fpdus_.size() && fpdus_[next_fpdu_].end <= sent_) done(fpdus_[next_fpdu_++]);
    if (sent_ == total_) reset();
  }
  /// Gives up what is not sent yet.
  void reset();

  /// The memory behind `stag` is about to go away: what is still to be sent from it is copied.
  void make_private(rdma::STag stag);
  /// Likewise for every payload, whoever owns it.
  void make_all_private();

 private:
  void append_payload(Fpdu& fpdu, const Payload& payload, Crc32c& crc);
  void append_marked(Fpdu& fpdu, Octets front, const Payload& payload, std::size_t pad);
  void put_marked(Octets clean, Crc32c& crc);
  void put_due_marker(Crc32c& crc);
  void put_copy(Octets octets, Crc32c& crc);
  void copy_payload(Fpdu& fpdu);
  std::byte* arena(std::size_t n);
  void push_piece(const std::byte* data, std::size_t size);
  void advance(std::size_t n);

  bool crc_;
  std::optional<mpa::MarkerInserter> markers_;
  std::vector<std::byte> words_;  // with markers: a payload of words, copied before it is cut
  std::unique_ptr<std::byte[]> arena_;
  std::size_t arena_used_ = 0;
  std::vector<iovec> pieces_;
  std::size_t next_piece_ = 0;
  std::vector<iovec> one_;
  std::vector<Fpdu> fpdus_;
  std::size_t next_fpdu_ = 0;
  std::size_t total_ = 0;
  std::size_t sent_ = 0;
  std::vector<std::unique_ptr<std::byte[]>> private_;
};

/// Copies octets out of a region of 64-bit words, each word by one atomic load with acquire; `source` may
/// begin and end inside a word.
void copy_words(MutableOctets destination, Octets source);

}  // namespace kbtp::rnic
