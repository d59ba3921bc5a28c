// The receiving half of an endpoint: placement and delivery of what the peer has sent, with an RNIC's checks.

#include <algorithm>
#include <cstdint>
#include <utility>

#include "base/masked_add.h"
#include "base/shared_memory.h"
#include "proto/rdma/fake/connection.h"

namespace kbtp::fake {

Endpoint::Endpoint(Connection& connection, Side side, Host& host, FakeLoop& loop,
                   rdma::StreamHandler& handler, const rdma::StreamOptions& options,
                   const SocketAddress& peer, const SocketAddress& local)
    : connection_(connection),
      scheduler_(connection.scheduler),
      side_(side),
      host_(host),
      loop_(loop),
      queue_tag_{scheduler_.new_lane(), touches(Touched::What::sends)},
      arrival_tag_{scheduler_.new_lane(), touches(Touched::What::tells)},
      completion_tag_{scheduler_.new_lane(), touches(Touched::What::tells)},
      response_tag_{scheduler_.new_lane(), touches(Touched::What::sends)},
      handler_(handler),
      options_(options),
      capabilities_(host.capabilities()),
      peer_address_(peer),
      local_address_(local),
      receives_(options.initial_receives) {}

void Endpoint::agree(std::uint32_t ird, std::uint32_t ord) {
  capabilities_.ird = ird;
  capabilities_.ord = ord;
}

void Endpoint::open(std::vector<std::byte> private_data) {
  loop_.post(
      [this, octets = std::move(private_data), connection = hold()] { handler_.on_open(*this, octets); });
}

Result<rdma::Region> Endpoint::register_region(const rdma::RegionSpec& spec) {
  if (ended_) return failure("the stream has ended");
  return host_.add_region({spec, options_.domain, this});
}

void Endpoint::revoke(rdma::STag stag) {
  const auto region = host_.regions.find(stag);
  if (region == host_.regions.end() || region->second.stream != this) return;
  scheduler_.touch(host_.index(), Touched::What::works);
  host_.regions.erase(region);
}

void Endpoint::set_stalled(bool stalled) {
  stalled_ = stalled;
  if (stalled || ended_) return;
  receive_in_order();
  if (other().ended_) return;
  other().send_owed_responses();
  other().pump();
}

void Endpoint::receive_in_order() {
  auto& wire = other().wire_;
  while (!ended_ && !stalled_ && !wire.empty() && wire.front()->arrived) {
    const auto message = wire.front();
    wire.pop_front();
    deliver(message);
  }
}

void Endpoint::deliver(const MessagePtr& message) {
  if (message->kind == Observed::Kind::write) {
    late_.push_back(message);  // placed when chance or a later message wants it (RFC 5040 5.5 rule 5)
    return;
  }
  if (!place_all(message)) return;
  switch (message->kind) {
    case Observed::Kind::write:
      return;
    case Observed::Kind::send:
    case Observed::Kind::immediate:
    case Observed::Kind::write_immediate:
      return deliver_send(message);
    case Observed::Kind::read_request:
      return deliver_read_request(message);
    case Observed::Kind::atomic_request:
      return deliver_atomic_request(message);
    case Observed::Kind::read_response:
    case Observed::Kind::atomic_response:
      scheduler_.touch(host_.index(), Touched::What::sends);
      --outstanding_reads_;
      message->posted->original = message->value;
      complete(message->posted);
      return pump();
    case Observed::Kind::terminate:
      return end({rdma::CloseReason::Kind::remote_error, rdma::Phase::open,
                  infiniband() ? std::nullopt : std::optional(message->triple),
                  infiniband() ? "the peer refused a request" : "the peer sent a Terminate"});
    case Observed::Kind::fin:
      fin_received_ = true;
      loop_.post([this, connection = hold()] { handler_.on_peer_finished(); });
      return end_if_both_finished();
  }
}

bool Endpoint::place_all(const MessagePtr& last) {
  std::vector<std::pair<MessagePtr, std::size_t>> pieces;
  const auto collect = [&](const MessagePtr& message) {
    for (std::size_t i = 0; i < message->pieces.size(); ++i) pieces.emplace_back(message, i);
  };
  for (const auto& message : late_) collect(message);
  if (last->kind == Observed::Kind::read_response || last->kind == Observed::Kind::write_immediate)
    collect(last);
  std::shuffle(pieces.begin(), pieces.end(), scheduler_.random());
  late_.clear();
  for (const auto& [message, i] : pieces) {
    if (!other().source_piece(*message, message->pieces[i])) return false;
    if (!place(*message, message->pieces[i])) return false;
  }
  return true;
}

void Endpoint::place_early(const MessagePtr& message, std::size_t number) {
  if (ended_ || stalled_) return;
  if (infiniband() && !place_writes_before(message)) return;
  (void)place(*message, message->pieces[number]);
}

// KBTP 6.5: where records are allowed, a Write is not visible before the data of earlier Writes.
bool Endpoint::place_writes_before(const MessagePtr& message) {
  std::vector<MessagePtr> earlier(late_);  // delivered before what is still on the wire
  earlier.insert(earlier.end(), other().wire_.begin(), other().wire_.end());
  for (const MessagePtr& write : earlier) {
    if (write == message) return true;
    if (write->kind != Observed::Kind::write && write->kind != Observed::Kind::write_immediate) continue;
    for (Piece& piece : write->pieces) {
      if (!other().source_piece(*write, piece) || !place(*write, piece)) return false;
    }
  }
  return true;  // delivered, and with it everything before it
}

bool Endpoint::place(Message& message, Piece& piece) {
  if (piece.placed) return true;
  MutableOctets destination;
  if (message.kind == Observed::Kind::read_response) {
    destination = message.sink.subspan(piece.offset, piece.length);
  } else {
    const rdma::RemoteBuffer at{message.remote.stag, message.remote.tagged_offset + piece.offset};
    const auto region = reach(at, piece.length, rdma::Access::remote_write, true);
    if (!region) {
      terminate(region.error(), "an RDMA Write reaches where it may not");
      return false;
    }
    destination = *region;
  }
  scheduler_.touch(host_.index(), Touched::What::places);
  copy_to_shared(destination, piece.octets);  // right for every kind of content
  piece.placed = true;
  return true;
}

Expected<MutableOctets, Triple> Endpoint::reach(const rdma::RemoteBuffer& remote, std::uint64_t length,
                                                rdma::Access wanted, bool tagged) const {
  const auto found = host_.regions.find(remote.stag);
  if (found == host_.regions.end()) {
    return unexpected(tagged ? Triple::tagged_invalid_stag : Triple::rdmap_invalid_stag);
  }
  const RegionRecord& region = found->second;
  const bool ours = region.stream != nullptr ? region.stream == this : region.domain == options_.domain;
  if (!ours) return unexpected(tagged ? Triple::tagged_other_stream : Triple::rdmap_other_stream);
  // RFC 5041 has no code for rights: a Write without them is an invalid STag.
  if (!rdma::allows(region.spec.access, wanted)) {
    return unexpected(tagged ? Triple::tagged_invalid_stag : Triple::rdmap_access);
  }
  if (length != 0 && length - 1 > ~std::uint64_t{0} - remote.tagged_offset) {
    return unexpected(tagged ? Triple::tagged_wrap : Triple::rdmap_wrap);
  }
  const std::uint64_t size = region.spec.memory.size();
  const std::uint64_t offset = remote.tagged_offset - region.spec.tagged_offset;
  if (remote.tagged_offset < region.spec.tagged_offset || offset > size || length > size - offset) {
    return unexpected(tagged ? Triple::tagged_bounds : Triple::rdmap_bounds);
  }
  return region.spec.memory.subspan(offset, length);
}

void Endpoint::deliver_send(const MessagePtr& message) {
  if (receives_ == 0) return terminate(Triple::untagged_no_buffer, "a Send found no receive");
  if (message->payload.size() > options_.receive_size) {
    return terminate(Triple::untagged_too_long, "a Send is longer than the receive");
  }
  --receives_;
  if (message->invalidate && !revoke_by_peer(*message->invalidate)) return;
  loop_.post([this, message, connection = hold()] {
    rdma::Received received{message->payload, message->solicited, message->invalidate, {}};
    if (message->kind != Observed::Kind::send) received.immediate = message->value;
    handler_.on_received(received);
  });
}

bool Endpoint::revoke_by_peer(rdma::STag stag) {
  const auto found = host_.regions.find(stag);
  if (found == host_.regions.end() || found->second.stream != this || !found->second.spec.remote_invalidate) {
    terminate(Triple::rdmap_cannot_invalidate, "a Send with Invalidate names an STag that it may not revoke");
    return false;
  }
  scheduler_.touch(host_.index(), Touched::What::works);
  host_.regions.erase(found);
  return true;
}

void Endpoint::owe(const MessagePtr& response) {
  scheduler_.touch(host_.index(), Touched::What::sends);
  owed_.push_back(response);
  for (std::size_t i = 0; i < response->pieces.size(); ++i) {
    scheduler_.soon([this, response, i, connection = hold()] {  // RFC 5040 5.5 rule 20: fetched in any order
      if (!ended_ && !other().ended_) (void)source_piece(*response, response->pieces[i]);
    });
  }
  scheduler_.soon(
      [this, response, connection = hold()] {
        response->ready = true;
        if (!ended_) send_owed_responses();
      },
      response_tag_);
}

void Endpoint::deliver_read_request(const MessagePtr& message) {
  if (owed_.size() >= capabilities_.ird) {
    return terminate(Triple::untagged_no_buffer, "more Read Requests than the agreed depth");
  }
  if (message->length > 0) {
    const auto region = reach(message->remote, message->length, rdma::Access::remote_read, false);
    if (!region) return terminate(region.error(), "a Read Request reaches where it may not");
  }
  auto response = std::make_shared<Message>();
  response->kind = Observed::Kind::read_response;
  response->remote = message->remote;
  response->length = message->length;
  response->sink = message->sink;
  response->posted = message->posted;
  cut_into_pieces(*response);
  owe(response);
}

void Endpoint::deliver_atomic_request(const MessagePtr& message) {
  if (capabilities_.atomics == rdma::Atomics::none) {
    return terminate(Triple::rdmap_unexpected_opcode, "an Atomic Request without RFC 7306 (1.1)");
  }
  if (owed_.size() >= capabilities_.ird) {
    return terminate(Triple::untagged_no_buffer, "more Atomic Requests than the agreed depth");
  }
  const auto region = reach(message->remote, sizeof(std::uint64_t), rdma::Access::remote_atomic, false);
  if (!region) return terminate(region.error(), "an Atomic Request reaches where it may not");
  if (reinterpret_cast<std::uintptr_t>(region->data()) % alignof(std::uint64_t) != 0) {
    return terminate(Triple::rdmap_unaligned_atomic, "an Atomic Request is not aligned");
  }
  scheduler_.touch(host_.index(), Touched::What::works);
  auto& word = *reinterpret_cast<std::uint64_t*>(region->data());
  auto response = std::make_shared<Message>();
  response->kind = Observed::Kind::atomic_response;
  response->posted = message->posted;
  if (const auto* add = std::get_if<rdma::FetchAdd>(&message->posted->request)) {
    response->value = fetch_masked_add(word, add->add, add->mask);
  } else if (const auto* swap = std::get_if<rdma::CompareSwap>(&message->posted->request)) {
    response->value =
        masked_compare_swap(word, swap->compare, swap->compare_mask, swap->swap, swap->swap_mask);
  }
  owe(response);
}

void Endpoint::terminate(Triple triple, const std::string& text) {
  if (ended_) return;
  const auto value = static_cast<std::uint16_t>(triple);
  if (infiniband()) {
    end({rdma::CloseReason::Kind::local_error, rdma::Phase::open, {}, text});
    auto nak = std::make_shared<Message>();
    nak->kind = Observed::Kind::terminate;
    return put_on_wire(nak);
  }
  end({rdma::CloseReason::Kind::local_error, rdma::Phase::open, value, text});
  auto message = std::make_shared<Message>();
  message->kind = Observed::Kind::terminate;
  message->triple = value;
  put_on_wire(message);
}

void Endpoint::end_if_both_finished() {
  if (!fin_sent_ || !fin_received_ || ended_) return;
  if (!uncompleted_.empty() && outstanding_reads_ == 0) return;
  end({rdma::CloseReason::Kind::graceful, rdma::Phase::open, {}, "both sides finished"});
}

void Connection::cut() {
  severed = true;
  for (const auto& side : ends) {
    side->wire_.clear();
    scheduler.soon(
        [side, connection = shared_from_this()] {
          side->end({rdma::CloseReason::Kind::transport_lost, rdma::Phase::open, {}, "connection reset"});
        },
        side->queue_tag_);
  }
}

}  // namespace kbtp::fake
