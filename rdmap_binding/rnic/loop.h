// One event loop of the RNIC: the streams' loop, with the staging buffer that they share.

#pragma once

#include "proto/rdma/thread_loop.h"
#include "rdmap_binding/rnic/input_buffer.h"

namespace kbtp::rnic {

class RnicLoop final : public rdma::ThreadLoop {
 public:
  using ThreadLoop::ThreadLoop;

  [[nodiscard]] Staging& staging() { return staging_; }

 private:
  Staging staging_;
};

}  // namespace kbtp::rnic
