#include "pcap/classic_file.h"

#include <algorithm>

namespace kbtp::trace {

namespace {

constexpr std::uint32_t kMicroseconds = 0xA1B2C3D4;
constexpr std::uint32_t kNanoseconds = 0xA1B23C4D;
constexpr std::size_t kFileHeader = 24;
constexpr std::size_t kFrameHeader = 16;
constexpr std::uint32_t kLinkMask = 0x03FFFFFF;  // above it: length of the frame check sequence
constexpr std::uint32_t kLongestFrame = 1U << 20;

}  // namespace

std::optional<ClassicFile> ClassicFile::begin(ByteSource& source) {
  const Octets header = source.peek(kFileHeader);
  if (header.size() < kFileHeader) return std::nullopt;
  ClassicFile file;
  std::uint32_t magic = load_be<std::uint32_t>(header.data());
  file.swapped_ = magic != kMicroseconds && magic != kNanoseconds;
  if (file.swapped_) magic = __builtin_bswap32(magic);
  if (magic != kMicroseconds && magic != kNanoseconds) return std::nullopt;
  file.nanoseconds_ = magic == kNanoseconds;
  const auto link = load_be<std::uint32_t>(header.data() + 20);
  file.link_number_ = (file.swapped_ ? __builtin_bswap32(link) : link) & kLinkMask;
  source.consume(kFileHeader);
  return file;
}

std::optional<FrameView> ClassicFile::next(ByteSource& source) {
  source.consume(used_);
  used_ = 0;
  if (!damage_.empty()) return std::nullopt;
  Octets octets = source.peek(kFrameHeader);
  if (octets.size() < kFrameHeader) {
    if (!octets.empty()) damage_ = "the file breaks off inside the header of the next frame";
    return std::nullopt;
  }
  const auto field = [&](std::size_t at) {
    const auto value = load_be<std::uint32_t>(octets.data() + at);
    return swapped_ ? __builtin_bswap32(value) : value;
  };
  const std::uint32_t captured = field(8);
  if (captured > kLongestFrame) {
    damage_ = "the next frame claims to have " + std::to_string(captured) + " octets";
    return std::nullopt;
  }
  const std::size_t needed = kFrameHeader + captured;
  if (octets.size() < needed) octets = source.peek(needed);
  if (octets.size() < needed) {
    damage_ = "the file breaks off inside the next frame";
    return std::nullopt;
  }
  used_ = needed;
  FrameView frame;
  frame.time_ns = static_cast<std::int64_t>(field(0)) * 1'000'000'000 +
                  static_cast<std::int64_t>(field(4)) * (nanoseconds_ ? 1 : 1000);
  frame.wire_length = std::max(field(12), captured);
  frame.octets = octets.subspan(kFrameHeader, captured);
  return frame;
}

}  // namespace kbtp::trace
