#include "verbs/device.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <system_error>

namespace kbtp::verbs {

namespace {

constexpr const char* kNoDevice =
    "no RDMA device on this host; modprobe rdma_rxe or siw and `rdma link add`, or ./run lab siw";
constexpr int kResolveMs = 2000;

/// Octets that a Send may carry inside its work request: what a queue pair can be made with.
std::uint32_t inline_limit_of(ibv_context& context) {
  const PdHandle pd(ibv_alloc_pd(&context));
  const CqHandle cq(ibv_create_cq(&context, 8, nullptr, nullptr, 0));
  if (!pd || !cq) return 0;
  constexpr std::array<std::uint32_t, 5> kSizes{256, 128, 80, 64, 32};
  for (const std::uint32_t size : kSizes) {
    ibv_qp_init_attr attributes{};
    attributes.send_cq = cq.get();
    attributes.recv_cq = cq.get();
    attributes.qp_type = IBV_QPT_RC;
    attributes.cap.max_send_wr = 1;
    attributes.cap.max_recv_wr = 1;
    attributes.cap.max_send_sge = 1;
    attributes.cap.max_recv_sge = 1;
    attributes.cap.max_inline_data = size;
    const QpHandle qp(ibv_create_qp(pd.get(), &attributes));
    if (qp) return size;
  }
  return 0;
}

Wire wire_of(const ibv_context& context, const ibv_port_attr& port) {
  switch (context.device->transport_type) {
    case IBV_TRANSPORT_IWARP:
      return Wire::iwarp;
    case IBV_TRANSPORT_IB:
      return port.link_layer == IBV_LINK_LAYER_ETHERNET ? Wire::roce : Wire::infiniband;
    case IBV_TRANSPORT_UNKNOWN:
    case IBV_TRANSPORT_USNIC:
    case IBV_TRANSPORT_USNIC_UDP:
    case IBV_TRANSPORT_UNSPECIFIED:
      break;
  }
  return Wire::other;
}

/// An identifier that answers at once instead of by events.
CmIdHandle synchronous_id() {
  rdma_cm_id* id = nullptr;
  if (rdma_create_id(nullptr, &id, nullptr, RDMA_PS_TCP) != 0) return nullptr;
  return CmIdHandle(id);
}

}  // namespace

std::string error_text(int error) { return std::generic_category().message(error); }

Result<std::vector<ibv_context*>> open_devices() {
  int count = 0;
  ibv_context** list = rdma_get_devices(&count);
  if (list == nullptr) {
    const int error = errno;
    if (error == EACCES || error == EPERM)
      return failure("the RDMA devices of this host cannot be opened: " + error_text(error));
    return failure(kNoDevice);
  }
  std::vector<ibv_context*> contexts(list, list + count);
  rdma_free_devices(list);
  if (contexts.empty()) return failure(kNoDevice);
  return contexts;
}

DeviceFacts facts_of(ibv_context& context) {
  DeviceFacts facts;
  facts.name = ibv_get_device_name(context.device);
  ibv_device_attr_ex attributes{};
  if (ibv_query_device_ex(&context, nullptr, &attributes) != 0) return facts;
  const ibv_device_attr& device = attributes.orig_attr;
  ibv_port_attr port{};
  for (std::uint8_t number = 1; number <= device.phys_port_cnt && !facts.active; ++number) {
    facts.active = ibv_query_port(&context, number, &port) == 0 && port.state == IBV_PORT_ACTIVE;
  }
  facts.wire = wire_of(context, port);
  facts.firmware = device.fw_ver;
  facts.vendor_id = device.vendor_id;
  facts.part_id = device.vendor_part_id;
  facts.atomics = device.atomic_cap != IBV_ATOMIC_NONE;
  facts.atomics_with_cpu = device.atomic_cap == IBV_ATOMIC_GLOB;
  const auto flags = device.device_cap_flags;
  facts.memory_management = (flags & IBV_DEVICE_MEM_MGT_EXTENSIONS) != 0;
  facts.windows_of_type_2 = (flags & (IBV_DEVICE_MEM_WINDOW_TYPE_2A | IBV_DEVICE_MEM_WINDOW_TYPE_2B)) != 0;
  facts.ird = static_cast<std::uint32_t>(std::max(0, device.max_qp_rd_atom));
  facts.ord = static_cast<std::uint32_t>(std::max(0, device.max_qp_init_rd_atom));
  facts.queue_depth = static_cast<std::uint32_t>(std::max(0, device.max_qp_wr));
  facts.completion_depth = static_cast<std::uint32_t>(std::max(0, device.max_cqe));
  facts.max_message = port.max_msg_sz;
  facts.max_region = device.max_mr_size;
  facts.max_regions = static_cast<std::uint32_t>(std::max(0, device.max_mr));
  facts.max_windows = static_cast<std::uint32_t>(std::max(0, device.max_mw));
  facts.inline_limit = inline_limit_of(context);
  return facts;
}

ibv_context* device_at(const SocketAddress& local) {
  const CmIdHandle id = synchronous_id();
  SocketAddress address = local;
  address.set_port(0);
  if (!id || rdma_bind_addr(id.get(), address.get()) != 0) return nullptr;
  return id->verbs;
}

ibv_context* device_towards(const SocketAddress& peer) {
  const CmIdHandle id = synchronous_id();
  SocketAddress address = peer;
  if (!id || rdma_resolve_addr(id.get(), nullptr, address.get(), kResolveMs) != 0) return nullptr;
  return id->verbs;
}

std::vector<SocketAddress> addresses_of(ibv_context& context) {
  std::vector<SocketAddress> found;
  ifaddrs* all = nullptr;
  if (getifaddrs(&all) != 0) return found;
  const std::unique_ptr<ifaddrs, DestroyWith<freeifaddrs>> owned(all);
  for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
    if (one->ifa_addr == nullptr || (one->ifa_flags & IFF_UP) == 0) continue;
    const int family = one->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    if (family == AF_INET6 &&
        IN6_IS_ADDR_LINKLOCAL(&reinterpret_cast<const sockaddr_in6*>(one->ifa_addr)->sin6_addr))
      continue;  // means nothing without its interface
    const SocketAddress address(one->ifa_addr,
                                family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    if (device_at(address) == &context) found.push_back(address);
  }
  return found;
}

}  // namespace kbtp::verbs
