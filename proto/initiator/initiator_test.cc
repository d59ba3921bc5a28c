// The initiator against targets that are gone, silent, or wrong.

#include "proto/initiator/initiator.h"

#include <gtest/gtest.h>
#include <memory>
#include <string>
#include <vector>

#include "proto/rdma/fake/fabric.h"
#include "proto/wire/completion.h"
#include "proto/wire/hello.h"

namespace kbtp::initiator {
namespace {

using wire::Status;

constexpr std::uint16_t kPort = 7420;

/// Answers HELLO as told, and every request by `on_request`.
class RawTarget : public rdma::StreamHandler {
 public:
  void on_open(rdma::Stream& opened, Octets) override { stream = &opened; }
  void on_received(const rdma::Received& received) override {
    stream->post_receives(1);
    if (requests++ == 0) {
      if (answer_hello) {
        ack.request_id = wire::read_header(received.payload)->request_id;
        if (answer_after == Duration{}) return send(wire::encode(ack));
        rdma::Loop& loop = stream->loop();
        loop.call_at(loop.now() + answer_after, [this] { send(wire::encode(ack)); });
      }
    } else if (on_request) {
      on_request(*wire::read_header(received.payload), received.payload);
    }
  }
  void on_completion(const rdma::Completion&) override {}
  void on_peer_finished() override { stream->close(std::chrono::seconds(1)); }
  void on_closed(const rdma::CloseReason&) override {
    stream = nullptr;
    closed = true;
  }
  void send(std::vector<std::byte> message, std::optional<rdma::STag> invalidate = {}) {
    std::vector<rdma::WorkRequest> list;
    list.emplace_back(rdma::Send{0, std::move(message), false, invalidate});
    stream->post(std::move(list));
  }
  void complete(const wire::Header& request, std::optional<rdma::STag> invalidate = {}) {
    wire::Completion completion;
    completion.request_id = request.request_id;
    completion.handle = request.handle;
    completion.generation = 2;
    send(wire::encode(completion), invalidate);
  }

  rdma::Stream* stream = nullptr;
  bool answer_hello = true;
  Duration answer_after{};
  wire::HelloAck ack{.version = 1,
                     .min_version = 1,
                     .max_version = 1,
                     .max_requests = 2,
                     .max_inline = 64,
                     .block_size = 64,
                     .handle_count = 4,
                     .pool_blocks = 4,
                     .quota = 4};
  int requests = 0;
  bool closed = false;
  std::function<void(const wire::Header&, Octets)> on_request;
};

class InitiatorTest : public ::testing::Test {
 protected:
  InitiatorTest() {
    auto listening = target_host.listen(fabric.address(0, kPort), [this](const auto&, rdma::Loop&) {
      rdma::Accept accept{&target, {}};
      accept.options.initial_receives = 100;
      return accept;
    });
    listener = std::move(*listening);
    options.address = fabric.address(0, kPort);
    options.quota = 4;
    options.handles = 4;
  }
  ~InitiatorTest() override {
    if (session != nullptr && !reason) session->abort("the test is over");
    session.reset();
    fabric.run_for(std::chrono::seconds(60));
  }

  /// False when it failed; `error` says how.
  bool connect() {
    bool told = false;
    initiator::connect(host, options, [&](Expected<std::shared_ptr<Session>, ConnectError> connected) {
      EXPECT_FALSE(told) << "exactly once";
      told = true;
      if (!connected) {
        error = connected.error();
        return;
      }
      session = *connected;
      session->on_closed([this](const rdma::CloseReason& r) { reason = r; });
      buffer = *session->register_buffer(memory, BufferUse::load_and_store, true);
    });
    EXPECT_TRUE(fabric.run_until([&] { return told; }));
    return session != nullptr;
  }
  Done note() {
    return [this](const Outcome& o) { outcomes.push_back(o); };
  }
  bool wait(std::size_t count) {
    return fabric.run_until([&] { return outcomes.size() >= count; });
  }

