// A KBTP session over a Peer: requests by name, Request IDs at random, completions by Request ID. What it
// says is well formed; a case that wants otherwise builds octets and sends them through peer() or raw().

#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/uuid.h"
#include "conformance/judge.h"
#include "conformance/raw_peer.h"
#include "proto/wire/completion.h"
#include "proto/wire/hello.h"
#include "proto/wire/request.h"

namespace kbtp::conformance {

/// A well-formed Request: revision 2, enhanced, CRC on.
[[nodiscard]] mpa::StartupFrame enhanced_request(std::uint16_t ird = 8, std::uint16_t ord = 8);
/// A well-formed Request of revision 1.
[[nodiscard]] mpa::StartupFrame plain_request();

/// `size` octets that depend on `seed` in every place.
[[nodiscard]] std::vector<std::byte> pattern(std::uint32_t seed, std::size_t size);

struct SessionOptions {
  mpa::StartupFrame request = enhanced_request();
  std::uint32_t quota = 4;
  std::uint64_t handles = 8;
  wire::Features wanted = {};
  Uuid identity = {};
  bool small_ids = false;  ///< Request IDs 1, 2, 3, ... instead of random ones
};

class Session {
 public:
  Session(std::unique_ptr<Peer> peer, ConnectionIndex index, wire::Assignment assignment);

  /// Set-up and HELLO; false with why() when there is no session.
  bool open(const SessionOptions& options);
  [[nodiscard]] const std::string& why() const { return why_; }

  [[nodiscard]] Peer& peer() { return *peer_; }
  /// Only in cases whose Player is raw_peer: there is no RawPeer below others.
  [[nodiscard]] RawPeer& raw() { return *raw_; }
  [[nodiscard]] ConnectionIndex index() const { return index_; }
  [[nodiscard]] const wire::HelloAck& ack() const { return ack_; }
  /// The i-th handle of the own range.
  [[nodiscard]] std::uint64_t handle(std::uint64_t i) const { return ack_.base_handle + i; }

  // Each sends one request and returns its Request ID.
  // ----------------------------------------------------------

  struct LoadFlags {
    bool allow_unsealed = false;
    bool invalidate = false;
    std::uint16_t generation = 0;
    std::optional<wire::CompletionDescriptor> record = {};
  };
  RequestId load(std::uint64_t handle, const ExposedBuffer& into, std::uint32_t length, LoadFlags flags);
  RequestId load(std::uint64_t handle, const ExposedBuffer& into) {
    return load(handle, into, into.size(), LoadFlags{});
  }
  struct StoreFlags {
    bool seal = false;
    std::uint16_t generation = 0;
  };
  RequestId store(std::uint64_t handle, Octets inline_data, StoreFlags flags);
  RequestId store(std::uint64_t handle, const ExposedBuffer& from, StoreFlags flags);
  RequestId alloc_store(std::uint64_t handle, Octets inline_data, StoreFlags flags);
  RequestId alloc_store(std::uint64_t handle, const ExposedBuffer& from, StoreFlags flags);
  RequestId free(std::uint64_t handle, std::uint16_t generation = 0);
  RequestId send(const wire::Request& request);
  /// ALLOC_STORE of no octets and FREE of one handle, `pairs` times in one write; the last FREE's Request ID.
  RequestId bind_and_free(std::uint64_t handle, std::uint32_t pairs);

  /// Any octets as the next Send.
  void send_message(Octets message) { peer_->send_message(message); }
  [[nodiscard]] std::vector<std::byte> encode(const wire::Request& request) const {
    return wire::encode(request, assignment_);
  }

  /// Waits until so many completion records have come in this session; false when fewer do.
  bool await_records(std::size_t count) {
    return peer_->pump([&] { return peer_->immediates() >= count; });
  }
  /// Whether the completion has come.
  [[nodiscard]] bool answered(RequestId id) {
    take_completions();
    return completions_.contains(id);
  }
  /// Waits for the completion; nothing when none comes.
  std::optional<wire::Completion> await(RequestId id);

 private:
  void take_completions();
  RequestId fresh_id();

  std::unique_ptr<Peer> peer_;
  RawPeer* raw_;  ///< the same, if it is one
  ConnectionIndex index_;
  wire::Assignment assignment_;
  wire::HelloAck ack_;
  std::string why_;
  RequestId last_small_id_ = 0;
  bool small_ids_ = false;
  std::map<RequestId, wire::Completion> completions_;
};

}  // namespace kbtp::conformance
