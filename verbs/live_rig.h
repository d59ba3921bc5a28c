// For tests of the provider on a real device: where it listens, and a connection between two providers.

#pragma once

#include <cstdlib>
#include <gtest/gtest.h>
#include <memory>

#include "proto/rdma/waiter.h"
#include "verbs/provider.h"

namespace kbtp::verbs::test {

using rdma::test::on_loop;
using rdma::test::Waiter;

inline std::vector<std::byte> pattern(std::size_t size, unsigned seed = 0) {
  std::vector<std::byte> octets(size);
  for (std::size_t i = 0; i < size; ++i) octets[i] = static_cast<std::byte>((i * 131 + seed * 7) >> 3);
  return octets;
}

/// Tests that need an active RDMA device with an address; skipped, with the reason, where there is none.
class LiveTest : public testing::Test {
 protected:
  void SetUp() override {
    const auto found = devices();
    if (!found) GTEST_SKIP() << found.error().text;
    const char* wanted = std::getenv("LAB_DEVICE");
    for (const DeviceFacts& device : *found) {
      if (!device.active || device.addresses.empty() || (wanted != nullptr && device.name != wanted))
        continue;
      facts = device;
      return;
    }
    GTEST_SKIP() << "no active RDMA device with an address";
  }

  [[nodiscard]] SocketAddress address(std::uint16_t port = 0, bool ipv6 = false) const {
    for (const std::string& host : facts.addresses) {
      if ((host.find(':') != std::string::npos) == ipv6) return resolve({host, port})->front();
    }
    return {};
  }
  [[nodiscard]] std::unique_ptr<Verbs> provider(VerbsOptions options = {}) const {
    options.device = facts.name;
    auto made = Verbs::create(std::move(options));
    if (!made) ADD_FAILURE() << made.error().text;
    return made ? std::move(*made) : nullptr;
  }
  [[nodiscard]] bool iwarp() const { return facts.wire == Wire::iwarp; }

  DeviceFacts facts;
};

/// Two ends, each on a provider of its own, connected when open() has returned true. The peer's handler is
/// `b`.
class Pair {
 public:
  Pair(std::unique_ptr<Verbs> target_of, std::unique_ptr<Verbs> initiator_of)
      : target(std::move(target_of)), initiator(std::move(initiator_of)) {}

  [[nodiscard]] bool open(const SocketAddress& address) {
    auto made = target->listen(address, [this](const rdma::ConnectionRequest& request, rdma::Loop&) {
      asked = to_vector(request.private_data);
      return rdma::AcceptDecision(rdma::Accept{&b, b_options});
    });
    if (!made) {
      ADD_FAILURE() << made.error().text;
      return false;
    }
    listener = std::move(*made);
    initiator->connect(listener->local(), 0, a_options, a);
    const bool opened = a.wait_open() && b.wait_open();
    if (!opened && a.closed) ADD_FAILURE() << a.closed->text;
    return opened;
  }
  void post(rdma::WorkRequest request) {
    on_loop(initiator->loop(0), [&] {
      if (a.closed) return;  // and the stream is gone
      std::vector<rdma::WorkRequest> requests;
      requests.push_back(std::move(request));
      a.stream->post(std::move(requests));
    });
  }
  void receive(std::uint32_t count) {
    on_loop(target->loop(0), [&] {
      if (!b.closed) b.stream->post_receives(count);
    });
  }
  [[nodiscard]] rdma::Region expose(const rdma::RegionSpec& spec) {
    Result<rdma::Region> region;
    on_loop(b.stream->loop(), [&] { region = b.stream->register_region(spec); });
    if (!region) ADD_FAILURE() << region.error().text;
    return region ? *region : rdma::Region{};
  }
  [[nodiscard]] bool completed(std::size_t count) {
    return a.wait([&] { return a.completions.size() >= count || a.closed; }) && a.completions.size() >= count;
  }

  Waiter a;
  Waiter b;
  std::vector<std::byte> asked;
  rdma::StreamOptions a_options;
  rdma::StreamOptions b_options;
  std::unique_ptr<rdma::Listener> listener;
  std::unique_ptr<Verbs> target;
  std::unique_ptr<Verbs> initiator;

  ~Pair() {
    listener.reset();
    initiator.reset();
    target.reset();
  }
  Pair(const Pair&) = delete;
  Pair& operator=(const Pair&) = delete;
};

}  // namespace kbtp::verbs::test
