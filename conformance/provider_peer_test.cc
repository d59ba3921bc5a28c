// A Session over ProviderPeer with a real target, both on the user-space RNIC: the same that the suite does
// through verbs.

#include "conformance/provider_peer.h"

#include <algorithm>
#include <future>
#include <gtest/gtest.h>
#include <tuple>

#include "conformance/case.h"
#include "conformance/scene.h"
#include "proto/target/target.h"
#include "rdmap_binding/rnic/rnic.h"

namespace kbtp::conformance {
namespace {

class ProviderPeerTest : public testing::Test {
 protected:
  ProviderPeerTest() {
    auto created = rnic::Rnic::create();
    EXPECT_TRUE(created);
    target_side_ = std::move(*created);
    created = rnic::Rnic::create();
    EXPECT_TRUE(created);
    suite_side_ = std::move(*created);
    auto target = target::Target::create({}, *target_side_);
    EXPECT_TRUE(target);
    target_ = std::move(*target);
    auto listener =
        target_side_->listen(resolve({"127.0.0.1", 0}, true).value().front(), target_->accept_function());
    EXPECT_TRUE(listener);
    listener_ = std::move(*listener);
    surroundings_.target = listener_->local();
    surroundings_.provider = suite_side_.get();
  }
  ~ProviderPeerTest() override {
    listener_.reset();
    std::promise<void> drained;
    target_->drain([&] { drained.set_value(); });
    drained.get_future().wait();
  }
  ProviderPeerTest(const ProviderPeerTest&) = delete;
  ProviderPeerTest& operator=(const ProviderPeerTest&) = delete;

