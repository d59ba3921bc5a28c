// MPA start-up of both roles (RFC 5044 7.1, RFC 6581).

#include <algorithm>

#include "base/fault.h"
#include "rdmap_binding/rnic/engine.h"

namespace kbtp::rnic {

using rdma::CloseReason;

mpa::LocalLimits Engine::limits() const {
  const auto cap = [](std::uint32_t wanted, std::uint32_t ceiling) {
    return static_cast<std::uint16_t>(std::min({wanted, ceiling, std::uint32_t{mpa::kMaxReadDepth}}));
  };
  mpa::LocalLimits local;
  local.wanted = {cap(options_.ird, setup_.options.max_ird), cap(options_.ord, setup_.options.max_ord)};
  local.max_ird = cap(setup_.options.max_ird, mpa::kMaxReadDepth);
  local.rtr = setup_.options.rtr;
  return local;
}

void Engine::send_request() {
  mpa::StartupFrame frame;
  frame.kind = mpa::StartupKind::request;
  frame.markers = setup_.options.markers;
  frame.crc = setup_.options.crc;
  frame.revision = mpa::kRevision1;
  if (revision_ == 0) revision_ = setup_.options.mpa_revision;
  if (revision_ >= mpa::kRevision2) {
    frame.revision = mpa::kRevision2;
    offered_ = mpa::make_request(limits(), options_.peer_to_peer);
    frame.enhanced = offered_;
  } else if (options_.peer_to_peer) {
    end(make_reason(CloseReason::Kind::refused, "peer-to-peer set-up needs MPA revision 2 (RFC 6581)"));
    return;
  }
  frame.private_data = options_.private_data;
  if (mpa::private_data_length(frame) > mpa::kMaxPrivateData) {
    end(make_reason(CloseReason::Kind::refused, "more private data than an MPA Request can carry"));
    return;
  }
  window_.append_raw(mpa::encode_startup(frame));
}

bool Engine::parse_startup() {
  const Octets octets = input_.unread();
  const auto expected = initiator_ ? mpa::StartupKind::reply : mpa::StartupKind::request;
  const auto result = mpa::decode_startup(octets, expected);
  if (std::holds_alternative<mpa::NeedMore>(result)) return false;
  if (const auto* error = std::get_if<mpa::StartupError>(&result)) {
    // RFC 5044 7.1.1, 8: TCP is closed at once; there is no Terminate.
    refuse("the peer's MPA start-up frame is wrong: " + std::string(mpa::to_string(error->rule)));
    return false;
  }
  const auto& complete = *std::get_if<mpa::StartupComplete>(&result);
  const bool understood = mpa::understands_revision(complete.frame.revision) &&
                          complete.frame.revision <= std::max(setup_.options.mpa_revision, 1U);
  const bool refused =
      complete.frame.revision == mpa::kRevision1 && kbtp::fault(kbtp::Fault::revision_1_refused);
  if ((!understood && !kbtp::fault(kbtp::Fault::revision_not_checked)) || refused) {
    refuse("the peer speaks MPA revision " + std::to_string(complete.frame.revision));
    return false;
  }
  setup_deadline_ = kNever;
  // The frame points into the staging buffer, which stays as it is until the next read.
  if (initiator_) {
    on_reply(complete.frame);
  } else {
    on_request(complete.frame, octets.size() - complete.size);
  }
  if (state_ != State::open) return false;
  input_.consume(complete.size);
  received_octets_ += complete.size;
  return true;
}

void Engine::refuse(std::string text) {
  end(make_reason(initiator_ ? CloseReason::Kind::refused : CloseReason::Kind::local_error, std::move(text)));
}

/// What both sides' M and C bits make of the stream (RFC 5044 7.1.1).
void Engine::adopt(const mpa::StartupFrame& peer) {
  crc_ = setup_.options.crc || peer.crc;
  window_.set_crc(crc_);
  if (peer.markers) window_.set_markers();
  if (setup_.options.markers) in_markers_.emplace();
  set_emss(emss_);
  if (peer.enhanced) peer_depths_ = rdma::PeerDepths{peer.enhanced->ird, peer.enhanced->ord};
}

void Engine::enter_full_operation(mpa::ReadDepths depths, Octets private_data) {
  ird_ = depths.ird;
  ord_ = depths.ord;
  capabilities_ = capabilities_of(ird_, ord_);
  capabilities_.peer_depths = peer_depths_;
  receives_ = options_.initial_receives;
  state_ = State::open;
  opened_ = true;
  handler_->on_open(*this, private_data);
}

// --- Initiator -------------------------------------------------------------------------------------------

void Engine::on_reply(const mpa::StartupFrame& reply) {
  if (reply.reject) {
    // RFC 5044 7.1.2: MPA is left; TCP is the upper layer's, and we end it.
    CloseReason reason =
        make_reason(CloseReason::Kind::refused, "the peer's upper layer rejected the connection");
    reason.private_data = to_vector(reply.private_data);
    if (reply.enhanced) reason.peer_depths = rdma::PeerDepths{reply.enhanced->ird, reply.enhanced->ord};
    leave(std::move(reason));
    return;
  }
  adopt(reply);
  may_send_ = true;
  if (setup_.options.pause_after_reply > Duration{})
    pause_until_ = setup_.loop.now() + setup_.options.pause_after_reply;
  mpa::ReadDepths depths = limits().wanted;
  // RFC 6581 10 has no name for a plain Reply to an enhanced Request: depths stay as the ULP wanted them.
  if (offered_ && reply.enhanced) {
    const auto outcome = mpa::negotiate_as_initiator(*offered_, *reply.enhanced, limits());
    if (!outcome) {
      fail({outcome.error(), 0, "the Reply's IRD, ORD or RTR cannot be met (RFC 6581 9)"}, {});
      return;
    }
    depths = outcome->depths;
    rtr_due_ = outcome->rtr;
  } else if (options_.peer_to_peer) {
    fail({terminate::kMpaNoMatchingRtr, 0, "the Reply names no RTR: it is not enhanced (RFC 6581 9.2)"}, {});
    return;
  }
  enter_full_operation(depths, reply.private_data);
}

// --- Responder -------------------------------------------------------------------------------------------

void Engine::on_request(const mpa::StartupFrame& request, std::size_t behind) {
  if (behind != 0) {
    // RFC 5044 7.1.1, 7.1.2: PD_Length must tell all of it, and nothing may follow before the Reply.
    refuse("the peer sent octets behind its MPA Request before it was answered");
    return;
  }
  if ((request.reject && kbtp::fault(kbtp::Fault::request_reject_bit_checked)) ||
      (request.reserved != 0 && kbtp::fault(kbtp::Fault::startup_reserved_bits_checked))) {
    refuse("a mutant looks at bits that mean nothing");
    return;
  }
  if (request.markers && kbtp::fault(kbtp::Fault::markers_refused)) return reject(request, {});
  adopt(request);
  rdma::AcceptDecision decision = setup_.host.decide(request.private_data, peer_depths_);
  if (const auto* rejection = std::get_if<rdma::Reject>(&decision)) {
    reject(request, *rejection);
    return;
  }
  accept(request, std::move(*std::get_if<rdma::Accept>(&decision)));
}

void Engine::accept(const mpa::StartupFrame& request, rdma::Accept decision) {
  handler_ = decision.handler;
  options_ = std::move(decision.options);
  scope_.domain = options_.domain;
  const std::size_t limit = request.enhanced ? mpa::kMaxEnhancedPrivateData : mpa::kMaxPrivateData;
  if (options_.private_data.size() > limit) {
    refuse("more private data than an MPA Reply can carry");
    return;
  }
  mpa::ReadDepths depths = limits().wanted;
  std::optional<mpa::Enhanced> enhanced;
  if (request.enhanced) {
    const mpa::ResponderOutcome outcome = mpa::negotiate_as_responder(*request.enhanced, limits());
    enhanced = outcome.reply;
    depths = outcome.depths;
    rtr_send_agreed_ = outcome.reply.rtr_send && request.enhanced->rtr_send;
  }
  if (kbtp::fault(kbtp::Fault::enhanced_request_answered_plain)) enhanced.reset();
  send_reply(request, /*rejecting=*/false, enhanced, options_.private_data);
  enter_full_operation(depths, request.private_data);
}

void Engine::reject(const mpa::StartupFrame& request, const rdma::Reject& rejection) {
  std::optional<mpa::Enhanced> enhanced;
  if (request.enhanced) {
    enhanced = mpa::negotiate_as_responder(*request.enhanced, limits()).reply;
    // RFC 6581 9.1: the ORD that the initiator's IRD should have allowed.
    if (rejection.needed_ord) {
      enhanced->ord =
          static_cast<std::uint16_t>(std::min(*rejection.needed_ord, std::uint32_t{mpa::kMaxReadDepth}));
    }
  }
  const std::size_t limit = request.enhanced ? mpa::kMaxEnhancedPrivateData : mpa::kMaxPrivateData;
  const Octets data = rejection.private_data;
  send_reply(request, /*rejecting=*/true, enhanced, data.first(std::min(data.size(), limit)));
  leave(make_reason(CloseReason::Kind::refused, "the upper layer rejected the connection"));
}

void Engine::send_reply(const mpa::StartupFrame& request, bool rejecting,
                        std::optional<mpa::Enhanced> enhanced, Octets private_data) {
  mpa::StartupFrame reply;
  reply.kind = mpa::StartupKind::reply;
  reply.markers = setup_.options.markers;
  reply.crc = setup_.options.crc;
  reply.reject = rejecting;
  // RFC 6581 10: an unenhanced Request gets an unenhanced Reply, of its own revision.
  reply.revision = request.revision;
  reply.enhanced = enhanced;
  reply.private_data = private_data;
  if (kbtp::fault(kbtp::Fault::startup_reserved_bits_echoed)) reply.reserved = request.reserved;
  window_.append_raw(mpa::encode_startup(reply));
}

}  // namespace kbtp::rnic
