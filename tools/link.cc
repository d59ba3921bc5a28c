#include "tools/link.h"

#include <cerrno>
#include <cstring>
#include <sys/mman.h>
#include <unistd.h>

#include "tools/measurement.h"

namespace kbtp::tools {

namespace {

// A file without a name that a child process can read as `path()`.
class UnnamedFile {
 public:
  explicit UnnamedFile(const std::string& text) : fd_(memfd_create("kbtp-target.toml", 0)) {
    if (fd_ < 0) return;
    const auto written = write(fd_, text.data(), text.size());
    complete_ = written >= 0 && static_cast<std::size_t>(written) == text.size();
  }
  ~UnnamedFile() {
    if (fd_ >= 0) close(fd_);
  }
  UnnamedFile(const UnnamedFile&) = delete;
  UnnamedFile& operator=(const UnnamedFile&) = delete;
  [[nodiscard]] bool complete() const { return complete_; }
  [[nodiscard]] std::string path() const { return "/proc/self/fd/" + std::to_string(fd_); }

 private:
  int fd_;
  bool complete_ = false;
};

}  // namespace

std::string congestion_control_of(const LinkOptions& options) {
  return options.transport.verbs() ? "device" : congestion_control_in_force(options.congestion_control);
}

void add_link_options(CLI::App& app, LinkOptions& options) {
  add_endpoint(app, "--target", options.target,
               "a target that is running already; without it one is started as a child process");
  add_switch(app, "--crc", options.crc,
             "MPA CRCs (on); with --target, off counts only when that side says off too");
  add_parsed(
      app, "--wait",
      [&options](const std::string& text) -> Result<> {
        if (text != "spin" && text != "block") return failure("'" + text + "' is neither spin nor block");
        options.spin = text == "spin";
        return {};
      },
      "poll, or sleep until something happens (block); also the embedded target's")
      ->type_name("spin|block");
  app.add_option("--congestion-control", options.congestion_control,
                 "TCP congestion control of the connections (the system's)")
      ->type_name("NAME");
  add_rnic_choices(app, options.choices);
  add_transport_options(app, options.transport);
  add_records_option(app, options.transport);
}

Result<Link> Link::open(const LinkOptions& options, const Demand& demand) {
  Link link;
  options.choices.apply_to(link.connect);
  link.connect.wanted.record_completion = options.transport.records;
  rnic::RnicOptions rnic;
  rnic.crc = options.crc;
  rnic.spin = options.spin;
  rnic.congestion_control = options.congestion_control;
  options.choices.apply_to(rnic);
  if (const char* wrong = contradiction(options.transport, rnic)) return failure(wrong);
  if (options.target) {
    link.endpoint = *options.target;
  } else {
    // The reserve lets every outstanding LOAD be sent from where the block lies (KBTP 6.1, E-5); one session
    // more than we open is for whoever looks in.
    const std::uint64_t sessions = demand.sessions + 1;
    const std::uint64_t reserve = sessions * demand.outstanding;
    std::vector<std::string> arguments = {"--blocks",       std::to_string(demand.blocks + reserve),
                                          "--reserve",      std::to_string(reserve),
                                          "--handles",      std::to_string(demand.blocks),
                                          "--block-size",   std::to_string(demand.block_size),
                                          "--max-sessions", std::to_string(sessions),
                                          "--max-requests", std::to_string(demand.outstanding),
                                          "--crc",          options.crc ? "on" : "off",
                                          "--quiet"};
    if (options.spin) arguments.emplace_back("--spin");
    if (!options.congestion_control.empty()) {
      arguments.emplace_back("--congestion-control");
      arguments.push_back(options.congestion_control);
    }
    if (options.transport.verbs()) {
      const auto address = own_address(options.transport);
      if (!address) return unexpected(address.error());
      arguments.insert(arguments.end(), {"--transport", "verbs", "--network", "trusted", "--listen",
                                         Endpoint{*address, 0}.to_string()});
    }
    std::optional<UnnamedFile> config;
    if (!demand.config.empty()) {
      config.emplace(demand.config);
      if (!config->complete())
        return failure(std::string("the embedded target's configuration cannot be written: ") +
                       std::strerror(errno));
      arguments.insert(arguments.end(), {"--config", config->path()});
    }
    auto child = EmbeddedTarget::start(std::move(arguments));
    if (!child) return unexpected(child.error());
    link.child = std::move(*child);
    link.endpoint = link.child->endpoint();
  }
  auto created = open_provider_towards(options.transport, rnic, link.endpoint);
  if (!created) return unexpected(created.error());
  link.provider = std::move(*created);
  return link;
}

}  // namespace kbtp::tools
