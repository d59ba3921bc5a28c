// For tests of the target: a fake fabric with one target on it, and an initiator that says whatever it is
// told.

#pragma once

#include <deque>
#include <gtest/gtest.h>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "proto/rdma/fake/fabric.h"
#include "proto/target/target.h"
#include "proto/wire/completion.h"
#include "proto/wire/hello.h"
#include "proto/wire/request.h"

namespace kbtp::target::testing {

inline constexpr std::uint16_t kPort = 7420;

class World {
 public:
  explicit World(TargetConfig config = {}, std::uint64_t seed = 1,
                 const fake::HostOptions& target_options = {},
                 const fake::HostOptions& initiator_options = {}, fake::Rules rules = fake::Rules::rdmap)
      : fabric({.seed = seed, .rules = rules}), target_host(fabric.add_host(target_options)) {
    hosts.push_back(&fabric.add_host(initiator_options));  // 10.0.0.2
    hosts.push_back(&fabric.add_host(initiator_options));  // 10.0.0.3
    auto created = Target::create(std::move(config), target_host);
    EXPECT_TRUE(created) << (created ? "" : created.error().text);
    target = std::move(*created);
    auto listening = target_host.listen(address(), target->accept_function());
    EXPECT_TRUE(listening);
    listener = std::move(*listening);
  }
  ~World() {
    listener.reset();
    bool drained = false;
    target->drain([&] { drained = true; });
    EXPECT_TRUE(fabric.run_until([&] { return drained; })) << "the target does not drain";
  }

  [[nodiscard]] SocketAddress address() const { return fabric.address(0, kPort); }
  /// Lets everything happen that is on its way.
  void settle() { fabric.run_for(std::chrono::milliseconds(50)); }

  fake::Fabric fabric;
  rdma::Provider& target_host;
  std::vector<rdma::Provider*> hosts;
  std::unique_ptr<Target> target;
  std::unique_ptr<rdma::Listener> listener;
};

/// Small and quick to check: 8 blocks of 64 octets, no reserve, one trust domain.
inline TargetConfig small_config() {
  TargetConfig config;
  config.blocks = 8;
  config.block_size = 64;
  config.handles = 32;
  config.reserve = 0;
  config.max_inline = 96;
  config.max_requests = 8;
  return config;
}

/// A target in a world where one initiator, 10.0.0.2, is known by name and others are not.
inline const Uuid kAlice = *Uuid::parse("11111111-2222-3333-4444-555555555555");
inline const Uuid kBob = *Uuid::parse("99999999-2222-3333-4444-555555555555");

class RawInitiator : public rdma::StreamHandler {
 public:
  RawInitiator(World& world, std::size_t host = 0, rdma::StreamOptions options = {}) : world_(world) {
    options.initial_receives = 64;
    world.hosts.at(host)->connect(world.address(), 0, options, *this);
    world.fabric.run_until([this] { return stream != nullptr || closed; });
  }
  ~RawInitiator() override {
    if (!closed && stream != nullptr) stream->abort("the test is over");
    world_.fabric.run_until([this] { return closed.has_value(); });
  }

  void on_open(rdma::Stream& opened, Octets) override { stream = &opened; }
  void on_received(const rdma::Received& received) override {
    messages.push_back(to_vector(received.payload));
    if (received.immediate) immediates.push_back(*received.immediate);
    invalidated.push_back(received.invalidated);
    stream->post_receives(1);
  }
  void on_completion(const rdma::Completion&) override {}
  void on_peer_finished() override {
    peer_finished = true;
    if (stream != nullptr) stream->close(std::chrono::seconds(1));
  }
  void on_closed(const rdma::CloseReason& reason) override {
    stream = nullptr;
    closed = reason;
  }

  void send(std::vector<std::byte> message) {
    std::vector<rdma::WorkRequest> requests;
    requests.emplace_back(rdma::Send{0, std::move(message), false, {}});
    stream->post(std::move(requests));
  }

  /// The next message, or an empty one when the stream ends or nothing comes.
  std::vector<std::byte> next() {
    world_.fabric.run_until([this] { return messages.size() > taken || closed; }, std::chrono::seconds(20));
    return messages.size() > taken ? messages[taken++] : std::vector<std::byte>{};
  }

