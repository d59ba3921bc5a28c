// Allocation quotas (3.4). The sum of quotas is at most F - R, where the reserve R covers blocks that are
// freed but still pinned (E-5, P-07). An owner is a handle range, not a session: its quota and usage live on
// while its identity is away (G-24).
//
// Threads: any.

#pragma once

#include <cstdint>
#include <mutex>
#include <unordered_map>

namespace kbtp::memory {

enum class OwnerId : std::uint64_t {
};

class QuotaBook {
 public:
  /// `blocks` is the pool's F, `reserve` is R <= F.
  QuotaBook(std::uint64_t blocks, std::uint64_t reserve);

  struct Grant {
    OwnerId owner{};
    std::uint32_t quota = 0;
  };
  /// A new owner with `wanted` blocks or as many as are left (P-09), perhaps none; 0 may be wanted (G-54).
  [[nodiscard]] Grant open(std::uint32_t wanted);
  /// The owner is gone and its quota free for others; its blocks must be on their way back to the ring.
  void close(OwnerId owner);

  /// Takes one unit before an allocation (G-21); false is NO_SPACE, and nothing has changed. What is in
  /// flight counts as usage, and so do `tickets` that the owner has taken by itself and not yet bound.
  [[nodiscard]] bool reserve(OwnerId owner, std::uint64_t tickets = 0);
  /// Gives one unit back: a FREE completed, an abandoned ticket was reclaimed, an allocation was rolled back.
  void release(OwnerId owner);

  [[nodiscard]] std::uint32_t quota(OwnerId owner) const;
  [[nodiscard]] std::uint32_t usage(OwnerId owner) const;
  /// Blocks that no quota covers yet, the reserve left out.
  [[nodiscard]] std::uint64_t available() const;
  /// The reserve R.
  [[nodiscard]] std::uint64_t reserved() const { return reserve_; }

 private:
  struct Account {
    std::uint32_t quota = 0;
    std::uint32_t usage = 0;
  };

  mutable std::mutex mutex_;
  std::uint64_t available_;
  std::uint64_t reserve_;
  std::uint64_t next_owner_ = 1;
  std::unordered_map<OwnerId, Account> accounts_;
};

}  // namespace kbtp::memory
