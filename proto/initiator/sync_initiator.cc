#include "proto/initiator/sync_initiator.h"

#include <condition_variable>
#include <mutex>
#include <optional>
#include <utility>

namespace kbtp::initiator {

namespace {

/// A value that one thread waits for and a loop delivers once.
template <class T>
class Waited {
 public:
  void deliver(T value) {
    const std::scoped_lock lock(mutex_);
    value_ = std::move(value);
    there_.notify_all();
  }
  [[nodiscard]] T wait() {
    std::unique_lock lock(mutex_);
    there_.wait(lock, [this] { return value_.has_value(); });
    return std::move(*value_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable there_;
  std::optional<T> value_;
};

}  // namespace

class SyncInitiator::Impl {
 public:
  explicit Impl(std::shared_ptr<Session> session_of)
      : session(std::move(session_of)), info(session->info()), closed(std::make_shared<Waited<bool>>()) {}

  /// Runs `start` on the session's loop and waits for the outcome that it promises; every operation has a
  /// deadline, so that this ends.
  template <class Start>
  Outcome run(Start start) {
    const auto outcome = std::make_shared<Waited<Outcome>>();
    session->loop().post([start = std::move(start), outcome, s = session]() mutable {
      start(*s, [outcome](const Outcome& o) { outcome->deliver(o); });
    });
    return outcome->wait();
  }

  template <class Start>
  Outcome run_with_buffer(std::span<std::byte> memory, BufferUse use, Start start) {
    return run([memory, use, start = std::move(start)](Session& s, Done done) mutable {
      if (memory.empty()) return start(s, Slice{}, std::move(done));
      const auto buffer = s.register_buffer(memory, use);
      if (!buffer) {
        Outcome outcome;
        outcome.error = buffer.error().text;
        return done(outcome);
      }
      start(s, buffer->all(), [&s, buffer = *buffer, done = std::move(done)](const Outcome& o) {
        s.unregister_buffer(buffer);
        done(o);
      });
    });
  }

  std::shared_ptr<Session> session;
  SessionInfo info;
  std::shared_ptr<Waited<bool>> closed;
  bool open = true;
};

SyncInitiator::SyncInitiator(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SyncInitiator::~SyncInitiator() { close(); }

Expected<std::unique_ptr<SyncInitiator>, ConnectError> SyncInitiator::connect(rdma::Provider& provider,
                                                                              ConnectOptions options) {
  using Answer = Expected<std::unique_ptr<SyncInitiator>, ConnectError>;
  const auto result = std::make_shared<Waited<Answer>>();
  initiator::connect(
      provider, std::move(options), [result](Expected<std::shared_ptr<Session>, ConnectError> session) {
        if (!session) return result->deliver(unexpected(session.error()));
        auto impl = std::make_unique<Impl>(*session);
        (*session)->on_closed([closed = impl->closed](const rdma::CloseReason&) { closed->deliver(true); });
        result->deliver(std::unique_ptr<SyncInitiator>(new SyncInitiator(std::move(impl))));
      });
  return result->wait();
}

const SessionInfo& SyncInitiator::info() const { return impl_->info; }

Outcome SyncInitiator::load(std::uint64_t handle, std::span<std::byte> sink, const LoadOptions& options) {
  return impl_->run_with_buffer(sink, BufferUse::load, [=](Session& s, const Slice& slice, Done done) {
    s.load(handle, slice, options, std::move(done));
  });
}

Outcome SyncInitiator::store(std::uint64_t handle, std::span<std::byte> source, const StoreOptions& options,
                             bool prefer_inline) {
  if (prefer_inline && source.size() <= impl_->info.max_inline) {
    return impl_->run(
        [=](Session& s, Done done) { s.store_inline(handle, source, options, std::move(done)); });
  }
  return impl_->run_with_buffer(source, BufferUse::store, [=](Session& s, const Slice& slice, Done done) {
    s.store(handle, slice, options, std::move(done));
  });
}

Outcome SyncInitiator::alloc_store(std::uint64_t handle, std::span<std::byte> source,
                                   const StoreOptions& options, bool prefer_inline) {
  if (prefer_inline && source.size() <= impl_->info.max_inline) {
    return impl_->run(
        [=](Session& s, Done done) { s.alloc_store_inline(handle, source, options, std::move(done)); });
  }
  return impl_->run_with_buffer(source, BufferUse::store, [=](Session& s, const Slice& slice, Done done) {
    s.alloc_store(handle, slice, options, std::move(done));
  });
}

Outcome SyncInitiator::free(std::uint64_t handle, std::uint16_t generation) {
  return impl_->run([=](Session& s, Done done) { s.free(handle, generation, std::move(done)); });
}

Outcome SyncInitiator::probe(std::uint64_t handle) {
  return impl_->run([=](Session& s, Done done) { s.probe(handle, std::move(done)); });
}

Outcome SyncInitiator::direct_load(std::uint64_t handle, std::span<std::byte> sink,
                                   const DirectLoadOptions& options) {
  return impl_->run([=](Session& s, Done done) { s.direct_load(handle, sink, options, std::move(done)); });
}

Outcome SyncInitiator::direct_alloc_store(std::uint64_t handle, Octets source,
                                          const DirectStoreOptions& options) {
  return impl_->run(
      [=](Session& s, Done done) { s.direct_alloc_store(handle, source, options, std::move(done)); });
}

void SyncInitiator::close() {
  if (!std::exchange(impl_->open, false)) return;
  impl_->session->loop().post([s = impl_->session] { s->close(); });
  (void)impl_->closed->wait();
}

}  // namespace kbtp::initiator