  wire::HelloAck hello(const wire::Hello& hello) {
    send(wire::encode(hello));
    const auto message = next();
    const auto ack = wire::decode_hello_ack(message);
    EXPECT_TRUE(ack) << "no HELLO_ACK";
    return ack ? *ack : wire::HelloAck{};
  }
  /// The usual one: `quota` blocks and as many handles.
  wire::HelloAck hello(std::uint32_t quota = 4, std::uint64_t handles = 8, const Uuid& identity = {}) {
    wire::Hello wanted;
    wanted.request_id = 77;
    wanted.quota = quota;
    wanted.handle_count = handles;
    wanted.identity = identity;
    return hello(wanted);
  }

  wire::Completion completion() {
    const auto message = next();
    const auto completion = wire::decode_completion(message);
    EXPECT_TRUE(completion) << "no COMPLETION";
    return completion ? *completion : wire::Completion{};
  }
  wire::Completion answer(const wire::Request& request) {
    send(wire::encode(request));
    return completion();
  }

  [[nodiscard]] bool ended() {
    return world_.fabric.run_until([this] { return closed || peer_finished; }, std::chrono::seconds(20));
  }

  rdma::Region expose(std::span<std::byte> memory,
                      rdma::Access access = rdma::Access::remote_read | rdma::Access::remote_write,
                      bool remote_invalidate = false) {
    const auto region = stream->register_region({.memory = memory,
                                                 .access = access,
                                                 .tagged_offset = 0x1000,
                                                 .remote_invalidate = remote_invalidate});
    EXPECT_TRUE(region);
    return region ? *region : rdma::Region{};
  }

  // Requests with a Request ID of their own.
  wire::RequestHead head(std::uint64_t handle, std::uint16_t generation = 0) {
    return {next_id_++, handle, generation, 0};
  }
  wire::Load load(std::uint64_t handle, const rdma::Region& sink, std::uint32_t length) {
    wire::Load load;
    load.head = head(handle);
    load.destination = {sink.stag, sink.tagged_offset, length};
    return load;
  }
  wire::AllocStore alloc_inline(std::uint64_t handle, Octets data, bool seal = false) {
    wire::AllocStore store;
    store.head = head(handle);
    store.body.inline_data = inline_data_.emplace_back(to_vector(data));  // outlives the request
    store.body.seal = seal;
    return store;
  }
  wire::Store store_inline(std::uint64_t handle, Octets data, bool seal = false) {
    const auto alloc = alloc_inline(handle, data, seal);
    return {alloc.head, alloc.body};
  }
  wire::AllocStore alloc_read(std::uint64_t handle, const rdma::Region& source, std::uint32_t length) {
    wire::AllocStore store;
    store.head = head(handle);
    store.body.source = {source.stag, source.tagged_offset, length};
    return store;
  }
  wire::Free free(std::uint64_t handle, std::uint16_t generation = 0) {
    return {head(handle, generation), {}};
  }
  /// A LOAD with a zero-length descriptor (G-16).
  wire::Load probe(std::uint64_t handle) {
    wire::Load load;
    load.head = head(handle);
    load.allow_unsealed = true;
    return load;
  }

  rdma::Stream* stream = nullptr;
  std::vector<std::vector<std::byte>> messages;
  std::vector<std::optional<rdma::STag>> invalidated;
  std::vector<std::uint64_t> immediates;  ///< each has an empty message too
  std::size_t taken = 0;
  bool peer_finished = false;
  std::optional<rdma::CloseReason> closed;

 private:
  World& world_;
  std::uint64_t next_id_ = 0xA1B2C3D4E5F60000;
  std::deque<std::vector<std::byte>> inline_data_;
};

inline std::vector<std::byte> pattern(std::size_t size, unsigned seed) {
  std::vector<std::byte> octets(size);
  for (std::size_t i = 0; i < size; ++i) octets[i] = static_cast<std::byte>(seed * 31 + i * 7 + 1);
  return octets;
}

}  // namespace kbtp::target::testing
