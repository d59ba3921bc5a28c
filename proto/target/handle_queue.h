// Operations on one handle are carried out one after the other, in the order of their arrival, across
// sessions and loops (G-22). An operation enters the handle's line, and leaves it when its effect on the
// entry is done; those behind it are called on their own loops.
//
// Threads: any.

#pragma once

#include <array>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <unordered_map>

#include "proto/rdma/loop.h"

namespace kbtp::target {

class Work {
 public:
  virtual ~Work() = default;
  [[nodiscard]] virtual rdma::Loop& loop() = 0;
  /// It is this work's turn on its handle; called on its loop. It must end in HandleQueue::leave().
  virtual void turn() = 0;
};

class HandleQueue {
 public:
  /// True when nobody is in line: the caller goes on at once. Otherwise turn() will be called.
  [[nodiscard]] bool enter(std::uint64_t handle, const std::shared_ptr<Work>& work);
  void leave(std::uint64_t handle);

 private:
  struct Shard {
    std::mutex mutex;
    std::unordered_map<std::uint64_t, std::list<std::shared_ptr<Work>>> lines;  // of the handles in use
  };
  [[nodiscard]] Shard& shard(std::uint64_t handle) { return shards_[handle % shards_.size()]; }

  std::array<Shard, 64> shards_;
};

}  // namespace kbtp::target
