#include "verbs/loopback.h"

#include <atomic>
#include <cerrno>
#include <chrono>
#include <cstring>

#include "base/masked_add.h"
#include "base/time.h"

namespace kbtp::verbs {

namespace {

constexpr std::uint8_t kPort = 1;
constexpr std::size_t kWord = 8;
constexpr Duration kPatience = std::chrono::seconds(5);

}  // namespace

Result<std::unique_ptr<Loopback>> Loopback::open(const Device& device) {
  std::unique_ptr<Loopback> loopback(new Loopback(device));
  if (auto connected = loopback->connect(); !connected) {
    return failure("the RDMA device " + device.facts.name +
                   " cannot be connected to itself, which counters that its peers add to need: " +
                   connected.error().text);
  }
  return loopback;
}

Result<> Loopback::connect() {
  ibv_context* context = device_.context;
  pd_.reset(ibv_alloc_pd(context));
  if (!pd_) return failure(error_text(errno));
  queue_.reset(ibv_create_cq(context, 4, nullptr, nullptr, 0));
  if (!queue_) return failure(error_text(errno));
  auto result = PinnedBuffer::make(*pd_, kWord, IBV_ACCESS_LOCAL_WRITE);
  if (!result) return unexpected(result.error());
  result_ = std::move(*result);
  for (QpHandle* qp : {&from_, &to_}) {
    ibv_qp_init_attr attributes{};
    attributes.send_cq = queue_.get();
    attributes.recv_cq = queue_.get();
    attributes.qp_type = IBV_QPT_RC;
    attributes.cap = {1, 1, 1, 1, 0};
    qp->reset(ibv_create_qp(pd_.get(), &attributes));
    if (!*qp) return failure(error_text(errno));
  }
  ibv_port_attr port{};
  if (ibv_query_port(context, kPort, &port) != 0) return failure("its port cannot be asked");
  // Any address of the device will do, for nothing leaves it.
  ibv_gid gid{};
  for (int index = 0; index < port.gid_tbl_len; ++index) {
    if (ibv_query_gid(context, kPort, index, &gid) != 0) continue;
    if (gid.global.interface_id == 0 && gid.global.subnet_prefix == 0) continue;
    if (to_ready(*from_, *to_, gid, index, port.lid) && to_ready(*to_, *from_, gid, index, port.lid))
      return {};
  }
  return failure("no address of its port leads back");
}

bool Loopback::to_ready(ibv_qp& qp, ibv_qp& other, const ibv_gid& gid, int gid_index, std::uint16_t lid) {
  ibv_qp_attr attributes{};
  attributes.qp_state = IBV_QPS_RESET;
  if (ibv_modify_qp(&qp, &attributes, IBV_QP_STATE) != 0) return false;
  attributes.qp_state = IBV_QPS_INIT;
  attributes.port_num = kPort;
  attributes.qp_access_flags = IBV_ACCESS_REMOTE_ATOMIC;
  if (ibv_modify_qp(&qp, &attributes, IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | IBV_QP_ACCESS_FLAGS) !=
      0)
    return false;
  attributes.qp_state = IBV_QPS_RTR;
  attributes.path_mtu = IBV_MTU_1024;
  attributes.dest_qp_num = other.qp_num;
  attributes.max_dest_rd_atomic = 1;
  attributes.min_rnr_timer = 1;
  attributes.ah_attr.dlid = lid;
  attributes.ah_attr.port_num = kPort;
  attributes.ah_attr.is_global = 1;
  attributes.ah_attr.grh.dgid = gid;
  attributes.ah_attr.grh.sgid_index = static_cast<std::uint8_t>(gid_index);
  attributes.ah_attr.grh.hop_limit = 1;
  if (ibv_modify_qp(&qp, &attributes,
                    IBV_QP_STATE | IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN |
                        IBV_QP_MAX_DEST_RD_ATOMIC | IBV_QP_MIN_RNR_TIMER) != 0)
    return false;
  attributes.qp_state = IBV_QPS_RTS;
  attributes.timeout = 14;
  attributes.retry_cnt = 7;
  attributes.rnr_retry = 7;
  attributes.max_rd_atomic = 1;
  return ibv_modify_qp(&qp, &attributes,
                       IBV_QP_STATE | IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_SQ_PSN |
                           IBV_QP_MAX_QP_RD_ATOMIC) == 0;
}

Result<> Loopback::expose(std::span<std::byte> memory) {
  const std::scoped_lock lock(mutex_);
  Exposed& exposed = exposed_[memory.data()];
  if (exposed.users == 0) {
    exposed.size = memory.size();
    exposed.region.reset(ibv_reg_mr(pd_.get(), memory.data(), memory.size(),
                                    IBV_ACCESS_LOCAL_WRITE | IBV_ACCESS_REMOTE_ATOMIC));
    if (!exposed.region) {
      const int error = errno;
      exposed_.erase(memory.data());
      return failure("the counters cannot be registered for the host's own use: " + error_text(error));
    }
  }
  ++exposed.users;
  return {};
}

void Loopback::withdraw(std::span<std::byte> memory) {
  const std::scoped_lock lock(mutex_);
  const auto found = exposed_.find(memory.data());
  if (found != exposed_.end() && --found->second.users == 0) exposed_.erase(found);
}

std::optional<std::uint64_t> Loopback::execute(ibv_send_wr& request) {
  ibv_sge piece{reinterpret_cast<std::uintptr_t>(result_->octets().data()), kWord, result_->key()};
  request.sg_list = &piece;
  request.num_sge = 1;
  request.send_flags = IBV_SEND_SIGNALED;
  ibv_send_wr* bad = nullptr;
  if (failed_ || ibv_post_send(from_.get(), &request, &bad) != 0) return std::nullopt;
  const TimePoint deadline = Clock::now() + kPatience;
  ibv_wc completion{};
  int n = 0;
  while ((n = ibv_poll_cq(queue_.get(), 1, &completion)) == 0 && Clock::now() < deadline) {
  }
  failed_ = n != 1 || completion.status != IBV_WC_SUCCESS;
  if (failed_) return std::nullopt;
  std::uint64_t word = 0;
  std::memcpy(&word, result_->octets().data(), kWord);
  return word;
}

std::optional<std::uint64_t> Loopback::fetch_add(std::uint64_t& word, std::uint64_t add, std::uint64_t mask) {
  const std::scoped_lock lock(mutex_);
  auto* const address = reinterpret_cast<std::byte*>(&word);
  auto after = exposed_.upper_bound(address);
  if (after == exposed_.begin()) return fetch_masked_add(word, add, mask);
  const auto& [begin, exposed] = *std::prev(after);
  // No peer reaches it, so that the processor's atomics are enough.
  if (address + kWord > begin + exposed.size) return fetch_masked_add(word, add, mask);
  ibv_send_wr request{};
  request.wr.atomic.remote_addr = reinterpret_cast<std::uintptr_t>(address);
  request.wr.atomic.rkey = exposed.region->rkey;
  if (mask == 0) {
    request.opcode = IBV_WR_ATOMIC_FETCH_AND_ADD;
    request.wr.atomic.compare_add = add;
    return execute(request);
  }
  request.opcode = IBV_WR_ATOMIC_CMP_AND_SWP;
  std::uint64_t expected = std::atomic_ref<std::uint64_t>(word).load(std::memory_order_acquire);
  for (;;) {
    request.wr.atomic.compare_add = expected;
    request.wr.atomic.swap = masked_add(expected, add, mask);
    const auto before = execute(request);
    if (!before || *before == expected) return before;
    expected = *before;
  }
}

}  // namespace kbtp::verbs
