// For tests of the direct modes: an initiator that does each RDMA operation of 6.6 by itself, one at a time,
// and nothing that it was not told to.

#pragma once

#include <algorithm>
#include <cstring>
#include <map>
#include <optional>
#include <vector>

#include "proto/target/testing.h"
#include "proto/wire/structures.h"

namespace kbtp::target::testing {

inline constexpr wire::Features kBothModes{.direct_load = true, .direct_alloc = true};

/// As small_config(), with Alice (10.0.0.2) and Bob (10.0.0.3), who are trusted with both modes.
inline TargetConfig direct_config(std::uint32_t alice_quota = 2, std::uint32_t bob_quota = 2) {
  TargetConfig config = small_config();
  config.direct.ticket_timeout = std::chrono::milliseconds(400);
  config.initiators = {{.identity = kAlice,
                        .address = "10.0.0.2",
                        .quota = alice_quota,
                        .handles = 8,
                        .base_handle = 0,
                        .direct_load = true,
                        .direct_alloc = true},
                       {.identity = kBob,
                        .address = "10.0.0.3",
                        .quota = bob_quota,
                        .handles = 8,
                        .base_handle = 8,
                        .direct_load = true,
                        .direct_alloc = true}};
  return config;
}

class DirectInitiator : public RawInitiator {
 public:
  DirectInitiator(World& world, std::size_t host = 0, const Uuid& identity = kAlice,
                  const wire::Features& wanted = kBothModes)
      : RawInitiator(world, host), world_(world) {
    wire::Hello hello;
    hello.request_id = 1;
    hello.wanted = wanted;
    hello.identity = identity;
    ack = RawInitiator::hello(hello);
  }

  void on_completion(const rdma::Completion& completion) override { done_[completion.id] = completion; }

  /// What a request of one's own came to; a stream that ends flushes it.
  rdma::Completion perform(rdma::WorkRequest request) {
    const rdma::WorkId id = next_work_++;
    std::visit([id](auto& r) { work_id(r) = id; }, request);
    if (stream == nullptr) return {id, rdma::WorkStatus::flushed, 0};
    std::vector<rdma::WorkRequest> requests;
    requests.push_back(std::move(request));
    stream->post(std::move(requests));
    EXPECT_TRUE(world_.fabric.run_until([&] { return done_.contains(id) || closed; }));
    return done_[id];
  }

  [[nodiscard]] wire::CounterFormat format() const {
    using Kind = wire::CounterFormat::Kind;
    return wire::CounterFormat(ack.ring_log2, ack.granted.atomic_unmasked ? Kind::unmasked : Kind::masked);
  }
  [[nodiscard]] std::uint64_t slots() const { return format().slots(); }

  /// FetchAdd on Head (3.3); nothing when the stream ended.
  std::optional<wire::Counter> take() {
    const auto done = perform(
        rdma::FetchAdd{0, {ack.head_stag, ack.head_offset}, format().add_data(), format().add_mask()});
    if (done.status != rdma::WorkStatus::success) return std::nullopt;
    EXPECT_EQ(done.original & format().zero_bits(), 0u);  // KBTP-3.3-06
    return format().unpack(done.original);
  }

  /// The same where the session must be open.
  wire::Counter must_take() {
    const auto counter = take();
    EXPECT_TRUE(counter) << "the session has ended";
    return counter.value_or(wire::Counter{});
  }

  /// RDMA Read of `length` octets; nothing when the stream ended.
  std::optional<std::vector<std::byte>> read(rdma::STag stag, std::uint64_t offset, std::size_t length) {
    std::vector<std::byte> sink(length);
    const auto done = perform(rdma::Read{.id = 0, .sink = sink, .source = {stag, offset}});
    if (done.status != rdma::WorkStatus::success) return std::nullopt;
    return sink;
  }
  wire::Slot slot(std::uint64_t number) {
    const auto octets = read(ack.ring_stag, ack.ring_offset + number * wire::kSlotSize, wire::kSlotSize);
    EXPECT_TRUE(octets) << "slot " << number;
    return octets ? wire::decode_slot(std::span<const std::byte, wire::kSlotSize>(*octets)) : wire::Slot{};
  }
  wire::TableEntry entry(std::uint64_t handle) {
    const auto octets =
        read(ack.table_stag, ack.table_offset + (handle - ack.table_base_handle) * wire::kTableEntrySize,
             wire::kTableEntrySize);
    EXPECT_TRUE(octets) << "entry " << handle;
    return octets ? wire::decode_entry(std::span<const std::byte, wire::kTableEntrySize>(*octets))
                  : wire::TableEntry{};
  }
  /// RDMA Write; the completion only says that it has left.
  void write(rdma::STag stag, std::uint64_t offset, Octets data) {
    (void)perform(rdma::Write{0, data, {stag, offset}, {}});
  }

  wire::Bind bind(std::uint64_t handle, std::uint32_t ticket, std::uint64_t block_offset,
                  std::uint32_t length) {
    wire::Bind bind;
    bind.head = head(handle);
    bind.ticket = ticket;
    bind.block_offset = block_offset;
    bind.data_length = length;
    return bind;
  }
  /// The whole of 6.6, for a ticket whose slot is ready.
  wire::Completion store(std::uint64_t handle, Octets data, bool seal = true) {
    const auto counter = take();
    if (!counter) return {};
    const wire::Slot ready = slot(counter->slot_offset / wire::kSlotSize);
    EXPECT_TRUE(ready.ready_for(counter->ticket));
    write(ack.partition_stag, ready.block_offset, data);
    auto request = bind(handle, counter->ticket, ready.block_offset, static_cast<std::uint32_t>(data.size()));
    request.seal = seal;
    return answer(request);
  }

  wire::HelloAck ack;

 private:
  static rdma::WorkId& work_id(rdma::WriteImmediate& request) { return request.write.id; }
  template <class Request>
  static rdma::WorkId& work_id(Request& request) {
    return request.id;
  }

  World& world_;
  rdma::WorkId next_work_ = 1;
  std::map<rdma::WorkId, rdma::Completion> done_;
};

}  // namespace kbtp::target::testing
