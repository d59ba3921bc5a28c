// What the FPDU observer is told.

#include "rdmap_binding/mpa/fpdu.h"
#include "rdmap_binding/rnic/engine.h"

namespace kbtp::rnic {

namespace {

/// `fpdu` has its length field and its DDP header, or as much of one as it is long.
FpduEvent describe(const std::byte* fpdu, std::uint16_t ulpdu_length) {
  FpduEvent event;
  event.ulpdu_length = ulpdu_length;
  const Octets ulpdu(fpdu + mpa::kLengthSize, std::min<std::size_t>(ulpdu_length, ddp::kUntaggedHeaderSize));
  if (ulpdu.empty()) return event;
  const std::size_t header_size = ddp::header_size(ulpdu[0]);
  event.ddp_control = std::to_integer<std::uint8_t>(ulpdu[0]);
  if (ulpdu.size() > 1) event.rdmap_control = std::to_integer<std::uint8_t>(ulpdu[1]);
  const auto header = ddp::read_header(ulpdu.first(std::min(ulpdu.size(), header_size)));
  if (!header) return event;
  event.payload_length = static_cast<std::uint32_t>(ulpdu_length - header_size);
  if (const auto* tagged = std::get_if<ddp::TaggedHeader>(&*header)) {
    event.stag = tagged->stag;
    event.tagged_offset = tagged->tagged_offset;
  } else if (const auto* untagged = std::get_if<ddp::UntaggedHeader>(&*header)) {
    event.invalidate_stag = untagged->rsvdulp_stag;
    event.queue_number = untagged->queue_number;
    event.msn = untagged->msn;
    event.mo = untagged->message_offset;
  }
  return event;
}

}  // namespace

void Engine::observe_received(const std::byte* fpdu, std::uint16_t ulpdu_length, CrcVerdict verdict) {
  FpduEvent event = describe(fpdu, ulpdu_length);
  event.direction = Direction::received;
  event.crc = verdict;
  event.local = setup_.local;
  event.peer = setup_.peer;
  event.stream_octet = received_octets_;
  setup_.options.fpdu_observer(event);
}

void Engine::observe_sent(const SendWindow::Fpdu& fpdu) {
  const auto ulpdu_length = load_be<std::uint16_t>(fpdu.start);
  FpduEvent event = describe(fpdu.start, ulpdu_length);
  event.direction = Direction::sent;
  event.crc = crc_ ? CrcVerdict::good : CrcVerdict::ignored;
  event.local = setup_.local;
  event.peer = setup_.peer;
  event.stream_octet = window_base_ + fpdu.begin;
  setup_.options.fpdu_observer(event);
}

}  // namespace kbtp::rnic