  fake::Fabric fabric;
  rdma::Provider& target_host = fabric.add_host();
  rdma::Provider& host = fabric.add_host();
  RawTarget target;
  std::unique_ptr<rdma::Listener> listener;
  ConnectOptions options;
  ConnectError error;
  std::vector<std::byte> memory = std::vector<std::byte>(64);
  std::shared_ptr<Session> session;
  Buffer buffer;
  std::optional<rdma::CloseReason> reason;
  std::vector<Outcome> outcomes;
};

TEST_F(InitiatorTest, TellsThePhaseThatFailed) {
  options.address = fabric.address(0, kPort + 1);
  EXPECT_FALSE(connect());
  EXPECT_EQ(error.phase, ConnectPhase::tcp);
  fabric.black_hole(kPort + 2);
  options.address = fabric.address(0, kPort + 2);
  EXPECT_FALSE(connect());
  EXPECT_EQ(error.phase, ConnectPhase::tcp);
  const auto reject = target_host.listen(fabric.address(0, kPort + 3),
                                         [](const auto&, rdma::Loop&) { return rdma::Reject{}; });
  options.address = fabric.address(0, kPort + 3);
  EXPECT_FALSE(connect());
  EXPECT_EQ(error.phase, ConnectPhase::mpa);
}

TEST_F(InitiatorTest, HelloHasADeadline) {
  target.answer_hello = false;
  EXPECT_FALSE(connect());
  EXPECT_EQ(error.phase, ConnectPhase::hello);
  EXPECT_FALSE(error.status);
  EXPECT_NE(error.text.find("in time"), std::string::npos) << error.text;
}

/// RDMA Writes that the initiator sent, of no octets each, with the time of each.
class NudgeTest : public InitiatorTest {
 protected:
  NudgeTest() {
    fabric.observe([this](const fake::Observed& seen) {
      if (seen.kind != fake::Observed::Kind::write) return;
      EXPECT_EQ(seen.length, 0u);
      nudges.push_back(host.loop(0).now());
    });
  }
  static double seconds(Duration time) { return std::chrono::duration<double>(time).count(); }
  std::vector<TimePoint> nudges;
};

TEST_F(NudgeTest, AnUnansweredHelloIsFollowedByWritesOfNoOctetsWhenAskedFor) {
  target.answer_hello = false;
  options.nudge_after = std::chrono::milliseconds(250);
  EXPECT_FALSE(connect());
  EXPECT_NE(error.text.find("in time"), std::string::npos) << error.text;
  // After 0.25 s, 0.75, 1.75, 3.75, 7.75; the deadline is at 10 s.
  ASSERT_EQ(nudges.size(), 5u);
  for (std::size_t i = 1; i < nudges.size(); ++i)
    EXPECT_NEAR(seconds(nudges[i] - nudges[i - 1]), seconds(options.nudge_after) * (1u << i),
                0.01);  // the way there
}

TEST_F(NudgeTest, NoneIsSentUnasked) {
  target.answer_hello = false;
  EXPECT_FALSE(connect());
  EXPECT_TRUE(nudges.empty());
}

TEST_F(NudgeTest, NoneFollowsAnAnswer) {
  options.nudge_after = std::chrono::milliseconds(250);
  ASSERT_TRUE(connect());
  fabric.run_for(std::chrono::seconds(60));
  EXPECT_TRUE(nudges.empty());
}

TEST_F(NudgeTest, ATargetThatAnswersLateIsReachedAfterNudges) {
  options.nudge_after = std::chrono::milliseconds(250);
  target.answer_after = std::chrono::seconds(1);
  ASSERT_TRUE(connect());
  EXPECT_EQ(nudges.size(), 2u);
}

TEST_F(InitiatorTest, HelloRefusalIsTold) {
  target.ack = {};
  target.ack.status = Status::access_denied;
  EXPECT_FALSE(connect());
  EXPECT_EQ(error.phase, ConnectPhase::hello);
  EXPECT_EQ(error.status, Status::access_denied);
  EXPECT_NE(error.text.find("ACCESS_DENIED"), std::string::npos) << error.text;
}

TEST_F(InitiatorTest, G06_KeepsWithinTheCredits) {
  int waiting = 0, most = 0;
  std::vector<wire::Header> held;
  target.on_request = [&](const wire::Header& request, Octets) {
    most = std::max(most, ++waiting);
    held.push_back(request);
    if (held.size() == 2 || target.requests >= 10) {
      for (const auto& h : std::exchange(held, {})) {
        --waiting;
        target.complete(h);
      }
    }
  };
  ASSERT_TRUE(connect());
  for (int i = 0; i < 9; ++i) session->free(0, 0, note());
  EXPECT_EQ(session->stats().queued, 7u);
  EXPECT_TRUE(wait(9));
  EXPECT_EQ(most, 2);
  EXPECT_TRUE(outcomes.back().ok());
}

TEST_F(InitiatorTest, OperationDeadlineEndsTheSession) {
  ASSERT_TRUE(connect());
  const TimePoint start = fabric.now();
  session->free(0, 0, note());
  session->load(1, buffer.all(), {}, note());
  session->load(2, buffer.all(), {}, note());  // never even sent
  ASSERT_TRUE(wait(3));
  EXPECT_GE(fabric.now() - start, options.operation_deadline);
  EXPECT_LT(fabric.now() - start, options.operation_deadline + std::chrono::seconds(1));
  for (const auto& o : outcomes) {
    EXPECT_FALSE(o.answered);
    EXPECT_NE(o.error.find("in time"), std::string::npos) << o.error;
  }
  EXPECT_TRUE(fabric.run_until([&] { return reason.has_value(); }));
  session->free(0, 0, note());
  EXPECT_TRUE(wait(4)) << "afterwards operations fail at once";
  EXPECT_FALSE(outcomes.back().answered);
}

TEST_F(InitiatorTest, TargetThatDiesAnswersNothingAndHangsNobody) {
  ASSERT_TRUE(connect());
  session->free(0, 0, note());
  fabric.run_until([&] { return target.requests == 2; });
  fabric.cut(0);
  ASSERT_TRUE(wait(1));
  EXPECT_FALSE(outcomes[0].answered);
}

TEST_F(InitiatorTest, UnknownRequestIdEndsTheSession) {
  target.on_request = [&](wire::Header request, Octets) {
    ++request.request_id;
    target.complete(request);
  };
  ASSERT_TRUE(connect());
  session->free(0, 0, note());
  ASSERT_TRUE(wait(1));
  EXPECT_FALSE(outcomes[0].answered);
  EXPECT_NE(outcomes[0].error.find("not outstanding"), std::string::npos) << outcomes[0].error;
}

TEST_F(InitiatorTest, SecondCompletionEndsTheSession) {
  target.on_request = [&](const wire::Header& request, Octets) {
    target.complete(request);
    target.complete(request);
  };
  ASSERT_TRUE(connect());
  // The second completion needs a receive: that of the operation behind.
  session->free(0, 0, note());
  session->free(1, 0, note());
  EXPECT_TRUE(fabric.run_until([&] { return reason.has_value(); }));
}

TEST_F(InitiatorTest, MalformedCompletionEndsTheSession) {
  target.on_request = [&](const wire::Header&, Octets) { target.send(std::vector<std::byte>(20)); };
  ASSERT_TRUE(connect());
  session->free(0, 0, note());
  ASSERT_TRUE(wait(1));
  EXPECT_FALSE(outcomes[0].answered);
  EXPECT_NE(outcomes[0].error.find("COMPLETION"), std::string::npos) << outcomes[0].error;
}

TEST_F(InitiatorTest, ALoadOfMoreThanTheBufferHoldsEndsTheSession) {
  std::uint32_t told = static_cast<std::uint32_t>(memory.size());
  target.on_request = [&](const wire::Header& request, Octets) {
    wire::Completion completion;
    completion.request_id = request.request_id;
    completion.generation = 2;
    completion.data_length = told++;
    target.send(wire::encode(completion));
  };
  ASSERT_TRUE(connect());
  session->load(0, buffer.all(), {}, note());
  session->load(0, buffer.all(), {}, note());
  ASSERT_TRUE(wait(2));
  EXPECT_TRUE(outcomes[0].answered);
  EXPECT_EQ(outcomes[0].data_length, memory.size());
  EXPECT_FALSE(outcomes[1].answered);
  EXPECT_NE(outcomes[1].error.find("more octets"), std::string::npos) << outcomes[1].error;
}

TEST_F(InitiatorTest, Rfc5042_6_2_2_InvalidatingWhatWasNotNamedEndsTheSession) {
  target.on_request = [&](const wire::Header& request, Octets) {
    target.complete(request, buffer.region.stag);
  };
  ASSERT_TRUE(connect());
  session->load(0, buffer.all(), {}, note());  // no INVALIDATE
  ASSERT_TRUE(wait(1));
  EXPECT_FALSE(outcomes[0].answered);
  EXPECT_NE(outcomes[0].error.find("invalidated"), std::string::npos) << outcomes[0].error;
}

// Rules: RFC5042-6.3.3-01
TEST_F(InitiatorTest, G12_PlainCompletionIsInvalidatedLocally) {
  target.on_request = [&](const wire::Header& request, Octets) { target.complete(request); };
  ASSERT_TRUE(connect());
  session->load(0, buffer.all(), {.invalidate = true}, note());
  ASSERT_TRUE(wait(1));
  EXPECT_TRUE(outcomes[0].ok());
  EXPECT_TRUE(outcomes[0].invalidated);
  // The STag is dead: a Write through it ends the connection, and is the reason why.
  std::vector<rdma::WorkRequest> list;
  const std::vector<std::byte> data(4, std::byte{1});
  list.emplace_back(rdma::Write{0, data, {buffer.region.stag, buffer.region.tagged_offset}, nullptr});
  target.stream->post(std::move(list));
  ASSERT_TRUE(fabric.run_until([&] { return reason.has_value(); }, std::chrono::seconds(10)));
  EXPECT_EQ(reason->kind, rdma::CloseReason::Kind::local_error);
  EXPECT_NE(reason->text.find("RDMA Write"), std::string::npos) << reason->text;
  EXPECT_EQ(memory, std::vector<std::byte>(64)) << "nothing is placed";
}

TEST_F(InitiatorTest, CloseWaitsForWhatIsOutstanding) {
  target.on_request = [&](const wire::Header& request, Octets) { target.complete(request); };
  ASSERT_TRUE(connect());
  for (int i = 0; i < 5; ++i) session->free(0, 0, note());
  session->close();
  EXPECT_TRUE(fabric.run_until([&] { return reason.has_value(); }));
  EXPECT_EQ(outcomes.size(), 5u);
  EXPECT_TRUE(outcomes.back().ok());
  EXPECT_EQ(reason->kind, rdma::CloseReason::Kind::graceful);
}

TEST_F(InitiatorTest, TargetThatFinishesFirstFailsWhatIsOutstanding) {
  target.on_request = [&](const wire::Header&, Octets) { target.stream->close(std::chrono::seconds(1)); };
  ASSERT_TRUE(connect());
  session->free(0, 0, note());
  ASSERT_TRUE(wait(1));
  EXPECT_FALSE(outcomes[0].answered);
}

}  // namespace
}  // namespace kbtp::initiator
