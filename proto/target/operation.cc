#include "proto/target/operation.h"

#include <utility>
#include <variant>

#include "base/fault.h"
#include "proto/target/handlers.h"
#include "proto/target/session.h"

namespace kbtp::target {

Operation::Operation(std::shared_ptr<Session> session, wire::Request request)
    : request_(std::move(request)), session_(std::move(session)) {}

std::shared_ptr<Operation> Operation::make(std::shared_ptr<Session> session, const wire::Request& request) {
  if (std::holds_alternative<wire::Load>(request)) {
    return std::make_shared<LoadOperation>(std::move(session), request);
  }
  if (const auto* store = std::get_if<wire::Store>(&request)) {
    const std::uint64_t handle = store->head.handle;
    if (fault(Fault::store_binds_unbound_handle) && session->sees(handle) &&
        !session->core().table.read(handle).valid()) {
      return std::make_shared<AllocStoreOperation>(std::move(session),
                                                   wire::AllocStore{store->head, store->body});
    }
    return std::make_shared<StoreOperation>(std::move(session), request);
  }
  if (std::holds_alternative<wire::AllocStore>(request)) {
    return std::make_shared<AllocStoreOperation>(std::move(session), request);
  }
  if (std::holds_alternative<wire::Bind>(request)) {
    return std::make_shared<BindOperation>(std::move(session), request);
  }
  return std::make_shared<FreeOperation>(std::move(session), request);
}

rdma::Loop& Operation::loop() { return session_->loop(); }
Core& Operation::core() const { return session_->core(); }

wire::TableEntry Operation::entry() const {
  const std::uint64_t handle = head().handle;
  return core().table.contains(handle) ? core().table.read(handle) : wire::TableEntry{};
}

void Operation::turn() {
  // The session may have ended while this waited behind others.
  if (session_->closed()) return drop();
  run();
}

void Operation::keep_inline_data() {
  const auto keep = [this](wire::StoreBody& body) {
    if (!body.inline_data || !kept_.empty()) return;
    kept_ = to_vector(*body.inline_data);
    body.inline_data = Octets(kept_);
  };
  if (auto* store = std::get_if<wire::Store>(&request_)) keep(store->body);
  if (auto* store = std::get_if<wire::AllocStore>(&request_)) keep(store->body);
}

void Operation::finish(const Answer& answer, std::optional<rdma::Write> write,
                       std::optional<std::uint64_t> pinned_block) {
  const auto self = shared_from_this();
  // The next operation on the handle sees the entry as this one leaves it; what it does cannot overtake this
  // completion in a way that matters, for completions come in any order (G-22).
  core().queue.leave(head().handle);
  session_->complete(*this, answer, std::move(write), pinned_block);
}

void Operation::refuse(wire::Status status) {
  if (!session_->sees(head().handle)) return finish({.status = status});
  const wire::TableEntry now = entry();
  finish({.status = status, .generation = now.generation, .data_length = now.data_length});
}

void Operation::drop() {
  const auto self = shared_from_this();
  core().queue.leave(head().handle);
  session_->drop(*this);
}

}  // namespace kbtp::target
