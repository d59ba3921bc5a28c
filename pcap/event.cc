#include "pcap/event.h"

#include <algorithm>

#include "pcap/fpdu_decode.h"

namespace kbtp::trace {

namespace {

/// `part` of `from`, found again in the copy `to` of `from`; empty when it lies elsewhere.
Octets moved(Octets part, Octets from, Octets to) {
  if (part.empty() || part.data() < from.data() || part.data() >= from.data() + from.size()) return {};
  const auto at = static_cast<std::size_t>(part.data() - from.data());
  if (at >= to.size()) return {};
  return to.subspan(at, std::min(part.size(), to.size() - at));
}

template <class Request>
void move_inline_data(Request& request, Octets from, Octets to) {
  if (request.body.inline_data) request.body.inline_data = moved(*request.body.inline_data, from, to);
}

void move_inline_data(wire::Message& message, Octets from, Octets to) {
  if (auto* store = std::get_if<wire::Store>(&message)) move_inline_data(*store, from, to);
  if (auto* store = std::get_if<wire::AllocStore>(&message)) move_inline_data(*store, from, to);
}

Event own_fpdu(const Event& event, std::size_t max_kept) {
  Event copy = event;
  auto& fpdu = *std::get_if<Fpdu>(&copy.what);
  const rdmap::OpcodeFacts* facts = fpdu.ddp ? rdmap::find_opcode(fpdu.rdmap.opcode) : nullptr;
  const bool header_only = facts != nullptr && !facts->has_payload && fpdu.untagged() != nullptr;
  const Octets kept = header_only ? fpdu.ulpdu : fpdu.ulpdu.first(std::min(fpdu.ulpdu.size(), max_kept));
  // The octets of the stream and the ULPDU without markers; one behind the other when they are not the same.
  const bool whole = kept.size() == fpdu.ulpdu.size();
  const Octets stream = whole ? event.octets : Octets{};
  const Octets inside = moved(kept, stream, stream);
  auto storage = std::make_shared<std::vector<std::byte>>(to_vector(stream));
  if (inside.size() != kept.size()) storage->insert(storage->end(), kept.begin(), kept.end());
  const Octets all(*storage);
  copy.octets = all.first(stream.size());
  fpdu.ulpdu = inside.size() == kept.size() ? moved(kept, event.octets, copy.octets)
                                            : all.subspan(stream.size(), kept.size());
  copy.storage = std::move(storage);
  if (fpdu.header.index() != 0) decode_rdmap_header(fpdu);  // it may point into the octets
  return copy;
}

}  // namespace

std::optional<Startup::Depths> Startup::guessed_depths() const {
  constexpr std::size_t kSize = 8;
  constexpr std::uint32_t kMost = 0x3FFF;  // as many bits as RFC 6581 9 gives them
  if (frame.enhanced || frame.private_data.size() != kSize) return std::nullopt;
  const auto plausible = [](std::uint32_t depth) { return depth > 0 && depth <= kMost; };
  const auto ird = load_be<std::uint32_t>(frame.private_data.data());
  const auto ord = load_be<std::uint32_t>(frame.private_data.data() + 4);
  if (plausible(ird) && plausible(ord)) return Depths{ird, ord};
  const Depths little{__builtin_bswap32(ird), __builtin_bswap32(ord)};
  return plausible(little.ird) && plausible(little.ord) ? std::optional(little) : std::nullopt;
}

Event owned(const Event& event, std::size_t max_kept) {
  if (event.storage) return event;
  if (event.as<Fpdu>() != nullptr) return own_fpdu(event, max_kept);
  Event copy = event;
  copy.storage = std::make_shared<const std::vector<std::byte>>(to_vector(event.octets));
  copy.octets = *copy.storage;
  if (auto* startup = std::get_if<Startup>(&copy.what)) {
    startup->frame.private_data = moved(startup->frame.private_data, event.octets, copy.octets);
  } else if (auto* message = std::get_if<Message>(&copy.what)) {
    message->octets = copy.octets;
    if (message->kbtp) move_inline_data(*message->kbtp, event.octets, copy.octets);
  } else if (auto* ib = std::get_if<IbPacket>(&copy.what)) {
    ib->packet.payload = moved(ib->packet.payload, event.octets, copy.octets);
  } else if (auto* cm = std::get_if<CmMessage>(&copy.what)) {
    cm->cm.private_data = moved(cm->cm.private_data, event.octets, copy.octets);
  }
  return copy;
}

}  // namespace kbtp::trace
