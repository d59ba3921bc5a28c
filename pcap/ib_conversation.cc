#include "pcap/ib_conversation.h"

#include <algorithm>

namespace kbtp::trace {

namespace {

constexpr std::size_t kMostOpen = 4096;

bool is_send(ib::Operation operation) {
  return operation <= ib::Operation::send_only_immediate ||
         operation == ib::Operation::send_last_invalidate || operation == ib::Operation::send_only_invalidate;
}

std::uint32_t packets_of(std::uint32_t length, std::uint32_t mtu) {
  return mtu == 0 ? 1 : std::max<std::uint32_t>(1, length / mtu + (length % mtu != 0 ? 1 : 0));
}

}  // namespace

void IbDirection::order(IbPacket& request, FrameRef frame, std::uint32_t mtu) {
  const ib::Bth& bth = request.packet.bth;
  const ib::OperationFacts* facts = request.facts();
  if (facts == nullptr || facts->response || request.error != nullptr) return;

  const bool read = facts->operation == ib::Operation::read_request;
  const std::uint32_t length = request.packet.reth ? request.packet.reth->dma_length : 0;
  const std::uint32_t count = read ? packets_of(length, mtu) : 1;
  const std::int32_t ahead = next_psn_ ? psn_ahead(bth.psn, *next_psn_) : 0;
  request.order = ahead < 0                      ? PsnOrder::repeated
                  : ahead == 0 || next_is_least_ ? PsnOrder::in_order
                                                 : PsnOrder::gap;
  if (request.order == PsnOrder::gap) request.missing_psns = static_cast<std::uint32_t>(ahead);
  if (request.icrc == IcrcState::bad) return;
  if (ahead >= 0) {
    next_psn_ = (bth.psn + count) & ib::kPsnMask;
    next_is_least_ = read && mtu == 0;
    last_psn_ = (bth.psn + count - 1) & ib::kPsnMask;
    if (!first_psn_) first_psn_ = bth.psn;
  }
  const bool ends = facts->place == ib::Place::only || facts->place == ib::Place::last;
  if (bth.opcode.service() == ib::Service::unreliable_connection) return;  // nothing answers
  if (!ends && !bth.acknowledge_request) return;
  const Open open{bth.psn, count, frame, facts->operation, length};
  // Sent again: what is answered is the latest copy.
  if (ahead < 0) {
    const auto before = std::ranges::find(open_, bth.psn, &Open::psn);
    if (before != open_.end()) *before = open;
    return;
  }
  if (open_.size() >= kMostOpen) open_.pop_front();
  open_.push_back(open);
}

void IbDirection::order_datagram(IbPacket& datagram) {
  if (!datagram.sound()) return;
  if (last_psn_ == datagram.packet.bth.psn) datagram.order = PsnOrder::repeated;
  last_psn_ = datagram.packet.bth.psn;
}

bool IbDirection::fits(std::uint32_t psn) const {
  if (!first_psn_ || !last_psn_) return false;
  // A Read whose packets cannot be counted may go on behind its first PSN.
  constexpr std::int32_t kLongestRead = 0x7FFFFF;
  const std::int32_t behind_last = psn_ahead(psn, *last_psn_);
  return psn_ahead(psn, *first_psn_) >= 0 && behind_last <= (next_is_least_ ? kLongestRead : 0);
}

std::optional<IbAnswer> IbDirection::answer(const IbPacket& response, std::uint32_t mtu) {
  const ib::OperationFacts* facts = response.facts();
  if (facts == nullptr || !facts->response || !response.sound()) return std::nullopt;
  const ib::Packet& packet = response.packet;
  const std::uint32_t psn = packet.bth.psn;

  const bool acknowledge = facts->operation == ib::Operation::acknowledge;
  if (acknowledge && packet.aeth && packet.aeth->kind() != ib::Aeth::Kind::ack) {
    // The request that was refused, and all behind it, may be sent again (IBTA Volume 1, 9.7.5.2.8).
    const auto refused =
        std::ranges::find_if(open_, [&](const Open& o) { return psn_ahead(o.psn, psn) >= 0; });
    if (refused == open_.end()) return std::nullopt;
    const IbAnswer answer{refused->frame, refused->operation, refused->dma_length, 1, true};
    // Only a PSN Sequence Error (code 0) lets the requester try again.
    if (packet.aeth->kind() == ib::Aeth::Kind::nak && packet.aeth->value() != 0) open_.erase(refused);
    return answer;
  }

  // It answers the last request that it reaches, and by that all in front of it.
  std::size_t reached = 0;
  while (reached < open_.size() && psn_ahead(open_[reached].psn, psn) <= 0) ++reached;
  if (reached == 0) return std::nullopt;
  const Open& last = open_[reached - 1];
  IbAnswer answer{last.frame, last.operation, last.dma_length, 1, true};
  const bool of_read = facts->operation >= ib::Operation::read_response_first &&
                       facts->operation <= ib::Operation::read_response_only;
  if (of_read) {
    if (last.operation != ib::Operation::read_request) return std::nullopt;
    const std::uint32_t count = std::max(last.count, packets_of(last.dma_length, mtu));
    answer.complete = facts->place == ib::Place::only || facts->place == ib::Place::last;
    if (mtu != 0 && psn_ahead(psn, last.psn) >= static_cast<std::int32_t>(count)) return std::nullopt;
    if (next_is_least_ && next_psn_ && psn_ahead(psn, *next_psn_) >= 0) {
      next_psn_ = (psn + 1) & ib::kPsnMask;  // the next request comes behind all responses
      last_psn_ = psn;
    }
  } else {
    answer.requests = static_cast<std::uint32_t>(reached);
  }
  if (answer.complete) open_.erase(open_.begin(), open_.begin() + static_cast<std::ptrdiff_t>(reached));
  return answer;
}

std::optional<IbDirection::Assembled> IbDirection::assemble(const IbPacket& ib, FrameRef frame,
                                                            std::size_t most) {
  const ib::OperationFacts* facts = ib.facts();
  if (facts == nullptr || !ib.sound() || !is_send(facts->operation)) return std::nullopt;
  const ib::Packet& packet = ib.packet;
  const std::uint32_t psn = packet.bth.psn;
  const bool whole = packet.payload.size() == packet.payload_length;
  const bool again = ib.order == PsnOrder::repeated && delivered_ && psn_ahead(psn, *delivered_) <= 0;
  if (again) return std::nullopt;

  if (facts->place == ib::Place::only) {
    if (!whole) return std::nullopt;
    delivered_ = psn;
    return Assembled{psn, frame, packet.payload};
  }
  if (facts->place == ib::Place::first) {
    buffer_.clear();
    assembling_ = true;
    assembly_first_ = assembly_next_ = psn;
    assembly_frame_ = frame;
  }
  // Anything but the next packet may be on its way again: what is there waits for it.
  if (!assembling_ || psn != assembly_next_) return std::nullopt;
  if (!whole || buffer_.size() + packet.payload.size() > most) {
    assembling_ = false;
    buffer_ = {};
    return std::nullopt;
  }
  buffer_.insert(buffer_.end(), packet.payload.begin(), packet.payload.end());
  assembly_next_ = (psn + 1) & ib::kPsnMask;
  if (facts->place != ib::Place::last) return std::nullopt;
  assembling_ = false;
  delivered_ = psn;
  return Assembled{assembly_first_, assembly_frame_, buffer_};
}

}  // namespace kbtp::trace
