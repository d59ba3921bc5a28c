// DDP Segments from octets a peer may send: nothing crashes, and a header that decodes encodes to the same
// octets, whatever its version and reserved bits.

#include <algorithm>
#include <array>
#include <cstdint>

#include "fuzz/require.h"
#include "rdmap_binding/ddp/segment.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kbtp;
  using fuzz::require;
  const Octets input = std::as_bytes(std::span(data, size));

  const auto header = ddp::read_header(input);
  const auto segment = ddp::decode_segment(input);
  if (!header) {
    require(!segment && segment.error() == header.error(), "a segment without a header");
    require(header.error().octet <= size, "an error behind the octets");
    return 0;
  }
  std::array<std::byte, ddp::kMaxHeaderSize> octets{};
  const std::size_t header_size = ddp::encode(*header, octets);
  require(header_size == ddp::header_size(input[0]), "size of the header");
  require(std::ranges::equal(Octets(octets).first(header_size), input.first(header_size)),
          "a header keeps every bit");
  const auto refused = ddp::check_version(*header);
  require(segment.has_value() == !refused.has_value(), "the version decides");
  if (segment) require(segment->payload.size() == size - header_size, "payload is what is behind the header");
  return 0;
}
