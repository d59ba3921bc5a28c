// RDMAP messages from octets a peer may send, as whole ULPDUs, as heads, and as Terminate Headers: nothing
// crashes, decode-encode-decode is stable, a head says the same as the whole, and whatever is refused can be
// answered with a Terminate that decodes.

#include <algorithm>
#include <cstdint>

#include "fuzz/require.h"
#include "rdmap_binding/rdmap/segment.h"

namespace kbtp::rdmap {
namespace {

using fuzz::require;

bool same(const Terminate& a, const Terminate& b) {
  return a.control == b.control && a.segment_length == b.segment_length &&
         std::ranges::equal(a.ddp_header, b.ddp_header) && a.read_request == b.read_request &&
         std::ranges::equal(a.rest, b.rest);
}

bool same(const Body& a, const Body& b) {
  if (a.index() != b.index()) return false;
  if (const auto* payload = std::get_if<Payload>(&a)) {
    return std::ranges::equal(payload->octets, std::get<Payload>(b).octets);
  }
  if (const auto* message = std::get_if<Terminate>(&a)) return same(*message, std::get<Terminate>(b));
  if (const auto* request = std::get_if<ReadRequest>(&a)) return *request == std::get<ReadRequest>(b);
  if (const auto* immediate = std::get_if<Immediate>(&a)) return *immediate == std::get<Immediate>(b);
  if (const auto* atomic = std::get_if<AtomicRequest>(&a)) return *atomic == std::get<AtomicRequest>(b);
  return std::get<AtomicResponse>(a) == std::get<AtomicResponse>(b);
}

void answer(TerminateCode code, Octets ulpdu) {
  const auto octets = make_terminate(code, make_offender(ulpdu, ulpdu.size()));
  const auto message = decode_terminate(octets.octets());
  require(message.has_value() && message->code() == code && message->rest.empty(),
          "an answer that does not decode");
  require(!message->control.ddp_header ||
              std::ranges::equal(message->ddp_header, ulpdu.first(message->ddp_header.size())),
          "the copy is not the header");
}

void segment(Octets ulpdu) {
  const auto whole = decode_segment(ulpdu);
  const auto head = decode_head(ulpdu.first(std::min(ulpdu.size(), ddp::kMaxHeaderSize)), ulpdu.size());
  for (const TerminateCode code : {terminate::kRdmapInvalidStag, terminate::kDdpUntaggedInvalidMo,
                                   terminate::kMpaCrcError, terminate::kRdmapOperationUnspecified}) {
    answer(code, ulpdu);
  }
  if (!whole) {
    require(whole.error().octet <= ulpdu.size(), "an error behind the octets");
    require(terminate::find(whole.error().code) != nullptr, "a code that no RFC lists");
    require(head.has_value() || head.error() == whole.error(), "head and whole are refused differently");
    answer(whole.error().code, ulpdu);
    return;
  }
  require(head.has_value() && head->ddp == whole->head.ddp && head->opcode == whole->head.opcode &&
              head->payload_size == whole->head.payload_size,
          "the head says something else");
  require(whole->head.facts().tagged == std::holds_alternative<ddp::TaggedHeader>(whole->head.ddp),
          "tagged against the opcode");
  const auto again = encode_segment(*whole);
  require(again.size() == ulpdu.size(), "another length");
  const auto second = decode_segment(again);
  require(second.has_value() && second->head.ddp == whole->head.ddp && same(second->body, whole->body),
          "decode, encode, decode differs");
}

void terminate_header(Octets octets) {
  const auto message = decode_terminate(octets);
  if (!message) {
    require(message.error().octet <= octets.size(), "an error behind the octets");
    return;
  }
  const auto encoded = encode_terminate(*message);
  auto again = to_vector(encoded.octets());
  again.insert(again.end(), message->rest.begin(), message->rest.end());
  require(again.size() == octets.size(), "a Terminate of another length");
  const auto second = decode_terminate(again);
  require(second.has_value() && same(*second, *message), "a Terminate that changes");
  const auto siw = decode_siw_terminate_control(octets.first<kTerminateControlSize>());
  require(siw.code.layer == message->control.code.error_type &&
              siw.code.error_type == message->control.code.layer &&
              siw.code.error_code == message->control.code.error_code,
          "siw's layout is the RFC's with two fields swapped");
}

}  // namespace
}  // namespace kbtp::rdmap

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kbtp;
  const Octets input = std::as_bytes(std::span(data, size));
  rdmap::segment(input);
  rdmap::terminate_header(input);
  return 0;
}
