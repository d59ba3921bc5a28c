// Where a target writes completion records (6.5): as many slots of 24 octets as a session has credits, open
// to remote writes. Internal to proto/initiator.
//
// A record is looked at only when a completion of the initiator's queue has said that one is there (9.2). The
// immediate that comes with it leads to the slot; what the record itself says decides (G-42).

#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "base/bytes.h"
#include "base/result.h"
#include "proto/rdma/provider.h"
#include "proto/wire/completion.h"
#include "proto/wire/header.h"

namespace kbtp::initiator {

class Records {
 public:
  using Slot = std::size_t;

  /// Registers `slots` slots with `stream`, for as long as it lives.
  [[nodiscard]] Result<> open(rdma::Stream& stream, std::uint32_t slots);
  [[nodiscard]] bool is_open() const { return region_.has_value(); }

  /// A slot for the request, which holds no record of it yet. There is one: each request has its credit.
  [[nodiscard]] Slot take(std::uint64_t request_id);
  void give_back(Slot slot) { free_.push_back(slot); }
  [[nodiscard]] wire::CompletionDescriptor descriptor(Slot slot) const;

  /// The record in `slot`, if it is one of `request_id`.
  [[nodiscard]] std::optional<wire::CompletionRecord> read(Slot slot, std::uint64_t request_id,
                                                           const wire::Assignment& assignment) const;

 private:
  /// Slots begin at multiples of 8.
  static constexpr std::size_t kStride = 32;
  [[nodiscard]] std::size_t offset_of(Slot slot) const { return slot * kStride; }

  std::vector<std::byte> memory_;
  std::optional<rdma::Region> region_;
  std::vector<Slot> free_;
};

}  // namespace kbtp::initiator
