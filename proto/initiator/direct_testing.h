// For tests of the direct modes: a fake fabric and a target whose table, ring and pool a test writes as it
// likes.

#pragma once

#include <algorithm>
#include <cstring>
#include <functional>
#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <vector>

#include "proto/initiator/initiator.h"
#include "proto/rdma/fake/fabric.h"
#include "proto/wire/completion.h"
#include "proto/wire/hello.h"
#include "proto/wire/request.h"
#include "proto/wire/structures.h"

namespace kbtp::initiator::testing {

inline constexpr std::uint16_t kPort = 7420;
inline constexpr std::size_t kBlockSize = 64;
inline constexpr std::size_t kBlocks = 4;
inline constexpr std::size_t kHandles = 4;
inline constexpr unsigned kRingLog2 = 2;
inline constexpr std::uint64_t kTableBase = 100;
inline constexpr std::uint64_t kPoolOffset = 0x10000;

inline std::vector<std::byte> content(std::size_t size, std::uint64_t seed) {
  std::vector<std::byte> octets(size);
  for (std::size_t i = 0; i < size; ++i) octets[i] = static_cast<std::byte>(seed * 37 + i * 11 + (seed >> 5));
  return octets;
}

/// The target of one session. It binds as a good one does unless the test says otherwise.
class ScriptedTarget : public rdma::StreamHandler {
 public:
  ScriptedTarget() {
    for (std::size_t h = 0; h < kHandles; ++h) set_entry(h, {});
    for (std::uint32_t s = 0; s < kBlocks; ++s) set_slot(s, {s, block(s)});
    ack = {.base_handle = kTableBase,
           .granted = {.direct_load = true, .direct_alloc = true},
           .version = 1,
           .min_version = 1,
           .max_version = 1,
           .ring_log2 = kRingLog2,
           .max_requests = 4,
           .max_inline = 64,
           .block_size = kBlockSize,
           .handle_count = kHandles,
           .table_base_handle = kTableBase,
           .table_handle_count = kHandles,
           .pool_blocks = kBlocks,
           .quota = kBlocks,
           .ticket_timeout_ms = 1000,
           .pool_offset = kPoolOffset,
           .pool_length = kBlocks * kBlockSize,
           .partition_offset = kPoolOffset,
           .partition_length = kBlocks * kBlockSize};
  }

  // rdma::StreamHandler
  void on_open(rdma::Stream& opened, Octets) override {
    stream = &opened;
    using rdma::Access;
    using rdma::Content;
    const auto add = [&](std::span<std::byte> memory, Access access, Content kind, std::uint64_t offset) {
      return stream->register_region({memory, access, kind, offset, false})->stag;
    };
    const auto words = [](std::vector<std::uint64_t>& of) { return std::as_writable_bytes(std::span(of)); };
    ack.table_stag = add(words(table), Access::remote_read, Content::words, 0);
    ack.pool_stag = add(pool, Access::remote_read, Content::shared, kPoolOffset);
    ack.partition_stag = add(pool, Access::remote_write, Content::shared, kPoolOffset);
    ack.ring_stag = add(words(ring), Access::remote_read, Content::words, 0);
    ack.head_stag = add(words(head), Access::remote_atomic, Content::words, 0);
  }
  void on_received(const rdma::Received& received) override {
    stream->post_receives(1);
    if (!std::exchange(greeted, true)) {
      ack.request_id = wire::read_header(received.payload)->request_id;
      return send(wire::encode(ack));
    }
    const auto request = wire::decode_request(received.payload, ack.granted);
    ASSERT_TRUE(request);
    requests.push_back(*request);
    if (on_request && on_request(*request)) return;
    if (const auto* bind = std::get_if<wire::Bind>(&*request)) return complete(*request, do_bind(*bind));
    if (const auto* free = std::get_if<wire::Free>(&*request))
      return complete(*request, do_free(free->head.handle));
    complete(*request, wire::Status::success);
  }
  void on_completion(const rdma::Completion&) override {}
  void on_peer_finished() override { stream->close(std::chrono::seconds(1)); }
  void on_closed(const rdma::CloseReason&) override { stream = nullptr; }

