#include "rdmap_binding/mpa/fpdu.h"

#include <algorithm>

namespace kbtp::mpa {

std::size_t mulpdu(std::size_t emss, bool markers) {
  const std::size_t marker_octets =
      markers ? kMarkerSize * ((emss + kMarkerInterval - 1) / kMarkerInterval) : 0;
  const std::size_t overhead = kLengthSize + kCrcSize + marker_octets + emss % 4;
  if (emss <= overhead) return kMinMulpdu;
  return std::clamp(emss - overhead, kMinMulpdu, kMaxMulpdu);
}

std::array<std::byte, kLengthSize> encode_length(std::uint16_t ulpdu) {
  std::array<std::byte, kLengthSize> octets{};
  store_be(octets.data(), ulpdu);
  return octets;
}

Trailer make_trailer(std::size_t ulpdu, Crc32c crc) {
  Trailer trailer;
  const std::size_t pad = pad_size(ulpdu);
  trailer.size = static_cast<std::uint8_t>(pad + kCrcSize);
  crc.update(Octets(trailer.storage).first(pad));
  store_crc32c(trailer.storage.data() + pad, crc.value());
  return trailer;
}

Trailer make_trailer_without_crc(std::size_t ulpdu) {
  Trailer trailer;
  trailer.size = static_cast<std::uint8_t>(trailer_size(ulpdu));
  return trailer;
}

bool check_crc(Octets trailer, Crc32c crc) {
  if (trailer.size() < kCrcSize) return false;
  const std::size_t pad = trailer.size() - kCrcSize;
  crc.update(trailer.first(pad));
  return load_crc32c(trailer.data() + pad) == crc.value();
}

std::optional<WireError> check_length(std::uint16_t ulpdu) {
  if (ulpdu == 0) {
    return WireError{terminate::kMpaMarkerMismatch, 0, "ULPDU_Length is 0 (RFC 5044 3 allows 1 to 64768)"};
  }
  if (ulpdu > kMaxMulpdu) {
    return WireError{terminate::kMpaMarkerMismatch, 0, "ULPDU_Length is above 64768 (RFC 5044 3)"};
  }
  return std::nullopt;
}

FpduResult decode_fpdu(Octets octets, CrcUse use) {
  if (octets.size() < kLengthSize) return NeedMore{kLengthSize};
  const auto length = load_be<std::uint16_t>(octets.data());
  if (const auto error = check_length(length)) return *error;
  const std::size_t size = fpdu_size(length);
  if (octets.size() < size) return NeedMore{size};

  const std::size_t trailer_at = kLengthSize + length;
  const Octets trailer = octets.subspan(trailer_at, size - trailer_at);
  if (use == CrcUse::check) {
    Crc32c crc;
    crc.update(octets.first(trailer_at));
    if (!check_crc(trailer, crc)) {
      return WireError{terminate::kMpaCrcError, size - kCrcSize, "CRC32C is wrong (RFC 5044 4.4)"};
    }
  }
  Fpdu fpdu;
  fpdu.ulpdu = octets.subspan(kLengthSize, length);
  fpdu.pad = trailer.first(trailer.size() - kCrcSize);
  fpdu.crc = load_crc32c(trailer.data() + fpdu.pad.size());
  fpdu.size = size;
  return fpdu;
}

std::vector<std::byte> encode_fpdu(Octets ulpdu) {
  std::vector<std::byte> octets(fpdu_size(ulpdu.size()));
  ByteWriter writer(octets);
  writer.u16(static_cast<std::uint16_t>(ulpdu.size()));
  writer.bytes(ulpdu);
  Crc32c crc;
  crc.update(writer.written());
  writer.bytes(make_trailer(ulpdu.size(), crc).octets());
  return octets;
}

}  // namespace kbtp::mpa
