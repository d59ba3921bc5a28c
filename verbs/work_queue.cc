#include "verbs/work_queue.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/shared_memory.h"

namespace kbtp::verbs {

namespace {

// Several pieces fit into the ring at a time, so that one is filled while another is sent.
constexpr std::size_t kPiecesInRing = 4;
constexpr std::size_t kWord = 8;
constexpr std::uint64_t kLargestPiece = std::uint64_t{1} << 30;

rdma::WorkId id_of(const rdma::WorkRequest& request) {
  if (const auto* write = std::get_if<rdma::WriteImmediate>(&request)) return write->write.id;
  return std::visit(
      [](const auto& r) -> rdma::WorkId {
        if constexpr (requires { r.id; }) return r.id;
        return 0;
      },
      request);
}

}  // namespace

WorkQueue::WorkQueue(const QueueLimits& limits, MutableOctets out, MutableOctets in, FindRegion find_region)
    : limits_(limits), out_(out), in_(in), find_region_(std::move(find_region)) {}

void WorkQueue::post(rdma::WorkRequest request) { waiting_.push_back({std::move(request), closed_}); }

void WorkQueue::bind(std::uint64_t window) { waiting_.push_back({Window{window}, closed_}); }

/// What cannot be done on this connection at all; nullptr when all is well.
const char* WorkQueue::objection(const rdma::WorkRequest& request) const {
  struct Judge {
    const WorkQueue& queue;
    const char* operator()(const rdma::Send& send) const {
      if (send.invalidate && !queue.limits_.send_invalidate) return "the device sends no Invalidate";
      return send.payload.size() > std::min<std::uint64_t>(queue.out_.capacity(), queue.limits_.max_message)
                 ? "the message is too long"
                 : nullptr;
    }
    const char* operator()(const rdma::Write&) const { return nullptr; }
    const char* operator()(const rdma::WriteImmediate& write) const {
      if (!queue.limits_.write_immediate) return "the device has no Write with Immediate";
      return write.immediate > 0xFFFF'FFFF ? "immediate data has 32 bits" : nullptr;
    }
    const char* operator()(const rdma::Immediate& immediate) const {
      if (!queue.limits_.write_immediate) return "the device has no immediate data";
      return immediate.data > 0xFFFF'FFFF ? "immediate data has 32 bits" : nullptr;
    }
    const char* operator()(const rdma::Read&) const { return no_depth(); }
    const char* operator()(const rdma::FetchAdd& add) const {
      if (!queue.limits_.plain_atomics || add.mask != 0) return "the device has no such FetchAdd";
      return no_depth();
    }
    const char* operator()(const rdma::CompareSwap& swap) const {
      constexpr std::uint64_t kWhole = ~std::uint64_t{0};
      if (!queue.limits_.plain_atomics || swap.compare_mask != kWhole || swap.swap_mask != kWhole)
        return "the device has no such CompareSwap";
      return no_depth();
    }
    const char* operator()(const rdma::LocalInvalidate&) const { return nullptr; }
    [[nodiscard]] const char* no_depth() const {
      return queue.limits_.ord == 0 ? "no Reads were agreed on" : nullptr;
    }
  };
  return std::visit(Judge{*this}, request);
}

void WorkQueue::begin() {
  Begun begun;
  begun.item = std::move(waiting_.front().item);
  if (waiting_.front().late) {
    begun.whole = true;
    begun.status = rdma::WorkStatus::flushed;
  }
  waiting_.pop_front();
  if (const auto* request = std::get_if<rdma::WorkRequest>(&begun.item)) {
    begun.id = id_of(*request);
    if (!begun.whole && objection(*request) != nullptr) {
      begun.whole = true;
      begun.status = rdma::WorkStatus::bad_request;
    }
  }
  begun_.push_back(std::move(begun));
}

std::optional<Order> WorkQueue::next() {
  while (!flushed_ && flying_.size() < limits_.depth) {
    if (begun_.empty() || begun_.back().whole) {
      if (waiting_.empty() || revokes_last()) return std::nullopt;
      begin();
      continue;
    }
    Begun& last = begun_.back();
    auto made = std::visit(
        [&](const auto& item) -> std::optional<Order> {
          if constexpr (std::is_same_v<std::decay_t<decltype(item)>, Window>) {
            return order(last, item);
          } else {
            return std::visit([&](const auto& request) { return order(last, request); }, item);
          }
        },
        last.item);
    if (made || !last.whole) return made;
  }
  return std::nullopt;
}

/// What comes behind a LocalInvalidate may tell the peer of it, and waits.
bool WorkQueue::revokes_last() const {
  if (begun_.empty()) return false;
  const auto* request = std::get_if<rdma::WorkRequest>(&begun_.back().item);
  return request != nullptr && std::holds_alternative<rdma::LocalInvalidate>(*request);
}

/// Octets of the next piece of what is `left`.
std::size_t WorkQueue::piece(std::uint64_t left, const StagingRing& ring) const {
  const std::uint64_t most = std::max<std::uint64_t>(1, ring.capacity() / kPiecesInRing);
  return static_cast<std::size_t>(std::min({left, most, limits_.max_message}));
}

bool WorkQueue::stage(Order& order, Octets source) {
  const auto place = out_.take(source.size());
  if (!place) return false;
  if (!source.empty()) std::memcpy(place->data(), source.data(), source.size());
  order.place = Place::out_staging;
  order.local = *place;
  return true;
}

void WorkQueue::fly(Begun& begun, const Order& order, Flying flying) {
  flying.number = first_ + begun_.size() - 1;
  flying.place = order.place;
  if (flying.answered) ++answers_due_;
  ++begun.orders;
  flying_.push_back(flying);
}

std::optional<Order> WorkQueue::order(Begun& begun, const rdma::Send& send) {
  Order order;
  order.kind = Order::Kind::send;
  order.solicited = send.solicited;
  order.invalidate = send.invalidate;
  if (send.payload.size() <= limits_.inline_limit) {
    order.place = send.payload.empty() ? Place::nowhere : Place::inlined;
    order.local = send.payload;
  } else if (!stage(order, send.payload)) {
    return std::nullopt;
  }
  begun.whole = true;
  fly(begun, order, {});
  return order;
}

std::optional<Order> WorkQueue::order(Begun& begun, const rdma::Write& write) {
  Order order;
  order.kind = Order::Kind::write;
  order.remote = {write.destination.stag, write.destination.tagged_offset + begun.done};
  const Octets rest = write.source.subspan(begun.done);
  std::size_t size = 0;
  if (const auto region = rest.empty() ? std::nullopt : find_region_(rest)) {
    size =
        static_cast<std::size_t>(std::min({std::uint64_t{rest.size()}, limits_.max_message, kLargestPiece}));
    order.place = Place::region;
    order.local = rest.first(size);
    order.local_key = region->key;
    order.local_address = region->address;
  } else {
    size = piece(rest.size(), out_);
    if (size > 0 && !stage(order, rest.first(size))) return std::nullopt;
  }
  begun.done += size;
  begun.whole = begun.done == write.source.size();
  fly(begun, order, {});
  return order;
}

std::optional<Order> WorkQueue::order(Begun& begun, const rdma::WriteImmediate& write) {
  auto made = order(begun, write.write);
  if (made && begun.whole) {
    made->kind = Order::Kind::write_immediate;
    made->immediate = static_cast<std::uint32_t>(write.immediate);
    made->solicited = write.solicited;
  }
  return made;
}

// A Write of no octets with Immediate.
std::optional<Order> WorkQueue::order(Begun& begun, const rdma::Immediate& immediate) {
  Order order;
  order.kind = Order::Kind::write_immediate;
  order.immediate = static_cast<std::uint32_t>(immediate.data);
  order.solicited = immediate.solicited;
  begun.whole = true;
  fly(begun, order, {});
  return order;
}

std::optional<Order> WorkQueue::order(Begun& begun, const rdma::Read& read) {
  if (answers_due_ >= limits_.ord) return std::nullopt;
  const MutableOctets rest = read.sink.subspan(begun.done);
  const std::size_t size = piece(rest.size(), in_);
  Order order;
  order.kind = Order::Kind::read;
  order.remote = {read.source.stag, read.source.tagged_offset + begun.done};
  Flying flying;
  flying.answered = true;
  if (size > 0) {
    const auto place = in_.take(size);
    if (!place) return std::nullopt;
    order.place = Place::in_staging;
    order.local = *place;
    flying.staged = *place;
    flying.sink = rest.first(size);
    flying.shared_sink = read.shared_sink;
  }
  begun.done += size;
  begun.whole = begun.done == read.sink.size();
  fly(begun, order, flying);
  return order;
}

std::optional<Order> WorkQueue::atomic(Begun& begun, Order order) {
  if (answers_due_ >= limits_.ord) return std::nullopt;
  // The rings' pieces of other sizes could leave this one unaligned: room for a whole word behind the next
  // multiple of its size.
  const auto place = in_.take(2 * kWord - 1);
  if (!place) return std::nullopt;
  const auto address = reinterpret_cast<std::uintptr_t>(place->data());
  const MutableOctets word = place->subspan((kWord - address % kWord) % kWord, kWord);
  order.place = Place::in_staging;
  order.local = word;
  begun.whole = true;
  Flying flying;
  flying.answered = true;
  flying.atomic = true;
  flying.staged = word;
  fly(begun, order, flying);
  return order;
}

std::optional<Order> WorkQueue::order(Begun& begun, const rdma::FetchAdd& add) {
  Order order;
  order.kind = Order::Kind::fetch_add;
  order.remote = add.word;
  order.operand = add.add;
  return atomic(begun, order);
}

std::optional<Order> WorkQueue::order(Begun& begun, const rdma::CompareSwap& swap) {
  Order order;
  order.kind = Order::Kind::compare_swap;
  order.remote = swap.word;
  order.operand = swap.compare;
  order.swap = swap.swap;
  return atomic(begun, order);
}

std::optional<Order> WorkQueue::order(Begun& begun, const rdma::LocalInvalidate&) {
  begun.whole = true;  // done by take(), when everything before has ended
  return std::nullopt;
}

std::optional<Order> WorkQueue::order(Begun& begun, const Window& window) {
  Order order;
  order.kind = Order::Kind::bind_window;
  order.window = window.number;
  begun.whole = true;
  fly(begun, order, {});
  return order;
}

void WorkQueue::ended(std::uint64_t order) {
  if (order < orders_ended_ || order - orders_ended_ >= flying_.size()) return;
  Flying& flying = flying_[order - orders_ended_];
  if (std::exchange(flying.ended, true)) return;
  if (flying.answered) --answers_due_;
  Begun& of = begun(flying.number);
  --of.orders;
  if (flying.atomic) {
    std::memcpy(&of.original, flying.staged.data(), kWord);
  } else if (!flying.sink.empty()) {
    if (flying.shared_sink) {
      copy_to_shared(flying.sink, flying.staged);
    } else {
      std::memcpy(flying.sink.data(), flying.staged.data(), flying.sink.size());
    }
  }
  // The rings are given back in the order in which they were taken.
  for (; !flying_.empty() && flying_.front().ended; flying_.pop_front(), ++orders_ended_) {
    if (flying_.front().place == Place::out_staging) out_.give_back();
    if (flying_.front().place == Place::in_staging) in_.give_back();
  }
}

std::optional<Ended> WorkQueue::take() {
  if (begun_.empty() && flushed_ && !waiting_.empty()) begin();
  if (begun_.empty()) return std::nullopt;
  Begun& oldest = begun_.front();
  if (oldest.orders > 0 || !oldest.whole) {
    if (!flushed_) return std::nullopt;
    oldest.status = rdma::WorkStatus::flushed;
  }
  Ended ended;
  if (const auto* request = std::get_if<rdma::WorkRequest>(&oldest.item)) {
    ended.completion = rdma::Completion{oldest.id, oldest.status, oldest.original};
    if (const auto* invalidate = std::get_if<rdma::LocalInvalidate>(request)) ended.revoke = invalidate->stag;
  }
  begun_.pop_front();
  ++first_;
  return ended;
}

void WorkQueue::flush() {
  flushed_ = true;
  flying_.clear();
}

bool WorkQueue::sending() const { return !flying_.empty() && !flying_.front().answered; }

}  // namespace kbtp::verbs