  static std::uint64_t block(std::uint64_t number) { return kPoolOffset + number * kBlockSize; }
  std::span<std::byte> memory_of(std::uint64_t block_offset) {
    return std::span(pool).subspan(block_offset - kPoolOffset, kBlockSize);
  }
  wire::TableEntry entry(std::size_t index) const {
    return wire::unpack_entry({table[2 * index], table[2 * index + 1]});
  }
  void set_entry(std::size_t index, const wire::TableEntry& entry) {
    const wire::Words words = wire::pack(entry);
    table[2 * index + 1] = words.second;
    table[2 * index] = words.first;
  }
  wire::Slot slot(std::size_t index) const {
    return wire::unpack_slot({ring[2 * index], ring[2 * index + 1]});
  }
  void set_slot(std::size_t index, const wire::Slot& slot) {
    const wire::Words words = wire::pack(slot);
    ring[2 * index + 1] = words.second;
    ring[2 * index] = words.first;
  }
  /// Binds handle kTableBase + index to `block_number` with content(length, seed).
  void store(std::size_t index, std::uint64_t block_number, std::uint32_t length, std::uint64_t seed,
             std::uint16_t flags = wire::kEntryValid | wire::kEntrySealed) {
    std::ranges::copy(content(length, seed), memory_of(block(block_number)).begin());
    set_entry(index, {flags, wire::next_generation(entry(index).generation), length, block(block_number)});
  }

  /// 6.6 with the checks of E-9.
  wire::Status do_bind(const wire::Bind& bind) {
    const std::size_t index = bind.head.handle - kTableBase;
    if (index >= kHandles) return wire::Status::not_owner;
    if (entry(index).valid()) return wire::Status::already_bound;
    if (bind.data_length > kBlockSize) return wire::Status::length_error;
    const std::size_t at = bind.ticket % (std::size_t{1} << kRingLog2);
    if (slot(at) != wire::Slot{bind.ticket, bind.block_offset}) return wire::Status::invalid_ticket;
    set_slot(at, {bind.ticket, wire::kNoBlock});
    const auto flags = bind.seal ? wire::kEntryValid | wire::kEntrySealed : wire::kEntryValid;
    set_entry(index, {static_cast<std::uint16_t>(flags), wire::next_generation(entry(index).generation),
                      bind.data_length, bind.block_offset});
    return wire::Status::success;
  }
  wire::Status do_free(std::uint64_t handle) {
    const std::size_t index = handle - kTableBase;
    const wire::TableEntry freed = entry(index);
    if (!freed.valid()) return wire::Status::not_bound;
    set_entry(index, {0, wire::next_generation(freed.generation), 0, 0});
    const std::uint32_t ticket = tail++;
    set_slot(ticket % (std::size_t{1} << kRingLog2), {ticket, freed.block_offset});
    return wire::Status::success;
  }
  void complete(const wire::Request& request, wire::Status status) {
    wire::Completion completion;
    completion.request_id = wire::head(request).request_id;
    completion.handle = wire::head(request).handle;
    completion.status = status;
    const std::size_t index = completion.handle - kTableBase;
    if (index < kHandles) {
      completion.generation = entry(index).generation;
      completion.data_length = entry(index).data_length;
      if (status == wire::Status::success) completion.block_offset = entry(index).block_offset;
    }
    send(wire::encode(completion));
  }
  void send(std::vector<std::byte> message) {
    std::vector<rdma::WorkRequest> list;
    list.emplace_back(rdma::Send{0, std::move(message), false, {}});
    stream->post(std::move(list));
  }
  template <class T>
  std::size_t count() const {
    return static_cast<std::size_t>(
        std::ranges::count_if(requests, [](const auto& r) { return std::holds_alternative<T>(r); }));
  }

