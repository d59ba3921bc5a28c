// A replay's lanes that are sessions of this process, all on one loop, with one target.

#pragma once

#include <deque>
#include <memory>
#include <vector>

#include "proto/initiator/initiator.h"
#include "tools/replay_lanes.h"

namespace kbtp::tools {

class SessionLanes : public ReplayLanes {
 public:
  using Sessions = std::vector<std::shared_ptr<initiator::Session>>;

  /// Place p is a handle of sessions[p mod sessions.size()]; each must have been granted share() handles and
  /// blocks.
  SessionLanes(Sessions sessions, std::uint32_t block_size, std::uint32_t outstanding);

  /// Blocks that session `index` of `count` needs for `capacity` places.
  static std::uint32_t share(std::uint32_t capacity, std::size_t index, std::size_t count);

  [[nodiscard]] rdma::Loop& loop() override { return lanes_.front().session->loop(); }
  [[nodiscard]] std::uint32_t count() const override { return static_cast<std::uint32_t>(lanes_.size()); }
  [[nodiscard]] std::uint32_t slots(std::uint32_t lane) const override;
  [[nodiscard]] Result<> open() override;
  void carry_out(const ReplayOperation& operation, ReplayDone done) override;
  void abandon() override;
  [[nodiscard]] std::string handle_name(std::uint32_t place) const override;

 private:
  /// A session with its buffers, one a slot.
  struct Lane {
    std::shared_ptr<initiator::Session> session;
    std::vector<std::byte> memory;
    initiator::Buffer buffer;
    std::vector<std::uint32_t> free_slots;
  };
  [[nodiscard]] std::uint64_t handle(std::uint32_t place) const;

  std::vector<Lane> lanes_;
  std::uint32_t block_size_;
};

}  // namespace kbtp::tools
