// Start-up frames, their negotiation and FPDUs, from octets a peer may send: nothing crashes, what decodes
// encodes to something that decodes to the same, and no part of a good frame is taken for more or less.

#include <algorithm>
#include <cstdint>
#include <optional>
#include <tuple>
#include <vector>

#include "fuzz/require.h"
#include "rdmap_binding/mpa/marker.h"
#include "rdmap_binding/mpa/negotiation.h"
#include "rdmap_binding/mpa/startup.h"

namespace kbtp::mpa {
namespace {

using fuzz::require;

void negotiate(const Enhanced& enhanced) {
  const LocalLimits local{{8, 4}, 64, {true, true, true}};
  const auto responder = negotiate_as_responder(enhanced, local);
  require(enhanced.ird == kNoNegotiation || responder.depths.ord <= enhanced.ird,
          "ORD above the Request's IRD");
  require(responder.depths.ird <= local.max_ird, "IRD above what the responder has");
  require(decode_enhanced(encode_enhanced(responder.reply)) == responder.reply,
          "Reply does not fit 4 octets");
  for (const bool peer_to_peer : {false, true}) {
    const auto initiator = negotiate_as_initiator(make_request(local, peer_to_peer), enhanced, local);
    if (!initiator) continue;
    require(enhanced.ird == kNoNegotiation || initiator->depths.ord <= enhanced.ird,
            "ORD above the Reply's IRD");
    require(enhanced.ord == kNoNegotiation || initiator->depths.ird >= enhanced.ord,
            "IRD below the Reply's ORD");
  }
}

void startup(Octets input, std::optional<StartupKind> expected) {
  const auto result = decode_startup(input, expected);
  if (const auto* more = std::get_if<NeedMore>(&result)) {
    require(more->total > input.size() && more->total <= kMaxStartupSize, "asks for octets that it has");
    return;
  }
  if (const auto* error = std::get_if<StartupError>(&result)) {
    require(error->octet < input.size(), "an error behind the octets");
    require(!error->wire_error().reason.empty(), "an error without a reason");
    return;
  }
  const auto& complete = std::get<StartupComplete>(result);
  require(complete.size <= input.size(), "frame longer than the octets");
  const auto again = encode_startup(complete.frame);
  require(std::ranges::equal(again, input.first(complete.size)), "a frame keeps every bit");
  const auto second = decode_startup(again, complete.frame.kind);
  require(std::get<StartupComplete>(second).frame == complete.frame, "decode, encode, decode differs");
  const auto shorter = decode_startup(input.first(complete.size - 1), expected);
  require(std::holds_alternative<NeedMore>(shorter), "complete without its last octet");
  if (complete.frame.enhanced) negotiate(*complete.frame.enhanced);
}

void fpdu(Octets input, CrcUse use) {
  const auto result = decode_fpdu(input, use);
  if (const auto* more = std::get_if<NeedMore>(&result)) {
    require(more->total > input.size(), "asks for octets that it has");
    return;
  }
  const auto* found = std::get_if<Fpdu>(&result);
  if (found == nullptr) return;
  require(found->size == fpdu_size(found->ulpdu.size()) && found->size <= input.size(), "size of the FPDU");
  const auto again = encode_fpdu(found->ulpdu);
  const auto second = decode_fpdu(again, CrcUse::check);
  require(std::holds_alternative<Fpdu>(second), "our own FPDU is refused");
  require(std::ranges::equal(std::get<Fpdu>(second).ulpdu, found->ulpdu), "decode, encode, decode differs");
}

/// `until` octets in front of a marker.
void marked(Octets input, std::size_t until) {
  MarkerClock at;
  at.advance(kMarkerInterval - until);
  const auto result = measure_marked(input, at);
  if (const auto* more = std::get_if<NeedMore>(&result)) {
    require(more->total > input.size(), "asks for octets that it has");
    return;
  }
  const auto* found = std::get_if<MarkedFpdu>(&result);
  if (found == nullptr) return;
  require(found->size <= input.size() && found->size % 4 == 0, "size of the marked FPDU");
  const Octets fpdu_octets = input.first(found->size);
  std::ignore = check_marked_crc(fpdu_octets);
  if (const auto error = check_markers(fpdu_octets, at)) {
    require(error->octet < found->size && error->octet % kMarkerInterval == until % kMarkerInterval,
            "a mismatch that is no marker's");
  }
  std::vector<std::byte> clean(fpdu_size(found->ulpdu_length));
  require(remove_markers(clean, fpdu_octets, at).size() == clean.size(), "octets without markers");
  const Octets ulpdu = Octets(clean).subspan(kLengthSize, found->ulpdu_length);
  MarkerInserter inserter(at);
  const auto again = encode_marked_fpdu(ulpdu, inserter);
  require(again.size() == found->size && check_marked_crc(again) && !check_markers(again, at),
          "our own marked FPDU is refused");
  std::vector<std::byte> second(clean.size());
  remove_markers(second, again, at);
  require(std::ranges::equal(Octets(second).first(kLengthSize + ulpdu.size()),
                             Octets(clean).first(kLengthSize + ulpdu.size())),
          "decode, encode, decode differs");
}

}  // namespace
}  // namespace kbtp::mpa

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace kbtp;
  const Octets input = std::as_bytes(std::span(data, size));
  mpa::startup(input, std::nullopt);
  mpa::startup(input, mpa::StartupKind::request);
  mpa::startup(input, mpa::StartupKind::reply);
  mpa::fpdu(input, mpa::CrcUse::check);
  mpa::fpdu(input, mpa::CrcUse::ignore);
  for (const std::size_t until : {std::size_t{0}, std::size_t{4}, std::size_t{20}, std::size_t{508}}) {
    mpa::marked(input, until);
  }
  return 0;
}