  rdma::Stream* stream = nullptr;
  wire::HelloAck ack;
  std::vector<std::uint64_t> table = std::vector<std::uint64_t>(2 * kHandles);
  std::vector<std::uint64_t> ring = std::vector<std::uint64_t>(2u << kRingLog2);
  std::vector<std::uint64_t> head = std::vector<std::uint64_t>(1);
  std::vector<std::byte> pool = std::vector<std::byte>(kBlocks * kBlockSize);
  std::uint32_t tail = kBlocks;
  bool greeted = false;
  std::vector<wire::Request> requests;
  std::function<bool(const wire::Request&)> on_request;  ///< true: answered, or not to be answered
};

class DirectTest : public ::testing::Test {
 protected:
  explicit DirectTest(std::uint64_t seed = 1, const fake::HostOptions& initiator = {},
                      fake::Rules rules = fake::Rules::rdmap)
      : fabric({.seed = seed, .rules = rules}),
        target_host(fabric.add_host()),
        host(fabric.add_host(initiator)) {
    auto listening = target_host.listen(fabric.address(0, kPort), [this](const auto&, rdma::Loop&) {
      rdma::Accept accept{&target, {}};
      accept.options.initial_receives = 100;
      return accept;
    });
    listener = std::move(*listening);
    options.address = fabric.address(0, kPort);
    options.quota = kBlocks;
    options.handles = kHandles;
    options.wanted = {.direct_load = true, .direct_alloc = true};
    fabric.observe([this](const fake::Observed& seen) {
      if (observer) observer(seen);
    });
  }
  // Not in the destructor: what is still to happen may be about members of a test's own class.
  void TearDown() override {
    observer = {};
    if (session != nullptr && !reason) session->abort("the test is over");
    session.reset();
    fabric.run_for(std::chrono::seconds(60));
  }

  bool connect() {
    bool told = false;
    initiator::connect(host, options, [&](Expected<std::shared_ptr<Session>, ConnectError> connected) {
      told = true;
      if (!connected) {
        error = connected.error();
        return;
      }
      session = *connected;
      session->on_closed([this](const rdma::CloseReason& r) { reason = r; });
    });
    EXPECT_TRUE(fabric.run_until([&] { return told; }));
    return session != nullptr;
  }
  Done note() {
    return [this](const Outcome& o) { outcomes.push_back(o); };
  }
  bool wait(std::size_t count) {
    return fabric.run_until([&] { return outcomes.size() >= count; });
  }
  Outcome load(std::uint64_t handle, const DirectLoadOptions& with = {}) {
    outcomes.clear();
    std::ranges::fill(sink, std::byte{0xEE});
    session->direct_load(handle, sink, with, note());
    EXPECT_TRUE(outcomes.empty()) << "never from inside the call";
    EXPECT_TRUE(wait(1));
    return outcomes.empty() ? Outcome{} : outcomes[0];
  }
  Outcome alloc(std::uint64_t handle, Octets data, const DirectStoreOptions& with = {.seal = true}) {
    outcomes.clear();
    session->direct_alloc_store(handle, data, with, note());
    EXPECT_TRUE(outcomes.empty()) << "never from inside the call";
    EXPECT_TRUE(wait(1));
    return outcomes.empty() ? Outcome{} : outcomes[0];
  }
  Outcome free(std::uint64_t handle) {
    outcomes.clear();
    session->free(handle, 0, note());
    EXPECT_TRUE(wait(1));
    return outcomes.empty() ? Outcome{} : outcomes[0];
  }
  [[nodiscard]] bool sink_holds(std::uint64_t seed, std::size_t length) const {
    return std::ranges::equal(content(length, seed), std::span(sink).first(length));
  }

  fake::Fabric fabric;
  rdma::Provider& target_host;
  rdma::Provider& host;
  ScriptedTarget target;
  std::unique_ptr<rdma::Listener> listener;
  ConnectOptions options;
  ConnectError error;
  std::shared_ptr<Session> session;
  std::optional<rdma::CloseReason> reason;
  std::vector<Outcome> outcomes;
  std::vector<std::byte> sink = std::vector<std::byte>(kBlockSize);
  std::function<void(const fake::Observed&)> observer;
};

}  // namespace kbtp::initiator::testing
