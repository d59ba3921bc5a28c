#include "pcap/fpdu_search.h"

#include <algorithm>

#include "base/crc32c.h"
#include "rdmap_binding/ddp/segment.h"
#include "rdmap_binding/mpa/fpdu.h"
#include "rdmap_binding/rdmap/opcode.h"

namespace kbtp::trace {

namespace {

constexpr std::size_t kSmallest = mpa::kLengthSize + ddp::kTaggedHeaderSize + mpa::kCrcSize;  // zero-length
constexpr std::uint8_t kDdpTagged = 0x80;
constexpr std::uint8_t kDdpLast = 0x40;
constexpr std::uint8_t kDdpRest = 0x3F;  // reserved bits and DV
constexpr std::size_t kQueueAt = mpa::kLengthSize + 6;
constexpr std::size_t kMsnAt = mpa::kLengthSize + 10;

std::uint8_t u8(Octets octets, std::size_t at) { return std::to_integer<std::uint8_t>(octets[at]); }
std::size_t size_at(Octets octets) { return mpa::fpdu_size(load_be<std::uint16_t>(octets.data())); }

bool crc_is_right(Octets fpdu) {
  const std::size_t covered = fpdu.size() - mpa::kCrcSize;
  return load_crc32c(fpdu.data() + covered) == crc32c(fpdu.first(covered));
}

enum class Verdict : std::uint8_t {
  no,
  crc,
  headers,
  needs_more,
};

Verdict judge(Octets octets) {
  if (octets.size() < size_at(octets)) return Verdict::needs_more;
  if (crc_is_right(octets.first(size_at(octets)))) return Verdict::crc;
  for (std::size_t links = 1; links < kChain; ++links) {
    const std::size_t size = size_at(octets);
    if (octets.size() < size + kSmallest) return Verdict::needs_more;
    octets = octets.subspan(size);
    if (!may_be_fpdu(octets)) return Verdict::no;
  }
  return Verdict::headers;
}

}  // namespace

bool may_be_fpdu(Octets octets) {
  if (octets.size() < kSmallest) return false;
  const auto length = load_be<std::uint16_t>(octets.data());
  if (length < ddp::kTaggedHeaderSize || length > mpa::kMaxMulpdu) return false;
  const std::uint8_t ddp_control = u8(octets, mpa::kLengthSize);
  if ((ddp_control & kDdpRest) != ddp::kVersion) return false;
  const auto control = rdmap::decode_control(u8(octets, mpa::kLengthSize + 1));
  const rdmap::OpcodeFacts* facts = rdmap::find_opcode(control.opcode);
  if (facts == nullptr || control.version != rdmap::kVersion || control.reserved != 0) return false;
  if (facts->tagged != ((ddp_control & kDdpTagged) != 0)) return false;
  if (facts->tagged) return true;
  if (length < ddp::kUntaggedHeaderSize + (facts->has_payload ? 0 : facts->header_size)) return false;
  if (!facts->has_payload && (ddp_control & kDdpLast) == 0) return false;
  return load_be<std::uint32_t>(octets.data() + kQueueAt) == facts->queue_number &&
         load_be<std::uint32_t>(octets.data() + kMsnAt) != 0;
}

SearchResult find_fpdu(Octets octets, bool last) {
  for (std::size_t at = 0; at + kSmallest <= octets.size(); ++at) {
    const Octets candidate = octets.subspan(at);
    if (!may_be_fpdu(candidate)) continue;
    switch (judge(candidate)) {
      case Verdict::no:
        break;
      case Verdict::crc:
        return {at, Evidence::crc};
      case Verdict::headers:
        return {at, Evidence::headers};
      case Verdict::needs_more:
        if (!last) return {at, std::nullopt};
        break;
    }
  }
  return {octets.size() - std::min(octets.size(), kSmallest - 1), std::nullopt};
}

}  // namespace kbtp::trace
