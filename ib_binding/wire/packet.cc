#include "ib_binding/wire/packet.h"

#include <algorithm>

#include "ib_binding/wire/icrc.h"

namespace kbtp::ib {

namespace {

/// Takes headers off the front; latches the first that is not all there.
class Front {
 public:
  Front(Octets octets, std::size_t wire) : octets_(octets), wire_(wire) {}

  template <std::size_t N>
  std::span<const std::byte, N> take(const char* missing) {
    static constexpr std::array<std::byte, N> kNothing{};
    if (error_) return kNothing;
    if (octets_.size() - position_ < N) {
      error_ = PacketError{position_, missing, wire_ - position_ >= N};
      return kNothing;
    }
    position_ += N;
    return octets_.subspan(position_ - N).first<N>();
  }
  [[nodiscard]] const std::optional<PacketError>& error() const { return error_; }
  [[nodiscard]] std::size_t position() const { return position_; }

 private:
  Octets octets_;
  std::size_t wire_;
  std::size_t position_ = 0;
  std::optional<PacketError> error_;
};

std::uint32_t low24(std::span<const std::byte, 4> octets) {
  return load_be<std::uint32_t>(octets.data()) & kPsnMask;
}

bool has_deth(const Opcode& opcode, const OperationFacts& facts) {
  return opcode.service() == Service::unreliable_datagram ||
         (opcode.service() == Service::reliable_datagram && !facts.response);
}
bool has_xrceth(const Opcode& opcode, const OperationFacts& facts) {
  return opcode.service() == Service::extended_reliable_connection && !facts.response;
}

void take_extended(Front& front, const OperationFacts& facts, Packet& packet) {
  const Opcode opcode = packet.bth.opcode;
  if (opcode.service() == Service::reliable_datagram)
    packet.ee_context = low24(front.take<kRdethSize>("no room for the RDETH"));
  if (has_deth(opcode, facts)) packet.deth = decode_deth(front.take<kDethSize>("no room for the DETH"));
  if (has_xrceth(opcode, facts)) packet.xrc_srq = low24(front.take<kXrcethSize>("no room for the XRCETH"));
  if (facts.reth) packet.reth = decode_reth(front.take<kRethSize>("no room for the RETH"));
  if (facts.atomic_eth)
    packet.atomic = decode_atomic_eth(front.take<kAtomicEthSize>("no room for the AtomicETH"));
  if (facts.aeth) packet.aeth = decode_aeth(front.take<kAethSize>("no room for the AETH"));
  if (facts.atomic_ack)
    packet.atomic_original =
        load_be<std::uint64_t>(front.take<kAtomicAckSize>("no room for the AtomicAckETH").data());
  if (facts.immediate)
    packet.immediate =
        load_be<std::uint32_t>(front.take<kImmediateSize>("no room for the Immediate Data").data());
  if (facts.invalidates)
    packet.invalidated_key = load_be<std::uint32_t>(front.take<kIethSize>("no room for the IETH").data());
}

}  // namespace

Expected<Packet, PacketError> decode_packet(Octets octets, std::size_t wire_length) {
  wire_length = std::max(wire_length, octets.size());
  Front front(octets, wire_length);
  Packet packet;
  packet.bth = decode_bth(front.take<kBthSize>("no room for the BTH"));
  const OperationFacts* facts = packet.bth.opcode.facts();
  if (!front.error() && facts != nullptr) take_extended(front, *facts, packet);
  if (front.error()) return unexpected(*front.error());
  packet.header_length = front.position();

  const std::size_t behind = packet.bth.pad_count + kIcrcSize;
  if (wire_length < packet.header_length + behind)
    return unexpected(PacketError{packet.header_length, "no room for pad and ICRC", false});
  packet.payload_length = static_cast<std::uint32_t>(wire_length - packet.header_length - behind);
  packet.payload = octets.subspan(packet.header_length);
  packet.payload = packet.payload.first(std::min<std::size_t>(packet.payload.size(), packet.payload_length));
  if (octets.size() == wire_length) packet.icrc = load_icrc(octets.data() + wire_length - kIcrcSize);
  return packet;
}

std::vector<std::byte> encode_packet(const Packet& packet) {
  std::vector<std::byte> octets;
  const auto put = [&octets](Octets more) { octets.insert(octets.end(), more.begin(), more.end()); };
  const auto put32 = [&put](std::uint32_t value) {
    std::array<std::byte, 4> word;
    store_be(word.data(), value);
    put(word);
  };
  Bth bth = packet.bth;
  bth.pad_count = static_cast<std::uint8_t>((4 - packet.payload.size() % 4) % 4);
  put(encode(bth));
  if (packet.ee_context) put32(*packet.ee_context);
  if (packet.deth) put(encode(*packet.deth));
  if (packet.xrc_srq) put32(*packet.xrc_srq);
  if (packet.reth) put(encode(*packet.reth));
  if (packet.atomic) put(encode(*packet.atomic));
  if (packet.aeth) put(encode(*packet.aeth));
  if (packet.atomic_original) {
    std::array<std::byte, kAtomicAckSize> word;
    store_be(word.data(), *packet.atomic_original);
    put(word);
  }
  if (packet.immediate) put32(*packet.immediate);
  if (packet.invalidated_key) put32(*packet.invalidated_key);
  put(packet.payload);
  octets.resize(octets.size() + bth.pad_count);
  return octets;
}

}  // namespace kbtp::ib
