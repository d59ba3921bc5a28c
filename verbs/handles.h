// Owners of what libibverbs and librdmacm hand out.

#pragma once

#include <memory>
#include <rdma/rdma_cma.h>

namespace kbtp::verbs {

template <auto Destroy>
struct DestroyWith {
  template <class T>
  void operator()(T* what) const {
    Destroy(what);
  }
};

struct DeallocateWindow {  // ibv_dealloc_mw() is inline, and static, in C
  void operator()(ibv_mw* window) const { ibv_dealloc_mw(window); }
};

using PdHandle = std::unique_ptr<ibv_pd, DestroyWith<ibv_dealloc_pd>>;
using MrHandle = std::unique_ptr<ibv_mr, DestroyWith<ibv_dereg_mr>>;
using MwHandle = std::unique_ptr<ibv_mw, DeallocateWindow>;
using CqHandle = std::unique_ptr<ibv_cq, DestroyWith<ibv_destroy_cq>>;
using QpHandle = std::unique_ptr<ibv_qp, DestroyWith<ibv_destroy_qp>>;
using CompletionChannelHandle = std::unique_ptr<ibv_comp_channel, DestroyWith<ibv_destroy_comp_channel>>;
using EventChannelHandle = std::unique_ptr<rdma_event_channel, DestroyWith<rdma_destroy_event_channel>>;
using CmIdHandle = std::unique_ptr<rdma_cm_id, DestroyWith<rdma_destroy_id>>;

}  // namespace kbtp::verbs
