#include "verbs/connection.h"

#include <utility>

namespace kbtp::verbs {

using rdma::CloseReason;

void Home::drop(Connection& connection) { connections.erase(connection.number()); }

void Home::shed_handshakes(std::size_t limit) {
  while (!handshakes.empty() && handshakes.size() >= limit) {
    handshakes.front()->end(
        {CloseReason::Kind::deadline, rdma::Phase::mpa, {}, "too many connections in set-up"});
  }
}

void Resources::destroy_queue_pair() {
  // A window that is still bound belongs to its queue pair: rxe waits 50 s for it before it gives up.
  if (regions) regions->release_windows();
  if (id && id->qp != nullptr) rdma_destroy_qp(id.get());
}

Resources::~Resources() {
  destroy_queue_pair();
  // Then in the reverse order of the members, each of which needs those before it.
}

Connection::Connection(Home& home, ConnectionNumber number, rdma::StreamOptions options,
                       rdma::StreamHandler& handler)
    : home_(home),
      number_(number),
      options_(std::move(options)),
      handler_(handler),
      capabilities_(home.device.capabilities),
      resources_(std::make_shared<Resources>()) {}

Connection::~Connection() {
  for (rdma::TimerId* timer : {&setup_timer_, &linger_timer_, &send_timer_, &error_timer_, &pause_timer_})
    cancel(*timer);
  if (in_handshakes_) home_.handshakes.erase(handshake_);
  unwatch_cm();
  if (work_watched_) home_.loop.events().unwatch(resources_->completions->fd, work_ear_);
  home_.loop.events().forget(work_ear_);
}

void Connection::cancel(rdma::TimerId& timer) {
  if (timer != rdma::TimerId::none) home_.loop.cancel(timer);
  timer = rdma::TimerId::none;
}

CloseReason Connection::reason(CloseReason::Kind kind, std::string text) const {
  rdma::Phase phase = rdma::Phase::open;
  if (!opened_) phase = state_ == State::resolving ? rdma::Phase::tcp : rdma::Phase::mpa;
  return {kind, phase, {}, std::move(text)};
}

/// The first reason counts; the end comes when the current turn is over.
void Connection::fail(CloseReason::Kind kind, std::string text) {
  if (!ending_) ending_ = reason(kind, std::move(text));
  wake();
}

void Connection::device_says(const char* why) {
  fail(CloseReason::Kind::local_error, why);
  settle();
}

void Connection::end(const CloseReason& why) {
  if (!ending_) ending_ = why;  // the handler may still post
  if (attempt_) {
    const std::scoped_lock lock(attempt_->mutex);
    attempt_->loop = nullptr;  // the thread gives everything back when the kernel lets it go
  }
  if (state_ == State::open && resources_->id) rdma_disconnect(resources_->id.get());
  if (!attempt_) resources_->destroy_queue_pair();
  if (queue_) {
    queue_->flush();
    while (const auto ended = queue_->take()) {
      if (ended->completion) handler_.on_completion(*ended->completion);
    }
  }
  if (resources_->regions) resources_->regions->clear();
  unwatch_cm();
  if (std::exchange(work_watched_, false))
    home_.loop.events().unwatch(resources_->completions->fd, work_ear_);
  if (!attempt_) resources_ = std::make_shared<Resources>();
  handler_.on_closed(why);
  home_.drop(*this);
}

// --- rdma::Stream ----------------------------------------------------------------------------------------

void Connection::post(std::vector<rdma::WorkRequest> requests) {
  for (rdma::WorkRequest& request : requests) queue_->post(std::move(request));
  wake();
}

void Connection::post_receives(std::uint32_t count) {
  receives_wanted_ += count;
  fill_receives();
}

Result<rdma::Region> Connection::register_region(const rdma::RegionSpec& spec) {
  if (ending_) return failure("the connection has ended");
  const bool window = spec.remote_invalidate && home_.device.facts.wire != Wire::iwarp &&
                      home_.device.facts.windows_of_type_2;
  std::shared_ptr<const void> counters;
  if (allows(spec.access, rdma::Access::remote_atomic)) {
    auto shared = home_.host.share_counters(spec.memory);
    if (!shared) return unexpected(shared.error());
    counters = std::move(*shared);
  }
  auto region = resources_->regions->add(spec, window, std::move(counters));
  if (region && window) {
    // In order with what will tell the peer of it; the device binds before it goes on.
    queue_->bind(region->stag);
    wake();
  }
  return region;
}

void Connection::revoke(rdma::STag stag) {
  if (resources_->regions) resources_->regions->remove(stag);
}

void Connection::close(Duration linger) {
  if (closing_ || ending_) return;
  closing_ = true;
  queue_->close();
  linger_timer_ = home_.loop.call_at(home_.loop.now() + linger, [this] {
    linger_timer_ = rdma::TimerId::none;
    fail(CloseReason::Kind::graceful, "the peer did not finish in time");
    settle();
  });
  wake();
}

void Connection::abort(std::string why) { fail(CloseReason::Kind::local_error, std::move(why)); }

}  // namespace kbtp::verbs
