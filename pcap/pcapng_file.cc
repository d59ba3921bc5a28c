#include "pcap/pcapng_file.h"

#include <algorithm>
#include <array>
#include <utility>

namespace kbtp::trace {

namespace {

constexpr std::uint32_t kSectionHeader = 0x0A0D0D0A;  // the same in either byte order
constexpr std::uint32_t kByteOrder = 0x1A2B3C4D;
constexpr std::uint32_t kInterfaceDescription = 1;
constexpr std::uint32_t kPacket = 2;  // obsolete
constexpr std::uint32_t kSimplePacket = 3;
constexpr std::uint32_t kEnhancedPacket = 6;
constexpr std::size_t kBlockHeader = 8;   // type, length
constexpr std::size_t kBlockTrailer = 4;  // the length again
constexpr std::size_t kPacketHead = 20;
constexpr std::size_t kMostInterfaces = 65536;

constexpr std::uint16_t kEndOfOptions = 0;
constexpr std::uint16_t kTimeResolution = 9;
constexpr std::uint16_t kTimeOffset = 14;

/// `time` in units that if_tsresol tells. Any value may come: what does not fit wraps.
std::int64_t nanoseconds(std::uint64_t time, std::uint8_t resolution) {
  constexpr std::uint64_t kNsPerSecond = 1'000'000'000;
  constexpr unsigned kFits = 34;  // so many bits of a second, in nanoseconds, fit into 64
  const unsigned power = resolution & 0x7FU;
  std::uint64_t ns = time;
  if ((resolution & 0x80U) != 0) {
    const std::uint64_t seconds = power < 64 ? time >> power : 0;
    std::uint64_t fraction = power < 64 ? time - (seconds << power) : time;
    const unsigned excess = power > kFits ? power - kFits : 0;
    fraction = excess < 64 ? fraction >> excess : 0;
    ns = seconds * kNsPerSecond + (fraction * kNsPerSecond >> (power - excess));
  } else {
    for (unsigned i = power; i < 9; ++i) ns *= 10;
    for (unsigned i = 9; i < power && ns != 0; ++i) ns /= 10;
  }
  return static_cast<std::int64_t>(ns);
}

/// 12 and 14 are raw IP in files of some systems.
LinkType link_of(std::uint16_t number) {
  return number == 12 || number == 14 ? LinkType::raw_ip : static_cast<LinkType>(number);
}

}  // namespace

std::uint16_t PcapngFile::u16(Octets octets, std::size_t at) const {
  const auto value = load_be<std::uint16_t>(octets.data() + at);
  return swapped_ ? __builtin_bswap16(value) : value;
}
std::uint32_t PcapngFile::u32(Octets octets, std::size_t at) const {
  const auto value = load_be<std::uint32_t>(octets.data() + at);
  return swapped_ ? __builtin_bswap32(value) : value;
}
std::uint64_t PcapngFile::u64(Octets octets, std::size_t at) const {
  const auto value = load_be<std::uint64_t>(octets.data() + at);
  return swapped_ ? __builtin_bswap64(value) : value;
}

std::nullopt_t PcapngFile::damaged(std::string why) {
  damage_ = std::move(why);
  return std::nullopt;
}

std::optional<PcapngFile> PcapngFile::begin(ByteSource& source) {
  const Octets head = source.peek(kBlockHeader + 4);
  PcapngFile file;
  if (head.size() < kBlockHeader + 4 || load_be<std::uint32_t>(head.data()) != kSectionHeader ||
      !file.begin_section(head))
    return std::nullopt;
  return file;
}

bool PcapngFile::begin_section(Octets head) {
  const auto order = load_be<std::uint32_t>(head.data() + kBlockHeader);
  swapped_ = order == __builtin_bswap32(kByteOrder);
  interfaces_.clear();
  return swapped_ || order == kByteOrder;
}

std::optional<Octets> PcapngFile::block(ByteSource& source) {
  source.consume(std::exchange(used_, 0));
  Octets octets = source.peek(kBlockHeader + 4);
  if (octets.empty()) return std::nullopt;
  if (octets.size() < kBlockHeader + 4)
    return damaged("the file breaks off inside the head of the next block");
  if (load_be<std::uint32_t>(octets.data()) == kSectionHeader && !begin_section(octets))
    return damaged("the next section has no byte order");
  const std::size_t size = u32(octets, 4);
  if (size < kBlockHeader + kBlockTrailer || size % 4 != 0 || size > ByteSource::kMaxPeek)
    return damaged("the next block claims to have " + std::to_string(size) + " octets");
  if (octets.size() < size) octets = source.peek(size);
  if (octets.size() < size) return damaged("the file breaks off inside the next block");
  if (u32(octets, size - kBlockTrailer) != size) return damaged("the next block has two lengths");
  used_ = size;
  return octets.first(size);
}

std::optional<FrameView> PcapngFile::next(ByteSource& source) {
  while (damage_.empty()) {
    const auto octets = block(source);
    if (!octets) return std::nullopt;
    const std::uint32_t type = u32(*octets, 0);
    const Octets body = octets->subspan(kBlockHeader, octets->size() - kBlockHeader - kBlockTrailer);
    if (type == kInterfaceDescription) {
      describe_interface(body);
    } else if (type == kEnhancedPacket || type == kPacket || type == kSimplePacket) {
      return read_packet(type, body);
    }
  }
  return std::nullopt;
}

/// Link type, two octets, snap length, options.
void PcapngFile::describe_interface(Octets body) {
  constexpr std::size_t kHead = 8;
  if (body.size() < kHead || interfaces_.size() >= kMostInterfaces) {
    damage_ = "the next interface cannot be described so";
    return;
  }
  Interface interface{.link = link_of(u16(body, 0)), .snap_length = u32(body, 4)};
  for (std::size_t at = kHead; body.size() - at >= 4;) {
    const std::uint16_t code = u16(body, at);
    const std::size_t length = u16(body, at + 2);
    at += 4;
    if (code == kEndOfOptions || length > body.size() - at) break;
    if (code == kTimeResolution && length == 1)
      interface.resolution = std::to_integer<std::uint8_t>(body[at]);
    if (code == kTimeOffset && length == 8) interface.offset = static_cast<std::int64_t>(u64(body, at));
    at += std::min((length + 3) / 4 * 4, body.size() - at);
  }
  interfaces_.push_back(interface);
}

std::optional<FrameView> PcapngFile::read_packet(std::uint32_t type, Octets body) {
  if (type == kSimplePacket) {
    if (body.size() < 4) return damaged("the next packet has no head");
    const std::uint32_t on_wire = u32(body, 0);
    std::uint32_t captured = std::min(on_wire, static_cast<std::uint32_t>(body.size() - 4));
    if (!interfaces_.empty() && interfaces_[0].snap_length != 0)
      captured = std::min(captured, interfaces_[0].snap_length);
    return frame_of(0, 0, captured, on_wire, body.subspan(4));
  }
  if (body.size() < kPacketHead) return damaged("the next packet has no head");
  const std::uint32_t interface = type == kPacket ? u16(body, 0) : u32(body, 0);
  const std::uint64_t time = std::uint64_t{u32(body, 4)} << 32 | u32(body, 8);
  return frame_of(interface, time, u32(body, 12), u32(body, 16), body.subspan(kPacketHead));
}

std::optional<FrameView> PcapngFile::frame_of(std::uint32_t interface, std::uint64_t time,
                                              std::uint32_t captured, std::uint32_t on_wire, Octets data) {
  if (interface >= interfaces_.size())
    return damaged("the next packet is of interface " + std::to_string(interface) +
                   ", which is not described");
  if (captured > data.size())
    return damaged("the next packet claims to have " + std::to_string(captured) + " octets");
  const Interface& from = interfaces_[interface];
  FrameView frame;
  frame.link = from.link;
  const std::uint64_t offset_ns = static_cast<std::uint64_t>(from.offset) * 1'000'000'000;
  frame.time_ns =
      static_cast<std::int64_t>(static_cast<std::uint64_t>(nanoseconds(time, from.resolution)) + offset_ns);
  frame.wire_length = std::max(on_wire, captured);
  frame.octets = data.first(captured);
  return frame;
}

}  // namespace kbtp::trace
