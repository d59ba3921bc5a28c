// One Direct Load (6.6): entry, block, entry again. Internal to proto/initiator.

#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "proto/initiator/initiator.h"
#include "proto/initiator/one_sided.h"
#include "proto/wire/structures.h"

namespace kbtp::initiator {

/// Four Reads, each posted once the one before has been answered (KBTP-6.6-04): the entry twice, the block,
/// the entry. Of outstanding Reads the responder may fetch the memory in any order (RFC 5040 5.5 rule 20),
/// and then equal entries would say nothing about the octets of the block.
///
/// All 16 octets have to be equal (E-2), and that three times. A Read of 16 octets is not atomic: the first
/// may show the flags, Generation and Data Length of a store together with the Block Offset of the one before
/// it, and the last the same flags together with the Block Offset of the one after it, which is the same
/// block again when the ring is short. Two Reads would then agree on a block that the handle did not have in
/// between. A Read between two others that show one Generation cannot be torn: nothing was stored meanwhile.
class DirectLoad : public std::enable_shared_from_this<DirectLoad> {
 public:
  /// `finish` runs once, never from inside start(). The session that owns `reads` and `info` outlives it.
  DirectLoad(OneSided& reads, rdma::Loop& loop, const SessionInfo& info, std::uint64_t handle,
             std::span<std::byte> sink, const DirectLoadOptions& options, Done finish);
  void start();

 private:
  using EntryOctets = std::array<std::byte, wire::kTableEntrySize>;

  void read_entry(OneSided::Turn turn);
  void judge_entry(TimePoint posted);
  void begin_attempt(TimePoint posted);
  /// What `entry_` says of itself, when it is valid and sealed, that keeps the block from being loaded.
  [[nodiscard]] std::optional<Outcome> objection() const;
  [[nodiscard]] Outcome with_status(wire::Status status) const;

  OneSided& reads_;
  rdma::Loop& loop_;
  const SessionInfo& info_;
  std::uint64_t handle_;
  std::span<std::byte> sink_;
  DirectLoadOptions options_;
  Done finish_;
  TimePoint give_up_{};
  EntryOctets buffer_{};         // sink of the entry's Reads
  EntryOctets first_{};          // the entry as this attempt has found it
  wire::TableEntry entry_;       // the same, decoded
  TimePoint began_{};            // when the Read that brought it was posted
  int equal_ = 0;                // Reads of the entry that brought just that; 0 before the first
  std::optional<Outcome> ends_;  // how the attempt ends, unless with SUCCESS
};

}  // namespace kbtp::initiator