  Surroundings surroundings_;
  std::vector<std::uint16_t> ports_;
  std::unique_ptr<rnic::Rnic> target_side_, suite_side_;
  std::unique_ptr<target::Target> target_;
  std::unique_ptr<rdma::Listener> listener_;
};

TEST_F(ProviderPeerTest, BlocksGoInByReadAndComeBackByWrite) {
  Scene scene(surroundings_, [this](const SocketAddress& local) { ports_.push_back(local.port()); });
  Session& session = scene.session();
  ASSERT_FALSE(scene.stopped()) << scene.why();
  ASSERT_EQ(ports_.size(), 1U);
  EXPECT_NE(ports_.front(), 0);

  const auto data = pattern(1, 40'000);
  ExposedBuffer& source = session.peer().expose(data.size());
  std::ranges::copy(data, source.octets().begin());
  scene.need_success(session, session.alloc_store(session.handle(0), source, {.seal = true}));
  ExposedBuffer& sink = session.peer().expose(data.size(), Revocable::by_target);
  scene.need_success(session, session.load(session.handle(0), sink, sink.size(), {.invalidate = true}));
  EXPECT_FALSE(scene.stopped()) << scene.why();
  EXPECT_TRUE(std::ranges::equal(sink.octets(), data));
  EXPECT_EQ(sink.storage.front(), std::byte{0xA5}) << "the guard is untouched";
  EXPECT_EQ(sink.storage.back(), std::byte{0xA5});
}

TEST_F(ProviderPeerTest, EveryCaseForAnyPeerComesToItsPoint) {
  std::size_t played = 0;
  for (const Case& one : cases()) {
    const bool known = one.needs == Capability::none || one.needs == Capability::inline_data;
    if (one.player != Player::any_peer || !known) continue;
    ++played;
    Scene scene(surroundings_, [](const SocketAddress&) {});
    one.play(scene);
    EXPECT_FALSE(scene.stopped()) << one.name << ": " << scene.why();
    EXPECT_FALSE(scene.expectations().empty()) << one.name;
  }
  EXPECT_GE(played, 30U);
}

TEST_F(ProviderPeerTest, ABurstIsAnsweredWhole) {
  Scene scene(surroundings_, [](const SocketAddress&) {});
  Session& session = scene.session();
  scene.need_success(session, session.bind_and_free(session.handle(0), 20));
  EXPECT_FALSE(scene.stopped()) << scene.why();
}

TEST_F(ProviderPeerTest, TheTargetsEndIsSeen) {
  Scene scene(surroundings_, [](const SocketAddress&) {});
  Session& session = scene.session();
  ASSERT_FALSE(scene.stopped()) << scene.why();
  session.send_message(pattern(2, 23));  // less than a header (G-38)
  EXPECT_TRUE(session.peer().wait_for_end());
  EXPECT_FALSE(session.peer().trouble().empty());
  EXPECT_FALSE(session.await(session.free(session.handle(0))).has_value()) << "nothing is said any more";
}

/// Answers what it receives by Immediate Data, which stands for a Write with Immediate, and a message.
struct Immediates final : rdma::StreamHandler {
  void on_open(rdma::Stream& opened, Octets /*private_data*/) override { stream = &opened; }
  void on_received(const rdma::Received& /*received*/) override {
    std::vector<rdma::WorkRequest> requests;
    requests.emplace_back(rdma::Immediate{.id = 1, .data = 5});
    rdma::Send send;
    send.id = 2;
    send.payload = pattern(3, 10);
    requests.emplace_back(std::move(send));
    stream->post(std::move(requests));
  }
  void on_completion(const rdma::Completion& /*completion*/) override {}
  void on_peer_finished() override { stream->close(); }
  void on_closed(const rdma::CloseReason& /*reason*/) override { closed.set_value(); }

  rdma::Stream* stream = nullptr;
  std::promise<void> closed;
};

TEST_F(ProviderPeerTest, ImmediatesAreCountedAndAreNoMessages) {
  Immediates handler;
  auto listener = target_side_->listen(
      resolve({"127.0.0.1", 0}, true).value().front(),
      [&](const rdma::ConnectionRequest& /*request*/, rdma::Loop& /*loop*/) -> rdma::AcceptDecision {
        rdma::StreamOptions options;
        options.domain = target_side_->create_domain();
        options.initial_receives = 4;
        options.receive_size = 64;
        return rdma::Accept{&handler, std::move(options)};
      });
  ASSERT_TRUE(listener);
  {
    ProviderPeer peer(*suite_side_, (*listener)->local(), {});
    ASSERT_TRUE(peer.open([](const SocketAddress&) {}));
    EXPECT_EQ(peer.immediates(), 0U);
    peer.send_message(pattern(2, 20));
    EXPECT_TRUE(peer.Peer::pump([&] { return !peer.messages().empty(); }));
    EXPECT_EQ(peer.immediates(), 1U);
    ASSERT_EQ(peer.messages().size(), 1U);
    EXPECT_EQ(peer.messages().front(), pattern(3, 10));
  }
  handler.closed.get_future().wait();
}

TEST_F(ProviderPeerTest, NobodyThereIsASetUpErrorWithAPlaceAmongThePorts) {
  listener_.reset();
  Scene scene(surroundings_, [this](const SocketAddress& local) { ports_.push_back(local.port()); });
  std::ignore = scene.session();
  EXPECT_EQ(scene.stopped_state(), State::setup_error);
  EXPECT_NE(scene.why().find("no connection"), std::string::npos) << scene.why();
  EXPECT_EQ(ports_, std::vector<std::uint16_t>{0});
}

TEST_F(ProviderPeerTest, ACaseThatStoppedOpensNothingMore) {
  Scene scene(surroundings_, [this](const SocketAddress& local) { ports_.push_back(local.port()); });
  scene.stop(State::skip, "enough");
  Session& session = scene.session();
  EXPECT_TRUE(session.peer().ended());
  EXPECT_EQ(session.peer().expose(10).stag, 0U);
  EXPECT_EQ(ports_, std::vector<std::uint16_t>{0});
}

}  // namespace
}  // namespace kbtp::conformance
