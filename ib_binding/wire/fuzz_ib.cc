// Fuzzes the packet decoder, the ICRC and the decoder of the Communication Manager's messages. What was
// decoded and encoded again must decode to the same.

#include <cstddef>
#include <cstdint>

#include "fuzz/require.h"
#include "ib_binding/wire/cm.h"
#include "ib_binding/wire/icrc.h"
#include "ib_binding/wire/packet.h"

namespace {

using kbtp::Octets;
using kbtp::fuzz::require;

bool same_headers(const kbtp::ib::Packet& one, const kbtp::ib::Packet& other) {
  return one.bth == other.bth && one.xrc_srq == other.xrc_srq && one.ee_context == other.ee_context &&
         one.deth == other.deth && one.reth == other.reth && one.atomic == other.atomic &&
         one.aeth == other.aeth && one.atomic_original == other.atomic_original &&
         one.immediate == other.immediate && one.invalidated_key == other.invalidated_key;
}

}  // namespace

/// The first octet says how many octets of the packet the capture lacks, the second which network header is
/// in front of it.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kbtp::ib;
  if (size < 2) return 0;
  const Octets octets(reinterpret_cast<const std::byte*>(data) + 2, size - 2);
  const auto packet = decode_packet(octets, octets.size() + data[0]);
  if (packet) {
    require(packet->header_length <= octets.size(), "headers end inside the octets");
    require(packet->payload.size() <= packet->payload_length, "no more payload than there was");
    require(packet->payload.empty() || packet->payload.data() == octets.data() + packet->header_length,
            "the payload follows the headers");
    if (packet->payload.size() == packet->payload_length) {
      auto again = encode_packet(*packet);
      again.resize(again.size() + kIcrcSize);
      const auto decoded = decode_packet(again, again.size());
      require(decoded.has_value(), "what was encoded decodes");
      Packet expected = *packet;
      expected.bth.pad_count = decoded->bth.pad_count;
      require(same_headers(*decoded, expected), "the same headers");
      require(decoded->payload_length == packet->payload_length, "the same payload");
    }
    if (const auto cm = decode_cm(packet->payload))
      require(cm->private_data.size() <= kMadSize, "private data lies in the MAD");
  }
  const auto network = static_cast<Network>(data[1] % 3);
  const std::size_t front = network == Network::ipv4_udp ? 28 : network == Network::ipv6_udp ? 48 : kGrhSize;
  const std::uint32_t crc =
      invariant_crc(network, octets.first(octets.size() < front ? octets.size() : front),
                    octets.size() < front ? Octets{} : octets.subspan(front));
  if (octets.size() < front + kBthSize) require(crc == 0, "too short for an ICRC");
  return 0;
}
