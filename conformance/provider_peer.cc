#include "conformance/provider_peer.h"

#include <condition_variable>
#include <iterator>
#include <mutex>
#include <utility>

#include "proto/rdma/thread_loop.h"

namespace kbtp::conformance {

namespace {

// More than a target sends at once: no case has more requests outstanding than HELLO_ACK allows.
constexpr std::uint32_t kReceives = 512;
constexpr std::uint32_t kReceiveSize = 4096;
constexpr std::uint32_t kReads = 8;

}  // namespace

struct ProviderPeer::Link final : rdma::StreamHandler {
  explicit Link(rdma::Loop& l) : loop(l) {}

  void on_open(rdma::Stream& opened, Octets /*private_data*/) override {
    stream = &opened;
    const std::scoped_lock lock(mutex);
    local = opened.local();
    open = true;
    changed.notify_all();
  }
  void on_received(const rdma::Received& received) override {
    stream->post_receives(1);
    const std::scoped_lock lock(mutex);
    if (received.immediate) {
      ++immediates;
    } else {
      arrived.push_back(to_vector(received.payload));
    }
    changed.notify_all();
  }
  void on_completion(const rdma::Completion& /*completion*/) override {}
  void on_peer_finished() override {
    const std::scoped_lock lock(mutex);
    ended = true;
    changed.notify_all();
  }
  void on_closed(const rdma::CloseReason& reason) override {
    stream = nullptr;
    loop.post([keep = std::move(self)] {});  // until this call has returned
    const std::scoped_lock lock(mutex);
    ended = closed = true;
    why = reason.text;
    changed.notify_all();
  }

  rdma::Loop& loop;
  rdma::Stream* stream = nullptr;     ///< the loop's
  std::shared_ptr<Link> self;         ///< while there is, or will be, a stream
  std::deque<ExposedBuffer> buffers;  ///< their octets are the stream's as long as there is one

  std::mutex mutex;  ///< guards all below
  std::condition_variable changed;
  std::deque<std::vector<std::byte>> arrived;
  std::size_t immediates = 0;
  SocketAddress local;
  bool open = false, ended = false, closed = false;
  std::string why;
};

ProviderPeer::ProviderPeer(rdma::Provider& provider, const SocketAddress& target,
                           const Allowances& allowances)
    : provider_(provider), target_(target), patience_(allowances.patience) {}

ProviderPeer::~ProviderPeer() { ProviderPeer::close(); }

bool ProviderPeer::open(const OnBound& on_bound) {
  link_ = std::make_shared<Link>(provider_.loop(0));
  link_->self = link_;
  connected_ = true;
  rdma::StreamOptions options;
  options.domain = provider_.create_domain();
  options.receive_size = kReceiveSize;
  options.initial_receives = kReceives;
  options.ird = options.ord = kReads;
  options.setup_deadline = patience_;
  provider_.connect(target_, 0, std::move(options), *link_);
  std::unique_lock lock(link_->mutex);
  link_->changed.wait(lock, [this] { return link_->open || link_->closed; });  // the deadline ends it
  ended_ = link_->ended;
  if (!link_->open) trouble_ = "no connection: " + link_->why;
  const SocketAddress local = link_->local;
  lock.unlock();
  on_bound(local);
  return trouble_.empty();
}

bool ProviderPeer::establish(const mpa::StartupFrame& /*request*/) { return !ended_; }

void ProviderPeer::on_loop(const std::function<void(rdma::Stream& stream)>& task) {
  if (!link_) return;
  rdma::on_loop(link_->loop, [&] {
    if (link_->stream != nullptr) task(*link_->stream);
  });
}

void ProviderPeer::send_messages(const std::vector<std::vector<std::byte>>& messages) {
  std::vector<rdma::WorkRequest> requests;
  requests.reserve(messages.size());
  for (const auto& message : messages) {
    rdma::Send send;
    send.payload = message;
    requests.emplace_back(std::move(send));
  }
  on_loop([&](rdma::Stream& stream) { stream.post(std::move(requests)); });
}

ExposedBuffer& ProviderPeer::expose(std::size_t size, Revocable revocable) {
  if (!link_) link_ = std::make_shared<Link>(provider_.loop(0));
  ExposedBuffer& buffer = link_->buffers.emplace_back();
  buffer.storage.assign(size + 2 * ExposedBuffer::kGuard, std::byte{0xA5});
  on_loop([&](rdma::Stream& stream) {
    const auto region = stream.register_region(
        {.memory = buffer.storage,
         .access = rdma::Access::remote_read | rdma::Access::remote_write,
         .remote_invalidate = revocable == Revocable::by_target && stream.capabilities().invalidate_rx});
    if (region) {
      buffer.stag = region->stag;
      buffer.tagged_offset = region->tagged_offset + ExposedBuffer::kGuard;
    } else if (trouble_.empty()) {
      trouble_ = region.error().text;
    }
  });
  return buffer;
}

bool ProviderPeer::pump(const std::function<bool()>& done, Duration patience) {
  const TimePoint deadline = Clock::now() + patience;
  while (!done()) {
    if (ended_ || !link_) break;
    std::unique_lock lock(link_->mutex);
    const auto something = [this] { return !link_->arrived.empty() || link_->immediates != immediates_; };
    if (!link_->changed.wait_until(lock, deadline, [&] { return something() || link_->ended; })) break;
    // What arrived before the end is looked at before the end is.
    if (!something()) {
      ended_ = true;
      if (trouble_.empty())
        trouble_ = "the connection has ended" + (link_->why.empty() ? "" : ": " + link_->why);
    }
    std::ranges::move(link_->arrived, std::back_inserter(messages_));
    link_->arrived.clear();
    immediates_ = link_->immediates;
  }
  return done();
}

void ProviderPeer::finish() {
  on_loop([this](rdma::Stream& stream) { stream.close(patience_); });
}

bool ProviderPeer::wait_for_close() {
  std::unique_lock lock(link_->mutex);
  return link_->changed.wait_for(lock, patience_, [this] { return link_->closed; });
}

void ProviderPeer::close() {
  if (!std::exchange(connected_, false)) return;
  finish();
  if (!wait_for_close()) {
    on_loop([](rdma::Stream& stream) { stream.abort("the suite is done with it"); });
    wait_for_close();
  }
  ended_ = true;
}

}  // namespace kbtp::conformance
