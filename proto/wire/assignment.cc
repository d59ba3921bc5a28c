#include "proto/wire/assignment.h"

#include <algorithm>
#include <array>
#include <bit>
#include <fmt/format.h>
#include <string_view>
#include <utility>
#include <vector>

namespace kbtp::wire {

Features Assignment::features_from(std::uint16_t bits) const {
  Features set;
  unsigned rest = bits;
  const auto take = [&](Feature feature) {
    rest &= ~unsigned{code(feature)};
    return (bits & code(feature)) != 0;
  };
  set.record_completion = take(Feature::record_completion);
  set.direct_load = take(Feature::direct_load);
  set.direct_alloc = take(Feature::direct_alloc);
  set.atomic_unmasked = take(Feature::atomic_unmasked);
  set.unassigned = static_cast<std::uint16_t>(rest);
  return set;
}

std::uint16_t Assignment::bits_of(const Features& granted) const {
  unsigned bits = granted.unassigned;
  if (granted.record_completion) bits |= code(Feature::record_completion);
  if (granted.direct_load) bits |= code(Feature::direct_load);
  if (granted.direct_alloc) bits |= code(Feature::direct_alloc);
  if (granted.atomic_unmasked) bits |= code(Feature::atomic_unmasked);
  return static_cast<std::uint16_t>(bits);
}

namespace {

/// A field's place: first octet and size.
using Place = std::pair<unsigned, unsigned>;

Result<> check_places(std::string_view message, unsigned length, std::vector<Place> places) {
  std::sort(places.begin(), places.end());
  unsigned end = kHeaderSize;
  for (const auto& [offset, size] : places) {
    if (offset < end) {
      return failure(fmt::format("{}: the field at octet {} overlaps what is before it", message, offset));
    }
    end = offset + size;
  }
  if (end > length) {
    return failure(fmt::format("{}: fields reach octet {}, but the length is {}", message, end, length));
  }
  return {};
}

template <class T>
bool distinct(T codes) {
  std::sort(codes.begin(), codes.end());
  return std::adjacent_find(codes.begin(), codes.end()) == codes.end();
}

}  // namespace

Result<> check(const Assignment& a) {
  if (!distinct(a.opcodes)) return failure("two opcodes have the same code");
  if (a.opcode(0)) return failure("opcode 0 is reserved");
  if (!distinct(a.statuses)) return failure("two statuses have the same code");
  if (a.code(Status::success) != 0) return failure("SUCCESS must be 0: requests carry Status 0 (5.1)");
  if (!distinct(a.features)) return failure("two features have the same bit");
  if (!std::all_of(a.features.begin(), a.features.end(),
                   [](std::uint16_t code) { return std::has_single_bit(code); })) {
    return failure("each feature must be one bit");
  }
  for (const Opcode opcode :
       {Opcode::hello, Opcode::hello_ack, Opcode::load, Opcode::free, Opcode::bind, Opcode::completion}) {
    if (has(a.flags_of(opcode), Flag::inline_data)) {
      return failure(fmt::format("{} cannot carry inline data (5.2)", to_string(opcode)));
    }
  }
  const auto& h = a.hello;
  const auto& k = a.hello_ack;
  const auto& b = a.bind;
  const auto& c = a.completion;
  if (h.length > kInitialReceiveSize || k.length > kInitialReceiveSize) {
    return failure(fmt::format("HELLO and HELLO_ACK must fit {} octets (G-07)", kInitialReceiveSize));
  }
  if (c.length > kMaxCompletionSize) {
    return failure(fmt::format("COMPLETION must fit {} octets (G-07)", kMaxCompletionSize));
  }
  return check_places("HELLO", h.length,
                      {{h.min_version, 1},
                       {h.max_version, 1},
                       {h.max_requests, 4},
                       {h.receive_size, 4},
                       {h.quota, 4},
                       {h.handle_count, 8},
                       {h.identity, 16}})
      .and_then([&] {
        return check_places("HELLO_ACK", k.length,
                            {{k.version, 1},
                             {k.min_version, 1},
                             {k.max_version, 1},
                             {k.ring_log2, 1},
                             {k.max_requests, 4},
                             {k.max_inline, 4},
                             {k.block_size, 4},
                             {k.handle_count, 8},
                             {k.table_base_handle, 8},
                             {k.table_handle_count, 8},
                             {k.pool_blocks, 8},
                             {k.quota, 4},
                             {k.usage, 4},
                             {k.ticket_timeout_ms, 4},
                             {k.table_stag, 4},
                             {k.table_offset, 8},
                             {k.pool_stag, 4},
                             {k.partition_stag, 4},
                             {k.ring_stag, 4},
                             {k.head_stag, 4},
                             {k.ring_offset, 8},
                             {k.head_offset, 8},
                             {k.pool_offset, 8},
                             {k.pool_length, 8},
                             {k.partition_offset, 8},
                             {k.partition_length, 8}});
      })
      .and_then([&] {
        return check_places("BIND", b.length, {{b.ticket, 4}, {b.data_length, 4}, {b.block_offset, 8}});
      })
      .and_then(
          [&] { return check_places("COMPLETION", c.length, {{c.data_length, 4}, {c.block_offset, 8}}); });
}

}  // namespace kbtp::wire
