// Classic capture files (pcap 2.4) read without a copy: a header of 24 octets, then 16 octets in front of
// each frame. Byte order and the unit of times follow from the magic number. libpcap reads these too; this is
// several times faster (docs/design.md).

#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "pcap/byte_source.h"
#include "pcap/frame.h"

namespace kbtp::trace {

class ClassicFile {
 public:
  /// Reads the header at the start of `source`; nothing, with the source untouched, when it is another kind
  /// of file. `link_number` is its LINKTYPE_ number, known to us or not.
  [[nodiscard]] static std::optional<ClassicFile> begin(ByteSource& source);

  [[nodiscard]] std::uint32_t link_number() const { return link_number_; }

  /// The next frame, all but its number and link type; nothing at the end or where it can be read no further.
  /// Its octets are valid until the next call.
  [[nodiscard]] std::optional<FrameView> next(ByteSource& source);
  /// Why reading stopped before the end; empty when it did not.
  [[nodiscard]] const std::string& damage() const { return damage_; }

 private:
  bool swapped_ = false;  ///< the file's integers are little-endian
  bool nanoseconds_ = false;
  std::uint32_t link_number_ = 0;
  std::size_t used_ = 0;  ///< octets of the frame that was returned last
  std::string damage_;
};

}  // namespace kbtp::trace
