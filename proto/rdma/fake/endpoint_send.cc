// The sending half of an endpoint: from a posted work request to messages on the wire and completions in
// order.

#include <algorithm>
#include <utility>

#include "base/shared_memory.h"
#include "proto/rdma/fake/connection.h"

namespace kbtp::fake {

namespace {

bool needs_read_depth(const rdma::WorkRequest& request) {
  return std::holds_alternative<rdma::Read>(request) || std::holds_alternative<rdma::FetchAdd>(request) ||
         std::holds_alternative<rdma::CompareSwap>(request);
}

rdma::WorkId id_of(const rdma::WorkRequest& request) {
  return std::visit(
      [](const auto& r) {
        if constexpr (requires { r.write.id; }) {
          return r.write.id;
        } else {
          return r.id;
        }
      },
      request);
}

}  // namespace

void Endpoint::post(std::vector<rdma::WorkRequest> requests) {
  scheduler_.touch(host_.index(), Touched::What::sends);
  for (auto& request : requests) {
    auto posted = std::make_shared<Posted>();
    posted->request = std::move(request);
    uncompleted_.push_back(posted);
    if (ended_) continue;  // call_closed() flushes it
    if (closing_) {
      posted->status = rdma::WorkStatus::flushed;
      posted->completable = true;
    } else {
      queue_.push_back(std::move(posted));
    }
  }
  if (ended_) return;
  complete_in_order();
  pump();
}

void Endpoint::pump() {
  if (pumping_ || ended_) return;
  pumping_ = true;
  scheduler_.soon(
      [this, connection = hold()] {
        pumping_ = false;
        if (!ended_) send_next();
      },
      queue_tag_);
}

void Endpoint::send_next() {
  if (other().stalled_) {
    if (!queue_.empty()) watch_progress();
    return;  // set_stalled() goes on
  }
  if (queue_.empty()) {
    if (closing_ && !fin_sent_ && owed_.empty()) {
      fin_sent_ = true;
      auto fin = std::make_shared<Message>();
      fin->kind = Observed::Kind::fin;
      put_on_wire(fin);
      end_if_both_finished();
    }
    return;
  }
  const auto posted = queue_.front();
  if (!is_operation(posted->request)) {
    posted->status = rdma::WorkStatus::bad_request;
    queue_.pop_front();
    complete(posted);
    return pump();
  }
  if (needs_read_depth(posted->request)) {
    if (outstanding_reads_ >= capabilities_.ord) return;  // a completion of one goes on
  }
  queue_.pop_front();
  ++sent_;
  transmit(posted);
  pump();
}

bool Endpoint::is_operation(const rdma::WorkRequest& request) const {
  if (needs_read_depth(request) && capabilities_.ord == 0) return false;
  if (!infiniband()) return true;
  constexpr std::uint64_t kAll = ~std::uint64_t{0};
  if (const auto* add = std::get_if<rdma::FetchAdd>(&request)) return add->mask == 0;
  if (const auto* swap = std::get_if<rdma::CompareSwap>(&request))
    return swap->compare_mask == kAll && swap->swap_mask == kAll;
  if (const auto* write = std::get_if<rdma::WriteImmediate>(&request)) return write->immediate >> 32 == 0;
  return !std::holds_alternative<rdma::Immediate>(request);
}

void Endpoint::transmit(const std::shared_ptr<Posted>& posted) {
  auto message = std::make_shared<Message>();
  message->posted = posted;
  const auto complete_soon = [&] {
    scheduler_.soon(
        [this, posted, connection = hold()] {
          if (!ended_) complete(posted);
        },
        completion_tag_);
  };
  const auto write = [&](const rdma::Write& request, Observed::Kind kind) {
    message->kind = kind;
    message->remote = request.destination;
    message->source = request.source;
    message->length = request.source.size();
    cut_into_pieces(*message);
    put_on_wire(message);
    for (std::size_t i = 0; i < message->pieces.size(); ++i) {
      scheduler_.soon([this, message, i, connection = hold()] {
        if (ended_ || other().ended_) return;
        if (!source_piece(*message, message->pieces[i])) return;
        scheduler_.soon([this, message, i, also = hold()] { other().place_early(message, i); }, {});
      });
    }
  };
  const auto atomic = [&](const auto& request) {
    message->kind = Observed::Kind::atomic_request;
    message->remote = request.word;
    message->length = 8;
    ++outstanding_reads_;
    put_on_wire(message);
  };
  // RFC 5040 5.5 rule 14, and "the provider needs the source no longer" of the seam: a Write completes once
  // all of its source has been read.
  const auto complete_write_soon = [&] {
    scheduler_.soon(
        [this, message, posted, connection = hold()] {
          if (ended_) return;
          for (auto& piece : message->pieces) (void)source_piece(*message, piece);
          complete(posted);
        },
        completion_tag_);
  };
  std::visit(
      [&](const auto& request) {
        using T = std::decay_t<decltype(request)>;
        if constexpr (std::is_same_v<T, rdma::Send>) {
          message->kind = Observed::Kind::send;
          message->payload = request.payload;
          message->length = request.payload.size();
          message->solicited = request.solicited;
          message->invalidate = request.invalidate;
          put_on_wire(message);
          complete_soon();
        } else if constexpr (std::is_same_v<T, rdma::Write>) {
          write(request, Observed::Kind::write);
          complete_write_soon();
        } else if constexpr (std::is_same_v<T, rdma::WriteImmediate>) {
          if (infiniband()) {
            message->value = request.immediate;
            message->solicited = request.solicited;
            write(request.write, Observed::Kind::write_immediate);
            return complete_write_soon();
          }
          write(request.write, Observed::Kind::write);
          auto immediate = std::make_shared<Message>();
          immediate->kind = Observed::Kind::immediate;
          immediate->value = request.immediate;
          immediate->solicited = request.solicited;
          put_on_wire(immediate);
          complete_write_soon();
        } else if constexpr (std::is_same_v<T, rdma::Immediate>) {
          message->kind = Observed::Kind::immediate;
          message->value = request.data;
          message->solicited = request.solicited;
          put_on_wire(message);
          complete_soon();
        } else if constexpr (std::is_same_v<T, rdma::Read>) {
          message->kind = Observed::Kind::read_request;
          message->remote = request.source;
          message->sink = request.sink;
          message->length = request.sink.size();
          ++outstanding_reads_;
          put_on_wire(message);
        } else if constexpr (std::is_same_v<T, rdma::LocalInvalidate>) {
          revoke(request.stag);
          complete(posted);
        } else {
          atomic(request);
        }
      },
      posted->request);
}

void Endpoint::put_on_wire(const MessagePtr& message) {
  if (connection_.severed) return;
  wire_.push_back(message);
  scheduler_.observed({message->kind, connection_.index, side_, message->payload, message->length,
                       message->remote, message->value, message->invalidate});
  scheduler_.soon(
      [this, message, connection = hold()] {
        message->arrived = true;
        other().receive_in_order();
      },
      other().arrival_tag_);
}

void Endpoint::cut_into_pieces(Message& message) {
  const std::size_t size = message.length;
  if (size == 0) return;
  std::vector<std::size_t> cuts{0, size};
  if (scheduler_.options().schedule != nullptr) {
    const std::size_t count = std::min<std::size_t>(size, scheduler_.options().max_pieces);
    for (std::size_t i = 1; i < count; ++i) cuts.push_back(size * i / count);
  }
  const std::uint64_t extra =
      scheduler_.options().schedule != nullptr ? 0 : scheduler_.below(scheduler_.options().max_pieces);
  for (std::uint64_t i = 0; i < extra; ++i) cuts.push_back(scheduler_.below(size));
  std::sort(cuts.begin(), cuts.end());
  for (std::size_t i = 0; i + 1 < cuts.size(); ++i) {
    if (cuts[i] == cuts[i + 1]) continue;
    message.pieces.push_back({cuts[i], cuts[i + 1] - cuts[i], {}, false, false});
  }
}

bool Endpoint::source_piece(const Message& message, Piece& piece) {
  if (piece.sourced) return true;
  Octets source = message.source;
  if (message.kind == Observed::Kind::read_response) {
    // Checked again: the region may have been revoked since the request came.
    const auto region = reach(message.remote, message.length, rdma::Access::remote_read, false);
    if (!region) {
      terminate(region.error(), "the source of a Read went away while it was answered");
      return false;
    }
    source = *region;
  }
  scheduler_.touch(host_.index(), Touched::What::reads);
  const auto part = source.subspan(piece.offset, piece.length);
  piece.octets.resize(part.size());
  copy_from_shared(piece.octets, part);  // right for every kind of content
  piece.sourced = true;
  return true;
}

void Endpoint::complete(const std::shared_ptr<Posted>& posted) {
  posted->completable = true;
  complete_in_order();
}

void Endpoint::complete_in_order() {
  while (!uncompleted_.empty() && uncompleted_.front()->completable) {
    const auto posted = uncompleted_.front();
    uncompleted_.pop_front();
    const bool no_notice =
        scheduler_.options().quiet_sends && std::holds_alternative<rdma::Send>(posted->request);
    const auto tell = [this, posted, connection = hold()] {
      handler_.on_completion({id_of(posted->request), posted->status, posted->original});
    };
    if (no_notice) {
      loop_.post(tell, loop_.no_notice());
    } else {
      loop_.post(tell);
    }
  }
  end_if_both_finished();
}

void Endpoint::send_owed_responses() {
  while (!owed_.empty() && owed_.front()->ready && !other().stalled_) {
    const auto response = owed_.front();
    owed_.pop_front();
    ++sent_;
    put_on_wire(response);
  }
  if (owed_.empty()) pump();  // a FIN may have waited for it
}

void Endpoint::watch_progress() {
  if (watching_) return;
  watching_ = true;
  loop_.call_at(scheduler_.now() + options_.send_deadline, [this, before = sent_, connection = hold()] {
    watching_ = false;
    if (ended_) return;
    if (sent_ != before || !other().stalled_) return pump();
    end({rdma::CloseReason::Kind::deadline, rdma::Phase::open, {}, "the peer takes no octets"});
    other().end({rdma::CloseReason::Kind::transport_lost, rdma::Phase::open, {}, "connection reset"});
  });
}

void Endpoint::close(Duration linger) {
  if (closing_ || ended_) return;
  scheduler_.touch(host_.index(), Touched::What::sends);
  closing_ = true;
  loop_.call_at(scheduler_.now() + linger, [this, connection = hold()] {
    if (ended_) return;
    end({rdma::CloseReason::Kind::graceful, rdma::Phase::open, {}, "the peer did not finish in time"});
    scheduler_.soon(
        [this, also = hold()] {
          other().end({rdma::CloseReason::Kind::transport_lost, rdma::Phase::open, {}, "connection reset"});
        },
        other().queue_tag_);
  });
  pump();
}

void Endpoint::abort(std::string why) {
  if (ended_) return;
  end({rdma::CloseReason::Kind::local_error, rdma::Phase::open, {}, std::move(why)});
  scheduler_.soon(
      [this, connection = hold()] {
        other().end({rdma::CloseReason::Kind::transport_lost, rdma::Phase::open, {}, "connection reset"});
      },
      other().queue_tag_);
}

void Endpoint::end(rdma::CloseReason reason) {
  if (ended_) return;
  ended_ = true;
  for (const Endpoint* end : {this, &other()}) {
    scheduler_.touch(end->host_.index(), Touched::What::sends);
    scheduler_.touch(end->host_.index(), Touched::What::tells);
    scheduler_.touch(end->host_.index(), Touched::What::works);
  }
  reason_ = std::move(reason);
  host_.drop_regions_of(*this);
  queue_.clear();
  owed_.clear();
  late_.clear();
  // Flushed requests give their sources back, so what was not read from them by now never travels, nor does
  // anything behind it.
  const auto unread = [](const MessagePtr& message) {
    return std::any_of(message->pieces.begin(), message->pieces.end(),
                       [](const Piece& piece) { return !piece.sourced; });
  };
  if (std::any_of(other().late_.begin(), other().late_.end(), unread)) {
    wire_.clear();
    std::erase_if(other().late_, unread);
  } else {
    wire_.erase(std::find_if(wire_.begin(), wire_.end(), unread), wire_.end());
  }
  while (!uncompleted_.empty()) {
    if (!uncompleted_.front()->completable) uncompleted_.front()->status = rdma::WorkStatus::flushed;
    uncompleted_.front()->completable = true;
    complete_in_order();
  }
  loop_.post([this, connection = hold()] { call_closed(); });
}

void Endpoint::call_closed() {
  while (!uncompleted_.empty()) {  // posted after the end
    const auto posted = uncompleted_.front();
    uncompleted_.pop_front();
    handler_.on_completion({id_of(posted->request), rdma::WorkStatus::flushed, 0});
  }
  handler_.on_closed(reason_);
}

}  // namespace kbtp::fake
