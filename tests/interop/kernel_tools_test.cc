// The other ends of rping, rdma_client and rdma_server against each other, without a guest.

#include "tests/interop/kernel_tools.h"

#include <chrono>
#include <future>
#include <gtest/gtest.h>

#include "base/hex.h"
#include "rdmap_binding/rnic/rnic.h"

namespace kbtp::interop {
namespace {

/// What each side told at its end.
class Outcome {
 public:
  Finished told() {
    return [this](const std::string& wrong) { promise_.set_value(wrong); };
  }
  std::string wait() {
    auto future = promise_.get_future();
    return future.wait_for(std::chrono::seconds(60)) == std::future_status::ready ? future.get() : "no end";
  }

 private:
  std::promise<std::string> promise_;
};

void connect(rdma::Provider& rnic, rdma::StreamHandler& server, rdma::StreamHandler& client,
             const std::function<void()>& wait) {
  const auto listener =
      rnic.listen(resolve({"127.0.0.1", 0}, true)->front(), [&](const rdma::ConnectionRequest&, rdma::Loop&) {
        return rdma::AcceptDecision(rdma::Accept{&server, {}});
      });
  ASSERT_TRUE(listener) << listener.error().text;
  rnic.connect((*listener)->local(), 0, {}, client);
  wait();
}

TEST(KernelTools, PingsComeBack) {
  Outcome at_server, at_client;
  PingServer server(4096, at_server.told());
  PingClient client(20, 3000, at_client.told());
  const auto rnic = rnic::Rnic::create();
  ASSERT_TRUE(rnic) << rnic.error().text;
  connect(**rnic, server, client, [&] {
    EXPECT_EQ(at_client.wait(), "");
    EXPECT_EQ(at_server.wait(), "");
  });
  EXPECT_EQ(client.iterations(), 20U);
  EXPECT_EQ(server.iterations(), 20U);
}

TEST(KernelTools, ABufferThatDoesNotFitIsTold) {
  Outcome at_server, at_client;
  PingServer server(100, at_server.told());
  PingClient client(1, 3000, at_client.told());
  const auto rnic = rnic::Rnic::create();
  ASSERT_TRUE(rnic) << rnic.error().text;
  connect(**rnic, server, client, [&] {
    EXPECT_EQ(at_server.wait(), "the client's buffer is larger than ours");
    EXPECT_NE(at_client.wait(), "");
  });
}

TEST(KernelTools, SixteenOctetsEachWay) {
  Outcome at_server, at_client;
  HelloServer server(at_server.told());
  HelloClient client(at_client.told());
  const auto rnic = rnic::Rnic::create();
  ASSERT_TRUE(rnic) << rnic.error().text;
  connect(**rnic, server, client, [&] {
    EXPECT_EQ(at_client.wait(), "");
    EXPECT_EQ(at_server.wait(), "");
  });
}

/// Octets of ../shared/captures/siw/siw-rping-C5.pcap: a Send of frame 8, data of frame 10.
TEST(KernelTools, OctetsOfRping) {
  const auto told = PingBuffer::decode(*from_hex("0000557668b98370 e54b3500 00000040"));
  EXPECT_EQ(told.tagged_offset, 0x557668b98370U);
  EXPECT_EQ(told.stag, 0xe54b3500U);
  EXPECT_EQ(told.length, 64U);
  EXPECT_EQ(told.encode(), *from_hex("0000557668b98370 e54b3500 00000040"));
  EXPECT_EQ(ping_data(0, 64), *from_hex("72646d612d70696e672d303a204142434445464748494a4b4c4d4e4f50515253"
                                        "5455565758595a5b5c5d5e5f606162636465666768696a6b6c6d6e6f70717200"));
}

}  // namespace
}  // namespace kbtp::interop
