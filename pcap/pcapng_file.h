// pcapng files (draft-ietf-opsawg-pcapng) read without a copy: blocks one behind the other, of which some are
// frames and others describe the interfaces that these came from. libpcap reads only files whose interfaces
// all have one link type and one snap length; those that `dumpcap -i eth0 -i lo` and mergecap write often
// do not.

#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "pcap/byte_source.h"
#include "pcap/frame.h"

namespace kbtp::trace {

class PcapngFile {
 public:
  /// Whether `source` begins with a Section Header Block; nothing, with the source untouched, when not.
  [[nodiscard]] static std::optional<PcapngFile> begin(ByteSource& source);

  /// The next frame, all but its number; nothing at the end or where it can be read no further. Its octets
  /// are valid until the next call. Its link type is that of its interface, known to LinkType or not.
  [[nodiscard]] std::optional<FrameView> next(ByteSource& source);
  /// Why reading stopped before the end; empty when it did not.
  [[nodiscard]] const std::string& damage() const { return damage_; }

 private:
  struct Interface {
    LinkType link = LinkType::ethernet;
    std::uint32_t snap_length = 0;  ///< 0: none
    std::uint8_t resolution = 6;    ///< if_tsresol: a negative power of 10, or of 2 with the upper bit
    std::int64_t offset = 0;        ///< if_tsoffset: seconds to add
  };

  [[nodiscard]] std::uint16_t u16(Octets octets, std::size_t at) const;
  [[nodiscard]] std::uint32_t u32(Octets octets, std::size_t at) const;
  [[nodiscard]] std::uint64_t u64(Octets octets, std::size_t at) const;
  /// The next block from its type to its closing length; nothing at the end and with damage_ set.
  [[nodiscard]] std::optional<Octets> block(ByteSource& source);
  /// Which byte order the section has.
  [[nodiscard]] bool begin_section(Octets head);
  [[nodiscard]] std::optional<FrameView> read_packet(std::uint32_t type, Octets body);
  [[nodiscard]] std::optional<FrameView> frame_of(std::uint32_t interface, std::uint64_t time,
                                                  std::uint32_t captured, std::uint32_t on_wire, Octets data);
  void describe_interface(Octets body);
  std::nullopt_t damaged(std::string why);

  bool swapped_ = false;  ///< the section's integers are little-endian
  std::vector<Interface> interfaces_;
  std::size_t used_ = 0;  ///< octets of the block that was read last
  std::string damage_;
};

}  // namespace kbtp::trace
