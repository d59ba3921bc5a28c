// `kbtp devices`: the RDMA devices of this host and what each can do for KBTP.

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "tools/cli.h"
#include "tools/files.h"
#include "tools/subcommand.h"
#include "verbs/provider.h"

namespace kbtp::tools {

namespace {

constexpr const char* kFooter =
    R"(What a device can do is asked of its driver, and corrected where a driver is known to break its promise.
ADDRESSES are those of this host that lead to the device: a target listens on one of them. Without a device, or in a
build without rdma-core, the status is 3.

Examples:
  kbtp devices
  kbtp devices --json -
  kbtp target --transport verbs --listen 192.0.2.1:7420 --network trusted)";

struct Options {
  std::string json;
};

std::string joined(const std::vector<std::string>& words) {
  std::string text;
  for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
  return text;
}

nlohmann::ordered_json as_json(const verbs::DeviceFacts& device) {
  const rdma::Capabilities capabilities = verbs::capabilities_of(device);
  nlohmann::ordered_json uses = nlohmann::ordered_json::array();
  for (const verbs::Use& use : verbs::uses_of(device))
    uses.push_back({{"name", use.name}, {"possible", use.possible}, {"why", use.why}});
  return {{"device", device.name},
          {"wire", verbs::to_string(device.wire)},
          {"active", device.active},
          {"addresses", device.addresses},
          {"vendor_id", device.vendor_id},
          {"part_id", device.part_id},
          {"firmware", device.firmware},
          {"ird", capabilities.ird},
          {"ord", capabilities.ord},
          {"inline_limit", device.inline_limit},
          {"queue_depth", device.queue_depth},
          {"max_message", device.max_message},
          {"max_private_data", capabilities.max_private_data},
          {"max_regions", device.max_regions},
          {"max_windows", device.max_windows},
          {"atomics", device.atomics ? (device.atomics_with_cpu ? "cpu" : "device") : "none"},
          {"kbtp", std::move(uses)}};
}

void print(const verbs::DeviceFacts& device) {
  const rdma::Capabilities capabilities = verbs::capabilities_of(device);
  fmt::print("{}: {}{}, {}, vendor {:#x} part {}, firmware {}\n", device.name, verbs::to_string(device.wire),
             device.wire == verbs::Wire::other   ? ""
             : device.wire == verbs::Wire::iwarp ? " (KBTP 9.1)"
                                                 : " (KBTP 9.2)",
             device.active ? "active" : "down", device.vendor_id, device.part_id,
             device.firmware.empty() ? "-" : device.firmware);
  fmt::print("  {:<20} {}\n", "addresses", device.addresses.empty() ? "none" : joined(device.addresses));
  fmt::print("  {:<20} IRD {}, ORD {}, inline {} octets, private data {} octets, queue {} requests\n",
             "limits", capabilities.ird, capabilities.ord, device.inline_limit, capabilities.max_private_data,
             device.queue_depth);
  for (const verbs::Use& use : verbs::uses_of(device)) {
    fmt::print("  {:<20} {}{}{}\n", use.name, use.possible ? "yes" : "no", use.why.empty() ? "" : ": ",
               use.why);
  }
}

int run_devices(const std::string& command, const Options& options) {
  const auto devices = verbs::devices();
  if (!devices) return fail(command, kExitUnreachable, devices.error().text);
  if (!options.json.empty()) {
    std::string text;
    for (const verbs::DeviceFacts& device : *devices) text += as_json(device).dump() + "\n";
    if (auto written = write_file(options.json, as_octets(text)); !written)
      return fail(command, kExitUnreachable, written.error().text);
    if (options.json == "-") return kExitOk;
  }
  for (const verbs::DeviceFacts& device : *devices) print(device);
  return kExitOk;
}

}  // namespace

void set_up_devices(CLI::App& app, Run& run) {
  const auto options = std::make_shared<Options>();
  app.add_option("--json", options->json,
                 "one object a device to FILE, - for standard output instead of the table")
      ->type_name("FILE");
  app.footer(kFooter);
  app.callback(
      [&app, &run, options] { run = [&app, options] { return run_devices(full_name(app), *options); }; });
}

}  // namespace kbtp::tools
