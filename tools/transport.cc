#include "tools/transport.h"

#include <utility>

#include "verbs/provider.h"

namespace kbtp::tools {

void add_transport_options(CLI::App& app, TransportOptions& options) {
  add_word(app, "--transport", options.transport, {"rdmap", "verbs"},
           "rdmap: iWARP over TCP in this process (KBTP 9.1); verbs: an RDMA device of the kernel's, iWARP "
           "(9.1) or "
           "InfiniBand and RoCE (9.2) (rdmap)");
  app.add_option("--device", options.device,
                 "with --transport verbs: the RDMA device, as `kbtp devices` names it (the one that the "
                 "address belongs to)")
      ->type_name("NAME");
}

void add_records_option(CLI::App& app, TransportOptions& options) {
  app.add_flag(
      "--records", options.records,
      "have requests completed by completion records, with a target that offers them: InfiniBand and RoCE "
      "(KBTP 6.5, 9.2)");
}

const char* contradiction(const TransportOptions& options, const rnic::RnicOptions& rnic) {
  if (!options.verbs()) {
    if (options.records)
      return "--records needs --transport verbs: over iWARP no record is ever offered (KBTP 6.5)";
    return options.device.empty() ? nullptr : "--device is for --transport verbs";
  }
  if (!rnic.crc || !rnic.congestion_control.empty())
    return "CRCs and congestion control are the device's own business with --transport verbs";
  return nullptr;
}

Result<std::unique_ptr<rdma::Provider>> open_provider(const TransportOptions& options,
                                                      const rnic::RnicOptions& rnic,
                                                      const std::optional<SocketAddress>& address) {
  if (!options.verbs()) {
    auto created = rnic::Rnic::create(rnic);
    if (!created) return unexpected(created.error());
    return std::unique_ptr<rdma::Provider>(std::move(*created));
  }
  verbs::VerbsOptions wanted;
  wanted.device = options.device;
  wanted.address = address;
  wanted.loops = rnic.loops;
  wanted.spin = rnic.spin;
  wanted.pause_after_reply = rnic.pause_after_reply;
  auto created = verbs::Verbs::create(std::move(wanted));
  if (!created) return unexpected(created.error());
  return std::unique_ptr<rdma::Provider>(std::move(*created));
}

Result<std::unique_ptr<rdma::Provider>> open_provider_towards(const TransportOptions& options,
                                                              const rnic::RnicOptions& rnic,
                                                              const Endpoint& target) {
  std::optional<SocketAddress> address;
  if (options.verbs()) {
    const auto addresses = resolve(target);
    if (!addresses)
      return failure("cannot reach " + target.to_string() + ": name lookup: " + addresses.error().text);
    address = addresses->front();
  }
  return open_provider(options, rnic, address);
}

Result<std::string> own_address(const TransportOptions& options) {
  if (!options.verbs()) return "127.0.0.1";
  const auto devices = verbs::devices();
  if (!devices) return unexpected(devices.error());
  for (const verbs::DeviceFacts& device : *devices) {
    if (!options.device.empty() && device.name != options.device) continue;
    if (device.active && !device.addresses.empty()) return device.addresses.front();
  }
  return failure("no active RDMA device of this host has an address, where a target could listen");
}

}  // namespace kbtp::tools
