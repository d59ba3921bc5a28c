#include "conformance/session.h"

#include <fmt/format.h>

#include "base/random.h"

namespace kbtp::conformance {

mpa::StartupFrame enhanced_request(std::uint16_t ird, std::uint16_t ord) {
  mpa::StartupFrame frame;
  frame.kind = mpa::StartupKind::request;
  frame.crc = true;
  frame.revision = mpa::kRevision2;
  frame.enhanced = mpa::Enhanced{.ird = ird, .ord = ord};
  return frame;
}

mpa::StartupFrame plain_request() {
  mpa::StartupFrame frame;
  frame.kind = mpa::StartupKind::request;
  frame.crc = true;
  frame.revision = mpa::kRevision1;
  return frame;
}

std::vector<std::byte> pattern(std::uint32_t seed, std::size_t size) {
  std::vector<std::byte> out(size);
  std::uint32_t state = seed * 2654435761u + 1;
  for (std::byte& octet : out) {
    state = state * 1664525u + 1013904223u;
    octet = static_cast<std::byte>(state >> 24);
  }
  return out;
}

Session::Session(std::unique_ptr<Peer> peer, ConnectionIndex index, wire::Assignment assignment)
    : peer_(std::move(peer)),
      raw_(dynamic_cast<RawPeer*>(peer_.get())),
      index_(index),
      assignment_(assignment) {}

bool Session::open(const SessionOptions& options) {
  small_ids_ = options.small_ids;
  if (!peer_->establish(options.request)) {
    why_ = peer_->trouble();
    return false;
  }
  wire::Hello hello;
  hello.request_id = fresh_id();
  hello.wanted = options.wanted;
  hello.receive_size = wire::kInitialReceiveSize;
  hello.quota = options.quota;
  hello.handle_count = options.handles;
  hello.identity = options.identity;
  send_message(wire::encode(hello, assignment_));
  peer_->pump([this] { return !peer_->messages().empty(); });
  if (peer_->messages().empty()) {
    why_ = "HELLO: no answer" + (peer_->trouble().empty() ? "" : "; " + peer_->trouble());
    return false;
  }
  const auto ack = wire::decode_hello_ack(peer_->messages().front(), assignment_);
  peer_->messages().pop_front();
  if (!ack) {
    why_ = "HELLO: the answer is no HELLO_ACK: " + ack.error().to_string();
    return false;
  }
  if (ack->status != wire::Status::success) {
    why_ = fmt::format("HELLO: refused with {}", wire::to_string(ack->status));
    return false;
  }
  if (ack->quota < options.quota || ack->handle_count < options.handles) {
    why_ = fmt::format("HELLO: the case needs a quota of {} and {} handles, the target grants {} and {}",
                       options.quota, options.handles, ack->quota, ack->handle_count);
    return false;
  }
  ack_ = *ack;
  return true;
}

RequestId Session::fresh_id() { return small_ids_ ? ++last_small_id_ : random_u64(); }

RequestId Session::send(const wire::Request& request) {
  send_message(encode(request));
  return wire::head(request).request_id;
}

RequestId Session::load(std::uint64_t handle, const ExposedBuffer& into, std::uint32_t length,
                        LoadFlags flags) {
  wire::Load load;
  load.head = {.request_id = fresh_id(), .handle = handle, .generation = flags.generation};
  load.destination = {into.stag, into.tagged_offset, length};
  load.allow_unsealed = flags.allow_unsealed;
  load.invalidate = flags.invalidate;
  load.record = flags.record;
  return send(load);
}

namespace {

template <class Operation>
Operation inline_store(RequestId id, std::uint64_t handle, Octets data, Session::StoreFlags flags) {
  Operation store;
  store.head = {.request_id = id, .handle = handle, .generation = flags.generation};
  store.body.source.length = static_cast<std::uint32_t>(data.size());
  store.body.inline_data = data;
  store.body.seal = flags.seal;
  return store;
}

template <class Operation>
Operation read_store(RequestId id, std::uint64_t handle, const ExposedBuffer& from,
                     Session::StoreFlags flags) {
  Operation store;
  store.head = {.request_id = id, .handle = handle, .generation = flags.generation};
  store.body.source = {from.stag, from.tagged_offset, from.size()};
  store.body.seal = flags.seal;
  return store;
}

}  // namespace

RequestId Session::store(std::uint64_t handle, Octets inline_data, StoreFlags flags) {
  return send(inline_store<wire::Store>(fresh_id(), handle, inline_data, flags));
}
RequestId Session::store(std::uint64_t handle, const ExposedBuffer& from, StoreFlags flags) {
  return send(read_store<wire::Store>(fresh_id(), handle, from, flags));
}
RequestId Session::alloc_store(std::uint64_t handle, Octets inline_data, StoreFlags flags) {
  return send(inline_store<wire::AllocStore>(fresh_id(), handle, inline_data, flags));
}
RequestId Session::alloc_store(std::uint64_t handle, const ExposedBuffer& from, StoreFlags flags) {
  return send(read_store<wire::AllocStore>(fresh_id(), handle, from, flags));
}

RequestId Session::free(std::uint64_t handle, std::uint16_t generation) {
  wire::Free free;
  free.head = {.request_id = fresh_id(), .handle = handle, .generation = generation};
  return send(free);
}

RequestId Session::bind_and_free(std::uint64_t handle, std::uint32_t pairs) {
  std::vector<std::vector<std::byte>> messages;
  const auto add = [&](const wire::Request& request) {
    messages.push_back(encode(request));
    return wire::head(request).request_id;
  };
  RequestId last = 0;
  for (std::uint32_t i = 0; i < pairs; ++i) {
    add(inline_store<wire::AllocStore>(fresh_id(), handle, {}, {.seal = true}));
    wire::Free free;
    free.head = {.request_id = fresh_id(), .handle = handle};
    last = add(free);
  }
  peer_->send_messages(messages);
  return last;
}

void Session::take_completions() {
  auto& messages = peer_->messages();
  while (!messages.empty()) {
    if (const auto completion =
            wire::decode_completion(messages.front(), assignment_, wire::Lengths::lenient))
      completions_.insert_or_assign(completion->request_id, *completion);
    messages.pop_front();
  }
}

std::optional<wire::Completion> Session::await(RequestId id) {
  peer_->pump([&] { return answered(id); });
  const auto found = completions_.find(id);
  if (found == completions_.end()) return std::nullopt;
  return found->second;
}

}  // namespace kbtp::conformance
