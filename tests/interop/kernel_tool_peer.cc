// The user-space RNIC as the other end of rping, rdma_client, rdma_server or a client of perftest in the lab
// (kernel_tools.h).
//
//   kernel_tool_peer ROLE ADDRESS:PORT [--count N] [--size N] [--crc]
//
// ROLE: rping-server, rping-client, rdma-server, rdma-client, bandwidth-server. Ends with 0 when all was as
// it should be, 1 with a sentence when it was not.

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fmt/format.h>
#include <future>
#include <memory>
#include <string>

#include "rdmap_binding/rnic/rnic.h"
#include "tests/interop/kernel_tools.h"

namespace {

using namespace kbtp;

struct Words {
  std::string role, address;
  std::uint32_t count = 10;
  std::size_t size = 64;
  bool crc = false;
};

constexpr std::size_t kRoom = std::size_t{1} << 20;

int fail(const std::string& text) {
  fmt::print(stderr, "kernel_tool_peer: {}\n", text);
  return 1;
}

std::unique_ptr<interop::Tool> make_tool(const Words& words, interop::Finished finished) {
  if (words.role == "rping-server") return std::make_unique<interop::PingServer>(kRoom, std::move(finished));
  if (words.role == "rping-client")
    return std::make_unique<interop::PingClient>(words.count, words.size, std::move(finished));
  if (words.role == "rdma-server") return std::make_unique<interop::HelloServer>(std::move(finished));
  return std::make_unique<interop::HelloClient>(std::move(finished));
}

int run(const Words& words) {
  constexpr auto kDeadline = std::chrono::seconds(90);
  const auto endpoint = Endpoint::parse(words.address);
  if (!endpoint) return fail(endpoint.error().text);
  const bool server = words.role.ends_with("server");
  const auto addresses = resolve(*endpoint, server);
  if (!addresses) return fail(addresses.error().text);
  rnic::RnicOptions options;
  options.crc = words.crc;
  options.one_fpdu_a_segment = true;  // siw: a CRC in two segments is wrong to it
  options.pause_after_reply = std::chrono::milliseconds(200);
  auto rnic = rnic::Rnic::create(options);
  if (!rnic) return fail(rnic.error().text);

  std::promise<std::string> finished;
  auto outcome = finished.get_future();
  const auto tell = [&](const std::string& wrong) { finished.set_value(wrong); };
  std::unique_ptr<interop::Tool> tool;
  std::unique_ptr<interop::BandwidthServer> bandwidth;
  if (words.role == "bandwidth-server") {
    bandwidth = std::make_unique<interop::BandwidthServer>(**rnic, kRoom, tell);
  } else {
    tool = make_tool(words, tell);
  }
  std::unique_ptr<rdma::Listener> listener;
  if (server) {
    auto taken = std::make_shared<bool>(false);
    auto listening =
        (*rnic)->listen(addresses->front(), [&, taken](const rdma::ConnectionRequest&, rdma::Loop&) {
          if (bandwidth) return bandwidth->accept();
          if (std::exchange(*taken, true)) return rdma::AcceptDecision(rdma::Reject{});
          return rdma::AcceptDecision(rdma::Accept{tool.get(), {}});
        });
    if (!listening) return fail(listening.error().text);
    listener = std::move(*listening);
    fmt::print("listening on {}\n", listener->local().to_string());
    std::fflush(stdout);
  } else {
    (*rnic)->connect(addresses->front(), 0, {}, *tool);
  }
  const bool ended = outcome.wait_for(kDeadline) == std::future_status::ready;
  listener.reset();
  if (!ended) {
    rnic->reset();  // its end is the stream's, which tells the tool
    return fail("the other end took too long");
  }
  const std::string wrong = outcome.get();
  rnic->reset();
  if (!wrong.empty()) return fail(wrong);
  fmt::print("{}: as it should be\n", words.role);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"The user-space RNIC as the other end of librdmacm's tools"};
  Words words;
  app.add_option("ROLE", words.role)
      ->required()
      ->check(
          CLI::IsMember({"rping-server", "rping-client", "rdma-server", "rdma-client", "bandwidth-server"}));
  app.add_option("ADDRESS:PORT", words.address)->required();
  app.add_option("--count", words.count, "iterations of rping-client")->capture_default_str();
  app.add_option("--size", words.size, "octets of rping-client")
      ->capture_default_str()
      ->check(CLI::Range(32, 1 << 20));
  app.add_flag("--crc", words.crc, "ask for CRCs");
  CLI11_PARSE(app, argc, argv);
  return run(words);
}
