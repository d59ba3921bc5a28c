// One RDMA device: what it is and can do, asked of its driver.

#pragma once

#include <string>
#include <vector>

#include "base/address.h"
#include "base/result.h"
#include "verbs/facts.h"
#include "verbs/handles.h"

namespace kbtp::verbs {

/// A device that librdmacm has opened for this process; it stays open until the process ends.
struct Device {
  ibv_context* context = nullptr;
  DeviceFacts facts;
  Quirks quirks;
  rdma::Capabilities capabilities;
};

/// Each device that librdmacm knows, without its addresses. Fails when there is none.
[[nodiscard]] Result<std::vector<ibv_context*>> open_devices();

[[nodiscard]] DeviceFacts facts_of(ibv_context& context);

/// The device that a local address belongs to; nullptr when it is no RDMA device's.
[[nodiscard]] ibv_context* device_at(const SocketAddress& local);
/// The device on the way to a peer's address.
[[nodiscard]] ibv_context* device_towards(const SocketAddress& peer);

/// The addresses of this host that belong to `context`.
[[nodiscard]] std::vector<SocketAddress> addresses_of(ibv_context& context);

[[nodiscard]] std::string error_text(int error);

}  // namespace kbtp::verbs
