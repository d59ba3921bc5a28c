// An open connection: work requests to the device, completions from it, and the end.

#include <algorithm>
#include <arpa/inet.h>
#include <array>
#include <cerrno>
#include <utility>

#include "verbs/connection.h"
#include "verbs/status.h"

namespace kbtp::verbs {

using rdma::CloseReason;

namespace {

// Receives are told from orders by this bit of their number.
constexpr std::uint64_t kReceive = std::uint64_t{1} << 63;
constexpr std::uint32_t kReceivesInBuffer = 32;
constexpr std::size_t kCompletionsPerTurn = 256;
constexpr std::size_t kBatch = 16;
// A queue pair in its error state mostly has a reason on the way by another path.
constexpr Duration kErrorPatience = std::chrono::milliseconds(250);

ibv_wr_opcode opcode_of(const Order& order) {
  switch (order.kind) {
    case Order::Kind::send:
      return order.invalidate ? IBV_WR_SEND_WITH_INV : IBV_WR_SEND;
    case Order::Kind::write:
      return IBV_WR_RDMA_WRITE;
    case Order::Kind::write_immediate:
      return IBV_WR_RDMA_WRITE_WITH_IMM;
    case Order::Kind::read:
      return IBV_WR_RDMA_READ;
    case Order::Kind::fetch_add:
      return IBV_WR_ATOMIC_FETCH_AND_ADD;
    case Order::Kind::compare_swap:
      return IBV_WR_ATOMIC_CMP_AND_SWP;
    case Order::Kind::bind_window:
      return IBV_WR_BIND_MW;
  }
  return IBV_WR_SEND;
}

}  // namespace

// --- Receives --------------------------------------------------------------------------------------------

/// Registers room for more receives.
bool Connection::add_receives() {
  const auto size = std::size_t{options_.receive_size} * kReceivesInBuffer;
  auto buffer = PinnedBuffer::make(*resources_->domain->pd, size, IBV_ACCESS_LOCAL_WRITE);
  if (!buffer) {
    fail(CloseReason::Kind::local_error, buffer.error().text);
    return false;
  }
  const auto first = static_cast<std::uint32_t>(resources_->receives.size() * kReceivesInBuffer);
  resources_->receives.push_back(std::move(*buffer));
  for (std::uint32_t i = kReceivesInBuffer; i-- > 0;) free_receives_.push_back(first + i);
  return true;
}

/// Hands over as many of the wanted receives as the device holds; the others follow as it gives some back.
void Connection::fill_receives() {
  while (receives_wanted_ > 0 && receives_posted_ < receive_depth_ && !ending_) {
    if (free_receives_.empty() && !add_receives()) return;
    const std::uint32_t slot = free_receives_.back();
    const PinnedBuffer& buffer = resources_->receives[slot / kReceivesInBuffer];
    const auto memory = buffer.octets().subspan(std::size_t{slot % kReceivesInBuffer} * options_.receive_size,
                                                options_.receive_size);
    ibv_sge piece{reinterpret_cast<std::uintptr_t>(memory.data()), options_.receive_size, buffer.key()};
    ibv_recv_wr request{};
    request.wr_id = kReceive | slot;
    request.sg_list = &piece;
    request.num_sge = 1;
    ibv_recv_wr* bad = nullptr;
    if (const int error = ibv_post_recv(resources_->id->qp, &request, &bad); error != 0)
      return fail(CloseReason::Kind::local_error, "the device takes no receive: " + error_text(error));
    free_receives_.pop_back();
    ++receives_posted_;
    --receives_wanted_;
  }
}

void Connection::on_receive(const ibv_wc& completion) {
  const auto slot = static_cast<std::uint32_t>(completion.wr_id & ~kReceive);
  --receives_posted_;
  const PinnedBuffer& buffer = resources_->receives[slot / kReceivesInBuffer];
  rdma::Received received;
  if ((completion.wc_flags & IBV_WC_WITH_IMM) != 0) {
    received.immediate = ntohl(completion.imm_data);
  } else {
    received.payload = buffer.octets().subspan(std::size_t{slot % kReceivesInBuffer} * options_.receive_size,
                                               completion.byte_len);
  }
  if ((completion.wc_flags & IBV_WC_WITH_INV) != 0) {
    received.invalidated = completion.invalidated_rkey;
    resources_->regions->remove(completion.invalidated_rkey);
  }
  handler_.on_received(received);
  free_receives_.push_back(slot);
  fill_receives();
}

// --- Orders ----------------------------------------------------------------------------------------------

bool Connection::hand_over(const Order& order) {
  const Resources& r = *resources_;
  ibv_sge piece{reinterpret_cast<std::uintptr_t>(order.local.data()),
                static_cast<std::uint32_t>(order.local.size()), order.local_key};
  ibv_send_wr request{};
  request.wr_id = next_order_++;
  request.opcode = opcode_of(order);
  request.send_flags = IBV_SEND_SIGNALED;
  request.sg_list = &piece;
  request.num_sge = 1;
  switch (order.place) {
    case Place::nowhere:
      request.num_sge = 0;
      break;
    case Place::inlined:
      request.send_flags |= IBV_SEND_INLINE;
      break;
    case Place::out_staging:
      piece.lkey = r.out->key();
      break;
    case Place::in_staging:
      piece.lkey = r.in->key();
      break;
    case Place::region:
      piece.addr = order.local_address;
      break;
  }
  if (order.solicited) request.send_flags |= IBV_SEND_SOLICITED;
  switch (order.kind) {
    case Order::Kind::send:
      if (order.invalidate) request.invalidate_rkey = *order.invalidate;
      break;
    case Order::Kind::write_immediate:
      request.imm_data = htonl(order.immediate);
      [[fallthrough]];
    case Order::Kind::write:
    case Order::Kind::read:
      request.wr.rdma.remote_addr = order.remote.tagged_offset;
      request.wr.rdma.rkey = order.remote.stag;
      break;
    case Order::Kind::fetch_add:
    case Order::Kind::compare_swap:
      request.wr.atomic.remote_addr = order.remote.tagged_offset;
      request.wr.atomic.rkey = order.remote.stag;
      request.wr.atomic.compare_add = order.operand;
      request.wr.atomic.swap = order.swap;
      break;
    case Order::Kind::bind_window: {
      const auto window = r.regions->window(static_cast<rdma::STag>(order.window));
      if (!window) {
        // Revoked before it was bound: nothing is left to do, but the order keeps its place.
        request.opcode = IBV_WR_RDMA_WRITE;
        break;
      }
      request.bind_mw.mw = window->window;
      request.bind_mw.rkey = window->stag;
      request.bind_mw.bind_info = {window->region, window->tagged_offset, window->region->length,
                                   static_cast<unsigned>(window->access)};
      break;
    }
  }
  ibv_send_wr* bad = nullptr;
  const int error = ibv_post_send(r.id->qp, &request, &bad);
  if (error == 0) return true;
  fail(CloseReason::Kind::local_error, "the device takes no work request: " + error_text(error));
  return false;
}

/// Hands over what can be, and tells what has ended; each may make room for the other.
void Connection::pump() {
  if (!opened_) return;
  for (bool more = true; more && !ending_;) {
    more = false;
    while (state_ == State::open && !ending_) {
      const auto order = queue_->next();
      if (!order) break;
      if (!hand_over(*order)) return;
    }
    while (const auto ended = queue_->take()) {
      more = true;
      if (ended->revoke) resources_->regions->remove(*ended->revoke);
      if (ended->completion) handler_.on_completion(*ended->completion);
      if (ending_) return;
    }
  }
}

// --- Completions -----------------------------------------------------------------------------------------

bool Connection::poll(std::size_t most) {
  std::array<ibv_wc, kBatch> completions;
  for (std::size_t seen = 0; seen < most && !ending_;) {
    const int n = ibv_poll_cq(resources_->queue.get(), static_cast<int>(kBatch), completions.data());
    if (n < 0) {
      fail(CloseReason::Kind::local_error, "the device's completion queue failed");
      return true;
    }
    for (int i = 0; i < n && !ending_; ++i) on_work_completion(completions[static_cast<std::size_t>(i)]);
    if (n < static_cast<int>(kBatch)) return true;
    seen += static_cast<std::size_t>(n);
  }
  return false;
}

void Connection::on_work_completion(const ibv_wc& completion) {
  if (completion.status == IBV_WC_SUCCESS) {
    if ((completion.wr_id & kReceive) != 0) return on_receive(completion);
    return queue_->ended(completion.wr_id);
  }
  const StatusMeaning& meaning = meaning_of(completion.status, home_.device.quirks);
  if (!meaning.event_tells) return fail(meaning.kind, std::string(meaning.text) + " (" + meaning.name + ")");
  if (state_ != State::open || error_timer_ != rdma::TimerId::none) return;
  error_timer_ = home_.loop.call_at(home_.loop.now() + kErrorPatience, [this, &meaning] {
    error_timer_ = rdma::TimerId::none;
    fail(meaning.kind, meaning.text);
    settle();
  });
}

void Connection::on_completion_event() {
  ibv_cq* queue = nullptr;
  void* context = nullptr;
  unsigned events = 0;
  while (ibv_get_cq_event(resources_->completions.get(), &queue, &context) == 0) ++events;
  if (events > 0) ibv_ack_cq_events(resources_->queue.get(), events);
  ibv_req_notify_cq(resources_->queue.get(), 0);
  on_turn();
}

void Connection::on_turn() {
  deferred_ = false;
  bool idle = true;
  if (opened_ && !ending_) {
    idle = poll(kCompletionsPerTurn);
    pump();
    if (closing_ && state_ == State::open && queue_->idle() && !ending_) begin_disconnect();
  }
  if (!idle || home_.options.spin) wake();
  settle();
}

void Connection::wake() {
  if (std::exchange(deferred_, true)) return;
  home_.loop.events().defer(work_ear_);
}

/// `this` may be gone afterwards.
void Connection::settle() {
  if (ending_) return end(*ending_);
  if (opened_ && !queue_->idle() && send_timer_ == rdma::TimerId::none) watch_sending();
}

/// Everything that was posted has been taken by the peer's RDMA, or by TCP: now our end is told.
void Connection::begin_disconnect() {
  state_ = State::disconnecting;
  if (rdma_disconnect(resources_->id.get()) != 0) fail(CloseReason::Kind::graceful, "finished");
}

/// E-5: a peer that takes nothing for the send deadline is dropped. Reads and Atomics that stay unanswered
/// are the upper layer's to judge.
void Connection::watch_sending() {
  orders_seen_ = queue_->orders_ended();
  send_timer_ = home_.loop.call_at(home_.loop.now() + options_.send_deadline, [this] {
    send_timer_ = rdma::TimerId::none;
    if (queue_->sending() && queue_->orders_ended() == orders_seen_)
      fail(CloseReason::Kind::deadline, "the peer took nothing in time");
    settle();
  });
}

}  // namespace kbtp::verbs
