#include "base/crc32c.h"

#include <algorithm>
#include <cstring>
#include <isa-l/crc.h>
#include <limits>

namespace kbtp {

namespace {
// ISA-L takes an int length; blocks are below 2^32, so a run may need two calls.
constexpr std::size_t kLongestRun = std::size_t{1} << 30;
constexpr std::size_t kCopyPiece = 4096;
}  // namespace

void Crc32c::update(Octets octets) {
  while (!octets.empty()) {
    const std::size_t n = std::min(octets.size(), kLongestRun);
    // crc32_iscsi does not write through its pointer, though it is declared without const.
    auto* data = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(octets.data()));
    state_ = crc32_iscsi(data, static_cast<int>(n), state_);
    octets = octets.subspan(n);
  }
}

std::uint32_t crc32c(Octets octets) {
  Crc32c crc;
  crc.update(octets);
  return crc.value();
}

void store_crc32c(std::byte* p, std::uint32_t crc) {
  for (int i = 0; i < 4; ++i) p[i] = static_cast<std::byte>(crc >> (8 * i));
}

std::uint32_t load_crc32c(const std::byte* p) {
  std::uint32_t crc = 0;
  for (int i = 3; i >= 0; --i) crc = (crc << 8) | std::to_integer<std::uint32_t>(p[i]);
  return crc;
}

void copy_with_crc(MutableOctets destination, Octets source, Crc32c& crc) {
  std::size_t done = 0;
  while (done < source.size()) {
    const std::size_t n = std::min(kCopyPiece, source.size() - done);
    std::memcpy(destination.data() + done, source.data() + done, n);
    crc.update(destination.subspan(done, n));
    done += n;
  }
}

}  // namespace kbtp
